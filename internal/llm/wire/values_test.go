package wire_test

import (
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/failure"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/wire"
)

func TestModelConfig(t *testing.T) {
	for _, tt := range []struct{ configured, asked, want int64 }{{0, 0, 0}, {5, 0, 5}, {0, 7, 7}, {5, 7, 5}, {7, 5, 5}, {7, -1, 7}} {
		c := wire.ModelConfig{MaxOutput: tt.configured}
		if got := c.Output(&llm.Request{MaxOutput: tt.asked}); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
	price := &llm.Price{Input: 1, CacheRead: 1, CacheWrite: 1, Output: 2}
	c := wire.ModelConfig{Model: "m", DisplayModel: "p/m", ContextWindow: 9, MaxOutput: 8, NoVision: true, NoTools: true, Price: price}
	if d := cmp.Diff(llm.Info{Model: "p/m", ContextWindow: 9, MaxOutput: 8, Price: price}, c.Info()); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if name := (&wire.ModelConfig{Model: "m"}).Name(); name != "m" {
		t.Errorf("name %q", name)
	}
	usage, cost := c.Account(wire.Counts{Prompt: 10, Completion: 5, Read: 4, Write: 3, Reasoning: 2}, "r", true, nil)
	want := wire.Usage{Model: "p/m", PromptTokens: 10, CompletionTokens: 5, CacheReadTokens: 4, CacheWriteTokens: 3, ReasoningTokens: 2,
		ContextWindow: 9, PerTurnToken: 15, ResponseID: "r"}
	if d := cmp.Diff(want, usage); d != "" || cost == nil || *cost != 20 {
		t.Errorf("cost %v (-want +got)\n%s", cost, d)
	}
	own := 0.5
	if _, cost := c.Account(wire.Counts{Prompt: 1}, "r", true, &own); *cost != own {
		t.Errorf("the endpoint's own cost became %v", *cost)
	}
	if _, cost := c.Account(wire.Counts{}, "r", false, nil); cost != nil {
		t.Errorf("cost %v of nothing known", *cost)
	}
}

// TestResolve: what is missing or cannot be is refused, and the defaults are filled in.
func TestResolve(t *testing.T) {
	c := wire.ModelConfig{Model: "m", APIKey: account.NewSecret(" key\n")}
	u, err := c.Resolve("https://home.example/v1")
	if err != nil || u.String() != c.BaseURL || c.BaseURL != "https://home.example/v1" || c.APIKey.Reveal() != "key" {
		t.Errorf("%v, %v, %+v", u, err, c)
	}
	c.BaseURL = "http://other.example/a?v=1#f"
	if u, err := c.Resolve("https://home.example/v1"); err != nil || u.String() != "http://other.example/a?v=1" {
		t.Errorf("%v, %v", u, err)
	}
	for code, c := range map[string]wire.ModelConfig{
		"llm_model_missing":    {Model: " "},
		"llm_base_url_invalid": {Model: "m", BaseURL: "host"},
		"llm_api_key_invalid":  {Model: "m", APIKey: account.NewSecret("a b")},
	} {
		if _, err := c.Resolve("https://home.example"); fault.CodeOf(err) != code || !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

func TestAddPath(t *testing.T) {
	for base, want := range map[string]string{"https://h": "https://h/call/it", "https://h/v1/": "https://h/v1/call/it",
		"https://h/v1/call/it/?v=1": "https://h/v1/call/it?v=1"} {
		u, err := wire.Endpoint(base)
		if err != nil {
			t.Fatal(err)
		}
		if wire.AddPath(u, "/call/it"); u.String() != want {
			t.Errorf("%s: %s", base, u)
		}
	}
}

func TestAuthorize(t *testing.T) {
	key := wire.ModelConfig{APIKey: account.NewSecret("key")}
	for _, tt := range []struct {
		cfg  wire.ModelConfig
		name string
		want http.Header
	}{
		{key, "", http.Header{"Authorization": {"Bearer key"}}},
		{key, "x-api-key", http.Header{"X-Api-Key": {"key"}}},
		{wire.ModelConfig{}, "", http.Header{}},
		{wire.ModelConfig{}, "x-api-key", http.Header{}},
	} {
		h := http.Header{}
		tt.cfg.Authorize(h, tt.name)
		if d := cmp.Diff(tt.want, h); d != "" {
			t.Errorf("%q (-want +got)\n%s", tt.name, d)
		}
	}
}

func TestUnknown(t *testing.T) {
	e := &llm.Error{Message: "no such thing" + strings.Repeat("x", 10_000)}
	(&wire.ModelConfig{Model: "m"}).Unknown(e, "h", "the path", "the base URL")
	const want = `the endpoint h does not know the model "m" or the path; check the model id and the base URL (it said: no such thing`
	if !strings.HasPrefix(e.Message, want) || len(e.Message) > failure.MaxMessage+len(failure.CutMark) {
		t.Error(e.Message)
	}
}

// TestClientKeepsSecrets: what the configuration holds is not shown in errors.
func TestClientKeepsSecrets(t *testing.T) {
	c := wire.ModelConfig{APIKey: account.NewSecret("key-012345"), Headers: map[string]string{"X": "header-012345"}}
	err := c.Client("more-012345").Do(t.Context(), wire.Call{URL: "http://127.0.0.1:1/key-012345/header-012345/more-012345", Read: readAll(new(string)),
		Prepare: nil})
	if err == nil || strings.Contains(err.Error(), "012345") {
		t.Errorf("%v", err)
	}
}

func TestLenient(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	if wire.Text(raw(`"a"`)) != "a" || wire.Text(raw(`5`)) != "" || wire.Text(nil) != "" || wire.Text(raw(`"`)) != "" {
		t.Error("Text")
	}
	for in, want := range map[string]float64{"5": 5, `"5.5"`: 5.5, " 7 ": 7, "-1": -1} {
		if n, ok := wire.Number(raw(in)); !ok || n != want {
			t.Errorf("%s: %v, %v", in, n, ok)
		}
	}
	for _, in := range []string{"", "null", "{}", `"NaN"`, `"Inf"`, "1e999", `"x"`} {
		if n, ok := wire.Number(raw(in)); ok {
			t.Errorf("%s: %v", in, n)
		}
	}
	if n := wire.Count(raw("-1"), raw("1e30"), nil, raw(`"12"`), raw("13")); n != 12 {
		t.Errorf("Count %d", n)
	}
	if wire.Object(raw(`{"a":1}`))["a"] == nil || wire.Object(raw(`[1]`)) != nil || wire.Object(nil) != nil {
		t.Error("Object")
	}
	for in, want := range map[string]bool{"{}": true, " {\"a\":1}\n": true, "{": false, "[]": false, "{}{}": false, "": false, "null": false} {
		if wire.IsObject([]byte(in)) != want {
			t.Errorf("IsObject(%q)", in)
		}
	}
	for in, want := range map[string]bool{"": false, "null": false, `""`: false, "{}": false, "false": false, `"no"`: true, `{"a":1}`: true} {
		if wire.IsError(raw(in)) != want {
			t.Errorf("IsError(%q)", in)
		}
	}
	for in, want := range map[string]string{"": "", " null": "", `"{\"a\":1}"`: `{"a":1}`, ` {"a": 1}`: `{"a": 1}`} {
		if got := wire.ArgumentText(raw(in)); got != want {
			t.Errorf("ArgumentText(%q): %q", in, got)
		}
	}
	var v struct{ A, B int }
	if err := wire.Lenient([]byte(`{"a":"x","b":2}`), &v); err != nil || v.B != 2 || wire.Lenient([]byte(`{"a"`), &v) == nil {
		t.Errorf("Lenient: %+v, %v", v, err)
	}
	for in, want := range map[string]float64{"0.5": 0.5, `"0"`: 0} {
		if c := wire.HeaderCost(http.Header{"X-Litellm-Response-Cost": {in}}); c == nil || *c != want {
			t.Errorf("HeaderCost(%q): %v", in, c)
		}
	}
	if wire.Cost(raw("-1")) != nil || wire.HeaderCost(nil) != nil {
		t.Error("Cost")
	}
	if !wire.IsNull(nil) || !wire.IsNull(raw(" null ")) || wire.IsNull(raw("0")) {
		t.Error("IsNull")
	}
}

func TestLegal(t *testing.T) {
	for in, want := range map[string]string{"terminal": "terminal", "a b\u00e4!": "a_b_", "": "unknown", strings.Repeat("x", 30_000): strings.Repeat("x", 64)} {
		if got := wire.LegalName(in); got != want {
			t.Errorf("%.20s: %s", in, got)
		}
	}
	for in, want := range map[string]string{`{"a": 1}`: `{"a": 1}`, " ": "{}", "": "{}", "[1]": `{"_invalid_arguments":"[1]"}`, `{"a`: `{"_invalid_arguments":"{\"a"}`} {
		if got := wire.LegalArguments(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	if got := wire.LegalArguments(strings.Repeat("\u00e4", 5000)); len(got) > 600 || !json.Valid([]byte(got)) {
		t.Errorf("%d bytes", len(got))
	}
}

func TestIDs(t *testing.T) {
	req := llmtest.Request(nil)
	req.Messages = append(req.Messages, content.Message{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "a"}, {ID: "b"}}})
	taken := wire.TakenIDs(req)
	if id := wire.FreshID("c", taken); id != "c" {
		t.Errorf("a free id became %q", id)
	}
	short := regexp.MustCompile(`^[a-z0-9]{9}$`)
	for _, given := range []string{"a", "b", "c", ""} {
		if id := wire.FreshID(given, taken); !short.MatchString(id) || !taken[id] {
			t.Errorf("%q became %q", given, id)
		}
	}
	if wire.ResponseID("r") != "r" || !regexp.MustCompile(`^resp-[a-z0-9]{26}$`).MatchString(wire.ResponseID("")) {
		t.Error("ResponseID")
	}
}

func TestDataURL(t *testing.T) {
	tests := []struct{ in, kind, data string }{
		{"data:image/jpeg;base64,AAAA", "image/jpeg", "AAAA"}, {"data:;base64,AAAA", "image/png", "AAAA"},
		{"data:image/png;charset=x;base64, AAAA\n", "image/png", "AAAA"},
	}
	for _, tt := range tests {
		kind, data, ok := wire.DataURL(tt.in)
		if !ok || kind != tt.kind || data != tt.data {
			t.Errorf("%s: %q %q %v", tt.in, kind, data, ok)
		}
	}
	for _, bad := range []string{"", "https://h/x.png", "data:broken", "data:image/png,AAAA", "data:image/png;base64,A"} {
		if _, _, ok := wire.DataURL(bad); ok {
			t.Errorf("%q is taken", bad)
		}
	}
	text, images := wire.SplitImages([]content.Part{content.Text("a"), content.Image("u"), content.Text("b")})
	if len(text) != 2 || len(images) != 1 {
		t.Errorf("%v, %v", text, images)
	}
}

func TestMerge(t *testing.T) {
	tests := []struct{ body, extra, want string }{
		{`{"a":1}`, ``, `{"a":1}`},
		{`{"a":1}`, `[1]`, `{"a":1}`},
		{`{"a":12345678901234567890,"b":{"c":1,"d":2}}`, `{"b":{"d":3,"e":1.50},"f":"<"}`, `{"a":12345678901234567890,"b":{"c":1,"d":3,"e":1.50},"f":"<"}`},
		{`{"a":1}`, `{"a":{"b":null}}`, `{"a":{"b":null}}`},
		{`{"max_tokens":100}`, `{"max_tokens":50}`, `{"max_tokens":50}`},
		{`{"max_tokens":100}`, `{"max_tokens":200}`, `{"max_tokens":100}`},
		{`{"max_tokens":100}`, `{"max_tokens":null,"n":3}`, `{"max_tokens":100}`},
		{`{"max_tokens":100}`, `{"max_completion_tokens":5}`, `{"max_tokens":100}`},
		{`{}`, `{"max_tokens":5,"n":1}`, `{"max_tokens":5,"n":1}`},
		{`{"generationConfig":{"maxOutputTokens":100}}`, `{"generationConfig":{"maxOutputTokens":1000,"topK":3}}`, `{"generationConfig":{"maxOutputTokens":100,"topK":3}}`},
		{`{"generationConfig":{"maxOutputTokens":100}}`, `{"generationConfig":null}`, `{"generationConfig":{"maxOutputTokens":100}}`},
	}
	for _, tt := range tests {
		got, err := wire.Merge([]byte(tt.body), json.RawMessage(tt.extra))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s with %s: %s, %v", tt.body, tt.extra, got, err)
		}
	}
	if _, err := wire.Merge([]byte("no"), []byte("{}")); err == nil {
		t.Error("a body that is none is merged")
	}
}

func TestSource(t *testing.T) {
	extra := map[string]json.RawMessage{"sig": []byte(`"x"`)}
	if wire.Mark(nil, "chat h") != nil {
		t.Error("nothing was marked")
	}
	if own, marked := wire.Own(extra, "chat h"); marked || len(own) != 1 {
		t.Errorf("unmarked: %v, %v", own, marked)
	}
	extra = wire.Mark(extra, "chat h")
	if own, marked := wire.Own(extra, "chat h"); !marked || len(own) != 1 || string(own["sig"]) != `"x"` {
		t.Errorf("own: %v, %v", own, marked)
	}
	if own, marked := wire.Own(extra, "messages h"); !marked || own != nil {
		t.Errorf("another's: %v, %v", own, marked)
	}
	if len(extra) != 2 {
		t.Errorf("reading changed the fields: %v", extra)
	}
}

// FuzzLenient: whatever an endpoint sends is read without a panic and within bounds.
func FuzzLenient(f *testing.F) {
	f.Add([]byte(`{"a":"1e5"}`), []byte(`{"max_tokens":5}`), "data:image/png;base64,AAAA")
	f.Add([]byte(`"x`), []byte(`{"n":1e9}`), "a b")
	f.Fuzz(func(t *testing.T, a, b []byte, s string) {
		for _, v := range wire.Object(a) {
			if n := wire.Count(v); n < 0 || n > 1e12 {
				t.Errorf("%s counts %d", v, n)
			}
			if n, ok := wire.Number(v); ok && (math.IsNaN(n) || math.IsInf(n, 0)) {
				t.Errorf("%s is %v", v, n)
			}
		}
		if merged, err := wire.Merge(a, b); err == nil && wire.IsObject(a) && !wire.IsObject(merged) {
			t.Errorf("%s with %s: %s", a, b, merged)
		}
		if !wire.IsObject([]byte(wire.LegalArguments(s))) || !regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`).MatchString(wire.LegalName(s)) {
			t.Errorf("%q becomes %s, %s", s, wire.LegalArguments(s), wire.LegalName(s))
		}
		if kind, data, ok := wire.DataURL(s); ok && (kind == "" || strings.ContainsAny(data, " \n")) {
			t.Errorf("%q: %q %q", s, kind, data)
		}
	})
}
