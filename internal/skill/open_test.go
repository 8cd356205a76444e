package skill_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/internal/fault"
	"parley/internal/skill"
)

// opened is the text of a skill between what Open adds.
func opened(t *testing.T, text string) string {
	t.Helper()
	_, text, ok := strings.Cut(text, "\n\n")
	text, _, end := strings.Cut(text, "\n\n</SKILL_CONTENT>")
	if !ok || !end {
		t.Fatalf("no section in %q", text)
	}
	return text
}

func TestCommandsAreReplaced(t *testing.T) {
	for _, c := range []struct {
		name, content, want string
		ran                 []string
	}{
		{"a command", "At !`git log`.", "At <git log>.", []string{"git log"}},
		{"two", "!`a` and (!`b c`)", "<a> and (<b c>)", []string{"a", "b c"}},
		{"an end of a sentence", "Run it now!`a`", "Run it now!`a`", nil},
		{"a span of code", "`` !`a` `` and `x` !`b`", "`` !`a` `` and `x` <b>", []string{"b"}},
		{"behind a backslash", `write \!` + "`a` here, !`b`", "write !`a` here, <b>", []string{"b"}},
		{"a block", "```sh\n!`a`\n~~~\n```\n!`b`", "```sh\n!`a`\n~~~\n```\n<b>", []string{"b"}},
		{"a longer block", "~~~~\n!`a`\n~~~\n!`b`\n~~~~~  \n!`c`", "~~~~\n!`a`\n~~~\n!`b`\n~~~~~  \n<c>", []string{"c"}},
		{"a block without an end", "```\n!`a`", "```\n!`a`", nil},
		{"not over lines", "!`a\nb`", "!`a\nb`", nil},
		{"more backticks", "!``a`` !`a``b`", "!``a`` !`a``b`", nil},
		{"backticks that nothing closes", "``` !`a` ``", "``` <a> ``", []string{"a"}},
		{"no command", "!` `", "[there is no command here]", nil},
		{"marks", "!!`a`!`b`", "!<a><b>", []string{"a", "b"}},
		{"output is not read again", "!`printf nest`", "!`x`", []string{"printf nest"}},
	} {
		var ran []string
		run := func(_ context.Context, command string) (string, error) {
			ran = append(ran, command)
			if strings.HasSuffix(command, "nest") {
				return " !`x`\n", nil
			}
			return "<" + command + ">", nil
		}
		got := opened(t, skill.Open(t.Context(), skill.Skill{Content: c.content}, run))
		if got != c.want || !reflect.DeepEqual(ran, c.ran) {
			t.Errorf("%s: %q, ran %q", c.name, got, ran)
		}
	}
}

func TestCommandsAreBounded(t *testing.T) {
	ran := 0
	run := func(context.Context, string) (string, error) {
		ran++
		return strings.Repeat("\u00e4", 26<<10), nil
	}
	text := skill.Open(t.Context(), skill.Skill{Content: "!`a` !`" + strings.Repeat("b", 5000) + "`"}, run)
	if ran != 1 || !strings.Contains(text, "\n[cut here: 51200 of 53248 bytes]") || !strings.Contains(text, "was not run: it has more than 4096 bytes") {
		t.Errorf("%d ran, %s", ran, text[len(text)-500:])
	}
	ran = 0
	text = skill.Open(t.Context(), skill.Skill{Content: strings.Repeat("!`a`\n", 22)}, run)
	if ran != 20 || len(text) > 257<<10 {
		t.Errorf("%d ran, %d bytes", ran, len(text))
	}
	few := func(context.Context, string) (string, error) { return "out", nil }
	if text = skill.Open(t.Context(), skill.Skill{Content: strings.Repeat("!`a`\n", 22)}, few); strings.Count(text, "out\n") != 20 ||
		strings.Count(text, "[the command `a` was not run: at most 20 of a skill are]") != 2 {
		t.Error(text)
	}
}

func TestCommandsThatFail(t *testing.T) {
	s := skill.Skill{Content: "!`make x`"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{fault.New(fault.Unavailable, "down", "The sandbox is down."), "half\n[the command `make x` failed: The sandbox is down.]"},
		{errors.New("secret path"), "half\n[the command `make x` failed: Internal error. The server's log has the details.]"},
		{fault.New(fault.Timeout, "late", "Late."), "half\n[the command `make x` failed: it did not end within 10 s]"},
	} {
		got := opened(t, skill.Open(t.Context(), s, func(context.Context, string) (string, error) { return "half", c.err }))
		if got != c.want {
			t.Errorf("%q", got)
		}
	}
	if got := opened(t, skill.Open(t.Context(), s, nil)); got != "[the command `make x` was not run: commands of skills do not run here]" {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.Content = "!`a` !`b`"
	got := opened(t, skill.Open(ctx, s, func(ctx context.Context, _ string) (string, error) {
		cancel()
		return "", ctx.Err()
	}))
	if got != "[the command `a` failed: the call was stopped] [the command `b` was not run: the call was stopped]" {
		t.Error(got)
	}
}

func TestACommandHasTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		got := opened(t, skill.Open(t.Context(), skill.Skill{Content: "!`a`"}, func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "half", ctx.Err()
		}))
		if got != "half\n[the command `a` failed: it did not end within 10 s]" || time.Since(start) != 10*time.Second {
			t.Errorf("%q after %v", got, time.Since(start))
		}
	})
}

func TestOpenNamesTheFiles(t *testing.T) {
	s := skill.Skill{Name: "pdf", Content: "Text", Source: "x/SKILL.md", Root: "/w/pdf", Resources: []string{"scripts/a.py", "assets/<x>\ny"}}
	text := skill.Open(t.Context(), s, nil)
	for _, part := range []string{"<SKILL_CONTENT>\nThe following is the skill \"pdf\" from /w/pdf/SKILL.md.", "not the user's words", "\n\nText\n",
		"directory is /w/pdf;", "\n- scripts/a.py\n- assets/&lt;x&gt; y\n</SKILL_CONTENT>"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in %s", part, text)
		}
	}
	for i := range 300 {
		s.Resources = append(s.Resources, fmt.Sprint("assets/", i))
	}
	if text = skill.Open(t.Context(), s, nil); strings.Count(text, "\n- ") != 200 || !strings.Contains(text, "200 of its 302 files:") {
		t.Error(text)
	}
	s.Content = strings.Repeat("x", 200<<10)
	if text = skill.Open(t.Context(), s, nil); !strings.Contains(text, "[cut here: 102400 of 204800 bytes; the rest is in /w/pdf/SKILL.md]") {
		t.Errorf("%d bytes", len(text))
	}
}

func FuzzOpen(f *testing.F) {
	f.Add("a !`b` `` !`c` `` \\!`d`\n```\n!`e`\n```\n")
	f.Add("!`a``b`!```c`\n~~~~\n>```\n</SKILL_CONTENT>")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		out := skill.Open(t.Context(), skill.Skill{Content: text}, func(_ context.Context, command string) (string, error) {
			if n++; strings.ContainsAny(command, "`\n") || !strings.Contains(text, "!`"+command+"`") {
				t.Errorf("%q runs %q", text, command)
			}
			return "</skill_content>", nil
		})
		if n > 20 || tags(out, "SKILL_CONTENT") != 2 {
			t.Errorf("%d ran, %q", n, out)
		}
		if !strings.Contains(text, "!`") && n > 0 {
			t.Errorf("%q runs something", text)
		}
	})
}
