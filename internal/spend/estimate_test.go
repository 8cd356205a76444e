package spend_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/content"

	"parley/internal/llm"
	"parley/internal/spend"
)

// tokenizer is a byte-level tokenizer of some provider: it makes between one
// token per longest bytes and one per byte of a text, wraps what it gets into
// markup of its own, and formats JSON anew.
type tokenizer struct {
	longest  int
	message  int64 // markup per message
	call     int64
	tool     int64
	request  int64
	image    int64
	indented bool
}

func drawTokenizer(t *rapid.T) *tokenizer {
	return &tokenizer{longest: rapid.IntRange(1, 12).Draw(t, "longest"), message: rapid.Int64Range(0, 20).Draw(t, "per message"),
		call: rapid.Int64Range(0, 50).Draw(t, "per call"), tool: rapid.Int64Range(0, 50).Draw(t, "per tool"),
		request: rapid.Int64Range(0, 800).Draw(t, "per request"), image: rapid.Int64Range(1, 5000).Draw(t, "per image"),
		indented: rapid.Bool().Draw(t, "indented")}
}

// text counts a text: the same pieces wherever it stands.
func (k *tokenizer) text(s string) int64 {
	s = string([]rune(s)) // each wrong byte becomes a replacement character
	r := rand.New(rand.NewPCG(uint64(len(s)), uint64(k.longest)))
	var n int64
	for left := len(s); left > 0; n++ {
		left -= 1 + r.IntN(k.longest)
	}
	return n
}

// json counts a JSON text that is written with a space after every separator.
func (k *tokenizer) json(s string) int64 {
	if !k.indented {
		return k.text(s)
	}
	return k.text(strings.NewReplacer(",", ", ", ":", ": ").Replace(s))
}

func (k *tokenizer) prompt(req *llm.Request) int64 {
	n := k.request
	for _, t := range req.Tools {
		n += k.tool + k.text(t.Name) + k.text(t.Description) + k.json(string(t.Parameters))
	}
	for _, m := range req.Messages {
		n += k.messageTokens(m)
	}
	return n
}

func (k *tokenizer) messageTokens(m content.Message) int64 {
	n := k.message + k.text(m.Reasoning) + k.text(m.ToolCallID) + k.text(m.ToolName)
	for _, p := range m.Parts {
		n += k.text(p.Text) + int64(len(p.ImageURLs))*k.image
	}
	for _, c := range m.ToolCalls {
		n += k.call + k.text(c.ID) + k.text(c.Name) + k.json(c.Arguments)
	}
	for name, raw := range m.Extra {
		n += k.text(name) + k.text(string(raw))
	}
	return n
}

func drawText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringN(0, 400, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 200), func(b []byte) string { return string(b) }), // no UTF-8
		rapid.Map(rapid.IntRange(0, 3000), func(n int) string { return strings.Repeat("word ", n) }),
		rapid.SampledFrom([]string{"", "日本語のテキスト", "\u0000\u0001", "👩‍👩‍👧‍👦", "{\"a\":[1,2,3]}"}),
	)
}

func drawMessage() *rapid.Generator[content.Message] {
	return rapid.Custom(func(t *rapid.T) content.Message {
		text := drawText()
		m := content.Message{Role: rapid.SampledFrom([]string{content.RoleUser, content.RoleAssistant, content.RoleTool}).Draw(t, "role")}
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			m.Parts = append(m.Parts, content.Text(text.Draw(t, "text")))
		}
		switch {
		case m.Role == content.RoleUser && rapid.Bool().Draw(t, "image"):
			m.Parts = append(m.Parts, content.Image("data:image/png;base64,AAAA", "https://example.org/a.png"))
		case m.Role == content.RoleTool:
			m.ToolCallID, m.ToolName = text.Draw(t, "call"), text.Draw(t, "tool")
		case m.Role == content.RoleAssistant:
			m.Reasoning = text.Draw(t, "reasoning")
			for range rapid.IntRange(0, 3).Draw(t, "calls") {
				m.ToolCalls = append(m.ToolCalls, content.ToolCall{ID: text.Draw(t, "id"), Name: text.Draw(t, "name"), Arguments: text.Draw(t, "arguments")})
			}
			if raw, err := json.Marshal(text.Draw(t, "extra")); err == nil && rapid.Bool().Draw(t, "has extra") {
				m.Extra = map[string]json.RawMessage{"signature": raw}
			}
		}
		return m
	})
}

func drawRequest(t *rapid.T) *llm.Request {
	req := &llm.Request{Messages: rapid.SliceOfN(drawMessage(), 0, 8).Draw(t, "messages")}
	for range rapid.IntRange(0, 4).Draw(t, "tools") {
		text := drawText()
		req.Tools = append(req.Tools, llm.Tool{Name: text.Draw(t, "name"), Description: text.Draw(t, "description"),
			Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)})
	}
	return req
}

// TestEstimateIsNeverTooLow: whatever the tokenizer, the bound holds.
func TestEstimateIsNeverTooLow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, req := drawTokenizer(t), drawRequest(t)
		info := llm.Info{Model: rapid.SampledFrom([]string{"anthropic/claude-x", "gemini/g", "openai/gpt-4o-mini", "who/knows"}).Draw(t, "model"), NativeTools: true}
		p := spend.Estimate(info, req, nil)
		if n := k.prompt(req); p.Bound < n || p.Anchored || p.Likely > p.Bound {
			t.Fatalf("%d tokens, estimate %+v", n, p)
		}
	})
}

// reporter is a model that counts with a tokenizer.
func reporter(k *tokenizer, lie func(n int64) int64) *model {
	m := newModel(nil)
	m.do = func(_ context.Context, req *llm.Request) (*llm.Response, error) {
		return answer(price(), lie(k.prompt(req)), 50), nil
	}
	return m
}

// TestAnchoredEstimates follows a conversation that grows, is condensed, edited
// and changes its model, always with the last anchor.
func TestAnchoredEstimates(t *testing.T) {
	w := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		k := drawTokenizer(t)
		m := reporter(k, func(n int64) int64 { return n })
		req := drawRequest(t)
		var anchor *spend.Anchor
		for range rapid.IntRange(1, 6).Draw(t, "calls") {
			p := spend.Estimate(m.info, req, anchor)
			if n := k.prompt(req); p.Bound < n || p.Likely > p.Bound {
				t.Fatalf("%d tokens, estimate %+v", n, p)
			}
			tab := w.keeper.Open(spend.Scope{Conversation: "root", Owner: "u", Anchor: anchor})
			if _, err := tab.Guard(m).Do(w.Context(), req); err != nil {
				t.Fatal(err)
			}
			tab.Abandon(w.Context())
			anchor = tab.Anchor()
			req = nextRequest(t, m, req)
		}
	})
}

// nextRequest changes a request as conversations do.
func nextRequest(t *rapid.T, m *model, req *llm.Request) *llm.Request {
	next := &llm.Request{Messages: slices.Clone(req.Messages), Tools: slices.Clone(req.Tools)}
	more := rapid.SliceOfN(drawMessage(), 0, 4).Draw(t, "more")
	switch rapid.SampledFrom([]string{"grow", "grow", "grow", "condense", "edit", "tools", "model"}).Draw(t, "change") {
	case "condense":
		next.Messages = next.Messages[len(next.Messages)/2:]
	case "edit":
		if n := len(next.Messages); n > 0 {
			next.Messages[rapid.IntRange(0, n-1).Draw(t, "at")] = drawMessage().Draw(t, "edited")
		}
	case "tools":
		next.Tools = append(next.Tools, llm.Tool{Name: "late", Description: strings.Repeat("tool ", 500)})
	case "model":
		m.info.Model += "x"
	}
	next.Messages = append(next.Messages, more...)
	return next
}

// TestAnchorIsClose: a conversation of ordinary text is known almost exactly.
func TestAnchorIsClose(t *testing.T) {
	w := newWorld(t)
	k := &tokenizer{longest: 7, message: 4, request: 300}
	m := reporter(k, func(n int64) int64 { return n })
	req := ask(strings.Repeat("All of this was said long ago. ", 20_000))
	first := spend.Estimate(m.info, req, nil)
	tab := w.keeper.Open(scope(100))
	if _, err := tab.Guard(m).Do(w.Context(), req); err != nil {
		t.Fatal(err)
	}
	tab.Abandon(w.Context())
	longer := ask(req.Messages[0].Text(), "One more question, please.")
	n := k.prompt(longer)
	p := spend.Estimate(m.info, longer, tab.Anchor())
	if !p.Anchored || p.Bound < n || p.Bound > n+400 || p.Likely > n+400 || first.Bound < 3*n {
		t.Errorf("%d tokens: first %+v, then %+v", n, first, p)
	}
	if again := spend.Estimate(m.info, req, tab.Anchor()); !again.Anchored || again.Bound > n+300 {
		t.Errorf("the same request: %+v", again)
	}
	for name, other := range map[string]*llm.Request{
		"shorter":       ask("All of this"),
		"another start": ask(strings.Repeat("Not of this was said long ago. ", 20_000), "One more question, please."),
		"another role":  {Messages: []content.Message{{Role: content.RoleSystem, Parts: req.Messages[0].Parts}}},
		"tools":         {Messages: longer.Messages, Tools: []llm.Tool{{Name: "t"}}},
	} {
		if p := spend.Estimate(m.info, other, tab.Anchor()); p.Anchored {
			t.Errorf("%s: %+v", name, p)
		}
	}
	elsewhere := m.info
	elsewhere.Endpoint = "http://other.example/v1"
	if p := spend.Estimate(elsewhere, longer, tab.Anchor()); p.Anchored {
		t.Error("another endpoint counts for itself")
	}
	if p := spend.Estimate(llm.Info{Model: "test/other", NativeTools: true}, longer, tab.Anchor()); p.Anchored {
		t.Errorf("another model: %+v", p)
	}
}

// TestOddCountsAreNoAnchor: what an endpoint reports may be wrong.
func TestOddCountsAreNoAnchor(t *testing.T) {
	w := newWorld(t)
	k := &tokenizer{longest: 6}
	req := ask(strings.Repeat("words and words ", 5000))
	for _, n := range []int64{0, -5, 1, 100, 4000} {
		tab := w.keeper.Open(spend.Scope{Conversation: "root", Owner: "u"})
		if _, err := tab.Guard(reporter(k, func(int64) int64 { return n })).Do(w.Context(), req); err != nil {
			t.Fatal(err)
		}
		tab.Abandon(w.Context())
		if tab.Anchor() != nil {
			t.Errorf("%d tokens for %d bytes are believed", n, len(req.Messages[0].Text()))
		}
	}
}

// TestCountsThatFall: an endpoint that leaves out what its cache had does not
// lower the bound of a prompt that is known to hold a longer one.
func TestCountsThatFall(t *testing.T) {
	w := newWorld(t)
	k := &tokenizer{longest: 3}
	req := ask(strings.Repeat("words and words ", 5000))
	share := int64(1)
	m := reporter(k, func(n int64) int64 { return n / share })
	var anchor *spend.Anchor
	for _, share = range []int64{1, 4, 1} {
		if p, n := spend.Estimate(m.info, req, anchor), k.prompt(req); p.Bound < n {
			t.Errorf("%d tokens, estimate %+v", n, p)
		}
		tab := w.keeper.Open(spend.Scope{Conversation: "root", Owner: "u", Anchor: anchor})
		if _, err := tab.Guard(m).Do(w.Context(), req); err != nil {
			t.Fatal(err)
		}
		tab.Abandon(w.Context())
		anchor = tab.Anchor()
		req = ask(append([]string{req.Messages[0].Text()}, "more")...)
	}
}

// TestHiddenReasoning: an answer that goes back with reasoning of few bytes may
// count as many tokens as it had.
func TestHiddenReasoning(t *testing.T) {
	w := newWorld(t)
	m := newModel(nil)
	m.do = func(context.Context, *llm.Request) (*llm.Response, error) {
		r := answer(price(), 5000, 7000)
		r.Usage.ReasoningTokens = 6990
		return r, nil
	}
	req := ask(strings.Repeat("x", 10_000))
	tab := w.keeper.Open(scope(100))
	resp, err := tab.Guard(m).Do(w.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	tab.Abandon(w.Context())
	req.Messages = append(req.Messages, resp.Message, ask("go on").Messages[0])
	if p := spend.Estimate(m.info, req, tab.Anchor()); !p.Anchored || p.Bound < 5000+7000+5 {
		t.Errorf("estimate %+v", p)
	}
}

// TestTextsThatGrow: what reaches the model may be longer than what was sent.
func TestTextsThatGrow(t *testing.T) {
	info := llm.Info{Model: "m", NativeTools: true}
	k := &tokenizer{longest: 1, indented: true}
	list := "[" + strings.Repeat("1,", 50_000) + "1]"
	for name, req := range map[string]*llm.Request{
		"no UTF-8":  ask(strings.Repeat("\xff", 50_000)),
		"arguments": {Messages: []content.Message{{Role: content.RoleAssistant, ToolCalls: []content.ToolCall{{ID: "1", Name: "t", Arguments: list}}}}},
		"schema":    {Tools: []llm.Tool{{Name: "t", Parameters: json.RawMessage(list)}}},
	} {
		if p, n := spend.Estimate(info, req, nil), k.prompt(req); p.Bound < n {
			t.Errorf("%s: %d tokens, estimate %+v", name, n, p)
		}
	}
	tools := &llm.Request{Tools: []llm.Tool{{Name: "t"}}}
	if native, text := spend.Estimate(info, tools, nil), spend.Estimate(llm.Info{Model: "m"}, tools, nil); text.Bound <= native.Bound {
		t.Errorf("tools as text: %+v, natively %+v", text, native)
	}
}

func TestImages(t *testing.T) {
	one := &llm.Request{Messages: []content.Message{{Role: content.RoleUser, Parts: []content.Part{content.Image("data:image/png;base64," + strings.Repeat("A", 1<<20))}}}}
	for model, tokens := range map[string]int64{
		"openai/gpt-4o-mini":              48_169, // 8 tiles
		"openai/gpt-4o":                   1_445,
		"openai/gpt-5":                    10_000,
		"anthropic/claude-opus-4":         4_784,
		"bedrock/anthropic.claude-sonnet": 4_784,
		"gemini/gemini-3-pro":             2_240,
		"ollama/qwen2.5vl":                16_384,
	} {
		p := spend.Estimate(llm.Info{Model: model}, one, nil)
		if p.Bound < tokens || p.Bound > 60_000 {
			t.Errorf("%s: an image is %+v, want at least %d", model, p, tokens)
		}
	}
}

// BenchmarkEstimate measures what a long history costs per call.
func BenchmarkEstimate(b *testing.B) {
	req := &llm.Request{}
	for i := range 400 {
		req.Messages = append(req.Messages, content.Message{Role: content.RoleTool, Parts: []content.Part{content.Text(strings.Repeat(fmt.Sprint("line ", i, "\n"), 300))}})
	}
	b.SetBytes(spend.Estimate(llm.Info{}, req, nil).Bound)
	for b.Loop() {
		spend.Estimate(llm.Info{Model: "m"}, req, nil)
	}
}
