package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/sse"
	"parley/internal/llm/wire"
)

// Do implements llm.Model. Where the endpoint refuses a field that it could do
// without, the call is made again without it, and so are all later ones.
func (m *Model) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	for {
		w := m.build(req, refusals(m.refused.Load()))
		resp, err := m.once(ctx, req, w)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !m.learn(err, req, w.optional) {
			return nil, err
		}
	}
}

// once makes one HTTP call. Errors are *llm.Error without secrets.
func (m *Model) once(ctx context.Context, req *llm.Request, w *wireRequest) (*llm.Response, error) {
	body, err := m.encode(w)
	if err != nil {
		return nil, &llm.Error{Class: llm.ClassMalformed, Err: err, Message: "the history cannot be encoded"}
	}
	a := &answer{onDelta: req.OnDelta}
	var resp *llm.Response
	err = m.client.Do(ctx, wire.Call{URL: m.url, Header: m.headers(req), Body: body, Advise: m.advise,
		Streamed: func() bool { return a.streamed },
		Read: func(in *wire.Answer) error {
			if err := in.Decode(a.takeEvents, a.take); err != nil {
				return err
			}
			resp, err = m.response(a, req, in.Header)
			return err
		}})
	return resp, err
}

func (m *Model) headers(req *llm.Request) http.Header {
	return m.cfg.Header(req, func(h http.Header) {
		if key := m.cfg.APIKey; key.IsSet() && m.cfg.Dialect.KeyHeader != "" {
			h.Set(m.cfg.Dialect.KeyHeader, key.Reveal())
		} else if key.IsSet() {
			h.Set("Authorization", "Bearer "+key.Reveal())
		}
		if m.cfg.Dialect.SessionHeader != "" && req.SessionID != "" {
			h.Set(m.cfg.Dialect.SessionHeader, req.SessionID)
		}
	})
}

// advise adds what to do where a refusal is likely a matter of configuration.
func (m *Model) advise(e *llm.Error) {
	if e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed {
		e.Message = failure.Bound("the endpoint " + m.host + " does not know the model \"" + m.cfg.Model +
			"\" or the path; check the model id and the base URL, which mostly ends in /v1 (it said: " + e.Message + ")")
	}
}

// takeEvents reads to [DONE] or the end. finished is called at the finish
// reason: behind it an answer is complete, however the connection ends. An end
// before either is a broken stream.
func (a *answer) takeEvents(events *sse.Reader, finished func()) error {
	seen := false
	for {
		ev, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLong):
			return wire.ErrTooLarge()
		case err != nil && a.finish != "":
			return nil //nolint:nilerr // the answer is complete
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
			return a.whole()
		case ev.Name == "error" || !json.Valid(data):
			return streamError(data)
		}
		if err := a.take(data); err != nil {
			return err
		}
		if a.finish != "" && !seen {
			seen = true
			finished()
		}
	}
}

// streamError reads an error event, or data that is no JSON: a gateway's text,
// or an event that the end of the connection cut in two.
func streamError(data []byte) error {
	if json.Valid(data) || !bytes.HasPrefix(data, []byte("{")) {
		return failure.Payload(data)
	}
	return io.ErrUnexpectedEOF
}
