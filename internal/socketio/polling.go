package socketio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

const (
	// maxPackets is how many packets a POST may have. The official clients send all
	// that they have, up to the payload's size.
	maxPackets = 1 << 16
	// bodyTime is how long a client may take for a POST.
	bodyTime = 30 * time.Second
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
	defer s.end(&s.polled)
	if s.ctx.Err() != nil {
		s.late(w)
		return
	}
	hurry := time.NewTimer(time.Hour)
	defer hurry.Stop()
	for probed := s.probe(); ; {
		if s.overWebSocket() {
			s.say(w, string(engineNoop))
			return
		}
		items, over, changed := s.out.take(maxQueued, int(s.server.config.MaxPayload))
		if s.ctx.Err() != nil {
			s.part(w)
			return
		}
		if len(items) > 0 || over {
			s.deliver(w, items, over)
			return
		}
		select {
		case <-changed:
		case <-probed:
			probed = nil
			hurry.Reset(probeTime)
		case <-hurry.C:
			s.say(w, string(engineNoop))
			return
		case <-r.Context().Done():
			s.drop(errAborted)
			return
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

// deliver answers a poll. over says that these are the last packets.
func (s *session) deliver(w http.ResponseWriter, items []string, over bool) {
	if over {
		items = append(items, string(engineClose))
	}
	if taken := s.say(w, join(items)); over || !taken {
		s.drop(errFinished)
	}
}

// part answers a poll that was under way when the session ended, or that its
// client may have sent before it closed the session.
func (s *session) part(w http.ResponseWriter) {
	s.mu.Lock()
	select {
	case <-s.parted:
	default:
		close(s.parted)
	}
	s.mu.Unlock()
	if errors.Is(context.Cause(s.ctx), errLeft) {
		s.say(w, string(engineNoop))
	} else {
		s.say(w, string(engineClose))
	}
}

// late answers a poll of a session that has ended before.
func (s *session) late(w http.ResponseWriter) {
	s.mu.Lock()
	parted := false
	select {
	case <-s.parted:
		parted = true
	default:
	}
	s.mu.Unlock()
	if parted || !errors.Is(context.Cause(s.ctx), errLeft) {
		refuse(w, errSession)
		return
	}
	s.part(w)
}

// say answers a poll; the client has to take it in time.
func (s *session) say(w http.ResponseWriter, payload string) bool {
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
	defer s.end(&s.posted)
	if s.ctx.Err() != nil {
		refuse(w, errSession)
		return
	}
	body, err := s.body(w, r)
	if err == nil {
		err = s.receiveAll(body)
	}
	var known httpError
	switch {
	case err == nil && s.ctx.Err() == nil:
		answer(w, "ok")
	case errors.Is(err, errLeft):
		s.drop(err)
		answer(w, "ok")
	case err == nil:
		refuse(w, errSession)
	case errors.As(err, &known):
		s.drop(fmt.Errorf("%w: %w", ErrGone, err))
		refuse(w, known)
	default:
		s.drop(fmt.Errorf("%w: %w", ErrGone, err))
		refuse(w, errRequest)
	}
}

func (s *session) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "application/octet-stream" {
		return nil, errRequest
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // what cannot have one has its own
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.server.config.MaxPayload))
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
