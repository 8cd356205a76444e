package hookrun

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"parley/internal/hook"
	"parley/internal/tool"
)

// frozen is a sandbox that was stopped in the middle: its connection stands, and
// nothing comes over it.
type frozen struct{ tool.Hands }

func (frozen) Exec(ctx context.Context, _ tool.ExecRequest) (tool.ExecResult, error) {
	<-ctx.Done()
	return tool.ExecResult{}, context.Cause(ctx)
}

func TestAFrozenSandboxIsNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runner{Hands: func(context.Context) (tool.Hands, error) { return frozen{}, nil },
			Sources: []Source{{Name: "repository", Config: hook.Config{PreToolUse: []hook.Matcher{{Hooks: []hook.Definition{
				{Type: hook.TypeCommand, Command: "true", Timeout: 600}}}}}}}}
		start := time.Now()
		out, err := r.Run(t.Context(), Input{Event: hook.PreToolUse, Tool: "terminal"})
		if took := time.Since(start); err != nil || !out.Blocked || took != 600*time.Second+slack || !strings.Contains(out.Reason, "did not answer") {
			t.Errorf("%v: %+v %v", took, out, err)
		}
	})
}

func FuzzReadOutput(f *testing.F) {
	for _, seed := range []string{``, `text`, `{"decision":"deny","reason":"r"}`, `{"continue":false}`, `{"decision":1}`, `{} x`,
		`{"hookSpecificOutput":{"permissionDecision":"deny","additionalContext":[1]}}`, "\ufeff{\"decision\":\"block\"}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stdout []byte) {
		d, err := readOutput(stdout)
		if d.block && !d.made || err != nil && err.Error() == "" {
			t.Fatalf("%+v %v", d, err)
		}
		var m map[string]any
		if json.Unmarshal(stdout, &m) == nil {
			if word, ok := m["decision"].(string); ok && strings.EqualFold(word, "deny") && err == nil && !d.block {
				t.Fatal("a denial was lost")
			}
		}
	})
}

func FuzzReadAnswer(f *testing.F) {
	for _, seed := range []string{``, `{"decision":"allow"}`, "```json\n{\"decision\":\"deny\"}\n```", `{{{"decision":"allow"}`, `{"a":"}"} {"decision":"x"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		d, err := readAnswer(answer)
		if err == nil && !d.made || err != nil && d.made {
			t.Fatalf("%+v %v", d, err)
		}
	})
}

func FuzzFit(f *testing.F) {
	f.Add([]byte(`{"a":["b",1,{"c":"\u0001"}]}`), "message", 2000)
	f.Fuzz(func(t *testing.T, raw []byte, message string, most int) {
		most = 2000 + max(0, most)%50_000
		r := &Runner{SessionID: "s", WorkingDir: "/w"}
		doc := r.document(Input{Event: "Stop", ToolInput: raw, Message: message})
		if got := fit(doc, most); len(got) > most || !json.Valid(got) {
			t.Fatalf("%d bytes of %d", len(got), most)
		}
	})
}

func TestClip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, most := rapid.String().Draw(t, "s"), rapid.IntRange(0, 40).Draw(t, "most")
		got := clip(s, most)
		if utf8.RuneCountInString(got) > most || utf8.RuneCountInString(s) <= most && got != s {
			t.Fatalf("%q", got)
		}
		if m := clipMiddle(s, most); utf8.ValidString(s) && !utf8.ValidString(m) {
			t.Fatalf("%q", m)
		}
	})
}
