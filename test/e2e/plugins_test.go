package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/test/testkit/gittest"
	"parley/test/testkit/mcpserver"
	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

// pluginFiles are a plugin with everything that one can bring.
func pluginFiles(t *testing.T, name, traces string) map[string]gittest.File {
	t.Helper()
	files := gittest.Text(map[string]string{
		".claude-plugin/plugin.json":         `{"name": "` + name + `"}`,
		"skills/" + name + "-skill/SKILL.md": "---\nname: " + name + "-skill\ndescription: Of the plugin " + name + ".\n---\nText of the plugin " + name + ".",
		"commands/go.md":                     "Go with " + name + ".",
		"agents/" + name + "-agent.md":       "---\nname: " + name + "-agent\ndescription: An agent of " + name + ".\n---\nYou are of " + name + ".",
		"hooks/keep.sh":                      keepScript,
		"hooks/hooks.json": jsonText(map[string]any{"hooks": map[string]any{"UserPromptSubmit": []any{map[string]any{"hooks": []any{
			map[string]any{"command": "sh ${CLAUDE_PLUGIN_ROOT}/hooks/keep.sh " + traces, "type": "command"}}}}}}),
		".mcp.json": `{"mcpServers": {"` + name + `": {"command": "${CLAUDE_PLUGIN_ROOT}/bin/server", "args": ["-log", "` + traces + "/" + name + `.log", "-tools", "` + name +
			`_tool", "-show", "CITY"], "env": {"CITY": "${city:-nowhere}"}}}}`,
	})
	files["bin/server"] = gittest.File{Data: string(mcpserver.Program(t)), Program: true}
	return files
}

// below puts files into a directory.
func below(t *testing.T, dir string, files map[string]gittest.File) {
	t.Helper()
	for name, f := range files {
		name = filepath.Join(dir, name)
		mode := os.FileMode(0o644)
		if f.Program {
			mode = 0o755
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(f.Data), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// Plugins from a repository and a directory, skills of the user's and a collection of
// the server's: their texts are there at once, what runs of plugins waits for trust,
// which holds for the next conversation, too.
func TestPluginsUserSkillsAndCollections(t *testing.T) {
	t.Parallel()
	team := tracesDir(t)
	below(t, team, gittest.Text(map[string]string{
		"skills/team-skill/SKILL.md": "---\nname: team-skill\ndescription: Of the team.\n---\nText of the team.",
		"agents/team-agent.md":       "---\nname: team-agent\ndescription: An agent of the team.\n---\nYou are of the team."}))
	x := newExtended(t, parleytest.Options{Args: []string{"--skill-collections", "org:team=" + team}})
	x.git = gittest.New(t)
	nested := map[string]gittest.File{}
	for name, f := range pluginFiles(t, "far", x.traces) {
		nested["plugins/far/"+name] = f
	}
	x.git.Commit("plugins", nested)
	near := tracesDir(t)
	below(t, near, pluginFiles(t, "near", x.traces))
	if code := x.Call("PUT", "/api/v1/skills/mine", map[string]any{"content": "---\ntriggers: [sesame]\n---\nText of the user."}, nil); code != http.StatusCreated {
		t.Fatalf("PUT skill: %d", code)
	}
	plugins := map[string]any{"selected_repository": nil, "plugins": []any{
		map[string]any{"source": x.git.URL("plugins"), "repo_path": "plugins/far", "parameters": map[string]any{"city": "Oslo"}}, map[string]any{"source": near}}}

	id, err := x.StartWith(plugins)
	if err != nil {
		t.Fatal(err)
	}
	x.model.Reply(openaitest.Text("I wait."))
	x.Send(id, "open sesame, /far:go")
	x.WaitStatus(id, "finished")
	x.nothingRan("before trust")
	first := x.model.Requests()[len(x.model.Requests())-1]
	prompt := systemPrompt(first)
	for _, want := range []string{"<name>far-skill</name>", "<name>near-skill</name>", "<name>team-skill</name>", "- team-agent: ", "far-agent (of a plugin, untrusted)"} {
		if !strings.Contains(prompt, want) {
			t.Errorf("%q is not in the system prompt: %s", want, prompt)
		}
	}
	for _, want := range []string{"Text of the user.", "Go with far."} {
		if !strings.Contains(first.LastUser(), want) {
			t.Errorf("%q is not with the message: %s", want, first.LastUser())
		}
	}
	asked := x.questions(id)
	if len(asked) != 2 || asked[0].Subject == asked[1].Subject {
		t.Fatalf("the questions are %+v", asked)
	}
	for _, q := range asked {
		x.decide(id, q, true)
	}
	x.usePlugins(id)

	again, err := x.StartWith(plugins)
	if err != nil {
		t.Fatal(err)
	}
	if asked := x.questions(again); len(asked) > 0 {
		t.Errorf("the same plugins are asked about again: %+v", asked)
	}
	x.model.Reply(openaitest.Text("hello"))
	x.Send(again, "hello")
	x.WaitStatus(again, "finished")
	if got := order(x.hooksOf(again)); got != "UserPromptSubmit UserPromptSubmit" {
		t.Errorf("the second conversation's hooks ran as %q", got)
	}
}

// usePlugins uses what plugins bring that are trusted.
func (x *extended) usePlugins(id string) {
	x.t.Helper()
	x.model.Reply(openaitest.Tool("invoke_skill", map[string]any{"name": "near-skill"}), openaitest.Tool("invoke_skill", map[string]any{"name": "team-skill"}),
		openaitest.Tool("far_tool", map[string]any{"text": "hello"}), openaitest.Tool("near_tool", map[string]any{"text": "hello"}), openaitest.Text("All used."))
	x.Send(id, "use them")
	x.Eventually("the answer", func() bool { return strings.Contains(texts(x.Events(id)), "All used.") })
	x.WaitStatus(id, "finished")
	log := x.Events(id)
	parleytest.CheckLog(x.t, log)
	text := texts(log)
	for _, want := range []string{"Text of the plugin near.", "Text of the team.", `"tool_name":"far_tool"`, `"tool_name":"near_tool"`} {
		if !strings.Contains(text, want) {
			x.t.Errorf("%q is missing in %s", want, text)
		}
	}
	if strings.Contains(text, "AgentErrorEvent") {
		x.t.Errorf("a call failed: %s", text)
	}
	for name, city := range map[string]string{"far": "Oslo", "near": "nowhere"} {
		if log := x.trace(name + ".log"); strings.Count(log, "\n") != 1 || !strings.Contains(log, "map[CITY:"+city+"]") {
			x.t.Errorf("the server of %s was started with %q", name, log)
		}
	}
	calls := x.hooksOf(id)
	if order(calls) != "UserPromptSubmit UserPromptSubmit" || slices.ContainsFunc(calls, func(c hookCall) bool { return c.Message == nil || *c.Message != "use them" }) {
		x.t.Errorf("the hooks ran as %s", order(calls))
	}
}
