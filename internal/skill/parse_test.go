package skill_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"parley/internal/skill"
)

func lines(l ...string) string { return strings.Join(l, "\n") }

func parse(t *testing.T, file, text string) skill.Skill {
	t.Helper()
	s, err := skill.Parse(file, []byte(text), skill.LevelProject)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return s
}

func TestTheNameOfAFileSaysWhatItIs(t *testing.T) {
	const text = "---\ntriggers: [x]\n---\nText\r\nmore\n"
	for _, c := range []struct {
		file, name, family, kind string
		paths                    []string
		raw                      bool // front matter is not read
	}{
		{"AGENTS.md", "agents", "", "repo", nil, true},
		{"agents.md", "agents", "", "repo", nil, true},
		{"AGENT.md", "agents", "", "repo", nil, true},
		{"agent.md", "agents", "", "repo", nil, true},
		{"./AGENTS.md", "agents", "", "repo", nil, true},
		{".cursorrules", "cursorrules", "", "repo", nil, true},
		{".openhands_instructions", "repo_legacy", "", "repo", nil, true},
		{"CLAUDE.md", "claude", "claude", "repo", nil, true},
		{"GEMINI.md", "gemini", "gemini", "repo", nil, true},
		{"claude.md", "claude", "claude", "repo", nil, true},
		{"src/api/AGENTS.md", "src/api/agents", "", "knowledge", []string{"src/api/**"}, true},
		{"app/[id]/agent.md", "app/[id]/agents", "", "knowledge", []string{`app/\[id\]/**`}, true},
		{".openhands/skills/AGENTS.md", ".openhands/skills/agents", "", "knowledge", []string{".openhands/skills/**"}, true},
		{".openhands/microagents/a/b.md", "a/b", "", "knowledge", nil, false},
		{".openhands/microagents/agent.md", "agent", "", "knowledge", nil, false},
		{".openhands/skills/claude.md", "claude", "", "knowledge", nil, false},
		{".agents/skills/c.md", "c", "", "knowledge", nil, false},
		{"microagents/d.md", "d", "", "knowledge", nil, false},
		{"skills/skills/e.md", "skills/e", "", "knowledge", nil, false},
		{".agents/skills/pdf/SKILL.md", "pdf", "", "agentskills", nil, false},
		{".agents/skills/a/b/skill.md", "b", "", "agentskills", nil, false},
	} {
		s := parse(t, c.file, text)
		if s.Name != c.name || s.Family != c.family || s.Type() != c.kind || !reflect.DeepEqual(s.Paths, c.paths) {
			t.Errorf("%s: %q of family %q, type %s, paths %q", c.file, s.Name, s.Family, s.Type(), s.Paths)
		}
		want, triggers := "Text\nmore", 1
		if c.raw {
			want, triggers = strings.ReplaceAll(text, "\r", ""), 0
		}
		if s.Content != want || len(s.Triggers) != triggers {
			t.Errorf("%s: triggers %q, content %q", c.file, s.Triggers, s.Content)
		}
		if s.Source != c.file || s.Level != skill.LevelProject || s.Version != "1.0.0" {
			t.Errorf("%s: %+v", c.file, s)
		}
	}
}

func TestOtherFilesAreNoSkills(t *testing.T) {
	for _, file := range []string{"README.md", ".agents/skills/readme.MD", ".agents/skills/pdf/script.py", "a", "", ".", "src/.cursorrules", "src/CLAUDE.md", "src/GEMINI.md"} {
		if _, err := skill.Parse(file, []byte("x"), skill.LevelUser); !errors.Is(err, skill.ErrNoSkill) {
			t.Errorf("%q: %v", file, err)
		}
	}
}

func TestFrontMatter(t *testing.T) {
	s := parse(t, ".agents/skills/pdf-tools/SKILL.md", "\uFEFF"+lines("---", "name: pdf-tools", `description: "  Reads PDFs  "`, "license: MIT",
		"compatibility: needs pdftotext", "version: 1.10", "agent: CodeActAgent", "metadata:", "  author: me", "  level: 3", "  tags: [a, b]",
		"allowed-tools: Read, Bash(git diff *) Grep", "disable-model-invocation: yes", "triggers: [pdf, 42, ' ', ~]", "paths:", "- '*.pdf'",
		"- docs/", "unknown: {a: [b]}", "---", "", "  Text", "", ""))
	want := skill.Skill{Name: "pdf-tools", Description: "Reads PDFs", License: "MIT", Compatibility: "needs pdftotext", Version: "1.10",
		Content: "  Text", Source: ".agents/skills/pdf-tools/SKILL.md", Root: ".agents/skills/pdf-tools", Level: skill.LevelProject,
		Metadata: map[string]string{"author": "me", "level": "3", "tags": `["a","b"]`}, AllowedTools: []string{"Read", "Bash(git diff *)", "Grep"},
		Hidden: true, AgentSkill: true, Triggers: []string{"pdf", "42"}, Paths: []string{"*.pdf", "docs/"}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"Text", "---\n---\nText", "---  \n# nothing\n--- \n\nText\n", "---\n~\n---\nText"} {
		if s := parse(t, "skills/a.md", text); s.Content != "Text" || s.Type() != "repo" || s.Name != "a" {
			t.Errorf("%q: %+v", text, s)
		}
	}
	// A description with a colon in it is no YAML, and common.
	if s := parse(t, "skills/a.md", "---\ndescription: Use it when: it's #1\ntriggers: [pdf]\n---\nText"); s.Description != "Use it when: it's #1" ||
		!reflect.DeepEqual(s.Triggers, []string{"pdf"}) || s.Content != "Text" {
		t.Errorf("%+v", s)
	}
	if s := parse(t, "skills/a.md", "a\xffb"); s.Content != "a\uFFFDb" {
		t.Errorf("%q", s.Content)
	}
}

func TestTheEffectiveTypeIsInferred(t *testing.T) {
	const asks = "ask for it before you begin"
	for _, c := range []struct {
		front, content string
		kind           string
		triggers       []string
		asks           string // the names, "" = nothing is asked for
	}{
		{"type: knowledge", "x", "repo", nil, ""},
		{"type: repo\ntriggers: [a]", "${HOME}", "knowledge", []string{"a"}, ""},
		{"type: task", "x", "repo", nil, ""},
		{"type: task", "do ${WHAT} and ${WHAT} in ${WHERE} for $5 ${1}", "knowledge", []string{"/t/x"}, "needs: WHAT, WHERE."},
		{"", "echo ${HOME}", "repo", nil, ""},
		{"inputs: [{name: URL, description: where}, {name: B}]", "go to ${URL} with ${C}", "knowledge", []string{"/t/x"}, "needs: URL, B, C."},
		{"triggers: [a, /t/x]\ninputs: [{name: URL}]", "x", "knowledge", []string{"a", "/t/x"}, "needs: URL."},
		{"paths: [src/**]", "x", "knowledge", nil, ""},
	} {
		s := parse(t, ".openhands/microagents/t/x.md", "---\n"+c.front+"\n---\n"+c.content)
		if s.Type() != c.kind || !reflect.DeepEqual(s.Triggers, c.triggers) || !strings.Contains(s.Content, c.asks) ||
			strings.Contains(s.Content, asks) != (c.asks != "") {
			t.Errorf("%s: type %s, triggers %q, content %q", c.front, s.Type(), s.Triggers, s.Content)
		}
	}
	s := parse(t, "skills/x.md", "---\ninputs: [{name: URL, description: where}]\n---\n")
	if !reflect.DeepEqual(s.Inputs, []skill.Input{{Name: "URL", Description: "where"}}) {
		t.Errorf("inputs %+v", s.Inputs)
	}
}

func TestServersOfASkill(t *testing.T) {
	for name, front := range map[string]string{
		"lists":   "mcp_tools:\n  stdio_servers:\n  - {name: fetch, command: uvx, args: [mcp-server-fetch], env: {A: b}}",
		"by name": "mcp_tools:\n  fetch:\n    command: uvx\n    args: [mcp-server-fetch]\n    env: {A: b}",
		"wrapped": "mcp-tools: {mcpServers: {fetch: {command: uvx, args: [mcp-server-fetch], env: {A: b}}}}",
	} {
		s := parse(t, "skills/a.md", "---\n"+front+"\n---\nx")
		if s.MCP == nil || len(s.MCP.Stdio) != 1 {
			t.Fatalf("%s: %+v", name, s.MCP)
		}
		if got := s.MCP.Stdio[0]; got.Name != "fetch" || got.Command != "uvx" || got.Args[0] != "mcp-server-fetch" || got.Env["A"].Reveal() != "b" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if s := parse(t, "skills/a.md", "---\nmcp_tools: {x: {url: 'https://a.example/mcp'}}\n---\nx"); len(s.MCP.SHTTP) != 1 {
		t.Errorf("%+v", s.MCP)
	}
}

func TestAProblemNamesItsLine(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		name, file, text string
		line             int
		parts            []string
	}{
		{"an unknown type", "skills/a.md", lines("---", "name: a", "type: fact", "---", "x"), 3, []string{`"fact"`, "knowledge, repo and task"}},
		{"an indented key", "skills/a.md", lines("---", "a: 1", "b: 2", " c: 3", "---"), 4, []string{"YAML", "mapping values"}},
		{"something after a list", "skills/a.md", lines("---", "a: 1", "b: [x]", `"c" d`, "e: 1", "---"), 4, []string{"YAML"}},
		{"an open list", "skills/a.md", lines("---", "a: 1", "triggers: [x", "b: 2", "---"), 3, []string{"YAML"}},
		{"an open quote", "skills/a.md", lines("---", "a: 1", `b: "x`, "c: 2", "---"), 3, []string{"YAML"}},
		{"a tab", "skills/a.md", lines("---", "a:", "\tb: 1", "---"), 3, []string{"YAML"}},
		{"two documents", "skills/a.md", lines("---", "a: 1", "...", "b: 1", "---"), 4, []string{"YAML", "document"}},
		{"no end", "skills/a.md", lines("---", "a: 1", "text"), 1, []string{"no end"}},
		{"a text", "skills/a.md", lines("---", "", "just text", "---"), 3, []string{"key: value"}},
		{"too long", "skills/a.md", lines("---", "a: "+strings.Repeat("x", 33<<10), "---"), 1, []string{"bytes"}},
		{"too deep", "skills/a.md", lines("---", "a: "+strings.Repeat("[", 50)+strings.Repeat("]", 50), "---"), 2, []string{"deep"}},
		{"an alias", "skills/a.md", lines("---", "a: &x [1]", "b: [*x, *x]", "---"), 3, []string{"alias"}},
		{"a key twice", "skills/a.md", lines("---", "allowed-tools: a", "b: 1", "allowed_tools: b", "---"), 4, []string{"twice"}},
		{"a list of lists", "skills/a.md", lines("---", "triggers:", "- a", "- [b]", "---"), 4, []string{"triggers"}},
		{"a map of triggers", "skills/a.md", lines("---", "triggers:", "  a: b", "---"), 3, []string{"triggers"}},
		{"a long trigger", "skills/a.md", lines("---", "triggers:", "- a", "- "+long, "---"), 4, []string{"300 bytes"}},
		{"many triggers", "skills/a.md", lines("---", "triggers: ["+strings.Repeat("a,", 300)+"]", "---"), 2, []string{"300 items"}},
		{"an input without a name", "skills/a.md", lines("---", "inputs:", "- name: a", "- description: b", "---"), 4, []string{"name"}},
		{"an input that is a text", "skills/a.md", lines("---", "inputs: [a]", "---"), 2, []string{"name"}},
		{"a wrong pattern", "skills/a.md", lines("---", "paths:", "- src/**", "- ../x", "---"), 4, []string{`"../x"`, `".."`}},
		{"metadata that is a text", "skills/a.md", lines("---", "metadata: a", "---"), 2, []string{"metadata"}},
		{"a description that is a list", "skills/a.md", lines("---", "description: [a]", "---"), 2, []string{"description"}},
		{"a flag that is neither", "skills/a.md", lines("---", "disable-model-invocation: perhaps", "---"), 2, []string{"true or false"}},
		{"a server of another kind", "skills/a.md", lines("---", "mcp_tools:", "  stdio_servers: []", "  sse_servers: ['https://a.example']", "---"), 3, []string{"stdio_servers only"}},
		{"no server", "skills/a.md", lines("---", "mcp_tools:", "  stdio_servers: []", "---"), 3, []string{"no stdio_servers"}},
		{"a wrong server", "skills/a.md", lines("---", "mcp_tools:", "  stdio_servers:", "  - name: a", "    command: a", "  - name: b", "    command: b c", "---"), 7, []string{"mcp_tools.stdio_servers.1.command"}},
		{"servers that are a list", "skills/a.md", lines("---", "mcp_tools:", "- a", "---"), 3, []string{"mcp_tools"}},
		{"a name of another directory", ".agents/skills/pdf/SKILL.md", lines("---", "license: x", "name: pfd", "---"), 3, []string{`"pfd"`, `"pdf"`}},
		{"a name with capitals", ".agents/skills/PDF/SKILL.md", lines("---", "name: PDF", "---"), 2, []string{`"PDF"`, "lowercase"}},
		{"a directory with capitals", ".agents/skills/PDF/SKILL.md", "x", 1, []string{`"PDF"`, "lowercase"}},
		{"two hyphens", ".agents/skills/a--b/SKILL.md", "x", 1, []string{"hyphens"}},
		{"a long name", ".agents/skills/" + strings.Repeat("a", 65) + "/SKILL.md", "x", 1, []string{"at most 64"}},
		{"no name at the top", "SKILL.md", "x", 1, []string{"no name"}},
		{"no name at all", "skills/.md", "x", 0, []string{"no name"}},
		{"a large file", "AGENTS.md", strings.Repeat("x", 1<<20+1), 0, []string{"bytes"}},
		{"a path that no pattern can have", strings.Repeat("a/", 600) + "AGENTS.md", "x", 0, []string{"longer"}},
	} {
		s, err := skill.Parse(c.file, []byte(c.text), skill.LevelProject)
		var p *skill.Problem
		if !errors.As(err, &p) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if p.Line != c.line || p.File != c.file || len(p.Text) > 500 || !reflect.DeepEqual(s, skill.Skill{}) {
			t.Errorf("%s: line %d, not %d: %s", c.name, p.Line, c.line, p.Text)
		}
		for _, part := range c.parts {
			if !strings.Contains(p.Text, part) {
				t.Errorf("%s: %q is missing in %s", c.name, part, p.Text)
			}
		}
	}
	if got := (&skill.Problem{File: "a", Line: 3, Text: "b"}).Error(); got != "a:3: b" {
		t.Error(got)
	}
	if got := (&skill.Problem{File: "a", Text: "b"}).Error(); got != "a: b" {
		t.Error(got)
	}
}

func TestALongDescriptionIsCutWithANote(t *testing.T) {
	long := strings.Repeat("\u00e4", skill.MaxDescription)
	if s := parse(t, "skills/a.md", "---\ndescription: "+long+"\n---\n"); s.Description != long {
		t.Errorf("%d characters", utf8.RuneCountInString(s.Description))
	}
	s := parse(t, "skills/a.md", "---\ndescription: "+long+"x\n---\n")
	if utf8.RuneCountInString(s.Description) != skill.MaxDescription || !strings.HasSuffix(s.Description, " [cut; all of it is in skills/a.md]") {
		t.Errorf("%q", s.Description)
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"AGENTS.md", "a/AGENTS.md", "skills/a.md", ".agents/skills/pdf/SKILL.md", "../x.md", ".md", "a[/agent.md"} {
		f.Add(file, []byte("---\nname: pdf\ntriggers: [a]\ninputs: [{name: B}]\npaths: ['*.go']\nmetadata: {a: 1}\n---\nText ${X}"))
		f.Add(file, []byte("---\nmcp_tools: {stdio_servers: [{name: a, command: b, env: {A: &x 1, B: *x}}]}\n---\n"))
		f.Add(file, []byte("---\n? [a]\n: b\n<<: {c: !!binary d, e: .inf, f: 0x1, g: 2001-01-01}\nmetadata: {a: [.nan, 1e999, ~]}\n---\r\n"))
	}
	f.Fuzz(func(t *testing.T, file string, data []byte) {
		s, err := skill.Parse(file, data, skill.LevelProject)
		var p *skill.Problem
		switch {
		case errors.As(err, &p):
			if n := strings.Count(string(data), "\n") + 1; p.Line < 0 || p.Line > n || p.Text == "" || len(p.Text) > 2000 {
				t.Errorf("line %d of %d: %s", p.Line, n, p.Text)
			}
			return
		case errors.Is(err, skill.ErrNoSkill):
			return
		case err != nil:
			t.Fatal(err)
		}
		if s.Name == "" || !utf8.ValidString(s.Content) || utf8.RuneCountInString(s.Description) > skill.MaxDescription {
			t.Errorf("%+v", s)
		}
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
		for _, trigger := range s.Triggers {
			if len(trigger) <= 200 && len(skill.Match([]skill.Skill{s}, trigger, nil)) != 1 {
				t.Errorf("%q does not match itself", trigger)
			}
		}
	})
}
