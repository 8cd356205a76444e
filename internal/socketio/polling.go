package socketio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

const (
	// maxPackets is how many packets a POST may have. The official clients send all
	// that they have, up to the payload's size.
	maxPackets = 1 << 16
	// bodyTime is how long a client may take for a POST, beyond what its size needs.
	bodyTime = 30 * time.Second
	// bodyRate is how many bytes a second a POST must come with.
	bodyRate = 16 << 10
	// probeTime is how long a poll waits while a WebSocket is probed: the client
	// upgrades when it has none under way, and would ask again and again.
	probeTime = 50 * time.Millisecond
)

var errAborted = fmt.Errorf("%w: it gave up a poll", ErrGone)

// poll answers with what waits for the client, once there is something.
func (s *session) poll(w http.ResponseWriter, r *http.Request) {
	if !s.begin(w, &s.polled) {
		return
	}
	if s.ctx.Err() != nil {
		s.end(&s.polled)
		s.late(w, r)
		return
	}
	payload, err := s.await(r)
	// Before the answer: the client may send the next poll as soon as it has it.
	s.end(&s.polled)
	if payload == "" {
		s.drop(err)
	} else if taken := s.say(w, payload); err != nil || !taken {
		s.drop(errFinished)
	}
}

// await waits for the answer to a poll. An error is why the session ends with it;
// there is no answer if the client does not wait for one anymore.
//
// The last packets are followed by a close in an answer of its own: the official
// client looks at packets a little later, and at a close at once, so that it would
// lose what comes with it.
func (s *session) await(r *http.Request) (payload string, err error) {
	hurry := time.NewTimer(time.Hour)
	defer hurry.Stop()
	for probed := s.probe(); ; {
		if s.overWebSocket() {
			return string(engineNoop), nil
		}
		items, over, changed := s.out.take(maxQueued, int(s.server.config.MaxPayload))
		switch {
		case s.ctx.Err() != nil:
			return s.part(), nil
		case len(items) > 0:
			return strings.Join(items, string(separator)), nil
		case over:
			return string(engineClose), errFinished
		}
		select {
		case <-changed:
		case <-probed:
			probed = nil
			hurry.Reset(probeTime)
		case <-hurry.C:
			return string(engineNoop), nil
		case <-r.Context().Done():
			return "", errAborted
		case <-s.ctx.Done():
		}
	}
}

// probe returns a channel that is closed while a WebSocket is probed.
func (s *session) probe() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.probed
}

// part is the answer to a poll that was under way when the session ended.
func (s *session) part() string {
	s.hear()
	if errors.Is(context.Cause(s.ctx), errLeft) {
		return string(engineNoop)
	}
	return string(engineClose)
}

// late answers a request of a session that has ended before. Where both sides
// close it at a time, that is no error of the client's: its last poll is answered
// after its own close, its close after the server's.
func (s *session) late(w http.ResponseWriter, r *http.Request) {
	cause := context.Cause(s.ctx)
	heard := s.hear()
	switch {
	case r.Method == http.MethodGet && errors.Is(cause, errLeft) && !heard:
		s.say(w, string(engineNoop))
	case r.Method == http.MethodPost && errors.Is(cause, errFinished) && !heard:
		answer(w, "ok")
	default:
		refuse(w, errSession)
	}
}

// hear notes that a request of the client has met the end of the session, and
// reports whether one had before.
func (s *session) hear() (before bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.parted:
		return true
	default:
		close(s.parted)
		return false
	}
}

// say answers a poll; the client has to take it in time.
func (s *session) say(w http.ResponseWriter, payload string) bool {
	defer s.occupy()()
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(s.server.config.WriteTimeout)) // what cannot have one has its own
	taken := answer(w, payload)
	if err := control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		taken = false
	}
	_ = control.SetWriteDeadline(time.Time{})
	return taken
}

// post takes packets of the client.
func (s *session) post(w http.ResponseWriter, r *http.Request) {
	if !s.begin(w, &s.posted) {
		return
	}
	if s.ctx.Err() != nil {
		s.end(&s.posted)
		s.late(w, r)
		return
	}
	body, err := s.body(w, r)
	if err == nil {
		err = s.receiveAll(body)
	}
	s.end(&s.posted) // before the answer: the next may follow it at once
	var known httpError
	switch {
	case errors.Is(err, errLeft):
		s.drop(err)
		answer(w, "ok")
	case errors.As(err, &known):
		s.drop(fmt.Errorf("%w: %w", ErrGone, err))
		refuse(w, known)
	case err != nil:
		s.drop(fmt.Errorf("%w: %w", ErrGone, err))
		refuse(w, errRequest)
	case s.ctx.Err() != nil:
		refuse(w, errSession)
	default:
		answer(w, "ok")
	}
}

func (s *session) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "application/octet-stream" {
		return nil, errRequest
	}
	most := s.server.config.MaxPayload
	if !s.letIn() {
		most = min(most, maxStranger)
	}
	control := http.NewResponseController(w)
	end := time.Now().Add(bodyTime)
	_ = control.SetReadDeadline(end) // what cannot have one has its own
	body, err := io.ReadAll(http.MaxBytesReader(w, io.NopCloser(&moving{r.Body, func(bytes int64) {
		s.alive()
		_ = control.SetReadDeadline(end.Add(time.Duration(bytes) * time.Second / bodyRate))
	}, 0}), most))
	_ = control.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("read a payload: %w", err)
	}
	return body, nil
}

func (s *session) receiveAll(payload []byte) error {
	n := 0
	for data := range bytes.SplitSeq(payload, []byte{separator}) {
		if n++; n > maxPackets {
			return fmt.Errorf("%w: too many packets in one payload", errProtocol)
		}
		if err := s.receive(data); err != nil {
			return err
		}
	}
	return nil
}

// begin notes that a request is under way, and ends the session if there is one
// of its kind already.
func (s *session) begin(w http.ResponseWriter, under *bool) bool {
	s.mu.Lock()
	twice := *under
	*under = true
	s.mu.Unlock()
	if twice {
		s.drop(errOverlap)
		refuse(w, errRequest)
	}
	return !twice
}

func (s *session) end(under *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*under = false
}
