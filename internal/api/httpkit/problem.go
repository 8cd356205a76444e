package httpkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"parley/internal/fault"
)

// Problem is an error as an API may show it.
type Problem struct {
	Status     int
	Kind       fault.Kind
	Code       string        // stable, "" if the error has none
	Text       string        // public text and hint; never internal text
	Fields     []fault.Field // of a 422
	ErrorID    string        // of a 5xx, the same as in the log
	RetryAfter time.Duration
	Err        error // for encoders that tell errors apart; never to be shown
}

// ErrorEncoder renders a problem in an API's shape: a status and a body that is
// encoded as JSON (or PlainText).
type ErrorEncoder func(r *http.Request, p *Problem) (status int, body any)

// PlainText is a body that is written as text/plain.
type PlainText string

var statusOf = map[fault.Kind]int{
	fault.Internal:        http.StatusInternalServerError,
	fault.Invalid:         http.StatusBadRequest,
	fault.NotFound:        http.StatusNotFound,
	fault.Conflict:        http.StatusConflict,
	fault.Unauthenticated: http.StatusUnauthorized,
	fault.Forbidden:       http.StatusForbidden,
	fault.TooLarge:        http.StatusRequestEntityTooLarge,
	fault.RateLimited:     http.StatusTooManyRequests,
	fault.Unavailable:     http.StatusServiceUnavailable,
	fault.Gone:            http.StatusGone,
	fault.Unsupported:     http.StatusNotImplemented,
	fault.Timeout:         http.StatusGatewayTimeout,
	fault.Canceled:        http.StatusServiceUnavailable,
}

// Describe maps an error to what a client may see. This is the one place that
// gives kinds their status.
func Describe(err error) *Problem {
	p := &Problem{Kind: fault.KindOf(err), Code: fault.CodeOf(err), Text: fault.PublicText(err), Err: err}
	p.Status = statusOf[p.Kind]
	var f *fault.Error
	if errors.As(err, &f) {
		p.Fields, p.RetryAfter = f.Fields, f.RetryAfter
		if f.Public == "" {
			p.Text = http.StatusText(p.Status)
		}
	}
	if p.Kind == fault.Invalid && len(p.Fields) > 0 {
		p.Status = http.StatusUnprocessableEntity
	}
	if p.Status >= http.StatusInternalServerError {
		p.ErrorID = strings.ReplaceAll(uuid.NewString(), "-", "")
	}
	return p
}

// wireField is an entry of a 422 body.
type wireField struct {
	Type  string         `json:"type"`
	Loc   []any          `json:"loc"`
	Msg   string         `json:"msg"`
	Input any            `json:"input"`
	Ctx   map[string]any `json:"ctx,omitempty"`
}

// FieldsBody renders the list of a 422 body in pydantic's form.
func FieldsBody(fields []fault.Field) []any {
	out := make([]any, len(fields))
	for i, f := range fields {
		loc := f.Loc
		if loc == nil {
			loc = []any{}
		}
		out[i] = wireField{f.Type, loc, f.Msg, f.Input, f.Ctx}
	}
	return out
}

// DetailErrors is the shape of V1: {"detail": text or fields}, with the error's
// code and, for a 5xx, its id.
func DetailErrors(_ *http.Request, p *Problem) (int, any) {
	body := map[string]any{"detail": p.Text}
	switch {
	case p.Status == http.StatusUnprocessableEntity && len(p.Fields) > 0:
		return p.Status, map[string]any{"detail": FieldsBody(p.Fields)}
	case p.Status == http.StatusUnauthorized:
		return p.Status, map[string]any{"detail": "Unauthorized"}
	}
	if p.Code != "" {
		body["code"] = p.Code
	}
	if p.ErrorID != "" {
		body["error_id"] = p.ErrorID
	}
	return p.Status, body
}

// AgentErrors is the shape of the agent-server protocol: as DetailErrors, and a
// 5xx repeats its text in "exception", where that protocol's clients look.
func AgentErrors(r *http.Request, p *Problem) (int, any) {
	status, body := DetailErrors(r, p)
	if m, ok := body.(map[string]any); ok && status >= http.StatusInternalServerError {
		m["exception"] = fmt.Sprintf("%d: %s", status, p.Text)
	}
	return status, body
}

// JSON writes v with a status.
func JSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}

func writeProblem(w http.ResponseWriter, status int, body any, retryAfter time.Duration) error {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(retryAfter.Seconds()))))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if text, ok := body.(PlainText); ok {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, err := io.WriteString(w, string(text))
		return err
	}
	return JSON(w, status, body)
}
