package responses

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/sse"
	"parley/internal/llm/wire"
)

// Do implements llm.Model. Where the endpoint refuses something that it could do
// without, the call is made again without it.
func (m *Model) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if n := req.MaxOutput; n > 0 && n < MinOutput {
		return nil, &llm.Error{Class: llm.ClassBadRequest, NotSent: true,
			Message: "this API takes no answer bound below " + strconv.Itoa(MinOutput) + " tokens, and " + strconv.FormatInt(n, 10) + " are allowed"}
	}
	s := shape{refused: refusals(m.refused.Load()), stale: m.stale.of(req.SessionID)}
	for {
		resp, err := m.once(ctx, req, s)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		next, learned := m.learn(err, req, s)
		if !learned {
			return nil, err
		}
		m.refused.Or(uint32(next.refused))
		m.stale.note(req.SessionID, next.stale)
		s = next
	}
}

// once makes one HTTP call. Errors are *llm.Error without secrets.
func (m *Model) once(ctx context.Context, req *llm.Request, s shape) (*llm.Response, error) {
	body, err := m.encode(req, s)
	if err != nil {
		return nil, &llm.Error{Class: llm.ClassMalformed, Err: err, NotSent: true, Message: "the history cannot be encoded"}
	}
	a := &answer{onDelta: req.OnDelta}
	var resp *llm.Response
	err = m.client.Do(ctx, wire.Call{URL: m.url, Header: m.headers(req), Body: body, Advise: m.advise,
		Streamed: func() bool { return a.streamed },
		Read: func(in *wire.Answer) error {
			if err := readAnswer(in, a); err != nil {
				return err
			}
			resp, err = m.response(a, req, in.Header)
			return err
		}})
	return resp, err
}

func (m *Model) headers(req *llm.Request) http.Header {
	h := http.Header{}
	h.Set("Accept", "application/json")
	if req.OnDelta != nil {
		h.Set("Accept", "text/event-stream, application/json")
	}
	switch key := m.cfg.APIKey; {
	case !key.IsSet():
	case m.cfg.KeyHeader != "":
		h.Set(m.cfg.KeyHeader, key.Reveal())
	default:
		h.Set("Authorization", "Bearer "+key.Reveal())
	}
	if m.cfg.SessionHeader != "" && req.SessionID != "" {
		h.Set(m.cfg.SessionHeader, req.SessionID)
	}
	for k, v := range m.cfg.Headers {
		h.Set(k, v)
	}
	return h
}

// advise adds what to do where a refusal is likely a matter of configuration.
func (m *Model) advise(e *llm.Error) {
	if (e.Status == http.StatusNotFound && e.Class != llm.ClassMalformed) || e.Status == http.StatusMethodNotAllowed {
		e.Message = failure.Bound("the endpoint " + m.host + " does not know the model \"" + m.cfg.Model +
			"\" or the Responses API; check the model id and the base URL, or choose the chat API (it said: " + e.Message + ")")
	}
}

func readAnswer(in *wire.Answer, a *answer) error {
	if !in.IsEventStream() {
		return readWhole(in, a)
	}
	err := readEvents(in.Events(), a)
	if err == nil {
		in.Drain()
	}
	return err
}

// readWhole reads an answer that is one JSON document, which is also what some
// endpoints send where a stream was asked for.
func readWhole(in io.Reader, a *answer) error {
	body, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 {
		return &llm.Error{Class: llm.ClassNoResponse, Message: "the endpoint sent an empty answer"}
	}
	for _, prefix := range []string{"data:", "event:", ":"} { // a stream under a wrong content type
		if bytes.HasPrefix(trimmed, []byte(prefix)) {
			return readEvents(sse.NewReader(bytes.NewReader(body), wire.MaxEvent), a)
		}
	}
	if !wire.IsObject(trimmed) {
		return wire.Broken("the endpoint sent something that is not a response", trimmed, nil)
	}
	return a.takeWhole(trimmed)
}

// readEvents reads to the event that ends an answer. An end before it is a
// broken stream, also one with the end mark of the chat API.
func readEvents(events *sse.Reader, a *answer) error {
	for {
		ev, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLong):
			return wire.ErrTooLarge()
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		data := bytes.TrimSpace(ev.Data)
		switch {
		case len(data) == 0:
			continue
		case string(data) == "[DONE]":
			return io.ErrUnexpectedEOF
		case data[0] != '{':
			return failure.Payload(data) // a gateway's text
		}
		if done, err := a.takeEvent(ev.Name, data); done || err != nil {
			return err
		}
	}
}
