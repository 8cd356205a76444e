package extension_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/internal/account"
	"parley/internal/extension"
	"parley/internal/hook"
	"parley/internal/skill"
	"parley/internal/subagent"
)

func hooks(command string) hook.Config {
	return hook.Config{Stop: []hook.Matcher{{Matcher: "*", Hooks: []hook.Definition{{Type: hook.TypeCommand, Command: command, Timeout: 60}}}}}
}

func servers(value string) *account.MCPConfig {
	return &account.MCPConfig{Stdio: []account.MCPStdioServer{{Name: "s", Command: "x", Env: map[string]account.Secret{"K": account.NewSecret(value)}}}}
}

// full is a bundle with one of everything that runs.
func full() extension.Bundle {
	agentHooks := hooks("a")
	return extension.Bundle{Name: "n", Level: skill.LevelProject, Subject: "s", Root: "/r", Commit: "c", Hooks: hooks("h"), Servers: servers("v"),
		Scripts: []string{".openhands/setup.sh"}, Pins: []extension.Pin{{Path: "/r/a", SHA256: "1"}, {Path: "/r/b", SHA256: "2"}},
		Skills: []skill.Skill{{Name: "run", AgentSkill: true, Trusted: true, Content: "!`date`", Root: "/r/run"}, {Name: "mcp", Content: "x", MCP: servers("w")}, {Name: "text", Content: "y"}},
		Agents: []subagent.Definition{{Name: "hooked", Hooks: &agentHooks}, {Name: "served", MCP: servers("u")}, {Name: "plain"}}}
}

// What changes what runs, and what does not.
var (
	running = map[string]func(*extension.Bundle, string){
		"command":        func(b *extension.Bundle, v string) { b.Hooks.Stop[0].Hooks[0].Command = v },
		"matcher":        func(b *extension.Bundle, v string) { b.Hooks.Stop[0].Matcher = v },
		"async":          func(b *extension.Bundle, _ string) { b.Hooks.Stop[0].Hooks[0].Async = true },
		"one more hook":  func(b *extension.Bundle, v string) { b.Hooks.PreToolUse = hooks(v).Stop },
		"server":         func(b *extension.Bundle, v string) { b.Servers.Stdio[0].Command = v },
		"argument":       func(b *extension.Bundle, v string) { b.Servers.Stdio[0].Args = []string{v} },
		"secret":         func(b *extension.Bundle, v string) { b.Servers.Stdio[0].Env["K"] = account.NewSecret(v) },
		"server gone":    func(b *extension.Bundle, _ string) { b.Servers.Stdio[0].Disabled = true },
		"web server":     func(b *extension.Bundle, v string) { b.Servers.SHTTP = []account.MCPHTTPServer{{Name: "w", URL: v}} },
		"script":         func(b *extension.Bundle, v string) { b.Scripts = append(b.Scripts, v) },
		"pinned file":    func(b *extension.Bundle, v string) { b.Pins[0].SHA256 = v },
		"pin":            func(b *extension.Bundle, _ string) { b.Pins = b.Pins[1:] },
		"skill":          func(b *extension.Bundle, v string) { b.Skills[0].Content += v },
		"skill's name":   func(b *extension.Bundle, v string) { b.Skills[0].Name = v },
		"skill's server": func(b *extension.Bundle, v string) { b.Skills[1].MCP.Stdio[0].Env["K"] = account.NewSecret(v) },
		"agent's hook":   func(b *extension.Bundle, v string) { b.Agents[0].Hooks.Stop[0].Hooks[0].Command = v },
		"agent's server": func(b *extension.Bundle, v string) { b.Agents[1].MCP.Stdio[0].Command = v },
	}
	speaking = map[string]func(*extension.Bundle, string){
		"name":               func(b *extension.Bundle, v string) { b.Name = v },
		"commit":             func(b *extension.Bundle, v string) { b.Commit = v },
		"hash":               func(b *extension.Bundle, v string) { b.Hash = v },
		"memory":             func(b *extension.Bundle, v string) { b.Memory = v },
		"problem":            func(b *extension.Bundle, v string) { b.Problems = append(b.Problems, extension.Problem{Text: v}) },
		"text skill":         func(b *extension.Bundle, v string) { b.Skills[2].Content = v },
		"text with a server": func(b *extension.Bundle, v string) { b.Skills[1].Content = v },
		"description":        func(b *extension.Bundle, v string) { b.Skills[0].Description = v },
		"untrusted commands": func(b *extension.Bundle, v string) { b.Skills[2].AgentSkill, b.Skills[2].Content = true, "!`x` "+v },
		"prompt":             func(b *extension.Bundle, v string) { b.Agents[0].SystemPrompt = v },
		"order of skills":    func(b *extension.Bundle, _ string) { slices.Reverse(b.Skills) },
		"order of agents":    func(b *extension.Bundle, _ string) { slices.Reverse(b.Agents) },
		"order of pins":      func(b *extension.Bundle, _ string) { slices.Reverse(b.Pins) },
		"words about a server": func(b *extension.Bundle, v string) {
			b.Servers.Stdio[0].Rest = map[string]json.RawMessage{"description": json.RawMessage(fmt.Sprintf("%q", v))}
		},
	}
)

func TestTheHashChangesIfAndOnlyIfWhatRunsDoes(t *testing.T) {
	names := func(m map[string]func(*extension.Bundle, string)) []string {
		var out []string
		for name := range m {
			out = append(out, name)
		}
		slices.Sort(out)
		return out
	}
	value := rapid.StringMatching(`[a-z0-9 /]{8,20}`) // none of those in full
	rapid.Check(t, func(t *rapid.T) {
		before := full()
		for range rapid.IntRange(0, 4).Draw(t, "texts") {
			// In place and copied bundles alike.
			speaking[rapid.SampledFrom(names(speaking)).Draw(t, "text")](&before, value.Draw(t, "value"))
			if slices.IndexFunc(before.Skills, func(s skill.Skill) bool { return s.Name == "run" }) != 0 {
				slices.Reverse(before.Skills)
			}
			if before.Agents[0].Name != "hooked" {
				slices.Reverse(before.Agents)
			}
		}
		if a, b := extension.Hash(full()), extension.Hash(before); a != b {
			t.Fatalf("texts changed the hash: %s %s", a, b)
		}
		after := full()
		running[rapid.SampledFrom(names(running)).Draw(t, "change")](&after, value.Draw(t, "value"))
		if extension.Hash(after) == extension.Hash(before) {
			t.Fatal("what runs changed and the hash did not")
		}
	})
	if hash := extension.Hash(extension.Bundle{Skills: []skill.Skill{{Name: "a", Content: "x"}}, Pins: []extension.Pin{{Path: "/a"}}}); hash != "" {
		t.Errorf("nothing runs, and the hash is %s", hash)
	}
	for name, change := range speaking {
		b := full()
		change(&b, "some other value")
		if extension.Hash(b) != extension.Hash(full()) {
			t.Errorf("%s changes the hash", name)
		}
	}
}

func TestStripLeavesNothingThatRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := full()
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			running[rapid.SampledFrom([]string{"command", "argument", "script", "one more hook", "web server", "skill"}).Draw(t, "change")](&b, rapid.String().Draw(t, "value"))
		}
		hash := extension.Hash(b)
		s := extension.Strip(b)
		if extension.Hash(s) != "" || len(s.Runs()) > 0 || len(s.Pins) > 0 || s.Hash != "" {
			t.Fatalf("%+v", s)
		}
		if len(s.Skills) != 3 || len(s.Agents) != 3 || s.Skills[2].Content != "y" {
			t.Fatalf("texts are gone: %+v", s)
		}
		if extension.Hash(b) != hash {
			t.Fatal("the bundle was changed")
		}
	})
}

func TestApprove(t *testing.T) {
	b := full()
	b.Hash = extension.Hash(b)
	at := time.Unix(1000, 0)
	yes := extension.Decision{Subject: "s", Hash: b.Hash, Trusted: true, At: at}
	no := extension.Decision{Subject: "s", Hash: b.Hash, At: at.Add(time.Second)}
	other, older := yes, yes
	other.Subject, older.Hash = "t", "old"
	own, texts, unhashed := b, extension.Bundle{Subject: "s"}, b
	own.Subject, unhashed.Hash = "", ""
	for _, c := range []struct {
		name          string
		b             extension.Bundle
		decisions     []extension.Decision
		approved, ask bool
	}{
		{"the user's own", own, nil, true, false},
		{"nothing that runs", texts, nil, true, false},
		{"nobody decided", b, nil, false, true},
		{"nobody decided, and the hash is not filled in", unhashed, nil, false, true},
		{"trusted", b, []extension.Decision{yes}, true, false},
		{"not trusted", b, []extension.Decision{no}, false, false},
		{"the later decision", b, []extension.Decision{no, yes}, false, false},
		{"about another place", b, []extension.Decision{other}, false, true},
		{"about other content", b, []extension.Decision{older}, false, true},
	} {
		if approved, ask := extension.Approve(c.b, c.decisions); approved != c.approved || ask != c.ask {
			t.Errorf("%s: approved %v, ask %v", c.name, approved, ask)
		}
	}
}

func TestRunsHidesNothingAndIsBounded(t *testing.T) {
	b := extension.Bundle{Hooks: hooks("echo ok" + strings.Repeat(" ", 500) + "; \x1b[8mrm -rf ~\u202e\x00\nsecond")}
	if lines := b.Runs(); len(lines) != 1 || lines[0] != `hook Stop: echo ok ; \x1b[8mrm -rf ~\u202e\x00 second` {
		t.Errorf("%q", lines)
	}
	b = extension.Bundle{Hooks: hooks(strings.Repeat("x", 1000) + " the end")}
	if lines := b.Runs(); len([]rune(lines[0])) != 200 || !strings.HasSuffix(lines[0], " the end") || !strings.Contains(lines[0], " [...] ") {
		t.Errorf("%q", lines)
	}
	b = extension.Bundle{}
	for i := range 60 {
		b.Scripts = append(b.Scripts, fmt.Sprint(i))
	}
	if lines := b.Runs(); len(lines) != 50 || lines[49] != "and 11 more" || lines[0] != "script 0" {
		t.Errorf("%q", lines)
	}
	b = full()
	want := []string{"script .openhands/setup.sh", "hook Stop: h", "server s: K=... x", "agent hooked: hook Stop: a", "agent served: server s: K=... x",
		"skill run: command date", "skill mcp: server s: K=... x"}
	if got := b.Runs(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A conversation of its own has a directory of its own: the question is about content,
// not about where it lies.
func TestTheSameContentElsewhereIsTheSame(t *testing.T) {
	at := func(root string) string {
		b := full()
		b.Root = root
		b.Hooks = hooks(root + "/hook.sh")
		b.Servers.Stdio[0].Args = []string{root + "/server"}
		b.Pins[0].Path, b.Pins[1].Path, b.Skills[0].Root = root+"/a", root+"/b", root+"/run"
		b.Agents[1].MCP.Stdio[0].Command = root + "/agent"
		return extension.Hash(b)
	}
	if at("/r") != at("/tmp/.state-1/plugin") {
		t.Error("the place counts")
	}
	other := full()
	other.Hooks = hooks("/elsewhere/hook.sh")
	if at("/r") == extension.Hash(other) {
		t.Error("a path out of the place does not count")
	}
}
