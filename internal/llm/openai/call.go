package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/sse"
	"parley/internal/llm/wire"
)

// refusals are the optional request fields that an endpoint refused.
type refusals uint32

const (
	refusedStreamOptions refusals = 1 << iota
	refusedCacheKey
	refusedExtra
)

func (r refusals) has(f refusals) bool { return r&f != 0 }

// Do implements llm.Model. Where the endpoint refuses a field that it could do
// without, the call is made again without it, and so are all later ones.
func (m *Model) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	for {
		refused := refusals(m.refused.Load())
		resp, err := m.once(ctx, req, refused)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		more := m.learn(err, req, refused)
		if more == 0 {
			return nil, err
		}
		m.refused.Or(uint32(more))
	}
}

// learn returns the fields that err complains about and that were sent.
func (m *Model) learn(err error, req *llm.Request, refused refusals) refusals {
	var e *llm.Error
	if !errors.As(err, &e) || e.Streamed || (e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity) {
		return 0
	}
	var more refusals
	if req.OnDelta != nil && (strings.Contains(e.Message, "stream_options") || strings.Contains(e.Message, "include_usage")) {
		more |= refusedStreamOptions
	}
	if m.cfg.Dialect.PromptCacheKey && strings.Contains(e.Message, "prompt_cache_key") {
		more |= refusedCacheKey
	}
	if complainsOfExtra(e.Message, req) {
		more |= refusedExtra
	}
	return more &^ refused
}

func complainsOfExtra(message string, req *llm.Request) bool {
	for _, msg := range req.Messages {
		for key := range msg.Extra {
			if key != CallExtraKey && strings.Contains(message, key) {
				return true
			}
		}
		for _, fields := range callExtra(msg.Extra) {
			for key := range fields {
				if strings.Contains(message, key) {
					return true
				}
			}
		}
	}
	return false
}

// once makes one HTTP call. Errors are *llm.Error without secrets.
func (m *Model) once(ctx context.Context, req *llm.Request, refused refusals) (*llm.Response, error) {
	body, err := m.encode(req, refused)
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
	if m.cfg.APIKey.IsSet() {
		h.Set("Authorization", "Bearer "+m.cfg.APIKey.Reveal())
	}
	if m.cfg.Dialect.SessionHeader != "" && req.SessionID != "" {
		h.Set(m.cfg.Dialect.SessionHeader, req.SessionID)
	}
	for k, v := range m.cfg.ExtraHeaders {
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
			return nil
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
