package bedrock

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// Do implements llm.Model. Where the model refuses a part of the request that it
// can do without, the call is made again without it, and so are all later ones.
func (m *Model) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	refused := refusals(m.refused.Load())
	for {
		resp, said, err := m.once(ctx, req, refused)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var e *llm.Error
		if !errors.As(err, &e) {
			return nil, err
		}
		more := m.learn(e, said, req, refused)
		if more == 0 {
			return nil, err
		}
		refused |= more
		m.refused.Or(uint32(more &^ passing))
	}
}

// once makes one HTTP call. Errors are *llm.Error without secrets; said is what
// the service said, before advice was added to it.
func (m *Model) once(ctx context.Context, req *llm.Request, refused refusals) (resp *llm.Response, said string, err error) {
	body, names, err := m.encode(req, refused)
	if err != nil {
		return nil, "", wire.Unencodable(err)
	}
	var secrets []string
	a := &answer{Listener: wire.Listen(req)}
	stream := m.streams(req, refused)
	err = m.client.Do(ctx, wire.Call{URL: m.operation(stream), Header: m.headers(stream), Body: body,
		Prepare: func(r *http.Request) (err error) {
			secrets, err = m.auth.authorize(r.Context(), r, body)
			return err
		},
		Streamed: a.Streamed,
		Read: func(in *wire.Answer) error {
			if err := readAnswer(in, a); err != nil {
				return err
			}
			resp, err = m.response(a, req, names, in.Header)
			return err
		}})
	var e *llm.Error
	if errors.As(err, &e) {
		said = masked(e.Message, secrets)
		e.Message = said
		m.advise(e)
	}
	return resp, said, err
}

func (m *Model) operation(stream bool) string {
	if stream {
		return m.url + "converse-stream"
	}
	return m.url + "converse"
}

func (m *Model) headers(stream bool) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json")
	if stream {
		h.Set("Accept", eventStream)
	}
	for k, v := range m.cfg.Headers {
		h.Set(k, v)
	}
	return h
}

// masked takes the secrets of a call out of a text: a refused signature comes
// back with all that was signed.
func masked(text string, secrets []string) string {
	text, _, _ = strings.Cut(text, "The Canonical String for this request should have been")
	text = wire.NewRedactor(append([]string{""}, secrets...)...).Redact(text)
	return strings.TrimSpace(text)
}
