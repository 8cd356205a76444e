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
			if err := in.Decode(a.takeEvents, a.takeBody); err != nil {
				return err
			}
			resp, err = m.response(a, req, in.Header)
			return err
		}})
	return resp, err
}

func (m *Model) headers(req *llm.Request) http.Header {
	return m.cfg.Header(req, func(h http.Header) {
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
	})
}

// advise adds what to do where a refusal is likely a matter of configuration.
func (m *Model) advise(e *llm.Error) {
	if (e.Status == http.StatusNotFound && e.Class != llm.ClassMalformed) || e.Status == http.StatusMethodNotAllowed {
		e.Message = failure.Bound("the endpoint " + m.host + " does not know the model \"" + m.cfg.Model +
			"\" or the Responses API; check the model id and the base URL, or choose the chat API (it said: " + e.Message + ")")
	}
}

// takeBody reads an answer that is one JSON document.
func (a *answer) takeBody(body []byte) error {
	if !wire.IsObject(body) {
		return wire.Broken("the endpoint sent something that is not a response", body, nil)
	}
	return a.takeWhole(body)
}

// takeEvents reads to the event that ends an answer. An end before it is a
// broken stream, also one with the end mark of the chat API.
func (a *answer) takeEvents(events *sse.Reader, _ func()) error {
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
