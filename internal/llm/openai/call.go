package openai

import (
	"context"
	"encoding/json"
	"net/http"

	"parley/internal/llm"
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
		return nil, wire.Unencodable(err)
	}
	a := &answer{Speech: wire.Speech{Listener: wire.Listen(req)}}
	var resp *llm.Response
	err = m.client.Do(ctx, wire.Call{URL: m.url, Header: m.headers(req), Body: body, Advise: m.advise,
		Streamed: a.Streamed,
		Read: func(in *wire.Answer) error {
			if err := in.Decode(a.stream(), a.take); err != nil {
				return err
			}
			resp, err = m.response(a, req, in.Header)
			return err
		}})
	return resp, err
}

func (m *Model) headers(req *llm.Request) http.Header {
	return m.cfg.Header(req, func(h http.Header) {
		m.cfg.Authorize(h, m.cfg.Dialect.KeyHeader)
		if m.cfg.Dialect.SessionHeader != "" && req.SessionID != "" {
			h.Set(m.cfg.Dialect.SessionHeader, req.SessionID)
		}
	})
}

// advise adds what to do where a refusal is likely a matter of configuration.
func (m *Model) advise(e *llm.Error) {
	if e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed {
		m.cfg.Unknown(e, m.host, "the path", "the base URL, which mostly ends in /v1")
	}
}

// stream reads events to [DONE] or the end. At the finish reason an answer is
// complete, however the connection ends; an end before either is a broken stream.
func (a *answer) stream() wire.Stream {
	return wire.Stream{Take: a.takeEvent, Finished: func() bool { return a.finish != "" }, End: a.end}
}

func (a *answer) takeEvent(name string, data []byte) (done bool, err error) {
	if name == "error" || !json.Valid(data) {
		return false, wire.BrokenEvent(data)
	}
	return false, a.take(data)
}

func (a *answer) end(cause error) error {
	switch {
	case cause == nil:
		return a.whole()
	case a.finish != "":
		return nil
	}
	return cause
}
