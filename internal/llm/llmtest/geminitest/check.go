package geminitest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"parley/internal/lazyre"
)

type request struct {
	System         *contentIn      `json:"systemInstruction"`
	Contents       []contentIn     `json:"contents"`
	Tools          []toolsIn       `json:"tools"`
	ToolConfig     json.RawMessage `json:"toolConfig"`
	SafetySettings json.RawMessage `json:"safetySettings"`
	Generation     *generationIn   `json:"generationConfig"`
	CachedContent  string          `json:"cachedContent"`
	Labels         json.RawMessage `json:"labels"`
	Model          string          `json:"model"`
}

type contentIn struct {
	Role  string   `json:"role"`
	Parts []partIn `json:"parts"`
}

type partIn struct {
	Text      *string     `json:"text"`
	Inline    *blobIn     `json:"inlineData"`
	File      *fileIn     `json:"fileData"`
	Call      *callIn     `json:"functionCall"`
	Response  *responseIn `json:"functionResponse"`
	Thought   bool        `json:"thought"`
	Signature *string     `json:"thoughtSignature"`
}

type blobIn struct {
	MimeType    string `json:"mimeType"`
	Data        string `json:"data"`
	DisplayName string `json:"displayName"`
}

type fileIn struct {
	MimeType string `json:"mimeType"`
	URI      string `json:"fileUri"`
}

type callIn struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type responseIn struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
	Parts    []partIn        `json:"parts"`
}

// generation is what the rules depend on. A model whose name has no number is
// as strict as the newest.
type generation struct {
	number           float64
	pro, flash, lite bool
}

var generationNumber = lazyre.MustCompile(`gemini-([0-9]+(?:\.[0-9]+)?)`)

func generationOf(model string) generation {
	g := generation{number: 3.5, pro: strings.Contains(model, "-pro"), flash: strings.Contains(model, "flash"),
		lite: strings.Contains(model, "flash-lite")}
	if m := generationNumber.FindStringSubmatch(model); m != nil {
		g.number, _ = strconv.ParseFloat(m[1], 64) // the expression is a number
	}
	return g
}

// checker says why a request is refused.
type checker struct {
	gen    generation
	issued func(callID string) []string
}

func (q *checker) check(body []byte) error {
	var r request
	if err := strict(canonical(body), &r); err != nil {
		return err
	}
	if r.System != nil {
		if err := q.system(r.System); err != nil {
			return err
		}
	}
	for _, check := range []func(*request) error{q.contents, q.calls, q.signatures, q.tools} {
		if err := check(&r); err != nil {
			return err
		}
	}
	return q.settings(r.Generation)
}

// refusal is what Google says when it refuses a request.
type refusal string

// Error returns the text.
func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// strict decodes like Google's parser: what is not known is an error.
func strict(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return refuse("Invalid JSON payload received. Unknown name %s: Cannot find field.", name)
		}
		return refuse("Invalid JSON payload received. %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse("Invalid JSON payload received. Parsing terminated before end of input.")
	}
	return nil
}

func (q *checker) system(c *contentIn) error {
	if len(c.Parts) == 0 {
		return refuse("* GenerateContentRequest.system_instruction.parts: contents.parts must not be empty.")
	}
	for _, p := range c.Parts {
		if p.Text == nil || *p.Text == "" || p.Call != nil || p.Response != nil || p.Inline != nil || p.File != nil {
			return refuse("* GenerateContentRequest.system_instruction.parts: only text is supported.")
		}
	}
	return nil
}

func (q *checker) contents(r *request) error {
	if len(r.Contents) == 0 {
		return refuse("* GenerateContentRequest.contents: contents is not specified")
	}
	for i, c := range r.Contents {
		switch {
		case c.Role != "user" && c.Role != "model":
			return refuse("Please use a valid role: user, model.")
		case i == 0 && c.Role != "user":
			return refuse("Please ensure that multiturn requests start with a user turn.")
		case i > 0 && c.Role == r.Contents[i-1].Role:
			return refuse("Please ensure that multiturn requests alternate between user and model.")
		case len(c.Parts) == 0:
			return refuse("* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.", i)
		}
		for j := range c.Parts {
			if err := q.part(&c.Parts[j], c.Role); err != nil {
				return refuse("* GenerateContentRequest.contents[%d].parts[%d]%v", i, j, err)
			}
		}
	}
	if r.Contents[len(r.Contents)-1].Role == "model" {
		return refuse("Requests ending with a model turn are not supported.")
	}
	return nil
}

var functionName = lazyre.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)

func (q *checker) part(p *partIn, role string) error {
	set := 0
	for _, is := range []bool{p.Text != nil, p.Inline != nil, p.File != nil, p.Call != nil, p.Response != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return refuse(".data: required oneof field 'data' must have one initialized field")
	case p.Text != nil && *p.Text == "" && p.Signature == nil:
		return refuse(".data: required oneof field 'data' must have one initialized field")
	case (p.Thought || p.Signature != nil) && role != "model":
		return refuse(".thought_signature: only the model thinks")
	case p.Thought && p.Text == nil:
		return refuse(".thought: a thought is a text")
	case p.Signature != nil && !isBytes(*p.Signature):
		return refuse(".thought_signature: Base64 decoding failed")
	case p.Inline != nil:
		return q.blob(p.Inline, false)
	case p.File != nil && (p.File.URI == "" || p.File.MimeType == ""):
		return refuse(".file_data: file_uri and mime_type are required")
	case p.Call != nil && role == "model":
		return q.call(p.Call)
	case p.Response != nil && role == "user":
		return q.response(p.Response)
	case p.Call != nil || p.Response != nil:
		return refuse(": this role cannot have that part")
	}
	return nil
}

// isBytes reads base64 as Google does: either alphabet, padded or not.
func isBytes(s string) bool {
	s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
	_, err := base64.RawStdEncoding.DecodeString(s)
	return s != "" && err == nil
}

func (q *checker) blob(b *blobIn, inResult bool) error {
	kinds := []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf", "text/plain"}
	if inResult {
		kinds = []string{"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}
	}
	switch {
	case !slices.Contains(kinds, b.MimeType):
		return refuse(".inline_data: Unsupported MIME type: %s", b.MimeType)
	case !isBytes(b.Data):
		return refuse(".inline_data.data: Base64 decoding failed")
	}
	return nil
}

func (q *checker) call(c *callIn) error {
	if !functionName.MatchString(c.Name) {
		return refuse(".function_call.name: [%.80s] is not a valid name", c.Name)
	}
	if !isObject(c.Args) {
		return refuse(".function_call.args: must be an object")
	}
	return nil
}

func (q *checker) response(r *responseIn) error {
	if !functionName.MatchString(r.Name) {
		return refuse(".function_response.name: [%.80s] is not a valid name", r.Name)
	}
	if !isObject(r.Response) {
		return refuse(".function_response.response: must be an object")
	}
	if len(r.Parts) > 0 && q.gen.number < 3 {
		return refuse(".function_response.parts: Multimodal function responses are not supported for this model")
	}
	for _, p := range r.Parts {
		if p.Inline == nil || p.Text != nil || p.Call != nil || p.Response != nil || p.File != nil {
			return refuse(".function_response.parts: only inline_data is supported")
		}
		if err := q.blob(p.Inline, true); err != nil {
			return err
		}
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	var o map[string]any
	return json.Unmarshal(raw, &o) == nil && o != nil
}

// calls checks that each turn with calls is followed by exactly its results.
func (q *checker) calls(r *request) error {
	var open []*callIn
	for _, c := range r.Contents {
		responses := responsesOf(c)
		switch {
		case len(open) == 0 && len(responses) > 0:
			return refuse("Please ensure that function response turn comes immediately after a function call turn.")
		case len(open) != len(responses):
			return refuse("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
		for _, resp := range responses {
			i := slices.IndexFunc(open, func(c *callIn) bool { return c.ID == resp.ID })
			if i < 0 || open[i].Name != resp.Name {
				return refuse("The function response %q (%s) does not match a function call.", resp.ID, resp.Name)
			}
			open = slices.Delete(open, i, i+1)
		}
		open = callsOf(c)
	}
	return nil
}

func responsesOf(c contentIn) []*responseIn {
	var out []*responseIn
	for _, p := range c.Parts {
		if p.Response != nil {
			out = append(out, p.Response)
		}
	}
	return out
}

func callsOf(c contentIn) []*callIn {
	var out []*callIn
	for _, p := range c.Parts {
		if p.Call != nil {
			out = append(out, p.Call)
		}
	}
	return out
}

// signatures checks those of the calls: what was given with a call must come back
// with it, and from generation 3 on the first call of each step of the current
// turn must have one.
func (q *checker) signatures(r *request) error {
	turn := 0
	for i, c := range r.Contents {
		if c.Role == "user" && len(responsesOf(c)) < len(c.Parts) {
			turn = i
		}
	}
	for i, c := range r.Contents {
		first := true
		for j, p := range c.Parts {
			if p.Call == nil {
				continue
			}
			must := first && i > turn && q.gen.number >= 3
			first = false
			if err := q.signature(p, must); err != nil {
				return refuse("%v Additional data, function call default_api:%s, position %d.", err, p.Call.Name, j+1)
			}
		}
	}
	return nil
}

func (q *checker) signature(p partIn, must bool) error {
	given := q.issued(p.Call.ID)
	switch {
	case p.Signature == nil && (must || (len(given) > 0 && !slices.Contains(given, ""))):
		return refuse("Function call is missing a thought_signature in functionCall parts.")
	case p.Signature != nil && *p.Signature == AnySignature && slices.Contains(given, ""):
		return nil // the signed call before it may be gone
	case p.Signature != nil && len(given) > 0 && !slices.Contains(given, *p.Signature):
		return refuse("Corrupted thought signature.")
	}
	return nil
}
