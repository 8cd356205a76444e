package parley

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// FromStart follows a conversation from its first event.
const FromStart = -1

// LiveOnly is the Seq of events that are not stored.
const LiveOnly = -1

// Event is something that happened in a conversation.
type Event struct {
	// Seq is the event's number in the log, without gaps from 0. LiveOnly are pieces
	// of an answer that is being written (Kind "delta"), the whole state after a run
	// ("state") and trouble that cannot be stored ("notice").
	Seq  int64
	Kind string // of stored events for example MessageEvent, ActionEvent, ObservationEvent
	Data json.RawMessage
}

// Status returns the conversation's new status, if the event says one.
func (e Event) Status() (Status, bool) {
	var update struct {
		Key   string `json:"key"`
		Value any    `json:"value"`
	}
	if e.Kind != "ConversationStateUpdateEvent" || json.Unmarshal(e.Data, &update) != nil || update.Key != "execution_status" {
		return "", false
	}
	text, ok := update.Value.(string)
	return Status(text), ok
}

// Text returns what a message says, or a piece of an answer; "" of other events.
func (e Event) Text() string {
	var said struct {
		Content json.RawMessage `json:"content"`
		Message struct {
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
		} `json:"llm_message"`
	}
	if (e.Kind != "MessageEvent" && e.Kind != "delta") || json.Unmarshal(e.Data, &said) != nil {
		return ""
	}
	var piece string
	if json.Unmarshal(said.Content, &piece) == nil {
		return piece
	}
	var parts []string
	for _, part := range said.Message.Content {
		if part.Text != "" {
			parts = append(parts, part.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// Waits between attempts to connect again, and how long a stream may say nothing: the
// server sends a sign of life every 10 s.
const (
	firstWait = 250 * time.Millisecond
	lastWait  = 5 * time.Second
	silence   = 35 * time.Second
)

var errSilent = errors.New("parley: the stream has gone silent")

// Events follows a conversation: it yields every stored event after the one numbered
// after exactly once and in order, and what is live only between them. It goes on
// across lost connections and restarts of the server, until the context ends, the
// conversation is deleted (without an error) or the server refuses (with one).
func (c *Client) Events(ctx context.Context, id string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := &follower{client: c, path: "/api/v1/conversation/" + url.PathEscape(id) + "/events/stream", after: after, yield: yield}
		wait := firstWait
		for {
			before := f.after
			err := f.connect(ctx)
			switch {
			case f.done:
				return
			case ctx.Err() != nil:
				yield(Event{Seq: LiveOnly}, context.Cause(ctx))
				return
			case refused(err):
				yield(Event{Seq: LiveOnly}, err)
				return
			}
			if f.after > before {
				wait = firstWait
			}
			if err := pause(ctx, wait); err != nil {
				yield(Event{Seq: LiveOnly}, err)
				return
			}
			wait = min(2*wait, lastWait)
		}
	}
}

// refused reports an answer that another attempt will not change.
func refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status/100 == 4 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusRequestTimeout
}

// follower reads a conversation's stream over several connections.
type follower struct {
	client *Client
	path   string
	after  int64 // the last stored event that was handed over
	yield  func(Event, error) bool
	done   bool // the caller has enough, or the conversation is deleted
}

// connect reads one connection to its end.
func (f *follower) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	resp, err := f.client.open(ctx, f.client.server(), http.MethodGet, f.path+query("after_seq", strconv.FormatInt(f.after, 10)), "", nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	frames := newFrames(aliveReader{resp.Body, func() { watch.Reset(silence) }})
	for !f.done {
		next, err := frames.next()
		if err != nil {
			return err
		}
		f.take(next)
	}
	return nil
}

// take hands a frame over, unless it was handed over before.
func (f *follower) take(got frame) {
	if got.event == "deleted" {
		f.done = true
		return
	}
	event := Event{Seq: LiveOnly, Kind: got.event, Data: got.data}
	if seq, err := strconv.ParseInt(got.id, 10, 64); err == nil {
		if seq <= f.after {
			return
		}
		var stored struct {
			Kind string `json:"kind"`
		}
		if json.Unmarshal(got.data, &stored) != nil {
			return // no event of a Parley server
		}
		f.after, event.Seq, event.Kind = seq, seq, stored.Kind
	}
	if !f.yield(event, nil) {
		f.done = true
	}
}

// aliveReader tells of every read that brought something.
type aliveReader struct {
	io.Reader
	alive func()
}

func (r aliveReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.alive()
	}
	return n, err
}
