package anthropic

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
		return nil, s, &llm.Error{Class: llm.ClassMalformed, NotSent: true, Err: err, Message: "the history cannot be encoded"}
	}
	g := &answer{onDelta: req.OnDelta, keepUnsigned: !m.family.claude}
	var resp *llm.Response
	err = m.client.Do(ctx, wire.Call{URL: m.url, Header: m.headers(req, s.betas), Body: body, Advise: m.advise,
		Streamed: func() bool { return g.streamed },
		Read: func(in *wire.Answer) error {
			if err := in.Decode(g.takeEvents, g.takeWhole); err != nil {
				return err
			}
			if g.usage.cost == nil {
				g.usage.cost = headerCost(in.Header)
			}
			resp, err = m.response(g, req, s.ttl)
			return err
		}})
	return resp, s, err
}

func (m *Model) headers(req *llm.Request, betas []string) http.Header {
	h := m.cfg.Header(req, func(h http.Header) {
		h.Set("Anthropic-Version", version)
		if m.cfg.APIKey.IsSet() {
			h.Set("X-Api-Key", m.cfg.APIKey.Reveal())
		}
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
		e.Message = failure.Bound("the endpoint " + m.host + " does not know the model \"" + m.cfg.Model +
			"\" or the path; check the model id and the base URL (it said: " + e.Message + ")")
	}
}

// takeEvents reads to message_stop or the end. finished is called at the stop
// reason: behind it an answer is complete, however the connection ends. An end
// before either is a broken stream.
func (a *answer) takeEvents(events *sse.Reader, finished func()) error {
	seen := false
	for {
		ev, err := events.Next()
		switch {
		case errors.Is(err, sse.ErrTooLong):
			return wire.ErrTooLarge()
		case err != nil && a.stop != "":
			return nil //nolint:nilerr // the answer is complete
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		data := bytes.TrimSpace(ev.Data)
		if len(data) == 0 {
			continue
		}
		if string(data) == "[DONE]" { // of gateways that also speak another API
			return a.ended()
		}
		done, err := a.takeEvent(ev.Name, data)
		if err != nil {
			return err
		}
		if done {
			return a.ended()
		}
		if a.stop != "" && !seen {
			seen = true
			finished()
		}
	}
}

// notAnEvent reads data that is no JSON: a gateway's text, or an event that the
// end of the connection cut in two.
func notAnEvent(data []byte) error {
	if json.Valid(data) || !bytes.HasPrefix(data, []byte("{")) {
		return failure.Payload(data)
	}
	return io.ErrUnexpectedEOF
}
