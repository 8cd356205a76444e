package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/internal/api/httpkit/httpkittest"
	"parley/test/testkit/parleytest"
)

// Secrets that are stored and must never be seen in an answer.
var hushed = []string{"hush-search-7d1c", "hush-sandbox-7d1c", "hush-token-7d1c", "hush-custom-7d1c", "hush-start-7d1c", "hush-mcp-7d1c"}

// fuzzSeed makes runs repeatable; another one tries other combinations.
const fuzzSeed = 7

// raw is JSON text that is sent as it is, valid or not.
type raw string

// oddValues replace any member of any body.
var oddValues = []any{nil, true, false, raw("0"), raw("-1"), raw("-0.0"), raw("1.5"), raw("1e400"), raw("-1e400"), raw("1e-400"),
	raw("9223372036854775807"), raw("9223372036854775808"), raw(strings.Repeat("9", 400)), raw("NaN"), raw("Infinity"), raw("0x10"),
	raw(`"\ud800"`), raw(`"\udc00\ud800"`), raw(`"\u0000"`), raw("\"\xff\""), "", " ", "x", "null", "\u202e\u200b\ufeff", "日本語 \U0001f600",
	strings.Repeat("A", 5000), "../../etc/passwd", "'; DROP TABLE conversations; --", "{{7*7}}${x}", "2026-02-30T25:61:61Z",
	[]any{}, []any{nil}, []any{[]any{}}, []any{"x", raw("1"), nil}, map[string]any{}, map[string]any{"": nil}, map[string]any{"kind": "x", "type": "text"},
	raw(strings.Repeat("[", 80) + strings.Repeat("]", 80)), raw(`{"a":1,"a":{"b":2}}`)}

// oddTexts replace parameters.
var oddTexts = []string{"", " ", "x", "0", "-1", "1", "100", "101", "1.5", "1e3", "9223372036854775808", "-9223372036854775809", "NaN", "null", "true",
	"\x00", "\xff\xfe", "日本語", "'; DROP TABLE x; --", "%", "100%", "%zz", "a;b", "../..", "2026-01-01", "2026-02-30", "9999-12-31T23:59:59.999999Z",
	"0000-01-01T00:00:00Z", "2026-01-01T00:00:00+99:99", strings.Repeat("9", 400), strings.Repeat("A", 4000), "[]", "{}", `"`}

// oddBodies are sent whole, with their content type.
var oddBodies = []struct{ body, contentType string }{
	{"", "application/json"}, {"null", "application/json"}, {"[]", "application/json"}, {"7", "application/json"}, {`"x"`, "application/json"},
	{"{", "application/json"}, {"{}{}", "application/json"}, {"{} x", "application/json"}, {"\xff\xfe{}", "application/json"},
	{"\ufeff{}", "application/json"}, {`{"a":1,"a":2}`, "application/json"}, {"{\"\\ud800\":1}", "application/json"},
	{strings.Repeat(`{"a":`, 100000), "application/json"}, {strings.Repeat("[", 100000) + strings.Repeat("]", 100000), "application/json"},
	{"{}", "text/plain"}, {"a=b", "application/x-www-form-urlencoded"}, {"--x\r\n\r\n--x--", "multipart/form-data; boundary=x"},
	{"{}", "application/json; charset=utf-16"}, {"{}", "application/json;;;"}, {"{}", "\x01"}, {"\x1f\x8b\x08\x00", "application/json"},
}

// fuzzer sends requests that the server's own document describes, and wrong ones.
type fuzzer struct {
	*testing.T
	s       *parleytest.Server
	doc     map[string]any
	checker *httpkittest.Checker
	rng     *rand.Rand
	known   map[string]string // path parameters that name something
	boxKey  string
	sent    int
}

type operation struct {
	method, path, id string
	public           bool
	params           []map[string]any
	body             map[string]any // schema, nil = none
}

// TestEveryOperationWithstandsOddInput reads the server's document and tries every
// operation with valid, boundary and wrong values: never a failure of the server,
// every answer as documented, nothing without a key, no secret anywhere.
func TestEveryOperationWithstandsOddInput(t *testing.T) {
	f := newFuzzer(t)
	for _, op := range f.operations() {
		f.keys(op)
		f.parameters(op)
		f.bodies(op)
	}
	if f.sent < 1000 {
		t.Errorf("only %d requests were sent", f.sent)
	}
	if code := f.s.Call("GET", "/ready", nil, nil); code != http.StatusOK {
		t.Errorf("the server is not ready any more: %d", code)
	}
	for _, secret := range append(slices.Clone(hushed), parleytest.Key, f.boxKey) {
		if strings.Contains(f.s.Log(), secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

func newFuzzer(t *testing.T) *fuzzer {
	s := parleytest.Start(t, parleytest.Options{Demo: true, Sandbox: "process"})
	f := &fuzzer{T: t, s: s, rng: rand.New(rand.NewPCG(fuzzSeed, 7))}
	code, doc, err := s.Raw(t.Context(), "", "GET", "/openapi.json", nil)
	if err != nil || code != http.StatusOK || json.Unmarshal(doc, &f.doc) != nil {
		t.Fatalf("GET /openapi.json: %d %v", code, err)
	}
	if f.checker, err = httpkittest.New(doc); err != nil {
		t.Fatal(err)
	}
	settings := map[string]any{"search_api_key": hushed[0], "sandbox_api_key": hushed[1], "secrets_store": map[string]any{
		"provider_tokens": map[string]any{"github": map[string]any{"token": hushed[2]}}, "custom_secrets": map[string]any{"X": map[string]any{"secret": hushed[3]}}}}
	if code := s.Call("POST", "/api/settings", settings, nil); code != http.StatusOK {
		t.Fatalf("POST /api/settings: %d", code)
	}
	id, err := s.StartWith(map[string]any{"secrets": map[string]any{"Y": hushed[4]},
		"initial_message": map[string]any{"content": []any{map[string]any{"type": "text", "text": "run: true"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.WaitStatus(id, "finished")
	_, f.boxKey = s.AgentURL(id)
	box, _ := s.Info(id)["sandbox_id"].(string)
	f.known = map[string]string{"conversation_id": id, "sandbox_id": box, "event_id": s.Events(id)[0].ID()}
	return f
}

// operations lists the document's operations; those that take something away come
// last, so that the others have something to work on.
func (f *fuzzer) operations() []operation {
	var all []operation
	paths, _ := f.doc["paths"].(map[string]any)
	for path, item := range paths {
		m, _ := item.(map[string]any)
		for method, v := range m {
			o, ok := v.(map[string]any)
			if !ok || method == "parameters" {
				continue
			}
			op := operation{method: strings.ToUpper(method), path: path}
			op.id, _ = o["operationId"].(string)
			security, there := o["security"].([]any)
			op.public = there && len(security) == 0
			op.params = append(f.objects(m["parameters"]), f.objects(o["parameters"])...)
			if body, ok := o["requestBody"]; ok {
				op.body = f.object(body, "content", "application/json", "schema")
			}
			all = append(all, op)
		}
	}
	rank := func(op operation) string {
		last := op.method == "DELETE" || strings.HasSuffix(op.path, "/pause") || strings.HasSuffix(op.path, "/stop")
		return fmt.Sprint(last, op.path, op.method)
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(rank(a), rank(b)) })
	return all
}

// object walks into the document, following references.
func (f *fuzzer) object(v any, path ...string) map[string]any {
	m, _ := v.(map[string]any)
	if ref, ok := m["$ref"].(string); ok {
		m = f.object(f.doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	if len(path) == 0 {
		return m
	}
	return f.object(m[path[0]], path[1:]...)
}

func (f *fuzzer) objects(v any) []map[string]any {
	list, _ := v.([]any)
	var out []map[string]any
	for _, e := range list {
		out = append(out, f.object(e))
	}
	return out
}

// keys tries an operation without a key and with wrong ones.
func (f *fuzzer) keys(op operation) {
	body := f.plain(op)
	for _, key := range []string{"", "wrong", "null", strings.Repeat("k", 5000), f.boxKey} {
		if key == f.boxKey && !strings.HasPrefix(op.path, "/api/v1/") && op.path != "/metrics" {
			continue // it opens the agent protocol, at its prefix and at the root
		}
		if key == f.boxKey && strings.HasPrefix(op.path, "/api/v1/webhooks/") {
			continue // the reports of agent servers
		}
		status := f.request(op, key, f.address(op, nil, nil), body, "application/json")
		if !op.public && status != http.StatusUnauthorized {
			f.Errorf("%s %s with key %.10q: %d", op.method, op.path, key, status)
		}
	}
}

// parameters tries odd values for each parameter, and some for several at once.
func (f *fuzzer) parameters(op operation) {
	body := f.plain(op)
	if creates(op) {
		body = "" // enough of them are created by odd bodies that turn out to be fine
	}
	for _, p := range op.params {
		name, _ := p["name"].(string)
		for _, text := range pick(f, oddTexts, 14) {
			path, query := map[string]string{}, url.Values{}
			switch p["in"] {
			case "path":
				if text == "" {
					continue // another address
				}
				path[name] = text
			case "query":
				query.Add(name, text)
				if f.rng.IntN(3) == 0 {
					query.Add(name, pick(f, oddTexts, 1)[0])
				}
			default:
				continue
			}
			f.request(op, f.key(op), f.address(op, path, query), body, "application/json")
		}
	}
}

// bodies tries a valid body, odd members at every place, and odd whole bodies.
func (f *fuzzer) bodies(op operation) {
	at := f.address(op, nil, nil)
	if op.body == nil {
		for _, b := range pick(f, oddBodies, 3) {
			f.request(op, f.key(op), at, b.body, b.contentType)
		}
		f.request(op, f.key(op), at, "", "")
		return
	}
	for _, b := range oddBodies {
		f.request(op, f.key(op), at, b.body, b.contentType)
	}
	f.request(op, f.key(op), at, f.encode(f.sample(op.body, 1)), "application/json")
	rounds := 3
	if creates(op) {
		rounds = 1
	}
	for range rounds {
		for _, place := range f.places(op.body, nil, 0) {
			value := pick(f, oddValues, 1)[0]
			body := f.encode(put(f.sample(op.body, 0), place, value))
			if creates(op) {
				body = strings.Replace(body, "{", `{"no_such_member":1,"conversation_id":"..",`, 1)
			}
			f.request(op, f.key(op), at, body, "application/json")
		}
	}
}

// plain is the smallest body that an operation takes.
func (f *fuzzer) plain(op operation) string {
	if op.body == nil {
		return ""
	}
	return f.encode(f.sample(op.body, 0))
}

// creates reports operations that take a sandbox for each success.
func creates(op operation) bool {
	return op.id == "start_app_conversation" || op.id == "stream_app_conversation_start" || op.id == "new_conversation" || op.id == "start_sandbox"
}

func (f *fuzzer) key(op operation) string {
	if strings.HasPrefix(op.path, "/agent/") && f.rng.IntN(2) == 0 || strings.HasPrefix(op.path, "/api/v1/webhooks/") {
		return f.boxKey
	}
	return parleytest.Key
}

func (f *fuzzer) address(op operation, path map[string]string, query url.Values) string {
	address := op.path
	for _, p := range op.params {
		name, _ := p["name"].(string)
		text, changed := path[name]
		if !changed {
			if text = f.known[name]; text == "" {
				text = "x"
			}
		}
		if p["in"] == "path" {
			address = strings.ReplaceAll(address, "{"+name+"}", url.PathEscape(text))
		} else if required, _ := p["required"].(bool); required && p["in"] == "query" && query.Get(name) == "" {
			if query == nil {
				query = url.Values{}
			}
			query.Add(name, f.known["conversation_id"])
		}
	}
	if op.id == "start_sandbox" && query.Get("sandbox_spec_id") == "" {
		query = url.Values{"sandbox_spec_id": {"none"}}
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return address
}

// request sends and checks what must always hold. It returns the status.
func (f *fuzzer) request(op operation, key, address, body, contentType string) int {
	f.sent++
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(f.Context(), op.method, f.s.URL+address, reader)
	if err != nil {
		f.Fatalf("%s %s: %v", op.method, address, err)
	}
	if contentType != "" && contentType != "\x01" {
		req.Header.Set("Content-Type", contentType)
	}
	if key != "" {
		req.Header.Set("X-Session-API-Key", key)
	}
	start := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.Fatalf("%s %s %.200s: %v", op.method, address, body, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media == "text/event-stream" {
		return resp.StatusCode
	}
	answer, err := io.ReadAll(resp.Body)
	what := fmt.Sprintf("%s %.300s %.300q: %d %.500s", op.method, address, body, resp.StatusCode, answer)
	if err != nil {
		f.Errorf("%s: %v", what, err)
	}
	if took := time.Since(start); took > 5*time.Second {
		f.Errorf("%s took %s", what, took)
	}
	f.judge(op, req, resp, answer, what)
	return resp.StatusCode
}

func (f *fuzzer) judge(op operation, req *http.Request, resp *http.Response, answer []byte, what string) {
	if s := resp.StatusCode; s >= 500 && s != http.StatusNotImplemented && s != http.StatusServiceUnavailable || s/100 == 3 || s/100 == 1 {
		f.Errorf("%s", what)
	}
	if err := f.checker.Check(op.method, req.URL.EscapedPath(), resp.StatusCode, resp.Header, answer); err != nil {
		f.Errorf("%s: not as documented: %v", what, err)
	}
	for _, secret := range append(slices.Clone(hushed), parleytest.Key) {
		if bytes.Contains(answer, []byte(secret)) {
			f.Errorf("%s shows %q", what, secret)
		}
	}
	if resp.StatusCode >= 400 && bytes.Contains(answer, []byte(f.boxKey)) {
		f.Errorf("%s shows the sandbox's key", what)
	}
	// The page of the web UI is the same for everybody, and asked about each time.
	if cache := resp.Header.Get("Cache-Control"); !strings.Contains(cache, "no-store") && (req.URL.Path != "/" || cache != "no-cache") {
		f.Errorf("%s may be cached", what)
	}
}

// sample makes a value that satisfies a schema; with fill > 0 optional members too.
func (f *fuzzer) sample(schema map[string]any, fill int) any {
	schema = f.object(schema)
	for _, of := range []string{"anyOf", "oneOf", "allOf"} {
		if branches := f.objects(schema[of]); len(branches) > 0 {
			return f.sample(branches[0], fill)
		}
	}
	if enum, ok := schema["enum"].([]any); ok {
		return enum[0]
	}
	if c, ok := schema["const"]; ok {
		return c
	}
	switch typeOf(schema) {
	case "object":
		return f.sampleObject(schema, fill)
	case "array":
		if items := f.object(schema["items"]); items != nil {
			return []any{f.sample(items, fill)}
		}
		return []any{}
	case "integer", "number":
		return 20
	case "boolean":
		return true
	}
	if schema["format"] == "uuid" {
		return f.known["conversation_id"]
	}
	return "some-text-of-16-or-more"
}

func (f *fuzzer) sampleObject(schema map[string]any, fill int) any {
	required, _ := schema["required"].([]any)
	out := map[string]any{}
	for name, p := range f.object(schema["properties"]) {
		if name == "llm_base_url" || name == "llm_model" || name == "sandbox_id" || name == "workspace" {
			continue // the demo model must stay, and nothing may be waited for
		}
		if fill > 0 || slices.Contains(required, any(name)) {
			out[name] = f.sample(f.object(p), fill)
		}
	}
	return out
}

func typeOf(schema map[string]any) string {
	switch t := schema["type"].(type) {
	case string:
		return t
	case []any:
		text, _ := t[0].(string)
		return text
	}
	return ""
}

// places lists the members of a body, three levels deep.
func (f *fuzzer) places(schema map[string]any, at []string, depth int) [][]string {
	schema = f.object(schema)
	if depth == 3 {
		return nil
	}
	var out [][]string
	for _, b := range f.objects(schema["anyOf"]) {
		out = append(out, f.places(b, at, depth)...)
	}
	if items := f.object(schema["items"]); items != nil {
		out = append(out, f.places(items, append(slices.Clone(at), "[]"), depth+1)...)
	}
	properties := f.object(schema["properties"])
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names) // the seed decides, not the map
	for _, name := range names {
		place := append(slices.Clone(at), name)
		out = append(append(out, place), f.places(f.object(properties[name]), place, depth+1)...)
	}
	return out
}

// put sets a member, making what is missing on the way.
func put(in any, place []string, value any) any {
	if len(place) == 0 {
		return value
	}
	if place[0] == "[]" {
		list, _ := in.([]any)
		var first any
		if len(list) > 0 {
			first = list[0]
		}
		return []any{put(first, place[1:], value)}
	}
	out := map[string]any{}
	if m, ok := in.(map[string]any); ok {
		for k, v := range m {
			out[k] = v
		}
	}
	out[place[0]] = put(out[place[0]], place[1:], value)
	return out
}

// encode renders JSON, raw texts as they are.
func (f *fuzzer) encode(v any) string {
	switch x := v.(type) {
	case raw:
		return string(x)
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		var members []string
		for _, k := range keys {
			members = append(members, f.encode(k)+":"+f.encode(x[k]))
		}
		return "{" + strings.Join(members, ",") + "}"
	case []any:
		var items []string
		for _, e := range x {
			items = append(items, f.encode(e))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	b, err := json.Marshal(v)
	if err != nil {
		f.Fatal(err)
	}
	return string(b)
}

// pick returns n of a list, by the fuzzer's seed.
func pick[T any](f *fuzzer, list []T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = list[f.rng.IntN(len(list))]
	}
	return out
}
