package responses

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"parley/internal/llm"
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
		return nil, wire.Unencodable(err)
	}
	a := &answer{Listener: wire.Listen(req)}
	var resp *llm.Response
	err = m.client.Do(ctx, wire.Call{URL: m.url, Header: m.headers(req), Body: body, Advise: m.advise,
		Streamed: a.Streamed,
		Read: func(in *wire.Answer) error {
			if err := in.Decode(a.stream(), a.takeBody); err != nil {
				return err
			}
			resp, err = m.response(a, req, in.Header)
			return err
		}})
	return resp, err
}

func (m *Model) headers(req *llm.Request) http.Header {
	return m.cfg.Header(req, func(h http.Header) {
		m.cfg.Authorize(h, m.cfg.KeyHeader)
		if m.cfg.SessionHeader != "" && req.SessionID != "" {
			h.Set(m.cfg.SessionHeader, req.SessionID)
		}
	})
}

// advise adds what to do where a refusal is likely a matter of configuration.
func (m *Model) advise(e *llm.Error) {
	if (e.Status == http.StatusNotFound && e.Class != llm.ClassMalformed) || e.Status == http.StatusMethodNotAllowed {
		m.cfg.Unknown(e, m.host, "the Responses API", "the base URL, or choose the chat API")
	}
}

// takeBody reads an answer that is one JSON document.
func (a *answer) takeBody(body []byte) error {
	if !wire.IsObject(body) {
		return wire.Broken("the endpoint sent something that is not a response", body, nil)
	}
	return a.takeWhole(body)
}

// stream reads events to the one that ends an answer. An end before it is a
// broken stream, also one with the end mark of the chat API.
func (a *answer) stream() wire.Stream {
	return wire.Stream{Take: a.takeEvent, Finished: a.isEnded, End: a.end}
}

func (a *answer) isEnded() bool { return a.ended != "" }

func (a *answer) end(cause error) error {
	if cause == nil && !a.isEnded() {
		return io.ErrUnexpectedEOF
	}
	return cause
}
