package e2e_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/test/testkit/gittest"
	"parley/test/testkit/mcpserver"
	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

// trusting starts a server whose operator trusts all repositories, with one sandbox,
// isolated as by default.
func trusting(t *testing.T, env ...string) (*parleytest.Agent, *openaitest.Server) {
	t.Helper()
	return agentWith(t, append(env, "PARLEY_REPOSITORY_TRUST=always")...)
}

// write puts files into a directory of the sandbox, whose user may write there, and
// returns its path inside.
func write(t *testing.T, a *parleytest.Agent, dir string, files map[string]gittest.File) string {
	t.Helper()
	for name, f := range files {
		name = filepath.Join(a.File(dir), name)
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if f.Link && err == nil {
			err = os.Symlink(f.Data, name)
		} else if err == nil {
			err = os.WriteFile(name, []byte(f.Data), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := filepath.WalkDir(a.File(dir), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		return os.Chmod(name, 0o777)
	}); err != nil {
		t.Fatal(err)
	}
	return "/workspace/project/" + dir
}

// content is a file's text, "" if there is none.
func content(file string) string {
	raw, _ := os.ReadFile(file)
	return string(raw)
}

// in is the request for a conversation in a directory of the sandbox, with what is
// there for agents.
func in(model *openaitest.Server, dir, message string) map[string]any {
	body := starting(model, message, map[string]any{"workspace": map[string]any{"working_dir": dir}})
	body["agent"].(map[string]any)["agent_context"] = map[string]any{"load_project_skills": true}
	return body
}

// processes counts those of this machine whose command line has a word.
func processes(t *testing.T, word string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range all {
		if raw, err := os.ReadFile(file); err == nil && bytes.Contains(raw, []byte(word)) {
			n++
		}
	}
	return n
}

// withServer is a repository whose skill brings an MCP server with one tool.
func withServer(t *testing.T, mark, tool string) map[string]gittest.File {
	t.Helper()
	files := gittest.Text(map[string]string{".openhands/microagents/kit.md": "---\nmcp_tools:\n  stdio_servers:\n  - name: kit\n    command: ./bin/" + mark +
		"\n    args: [\"-log\", \"starts\", \"-tools\", \"" + tool + "\"]\n---\nThere is a kit."})
	files["bin/"+mark] = gittest.File{Data: string(mcpserver.Program(t)), Program: true}
	return files
}

// The death of the server ends the MCP servers that it ran, also with a call under
// way; the call is not made again, and the server runs again when it is needed.
func TestKillNineWithAnMCPServer(t *testing.T) {
	t.Parallel()
	a, model := trusting(t)
	mark := fmt.Sprintf("kit-%d", a.PID())
	dir := write(t, a, "kit", withServer(t, mark, "slow"))
	model.Reply(openaitest.Tool("slow", map[string]any{}), openaitest.Text("I do not know what came of it."),
		openaitest.Text("It is there again."))
	id := a.Start(in(model, dir, "use the kit"))
	a.Eventually("the call", func() bool {
		return strings.Contains(texts(a.Log(id)), `"tool_name":"slow"`) && processes(t, mark) == 1
	})
	a.Kill()
	a.Eventually("the MCP server to end", func() bool { return processes(t, mark) == 0 })
	a.Again()
	waits(a, id, "finished")
	log := a.Log(id)
	parleytest.CheckLog(t, log)
	parleytest.CheckStates(t, log)
	if text := texts(log); strings.Count(text, unknownOutcome) != 1 || strings.Count(text, `"kind":"ActionEvent"`) != 1 {
		t.Errorf("the call that was interrupted: %s", text)
	}
	a.Say(id, "is it there?")
	a.Eventually("the last answer", func() bool { return strings.Contains(texts(a.Log(id)), "It is there again.") })
	waits(a, id, "finished")
	if last := model.Requests()[len(model.Requests())-1]; !strings.Contains(strings.Join(last.ToolNames(), " "), "slow") || processes(t, mark) != 1 {
		t.Errorf("the server is not there again: %v, %d processes", last.ToolNames(), processes(t, mark))
	}
	if took := a.Stop(); processes(t, mark) != 0 {
		t.Errorf("behind a clean stop, which took %s, the MCP server runs", took)
	}
}

// slowHook is a repository with a hook that does not end.
func slowHook(event string) map[string]gittest.File {
	return gittest.Text(map[string]string{".openhands/hooks.json": hooksFile(map[string]string{event: "echo once >> hook.log; sleep 30"})})
}

// A hook that the death of the server finds in the middle: what it guards does not
// happen unguarded, what happened before it does not happen again, and it does not run
// a second time for the same call.
func TestKillNineWhileAHookRuns(t *testing.T) {
	t.Parallel()
	a, model := trusting(t)
	for _, tt := range []struct {
		event string
		ran   string // by the tool
	}{{"PreToolUse", ""}, {"PostToolUse", "ran\n"}} {
		dir := write(t, a, tt.event, slowHook(tt.event))
		model.Reply(run("echo ran >> tool.log"), openaitest.Text("I do not know."))
		id := a.Start(in(model, dir, "do it"))
		a.Eventually("the hook", func() bool { return content(a.File(tt.event+"/hook.log")) == "once\n" })
		a.Kill()
		a.Again()
		waits(a, id, "finished")
		log := a.Log(id)
		parleytest.CheckLog(t, log)
		parleytest.CheckStates(t, log)
		if text := texts(log); strings.Count(text, unknownOutcome) != 1 {
			t.Errorf("%s: the interrupted call is not explained: %s", tt.event, text)
		}
		hook, tool := content(a.File(tt.event+"/hook.log")), content(a.File(tt.event+"/tool.log"))
		if hook != "once\n" || tool != tt.ran {
			t.Errorf("%s: the hook wrote %q, the tool %q", tt.event, hook, tool)
		}
	}
}

// subagent is a repository with an agent that works in it.
func subagentFiles() map[string]gittest.File {
	return gittest.Text(map[string]string{".agents/agents/scout.md": "---\nname: scout\ndescription: Looks around.\n---\nYou are the scout of this repository."})
}

// child is the conversation of a conversation's only task.
func child(a *parleytest.Agent, id string) (conversation, status string) {
	var info struct {
		State agentNotes `json:"agent_state"`
	}
	a.Do(http.StatusOK, "GET", id, "", nil, &info)
	if len(info.State.Tasks) != 1 {
		return "", ""
	}
	return dashed(info.State.Tasks[0].ConversationID), info.State.Tasks[0].Status
}

// A sub-agent whose server dies is paused, does nothing twice, and goes on where it was
// when it is resumed.
func TestKillNineWithASubAgent(t *testing.T) {
	t.Parallel()
	a, model := trusting(t)
	dir := write(t, a, "sub", subagentFiles())
	model.ReplyWhen(ofScout, run("echo once >> scout.log; sleep 3600"))
	model.ReplyWhen(func(r *openaitest.Request) bool { return ofScout(r) && strings.Contains(r.LastUser(), "Go on") }, openaitest.Text("There is one."))
	model.Reply(openaitest.Tool("task", map[string]any{"prompt": "Count.", "subagent_type": "scout"}), openaitest.Text("It was interrupted."),
		openaitest.Tool("task", map[string]any{"prompt": "Go on.", "resume": "task_00000001"}), openaitest.Text("One, it says."))
	id := a.Start(in(model, dir, "count it"))
	a.Eventually("the sub-agent", func() bool { return content(a.File("sub/scout.log")) == "once\n" })
	sub, _ := child(a, id)
	a.Kill()
	a.Again()
	waits(a, id, "finished")
	waits(a, sub, "paused")
	if _, status := child(a, id); status != "paused" {
		t.Errorf("the parent says that the task is %s", status)
	}
	a.Say(id, "resume it")
	a.Eventually("the answer", func() bool { return strings.Contains(texts(a.Log(id)), "One, it says.") })
	waits(a, id, "finished")
	waits(a, sub, "finished")
	for _, conversation := range []string{id, sub} {
		parleytest.CheckLog(t, a.Log(conversation))
		parleytest.CheckStates(t, a.Log(conversation))
	}
	if again, status := child(a, id); again != sub || status != "finished" {
		t.Errorf("the task is %s in %s, it was in %s", status, again, sub)
	}
	if raw := content(a.File("sub/scout.log")); raw != "once\n" {
		t.Errorf("the sub-agent ran %q", raw)
	}
	if text := texts(a.Log(id)); !strings.Contains(text, `"text":"There is one."`) {
		t.Errorf("what the sub-agent found is missing in %s", text)
	}
}

// Whoever stops an agent stops its sub-agents.
func TestStoppingAParentStopsItsSubAgent(t *testing.T) {
	t.Parallel()
	a, model := trusting(t)
	for _, how := range []string{"interrupt", "pause"} {
		dir := write(t, a, how, subagentFiles())
		release := make(chan struct{})
		held := run("true")
		if how == "pause" { // takes effect between steps
			held.Release = release
		} else {
			held = run("touch begun; sleep 3600")
		}
		model.ReplyWhen(func(r *openaitest.Request) bool { return ofScout(r) && strings.Contains(r.LastUser(), how) }, run("touch begun"), held)
		model.ReplyWhen(func(r *openaitest.Request) bool { return r.LastUser() == how+" it" }, openaitest.Tool("task", map[string]any{"prompt": how, "subagent_type": "scout"}))
		id := a.Start(in(model, dir, how+" it"))
		a.Eventually("the sub-agent", func() bool { return exists(a.File(how + "/begun")) })
		a.Eventually("the task", func() bool { sub, _ := child(a, id); return sub != "" })
		sub, _ := child(a, id)
		a.Do(http.StatusOK, "POST", id, "/"+how, nil, nil)
		close(release)
		waits(a, sub, "paused")
		waits(a, id, "paused")
		parleytest.CheckLog(t, a.Log(sub), parleytest.OpenCalls(a.Log(sub))...)
	}
}
