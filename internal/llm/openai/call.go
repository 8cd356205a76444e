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
	if key := m.cfg.APIKey; key.IsSet() && m.cfg.Dialect.KeyHeader != "" {
		h.Set(m.cfg.Dialect.KeyHeader, key.Reveal())
	} else if key.IsSet() {
		h.Set("Authorization", "Bearer "+key.Reveal())
	}
	if m.cfg.Dialect.SessionHeader != "" && req.SessionID != "" {
		h.Set(m.cfg.Dialect.SessionHeader, req.SessionID)
	}
	for k, v := range m.cfg.Headers {
		h.Set(k, v)
	}
	return h
}

// advise adds what to do where a refusal is likely a matter of configuration.
func (m *Model) advise(e *llm.Error) {
	if e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed {
		e.Message = failure.Bound("the endpoint " + m.host + " does not know the model \"" + m.cfg.Model +
			"\" or the path; check the model id and the base URL, which mostly ends in /v1 (it said: " + e.Message + ")")
	}
}

func readAnswer(in *wire.Answer, a *answer) error {
	if !in.IsEventStream() {
		return readWhole(in, a)
	}
	err := readEvents(in.Events(), a, in.Complete)
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
			return readEvents(sse.NewReader(bytes.NewReader(body), wire.MaxEvent), a, func() {})
		}
	}
	return a.take(body)
}

// readEvents reads to [DONE] or the end. finished is called at the finish
// reason: behind it an answer is complete, however the connection ends. An end
// before either is a broken stream.
func readEvents(events *sse.Reader, a *answer, finished func()) error {
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
