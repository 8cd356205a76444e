package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"parley/internal/conversation"
)

// Patience says how a follower deals with a broken stream.
type Patience struct {
	MinWait time.Duration // before the first reconnection; doubles
	MaxWait time.Duration
	GiveUp  time.Duration // give up after this long without an answer
	Silence time.Duration // a stream without a byte for this long is dead
}

// DefaultPatience suits a heartbeat every 10 s.
func DefaultPatience() Patience {
	return Patience{MinWait: 250 * time.Millisecond, MaxWait: 5 * time.Second, GiveUp: 2 * time.Minute, Silence: 35 * time.Second}
}

// liveOnly is the seq of an event that is not in the log.
const liveOnly = -1

// item is one thing a follower hands over: an event, a word about the
// connection, or the error that ended it.
type item struct {
	event  conversation.Event // Seq is liveOnly for events that are not stored
	notice string
	err    error
}

// follower reads a conversation's event stream, across broken connections.
type follower struct {
	client   *Client
	id       string
	after    int64 // seq of the last event handed over
	patience Patience
	items    chan<- item
}

// errDeleted ends a stream for good.
var errDeleted = errors.New("the conversation was deleted")

// errSilent ends a stream that has stopped beating.
var errSilent = errors.New("the stream has gone silent")

// run follows until ctx ends or the server says no. It closes items at the end;
// the last item is the error unless ctx ended it.
func (f *follower) run(ctx context.Context) {
	defer close(f.items)
	wait, failingSince := f.patience.MinWait, time.Time{}
	for {
		start, before := time.Now(), f.after
		err := f.connect(ctx, !failingSince.IsZero())
		if ctx.Err() != nil {
			return
		}
		// A server that accepts and hangs up at once counts as failing.
		if f.after > before || time.Since(start) > f.patience.MaxWait {
			wait, failingSince = f.patience.MinWait, time.Time{}
		}
		if errors.Is(err, errDeleted) {
			f.send(ctx, item{err: err})
			return
		}
		if failingSince.IsZero() {
			failingSince = time.Now()
			f.send(ctx, item{notice: fmt.Sprintf("connection lost (%s), reconnecting", CleanLine(shortReason(err)))})
		}
		if final(err) || time.Since(failingSince) > f.patience.GiveUp {
			f.send(ctx, item{err: err})
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = min(2*wait, f.patience.MaxWait)
	}
}

// final reports answers that another attempt will not change.
func final(err error) bool {
	var api *APIError
	return errors.As(err, &api) && api.Status/100 == 4 && api.Status != http.StatusTooManyRequests && api.Status != http.StatusRequestTimeout
}

func shortReason(err error) string {
	var away *UnreachableError
	if errors.As(err, &away) {
		return networkReason(away.Err)
	}
	return err.Error()
}

// connect reads one connection to its end. The error is never nil.
func (f *follower) connect(ctx context.Context, again bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(f.patience.Silence, func() { cancel(errSilent) })
	defer watchdog.Stop()

	resp, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if again {
		f.send(ctx, item{notice: "connected again"})
	}
	reader := newSSEReader(resp.Body, func() { watchdog.Reset(f.patience.Silence) })
	for {
		frame, err := reader.next()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return err
		}
		if frame.Event == "deleted" {
			return errDeleted
		}
		if it, ok := f.decode(frame); ok && !f.send(ctx, it) {
			return context.Cause(ctx)
		}
	}
}

func (f *follower) open(ctx context.Context) (*http.Response, error) {
	req, err := f.client.request(ctx, http.MethodGet, "/api/v1/conversation/"+url.PathEscape(f.id)+"/events/stream", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	if f.after >= 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(f.after, 10))
	}
	resp, err := f.client.http.Do(req)
	if err != nil {
		return nil, f.client.networkError(req, err)
	}
	if resp.StatusCode == http.StatusNotFound {
		_ = resp.Body.Close()
		return nil, errDeleted // it was there when the session began
	}
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = resp.Body.Close() }()
		return nil, f.client.readError(resp)
	}
	return resp, nil
}

// decode turns a frame into an event. Frames that repeat what was handed over,
// and frames that are no events, are dropped.
func (f *follower) decode(frame sseFrame) (item, bool) {
	event := conversation.Event{Seq: liveOnly, Raw: frame.Data}
	var head conversation.Header
	if json.Unmarshal(frame.Data, &head) != nil || head.Kind == "" {
		return item{}, false
	}
	event.ID, event.Kind, event.Source, event.Timestamp = head.ID, head.Kind, head.Source, head.Timestamp
	if frame.ID != "" {
		seq, err := strconv.ParseInt(frame.ID, 10, 64)
		if err != nil || seq <= f.after {
			return item{}, false
		}
		event.Seq, f.after = seq, seq
	}
	return item{event: event}, true
}

func (f *follower) send(ctx context.Context, it item) bool {
	select {
	case f.items <- it:
		return true
	case <-ctx.Done():
		return false
	}
}
