package catalog_test

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/llm/catalog"
)

// steps are the price lists of an entry, flat.
func steps(p *llm.Price) []*llm.Price {
	var all []*llm.Price
	for ; p != nil; p = p.Long {
		all = append(all, p)
	}
	return all
}

func TestShippedTable(t *testing.T) {
	c := catalog.Default()
	priced := 0
	for _, e := range c.Entries() {
		if got, ok := c.Lookup(e.Model); !ok || got.Model != e.Model {
			t.Errorf("%s is found as %q, %v", e.Model, got.Model, ok)
		}
		if e.ContextWindow != 0 && (e.ContextWindow < 512 || e.ContextWindow > 20_000_000) || e.MaxOutput > 2_000_000 {
			t.Errorf("%s: window %d, output %d", e.Model, e.ContextWindow, e.MaxOutput)
		}
		if e.Price != nil {
			priced++
		}
		for _, list := range []*llm.Price{e.Price, e.HourPrice} {
			checkPrice(t, e.Model, list)
		}
	}
	if n := len(c.Names()); n < 1000 || priced < n*9/10 {
		t.Errorf("%d models, %d with a price", n, priced)
	}
}

func checkPrice(t *testing.T, model string, list *llm.Price) {
	t.Helper()
	free := strings.HasPrefix(model, "ollama/")
	var from int64
	for i, p := range steps(list) {
		const perMillion = 1e6
		if in, out := p.Input*perMillion, p.Output*perMillion; !free && (in < 0.001 || out < 0.001 || in > 200 || out > 1000) {
			t.Errorf("%s: %v in, %v out are not plausible", model, in, out)
		}
		if p.CacheRead < 0 || p.CacheRead > p.Input*1.0001 || p.CacheWrite < p.CacheRead || p.CacheWrite > p.Input*3 {
			t.Errorf("%s: cache %v, %v at %v are not plausible", model, p.CacheRead, p.CacheWrite, p.Input)
		}
		if p.Long != nil && (p.LongFrom <= from || p.Long.Input < p.Input) {
			t.Errorf("%s: step %d from %d is not plausible", model, i, p.LongFrom)
		}
		from = p.LongFrom
	}
}

// No call costs more than what was reserved for it, whatever its tokens are.
func TestWorstIsWorst(t *testing.T) {
	entries := slices.DeleteFunc(catalog.Default().Entries(), func(e catalog.Entry) bool { return e.Price == nil })
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(entries).Draw(t, "model")
		p := e.PriceFor(rapid.SampledFrom([]string{"", "5m", "1h"}).Draw(t, "retention"))
		most := rapid.Int64Range(0, 3_000_000).Draw(t, "prompt bound")
		out := rapid.Int64Range(0, 500_000).Draw(t, "output bound")
		u := conversation.Usage{PromptTokens: rapid.Int64Range(0, most).Draw(t, "prompt"),
			CompletionTokens: rapid.Int64Range(0, out).Draw(t, "output"),
			CacheReadTokens:  rapid.Int64Range(-1, 4_000_000).Draw(t, "read"), CacheWriteTokens: rapid.Int64Range(-1, 4_000_000).Draw(t, "write")}
		cost, worst := p.Cost(u), p.Worst(most, out)
		if cost < 0 || cost > worst*(1+1e-12) {
			t.Fatalf("%s: %v costs %v, more than %v", e.Model, u, cost, worst)
		}
		usd := rapid.Float64Range(0, 100).Draw(t, "dollars")
		if n := p.Affordable(most, usd); n >= 0 && n < 1<<40 && p.Worst(most, n) > usd*(1+1e-9)+1e-12 {
			t.Fatalf("%s: %d tokens for %v cost %v", e.Model, n, usd, p.Worst(most, n))
		}
	})
}

func TestKnownFacts(t *testing.T) {
	find := func(id string) catalog.Entry {
		e, ok := catalog.Default().Lookup(id)
		if !ok {
			t.Fatalf("%s is unknown", id)
		}
		return e
	}
	sonnet := find("anthropic/claude-sonnet-4-5")
	if sonnet.ContextWindow != 200000 || sonnet.MaxOutput != 64000 || sonnet.Vision != catalog.Yes || sonnet.Tools != catalog.Yes ||
		sonnet.Reasoning != catalog.Yes || sonnet.CachePrompt != catalog.Yes || sonnet.Responses {
		t.Errorf("%+v", sonnet)
	}
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-15 }
	if p := sonnet.Price; !near(p.Input, 3e-6) || !near(p.Output, 15e-6) || !near(p.CacheRead, 0.3e-6) || !near(p.CacheWrite, 3.75e-6) {
		t.Errorf("%+v", p)
	}
	if p := sonnet.PriceFor("1h"); !near(p.CacheWrite, 6e-6) || !near(p.Input, 3e-6) || sonnet.PriceFor("5m") != sonnet.Price {
		t.Errorf("an hour: %+v", p)
	}
	if p := find("gemini/gemini-2.5-pro").Price; p.LongFrom != 200000 || !near(p.Long.Input, 2.5e-6) || !near(p.Long.Output, 15e-6) {
		t.Errorf("gemini: %+v", p)
	}
	if p := steps(find("dashscope/qwen3-coder-plus").Price); len(p) != 4 || p[2].LongFrom != 256000 || !near(p[3].Output, 60e-6) {
		t.Errorf("qwen: %d steps", len(p))
	}
	if e := find("openai/gpt-5-pro"); !e.Responses || e.Deprecated == "" {
		t.Errorf("%+v", e)
	}
	if e := find("deepseek/deepseek-reasoner"); e.Tools != catalog.No {
		t.Errorf("%+v", e)
	}
	if e := find("openai/gpt-4o"); e.Reasoning != catalog.Unknown {
		t.Errorf("what the table does not say: %+v", e)
	}
	if e := find("ollama/llama3:8b"); e.Price == nil || e.Price.Worst(1000, 1000) != 0 {
		t.Errorf("a model on the user's machine: %+v", e)
	}
	if e := find("ollama/qwen3-coder:480b-cloud"); e.Price != nil {
		t.Errorf("a model that is not on the user's machine: %+v", e)
	}
}

func TestLookup(t *testing.T) {
	tests := []struct {
		id, want string
		priced   bool
	}{
		{"openai/gpt-4o", "openai/gpt-4o", true},
		{" OpenAI/GPT-4o ", "openai/gpt-4o", true},
		{"openai/gpt-4o-2024-08-06", "openai/gpt-4o-2024-08-06", true},
		{"openai/gpt-4o-2031-01-01", "openai/gpt-4o", true},
		{"openrouter/openai/gpt-4o", "openai/gpt-4o", true},
		{"openrouter/openai/gpt-4o:free", "openai/gpt-4o", false},
		{"openrouter/anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4-5", true},
		{"openrouter/anthropic/claude-sonnet-4.5:thinking", "anthropic/claude-sonnet-4-5", true},
		{"openrouter/google/gemini-2.5-pro", "gemini/gemini-2.5-pro", true},
		{"litellm_proxy/claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5-20250929", true},
		{"litellm_proxy/openrouter/google/gemini-2.5-pro", "gemini/gemini-2.5-pro", true},
		{"openhands/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5", true},
		{"vertex_ai/gemini-2.5-pro", "gemini/gemini-2.5-pro", true},
		{"gpt-4o", "openai/gpt-4o", true},
		{"claude-sonnet-4-5-20310101", "anthropic/claude-sonnet-4-5", true},
		{"bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0", true},
		{"bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0", true},
		{"bedrock/ca.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0", true},
		{"bedrock/converse/us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", true},
		{"bedrock/arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
			"bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", true},
		{"openai/ft:gpt-4.1-2025-04-14:acme::abc123", "openai/ft:gpt-4.1-2025-04-14", true},
		{"azure/eu/gpt-5.1", "azure/eu/gpt-5.1", true},
		{"minimax/minimax-m2", "minimax/MiniMax-M2", true},
		{"openai/gpt-4o-ultra", "", false},
		{"ollama/gpt-4o", "", false},
		{"vllm/gpt-4o", "", false},
		{"my-own-model", "", false},
		{"litellm_proxy/", "", false},
		{"/", "", false},
		{"", "", false},
	}
	for _, tt := range tests {
		e, ok := catalog.Default().Lookup(tt.id)
		if e.Model != tt.want || ok != (tt.want != "") || (e.Price != nil) != tt.priced {
			t.Errorf("%q: got %q, %v, price %v, want %q", tt.id, e.Model, ok, e.Price, tt.want)
		}
	}
}

// A bare name is known by what it can do; what it costs depends on who has it.
func TestBareNames(t *testing.T) {
	c, err := catalog.Parse("groq/only\t1000\t\tT\t1/2\t\nazure/both\t1\t\t\t1/2\t\nbedrock/both\t2\t\t\t1/2\t\n" +
		"mistral/made\t3\t\t\t1/2\t\nazure/made\t4\t\t\t1/2\t\n")
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := c.Lookup("only"); !ok || e.Tools != catalog.Yes || e.Price != nil {
		t.Errorf("of one host: %+v, %v", e, ok)
	}
	if e, ok := c.Lookup("both"); ok {
		t.Errorf("of two hosts: %+v", e)
	}
	if e, ok := c.Lookup("made"); !ok || e.Model != "mistral/made" || e.Price == nil {
		t.Errorf("of its maker: %+v, %v", e, ok)
	}
}

func TestSuggest(t *testing.T) {
	tests := []struct {
		id   string
		want []string // the beginning
	}{
		{"gpt-4o", []string{"openai/gpt-4o"}},
		{"openai/gpt4o", []string{"openai/gpt-4o"}},
		{"anthropic/claude-sonet-4-5", []string{"anthropic/claude-sonnet-4-5"}},
		{"claude-opus-4.5", []string{"anthropic/claude-opus-4-5"}},
		{"google/gemini-2.5-pro", []string{"gemini/gemini-2.5-pro"}},
		{"a-model-of-my-own", nil},
		{"", nil},
		{strings.Repeat("x", 5000), nil},
	}
	for _, tt := range tests {
		got := catalog.Default().Suggest(tt.id)
		if len(got) < len(tt.want) || len(got) > 3 || !slices.Equal(got[:len(tt.want)], tt.want) || tt.want == nil && got != nil {
			t.Errorf("%.40q: %v, want %v", tt.id, got, tt.want)
		}
	}
	if got := catalog.Default().Suggest("gpt-4o"); len(got) != 1 {
		t.Errorf("the maker's own name: %v", got)
	}
}

func TestOffers(t *testing.T) {
	c, err := catalog.Parse("openai/known\t1000\t\tT\t1/2\t\nopenai/untold\t1000\t\t\t1/2\t\nopenai/old\t1\t\tT\t1/2\t2026-01-01\n" +
		"azure/eu/known\t1\t\tT\t1/2\t\ngroq/a/b\t1\t\tT\t1/2\t\nopenai/going\t1\t\tT\t1/2\t2026-06-01\n")
	if err != nil {
		t.Fatal(err)
	}
	c, err = c.Override([]byte("models: {openai/old: {vision: true}, mine/x: {}, bare: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	want := []llm.Offer{{Provider: "groq", Name: "a/b"}, {Provider: "mine", Name: "x"}, {Provider: "openai", Name: "going", Verified: true},
		{Provider: "openai", Name: "known", Verified: true}, {Provider: "openai", Name: "old", Verified: true}, {Provider: "openai", Name: "untold"}}
	got := c.Offers(time.Date(2026, 6, 1, 23, 0, 0, 0, time.UTC))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n := len(catalog.Default().Offers(time.Now())); n < 500 {
		t.Errorf("%d offers of the shipped table", n)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, bad := range map[string]string{
		"few fields":       "a/b\t1",
		"many fields":      "a/b\t\t\t\t\t\t",
		"no id":            "\t\t\t\t\t",
		"a space":          "a b\t\t\t\t\t",
		"window":           "a/b\tmany\t\t\t\t",
		"zero window":      "a/b\t0\t\t\t\t",
		"fact":             "a/b\t\t\tX\t\t",
		"half a price":     "a/b\t\t\t\t1\t",
		"no number":        "a/b\t\t\t\t1/x\t",
		"not a number":     "a/b\t\t\t\t1/NaN\t",
		"negative":         "a/b\t\t\t\t-1/2\t",
		"six prices":       "a/b\t\t\t\t1/2/3/4/5/6\t",
		"a step of naught": "a/b\t\t\t\t1/2>:1/2\t",
		"steps down":       "a/b\t\t\t\t1/2>9:1/2>8:1/2\t",
		"day":              "a/b\t\t\t\t\ttomorrow",
	} {
		if _, err := catalog.Parse("# a comment\n" + bad + "\n"); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOverride(t *testing.T) {
	base, err := catalog.Parse("openai/gpt\t1000\t100\tVTC\t1/2/0.5\t2027-01-01\n")
	if err != nil {
		t.Fatal(err)
	}
	c, err := base.Override([]byte(`
models:
  OpenAI/GPT:            # the case does not matter
    context_window: 2000
    vision: null
    tools: false
    deprecated: null
  house/new:
    reasoning: true
    responses_only: true
    price:
      input: 1
      output: 10
      cache_write: 2
      cache_write_1h: 3
      above: [{tokens: 5000, input: 2, output: 20}]
  plain: {max_output: 5}
`))
	if err != nil {
		t.Fatal(err)
	}
	gpt, _ := c.Lookup("openai/gpt")
	if gpt.Model != "openai/gpt" || gpt.ContextWindow != 2000 || gpt.MaxOutput != 100 || gpt.Vision != catalog.Unknown ||
		gpt.Tools != catalog.No || gpt.CachePrompt != catalog.Yes || gpt.Price == nil || gpt.Deprecated != "" {
		t.Errorf("%+v", gpt)
	}
	fresh, _ := c.Lookup("house/new")
	want := &llm.Price{Input: 1e-6, Output: 10e-6, CacheRead: 1e-6, CacheWrite: 2e-6, LongFrom: 5000,
		Long: &llm.Price{Input: 2e-6, Output: 20e-6, CacheRead: 2e-6, CacheWrite: 2e-6}}
	if diff := cmp.Diff(want, fresh.Price); diff != "" || fresh.Reasoning != catalog.Yes || !fresh.Responses || fresh.HourPrice.CacheWrite != 3e-6 {
		t.Errorf("%+v %s", fresh, diff)
	}
	if e, ok := c.Lookup("plain"); !ok || e.MaxOutput != 5 {
		t.Errorf("an id without a provider: %+v", e)
	}
	if old, _ := base.Lookup("openai/gpt"); old.Tools != catalog.Yes || len(base.Names()) != 1 {
		t.Error("the table beneath was changed")
	}
	dear, err := base.Override([]byte(`{"models": {"openai/gpt": {"price": null}}}`))
	if e, _ := dear.Lookup("openai/gpt"); err != nil || e.Price != nil {
		t.Errorf("%+v, %v", e, err)
	}
	for _, empty := range []string{"", "# nothing\n", "---\n"} {
		if c, err := base.Override([]byte(empty)); err != nil || len(c.Names()) != 1 {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func TestOverrideRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"- a":                                                     "line 1: the file must be a mapping",
		"model: {}":                                               `line 1: the file has no key "model"; it has models`,
		"models:\n  a/b:\n    vison: true":                        `line 3: a/b has no key "vison"`,
		"models:\n  a/b: {}\n  a/b: {}":                           `line 3: models has the key "a/b" twice`,
		"models:\n  a/b: 3":                                       "line 2: a/b must be a mapping",
		"models:\n  '': {}":                                       "is no model id",
		"models: {a/b: {vision: maybe}}":                          `"maybe" is neither true nor false`,
		"models: {a/b: {context_window: -1}}":                     "no number of tokens",
		"models: {a/b: {context_window: [1]}}":                    "a plain value",
		"models: {a/b: {deprecated: soon}}":                       "is no day",
		"models: {a/b: {price: {input: 1}}}":                      "needs input and output",
		"models: {a/b: {price: {input: a, output: 1}}}":           "no price",
		"models: {a/b: {price: {input: .inf, output: 1}}}":        "no price",
		"models: {a/b: {price: {input: 1, output: 1, cache: 1}}}": `price has no key "cache"`,
		"models: {a/b: {price: {input: 1, output: 1, above: 3}}}": "must be a list",
		"models: {a/b: {price: {input: 1, output: 1, above: [{input: 1, output: 2}]}}}": "ascending",
		"models: {a/b: {price: {input: 1, output: 1, above: [{tokens: 5, input: 1}]}}}": "needs input and output",
		"models: {}\n---\nmodels: {}": "more than one document",
		"a: [":                        "line 1",
		"models: &m {a/b: {}}\n":      "",
		"x: &x {a/b: {}}":             `no key "x"`,
		"models: {<<: {a/b: {}}}":     "must be a word",
	} {
		_, err := catalog.Default().Override([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "models.yaml")
	if _, err := catalog.Load(path); err == nil {
		t.Error("a file that is not there was loaded")
	}
	if err := os.WriteFile(path, []byte("models:\n  openai/gpt-4o: {max_output: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if e, _ := c.Lookup("openai/gpt-4o"); e.MaxOutput != 7 || e.Price == nil {
		t.Errorf("%+v", e)
	}
	if err := os.WriteFile(path, []byte("models:\n  openai/gpt-4o: {maximum: 7}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Load(path); err == nil || !strings.Contains(err.Error(), path+": line 2") {
		t.Error(err)
	}
	if err := os.WriteFile(path, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Load(path); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Error(err)
	}
}

func TestFormatKeepsEverything(t *testing.T) {
	entries := catalog.Default().Entries()
	again, err := catalog.Parse(string(catalog.Format(entries)))
	if err != nil {
		t.Fatal(err)
	}
	same := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(a) })
	if diff := cmp.Diff(entries, again.Entries(), same); diff != "" {
		t.Error(diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a/b\t1\t2\tVtRcS\t1/2/3/4/5>200:1/2>300:4/5\t2027-01-31\n")
	f.Add("# x\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := catalog.Parse(text)
		if err != nil {
			return
		}
		again, err := catalog.Parse(string(catalog.Format(c.Entries())))
		if err != nil || !slices.Equal(again.Names(), c.Names()) {
			t.Fatalf("written and read again: %v", err)
		}
		for _, name := range c.Names() {
			if e, ok := c.Lookup(name); !ok || e.Price != nil && !(e.Price.Worst(1000, 1000) >= 0) {
				t.Fatalf("%q: %+v, %v", name, e, ok)
			}
		}
	})
}

func FuzzOverride(f *testing.F) {
	f.Add([]byte("models: {a/b: {vision: true, price: {input: 1, output: 2, above: [{tokens: 3, input: 4, output: 5}]}}}"))
	f.Add([]byte(`{"models": {"x": null, "y": {"price": null}}}`))
	base, err := catalog.Parse("openai/gpt\t1000\t100\tVTC\t1/2/0.5\t2027-01-01\n")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := base.Override(data)
		if err != nil {
			return
		}
		if _, err := catalog.Parse(string(catalog.Format(c.Entries()))); err != nil {
			t.Fatalf("what was accepted cannot be written: %v", err)
		}
	})
}

func FuzzLookup(f *testing.F) {
	f.Add("litellm_proxy/openrouter/bedrock/arn:aws:x/us.y:free-2024-01-01")
	c := catalog.Default()
	f.Fuzz(func(t *testing.T, id string) {
		e, ok := c.Lookup(id)
		if ok != (e.Model != "") {
			t.Fatalf("%q: %+v", id, e)
		}
		for _, s := range c.Suggest(id) {
			if _, ok := c.Lookup(s); !ok {
				t.Fatalf("%q suggests %q, which is unknown", id, s)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	data, err := os.ReadFile("models.tsv")
	if err != nil {
		b.Fatal(err)
	}
	text := string(data)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept, err := catalog.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	for b.Loop() {
		if _, err := catalog.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc), "B-kept")
	runtime.KeepAlive(kept)
}

func BenchmarkLookup(b *testing.B) {
	c := catalog.Default()
	for b.Loop() {
		c.Lookup("litellm_proxy/claude-sonnet-4-5-20310101")
	}
}

func BenchmarkSuggest(b *testing.B) {
	c := catalog.Default()
	for b.Loop() {
		c.Suggest("anthropic/claude-sonet-4-5")
	}
}
