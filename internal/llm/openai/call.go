package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/sse"
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
	ctx, w := newWatch(ctx, m.cfg.Total)
	defer w.stop()
	w.expect(m.cfg.Timeout, m.host+" did not begin to answer within "+m.cfg.Timeout.String())
	a := &answer{onDelta: req.OnDelta}
	resp, err := m.exchange(ctx, w, a, req, body)
	if err == nil {
		return resp, nil
	}
	return nil, m.clean(m.classified(ctx, err), a.streamed)
}

// classified turns an error into *llm.Error; a time-out of ours comes first.
func (m *Model) classified(ctx context.Context, err error) *llm.Error {
	var e *llm.Error
	if errors.As(context.Cause(ctx), &e) || errors.As(err, &e) {
		said := *e
		return &said
	}
	return failure.Transport(err, m.host)
}

// clean marks what was shown and takes the key and secret headers out of texts
// that the endpoint wrote.
func (m *Model) clean(e *llm.Error, streamed bool) *llm.Error {
	e.Streamed = streamed
	secrets := []string{m.cfg.APIKey.Reveal()}
	for _, v := range m.cfg.ExtraHeaders {
		secrets = append(secrets, v)
	}
	for _, s := range secrets {
		if len(s) >= 8 || (s != "" && s == m.cfg.APIKey.Reveal()) {
			e.Message = strings.ReplaceAll(e.Message, s, account.Mask)
			e.Message = strings.ReplaceAll(e.Message, url.QueryEscape(s), account.Mask)
		}
	}
	e.Message = failure.Bound(e.Message)
	return e
}

func (m *Model) exchange(ctx context.Context, w *watch, a *answer, req *llm.Request, body []byte) (*llm.Response, error) {
	hreq, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	m.setHeaders(hreq, req)
	hresp, err := m.client.Do(hreq)
	if err != nil {
		return nil, err
	}
	defer func() { _ = hresp.Body.Close() }()
	if hresp.StatusCode < 200 || hresp.StatusCode > 299 {
		return nil, m.refusal(hresp)
	}
	in := &watched{r: hresp.Body, w: w, wait: m.cfg.IdleTimeout, left: maxAnswer,
		text: m.host + " fell silent for " + m.cfg.IdleTimeout.String() + " in the middle of its answer"}
	if isEventStream(hresp.Header) {
		err = m.readStream(in, w, a)
	} else {
		err = readWhole(in, a)
	}
	if err != nil {
		return nil, err
	}
	return m.response(a, req, hresp.Header)
}

func (m *Model) setHeaders(hreq *http.Request, req *llm.Request) {
	h := hreq.Header
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json")
	if req.OnDelta != nil {
		h.Set("Accept", "text/event-stream, application/json")
	}
	h.Set("User-Agent", "parley")
	if m.cfg.APIKey.IsSet() {
		h.Set("Authorization", "Bearer "+m.cfg.APIKey.Reveal())
	}
	if m.cfg.Dialect.SessionHeader != "" && req.SessionID != "" {
		h.Set(m.cfg.Dialect.SessionHeader, req.SessionID)
	}
	for k, v := range m.cfg.ExtraHeaders {
		h.Set(k, v)
	}
}

// refusal reads an answer outside 2xx, and adds what to do where it is likely a
// matter of configuration.
func (m *Model) refusal(hresp *http.Response) *llm.Error {
	body, _ := io.ReadAll(io.LimitReader(hresp.Body, failure.MaxBody)) // half a reason is better than none
	e := failure.Response(hresp.StatusCode, hresp.Header, body, time.Now())
	switch {
	case hresp.StatusCode == http.StatusNotFound || hresp.StatusCode == http.StatusMethodNotAllowed:
		e.Message = failure.Bound("the endpoint " + m.host + " does not know the model \"" + m.cfg.Model +
			"\" or the path; check the model id and the base URL, which mostly ends in /v1 (it said: " + e.Message + ")")
	case hresp.StatusCode >= 300 && hresp.StatusCode < 400:
		e.Message = "the endpoint " + m.host + " redirects to " + redirectHost(hresp) +
			", which is not followed because the request holds your key; set the final address as base URL"
	}
	return e
}

func redirectHost(hresp *http.Response) string {
	u, err := hresp.Location()
	if err != nil {
		return "an unknown address"
	}
	return u.Scheme + "://" + u.Host
}

func isEventStream(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
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
			return readEvents(sse.NewReader(bytes.NewReader(body), maxEvent), a, func() {})
		}
	}
	return a.take(body)
}

func errTooLarge() *llm.Error {
	return &llm.Error{Class: llm.ClassBadRequest, Message: "the answer is larger than 64 MiB"}
}

func (m *Model) readStream(in *watched, w *watch, a *answer) error {
	err := readEvents(sse.NewReader(in, maxEvent), a, func() {
		// The answer is there: what may still come does not get much time, and
		// keep-alives do not prolong it.
		in.wait = 0
		w.expect(min(endGrace, m.cfg.IdleTimeout), m.host+" did not end its answer")
	})
	if err == nil {
		drain(in, w)
	}
	return err
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
			return errTooLarge()
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

// drain reads the few bytes behind the end of a stream, so that the connection
// can be used again. It does not wait for an endpoint that keeps it open.
func drain(in *watched, w *watch) {
	in.wait = 0
	w.expect(50*time.Millisecond, "drained")
	_, _ = io.CopyN(io.Discard, in, 4096)
}
