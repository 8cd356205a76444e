package httpkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"
	"unicode/utf8"

	"parley/internal/fault"
)

// DefaultMaxBody bounds a request body, in bytes; bodies may carry images.
const DefaultMaxBody = 10 << 20

// maxDepth bounds how deeply a JSON body nests.
const maxDepth = 64

// Request is a request whose credential and input have been checked.
type Request struct {
	*http.Request
	Operation *Operation
	Principal Principal

	params map[string]any
	query  url.Values
	body   any
	noBody bool
}

// Params decodes the path, query and header parameters into v by their names
// ("json" tags). Absent parameters without a default are left alone.
func (r *Request) Params(v any) error { return recode(r.params, v) }

// Body decodes the validated body into v. Without a body v is left alone.
func (r *Request) Body(v any) error {
	if r.noBody {
		return nil
	}
	return recode(r.body, v)
}

// BodyValue returns the validated, coerced body as decoded JSON (numbers as
// int64, float64 or json.Number), nil without a body.
func (r *Request) BodyValue() any { return r.body }

func recode(from, to any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("recode input: %w", err)
	}
	if err := json.Unmarshal(raw, to); err != nil {
		// The document is laxer than the handler's type: a defect of ours.
		return fmt.Errorf("input does not fit its type: %w", err)
	}
	return nil
}

// readInput validates everything the operation declares, collecting all errors.
func readInput(r *http.Request, op *Operation, maxBody int64) (*Request, error) {
	in := &Request{Request: r, Operation: op, params: map[string]any{}, query: parseQuery(r.URL.RawQuery), noBody: true}
	var fields []fault.Field
	for _, p := range op.Params {
		fields = append(fields, in.readParam(p)...)
	}
	if op.Body != nil {
		wrong, err := in.readBody(op, maxBody)
		if err != nil {
			return nil, err
		}
		fields = append(fields, wrong...)
	}
	if len(fields) > 0 {
		return nil, InvalidFields(fields...)
	}
	return in, nil
}

// InvalidFields makes the fault of a request with wrong members: a 422.
func InvalidFields(fields ...fault.Field) error {
	f := fault.New(fault.Invalid, "validation", "The request is not valid.")
	f.Fields = fields
	return f
}

// BadField makes the fault of one wrong member that a document cannot express,
// in the form pydantic gives to custom rules.
func BadField(text string, input any, loc ...any) error {
	return InvalidFields(fault.Field{Loc: loc, Type: "value_error", Msg: "Value error, " + text,
		Input: redactAt(loc, input), Ctx: map[string]any{"error": map[string]any{}}})
}

func (in *Request) readParam(p Param) []fault.Field {
	values := in.paramValues(p)
	for _, v := range values {
		if p.In == "query" && !utf8.ValidString(v) {
			return []fault.Field{{Loc: []any{p.In, p.Name}, Type: "string_unicode",
				Msg: "Input should be a valid string, unable to parse raw data as a unicode string"}}
		}
	}
	switch {
	case len(values) > 0 && p.list():
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = v
		}
		return in.checkParam(p, list)
	case len(values) > 0:
		return in.checkParam(p, values[len(values)-1])
	case p.Schema.hasDefault:
		in.params[p.Name] = p.Schema.fallback
	case p.Required:
		return []fault.Field{{Loc: []any{p.In, p.Name}, Type: "missing", Msg: "Field required"}}
	}
	return nil
}

func (in *Request) checkParam(p Param, v any) []fault.Field {
	out, fields := p.Schema.Check(v, p.In, p.Name)
	in.params[p.Name] = out
	return fields
}

func (in *Request) paramValues(p Param) []string {
	switch p.In {
	case "path":
		return []string{in.PathValue(p.Name)}
	case "query":
		return in.query[p.Name]
	}
	return in.Header.Values(p.Name)
}

func (in *Request) readBody(op *Operation, maxBody int64) ([]fault.Field, error) {
	raw, err := readAll(in.Request, maxBody)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return in.missingBody(op), nil
	}
	if !isJSON(in.Header.Get("Content-Type")) {
		return []fault.Field{{Loc: []any{"body"}, Type: "model_attributes_type",
			Msg: "Input should be a valid dictionary or object to extract fields from"}}, nil
	}
	value, err := decodeJSON(raw)
	if err != nil {
		return nil, err
	}
	if value == nil && !op.Body.nullable {
		return in.missingBody(op), nil
	}
	out, fields := op.Body.Check(value, "body")
	in.body, in.noBody = out, false
	return fields, nil
}

func (in *Request) missingBody(op *Operation) []fault.Field {
	if !op.BodyRequired {
		return nil
	}
	return []fault.Field{{Loc: []any{"body"}, Type: "missing", Msg: "Field required"}}
}

func readAll(r *http.Request, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, fault.Wrap(err, fault.TooLarge, "body_too_large",
			"The request body is larger than %d bytes.", limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fault.Wrap(err, fault.Invalid, "body_too_slow", "The request body came too slowly.")
	case err != nil:
		return nil, fault.Wrap(err, fault.Invalid, "body_unreadable", "There was an error reading the body.")
	}
	return raw, nil
}

// isJSON accepts JSON types and, as FastAPI does, no type at all.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	return media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

func decodeJSON(raw []byte) (any, error) {
	if !utf8.Valid(raw) {
		return nil, jsonFault("json_invalid", "JSON decode error", "The body is not valid UTF-8", firstInvalid(raw))
	}
	if at, deep := tooDeep(raw); deep {
		return nil, jsonFault("json_too_deep", fmt.Sprintf("JSON nests deeper than %d levels", maxDepth),
			"Nesting limit exceeded", at)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, syntaxFault(err, len(raw))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, jsonFault("json_invalid", "JSON decode error", "Extra data", int(dec.InputOffset()))
	}
	return v, nil
}

func syntaxFault(err error, length int) error {
	at := length
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		at = int(syntax.Offset)
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if errors.Is(err, io.ErrUnexpectedEOF) {
		text = "unexpected end of input"
	}
	return jsonFault("json_invalid", "JSON decode error", text, at)
}

func jsonFault(typ, msg, why string, at int) error {
	return InvalidFields(fault.Field{Loc: []any{"body", at}, Type: typ, Msg: msg,
		Input: map[string]any{}, Ctx: map[string]any{"error": why}})
}

func firstInvalid(raw []byte) int {
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return 0
}

// tooDeep finds the place where a JSON text nests deeper than the limit, before
// anything recursive sees it.
func tooDeep(raw []byte) (int, bool) {
	depth, inText := 0, false
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case inText && b == '\\':
			i++
		case b == '"':
			inText = !inText
		case inText:
		case b == '{' || b == '[':
			if depth++; depth > maxDepth {
				return i, true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return 0, false
}

// CheckJSON decodes and validates a JSON text that is no request body (a
// socket's frame) and decodes the result into v. loc is where it stands.
func CheckJSON(s *Schema, raw []byte, v any, loc ...any) error {
	value, err := decodeJSON(raw)
	if err != nil {
		return err
	}
	out, fields := s.Check(value, loc...)
	if len(fields) > 0 {
		return InvalidFields(fields...)
	}
	return recode(out, v)
}
