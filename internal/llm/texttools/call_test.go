package texttools

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/internal/content"
	"parley/internal/llm"
)

func typed() []llm.Tool {
	return []llm.Tool{{Name: "t", Parameters: []byte(`{"type":"object","properties":{"text":{"type":"string"},"other":{"type":"string"},"count":{"type":"integer"},
		"flag":{"type":"boolean"},"list":{"type":"array"},"object":{"type":"object"},"maybe":{"type":["integer","null"]}}}`)}}
}

// ambiguous is what a text cannot hold: the end of a parameter, and behind it
// what follows one.
var ambiguous = regexp.MustCompile(`</parameter>\s*(<parameter=|</function|$)`)

// TestRoundTrip: a call that is written as the model shall write it is read as it was.
func TestRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ \r\n\t<>/"'a-c]{0,20}`),
		rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{"\n", "\r\n", " ", "</parameter>", "<parameter=text>", "</function>", "<function=t>", "x", "null", "5", "{}"})),
			func(s []string) string { return strings.Join(s, "") })).
		Filter(func(s string) bool { return !ambiguous.MatchString(s) })
	rapid.Check(t, func(t *rapid.T) {
		args := map[string]any{}
		for name, value := range map[string]*rapid.Generator[any]{
			"text": text.AsAny(), "other": text.AsAny(), "count": rapid.Int().AsAny(), "flag": rapid.Bool().AsAny(),
			"list": rapid.SliceOf(text).AsAny(), "object": rapid.MapOf(rapid.StringMatching(`[a-z]{1,3}`), rapid.Int()).AsAny(),
			"maybe": rapid.Just[any](nil)} {
			if rapid.Bool().Draw(t, "has "+name) {
				args[name] = value.Draw(t, name)
			}
		}
		before := rapid.SampledFrom([]string{"", "I do it.", "a < b"}).Draw(t, "before")
		raw, err := content.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		written := render(content.ToolCall{Name: "t", Arguments: string(raw)})
		said, c := parse(before+"\n\n"+written, typed(), false)
		if c == nil || c.name != "t" || said != before {
			t.Fatalf("said %q, call %+v of\n%s", said, c, written)
		}
		var want, got any
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.arguments), &got); err != nil {
			t.Fatalf("%v: %s of\n%s", err, c.arguments, written)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got)\n%s\n%s", d, written)
		}
	})
}

// FuzzParse: whatever a model writes, it is divided without loss of what it
// said, a call has a name, and what is streamed is what it said.
func FuzzParse(f *testing.F) {
	f.Add("a <function=t>\n<parameter=text>x</parameter></function>", false, 3)
	f.Add("<function=t><parameter=<function=u>{\"a\":1}</function", true, 1)
	f.Add("<tool_call><function=t>x</functio", false, 2)
	f.Fuzz(func(t *testing.T, text string, cut bool, size int) {
		said, c := parse(text, typed(), cut)
		if !strings.HasPrefix(text, said) || c == nil && said != text {
			t.Fatalf("said %q of %q", said, text)
		}
		if c != nil && (c.name == "" || c.arguments == "") {
			t.Fatalf("call %+v", c)
		}
		if c != nil && !strings.HasPrefix(c.arguments, "malformed call, ") && !json.Valid([]byte(c.arguments)) {
			t.Fatalf("arguments %q", c.arguments)
		}
		var shown strings.Builder
		stream := &filter{onDelta: func(d llm.Delta) { shown.WriteString(d.Text) }}
		for rest := text; rest != ""; {
			n := min(max(size%16, 1), len(rest))
			stream.take(llm.Delta{Text: rest[:n]})
			rest = rest[n:]
		}
		stream.finish(said)
		if shown.String() != said {
			t.Fatalf("shown %q, said %q", shown.String(), said)
		}
	})
}
