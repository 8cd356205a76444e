package gemini

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// refusals are what an endpoint or a model refused, and what a request can do
// without.
type refusals uint32

const (
	refusedJSONSchema refusals = 1 << iota // parametersJsonSchema
	refusedDeepSchema
	refusedThinking   // the level, the budget, or thoughts at all
	refusedSystem     // a system instruction: it goes to the first turn then
	refusedFetch      // the address of an image
	refusedSignatures // the signatures of the history: the key may have changed
)

func (r refusals) has(f refusals) bool { return r&f != 0 }

// form is how tools are described.
func (r refusals) form() form {
	switch {
	case r.has(refusedDeepSchema):
		return formShallow
	case r.has(refusedJSONSchema):
		return formProto
	}
	return formJSON
}

// lasting are the refusals that concern all calls; the others depend on the history.
const lasting = refusedJSONSchema | refusedDeepSchema | refusedThinking | refusedSystem

// Do implements llm.Model. Where the endpoint refuses something that the request
// can do without, the call is made again without it.
func (m *Model) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	var here refusals
	for {
		refused := here | refusals(m.refused.Load())
		resp, err := m.once(ctx, req, refused)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		more := learn(err) &^ refused
		if more == 0 {
			return nil, err
		}
		here |= more
		m.refused.Or(uint32(more & lasting))
	}
}

// learn returns what err complains about.
func learn(err error) refusals {
	var e *llm.Error
	if !errors.As(err, &e) || e.Streamed || e.Status != http.StatusBadRequest {
		return 0
	}
	said := strings.ToLower(e.Message)
	has := func(words ...string) bool { return failure.Says(said, words...) }
	switch {
	case has("nesting depth"):
		return refusedDeepSchema
	case has("parametersjsonschema", "parameters_json_schema"):
		return refusedJSONSchema
	case has("thought signature", "thought_signature") && !has("missing a thought_signature"):
		return refusedSignatures
	case has("developer instruction", "system instruction is not"):
		return refusedSystem
	case has("thinking", "include_thoughts"):
		return refusedThinking
	case has("cannot fetch content", "file_uri", "fileuri", "file_data", "url_error", "unable to fetch"):
		return refusedFetch
	}
	return 0
}

// once makes one HTTP call. Errors are *llm.Error without secrets.
func (m *Model) once(ctx context.Context, req *llm.Request, refused refusals) (*llm.Response, error) {
	names := newNameMap(req.Tools)
	body, err := m.encode(req, names, refused)
	if err != nil {
		return nil, wire.Unencodable(err)
	}
	a := &answer{Speech: wire.Speech{Listener: wire.Listen(req)}}
	var resp *llm.Response
	err = m.client.Do(ctx, wire.Call{URL: m.callURL(req.OnDelta != nil), Header: m.headers(req), Body: body,
		Advise: m.advise, Streamed: a.Streamed,
		Read: func(in *wire.Answer) error {
			if err := readAnswer(in, a); err != nil {
				return err
			}
			resp, err = m.response(a, req, names)
			return err
		}})
	return resp, err
}

func (m *Model) headers(req *llm.Request) http.Header {
	return m.cfg.Header(req, func(h http.Header) {
		if m.cfg.Auth == AuthBearer {
			m.cfg.Authorize(h, "")
		} else {
			m.cfg.Authorize(h, AuthKeyHeader)
		}
	})
}

// advise adds what to do where a refusal is likely a matter of configuration.
func (m *Model) advise(e *llm.Error) {
	said := strings.ToLower(e.Message)
	switch {
	case e.Status == http.StatusNotFound:
		m.cfg.Unknown(e, m.base.Host, "the path", "the base URL, which mostly ends in /v1beta")
	case e.Status == http.StatusBadRequest && strings.Contains(said, "function calling is"):
		e.Message = failure.Bound(e.Message + " Turn native tool calling off for this model.")
	case e.Status == http.StatusBadRequest && strings.Contains(said, "image input modality"):
		e.Message = failure.Bound(e.Message + " Turn vision off for this model.")
	case strings.Contains(said, "location is not supported"):
		e.Message = failure.Bound(e.Message + " Google does not offer this API where the server is; use Vertex AI or a gateway elsewhere.")
	case e.Class == llm.ClassQuota && strings.Contains(said, "limit: 0"):
		e.Message = failure.Bound("this model has no free tier for this key: enable billing for its project, or choose another model (Google said: " + e.Message + ")")
	case e.Class == llm.ClassQuota && e.Status == http.StatusTooManyRequests && !strings.Contains(said, "credit"):
		e.Message = failure.Bound("the quota of the day is used up; it comes back at midnight, Pacific time (Google said: " + e.Message + ")")
	}
}
