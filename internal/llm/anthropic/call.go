package anthropic

import (
	"context"
	"net/http"
	"strings"

	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// maxAttempts bounds the calls of one Do: one, and one for each thing an
// endpoint may be missing.
const maxAttempts = 8

// Do implements llm.Model. Where the endpoint refuses something that it could do
// without, the call is made again without it.
func (m *Model) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	a := attempt{refused: refusals(m.refused.Load())}
	for n := 1; ; n++ {
		resp, s, err := m.once(ctx, req, a)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var ok bool
		if a, ok = m.learn(err, a, s); !ok || n == maxAttempts {
			return nil, err
		}
	}
}

// once makes one HTTP call. Errors are *llm.Error without secrets.
func (m *Model) once(ctx context.Context, req *llm.Request, a attempt) (*llm.Response, sent, error) {
	body, s, err := m.encode(req, a)
	if err != nil {
		return nil, s, wire.Unencodable(err)
	}
	g := &answer{Speech: wire.Speech{Listener: wire.Listen(req)}, keepUnsigned: !m.family.claude}
	var resp *llm.Response
	err = m.client.Do(ctx, wire.Call{URL: m.url, Header: m.headers(req, s.betas), Body: body, Advise: m.advise,
		Streamed: g.Streamed,
		Read: func(in *wire.Answer) error {
			if err := in.Decode(g.stream(), g.takeWhole); err != nil {
				return err
			}
			if g.usage.cost == nil {
				g.usage.cost = wire.HeaderCost(in.Header)
			}
			resp, err = m.response(g, req, s.ttl)
			return err
		}})
	return resp, s, err
}

func (m *Model) headers(req *llm.Request, betas []string) http.Header {
	h := m.cfg.Header(req, func(h http.Header) {
		h.Set("Anthropic-Version", version)
		m.cfg.Authorize(h, "X-Api-Key")
	})
	if own := h.Get("Anthropic-Beta"); own != "" {
		betas = append([]string{own}, betas...) // the user's are in addition
	}
	if len(betas) > 0 {
		h.Set("Anthropic-Beta", strings.Join(betas, ","))
	}
	return h
}

// advise adds what to do where a refusal is likely a matter of configuration.
func (m *Model) advise(e *llm.Error) {
	if e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed {
		m.cfg.Unknown(e, m.host, "the path", "the base URL")
	}
}

// stream reads events to message_stop or the end. At the stop reason an answer is
// complete, however the connection ends; an end before either is a broken stream.
func (a *answer) stream() wire.Stream {
	return wire.Stream{Take: a.takeEvent, Finished: func() bool { return a.stop != "" }, End: a.end}
}

func (a *answer) end(cause error) error {
	switch {
	case cause == nil:
		return a.whole()
	case a.stop != "":
		return nil
	}
	return cause
}
