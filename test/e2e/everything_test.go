package e2e_test

import (
	"encoding/json"
	"fmt"
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

// The scripts of the hooks. What they get they keep outside of the repository.
const (
	keepScript = `{ cat; echo; } >> "$1/hooks.log"
`
	guardScript = `read -r event
printf '%s\n' "$event" >> "$1/hooks.log"
case $event in
*the-forbidden-command*) echo "Use make instead, says the guard." >&2; exit 2;;
esac
`
	adviceScript = `{ cat; echo; } >> "$1/hooks.log"
echo '{"additionalContext": "The build is red today."}'
`
	stopScript = `{ cat; echo; } >> "$1/hooks.log"
if [ ! -e "$1/stopped" ]; then
  touch "$1/stopped"
  echo '{"decision": "deny", "reason": "The tests are missing."}'
fi
`
)

// hooksFile is a configuration with a command for each event.
func hooksFile(commands map[string]string) string {
	events := map[string]any{}
	for event, command := range commands {
		events[event] = []any{map[string]any{"matcher": "*", "hooks": []any{map[string]any{"command": command, "timeout": 20}}}}
	}
	return jsonText(map[string]any{"hooks": events})
}

// everything is a repository with all that one can bring. What runs of it leaves its
// traces in a directory.
func everything(t *testing.T, traces string) map[string]gittest.File {
	t.Helper()
	script := func(name string) string { return "sh .openhands/hooks/" + name + " " + traces }
	files := gittest.Text(map[string]string{
		"AGENTS.md":                         "Indent with tabs.",
		".cursorrules":                      "Write short functions.",
		".openhands/microagents/repo.md":    "---\nname: repo\ntype: repo\nagent: CodeActAgent\n---\nThe code is in src.",
		".openhands/microagents/db.md":      "---\ntriggers:\n- database\n---\nThe database is SQLite.",
		".openhands/microagents/release.md": "---\ninputs:\n- name: VERSION\n  description: What to release\n---\nRelease ${VERSION} with make.",
		".openhands/microagents/broken.md":  "---\nname: broken\ntriggers: [one\n---\nNobody reads this.",
		".openhands/microagents/web.md":     "---\npaths:\n- web/**\n---\nPages are in plain HTML.",
		".openhands/microagents/notes.md": "---\nname: notes\nmcp_tools:\n  stdio_servers:\n  - name: notes\n    command: ./bin/notes\n" +
			"    args: [\"-log\", \"" + traces + "/mcp.log\", \"-tools\", \"remember\"]\n---\nNotes are kept by a server.",
		".agents/skills/report/SKILL.md":             "---\nname: report\ndescription: Writes the weekly report.\n---\nThe report has !`cat references/lines.txt; touch " + traces + "/skill` lines.",
		".agents/skills/report/references/lines.txt": "forty-two",
		".agents/skills/report/scripts/send.sh":      "true\n",
		".agents/agents/scout.md":                    "---\nname: scout\ndescription: Looks around.\ntools: [terminal]\n---\nYou are the scout of this repository.",
		".openhands/setup.sh":                        "echo once >> " + traces + "/setup\n",
		".openhands/pre-commit.sh":                   "#!/bin/sh\nexit 0\n",
		".openhands/hooks/keep.sh":                   keepScript,
		".openhands/hooks/guard.sh":                  guardScript,
		".openhands/hooks/advice.sh":                 adviceScript,
		".openhands/hooks/stop.sh":                   stopScript,
		".openhands/hooks.json": hooksFile(map[string]string{"SessionStart": script("keep.sh"), "UserPromptSubmit": script("advice.sh"),
			"PreToolUse": script("guard.sh"), "PostToolUse": script("keep.sh"), "Stop": script("stop.sh"), "SessionEnd": script("keep.sh")}),
	})
	files["bin/notes"] = gittest.File{Data: string(mcpserver.Program(t)), Program: true}
	return files
}

// question asks whether something may run.
type question struct {
	Subject string   `json:"subject"`
	Hash    string   `json:"hash"`
	Runs    []string `json:"runs"`
}

// extended is a server with conversations that have extensions.
type extended struct {
	*parleytest.Server
	t      *testing.T
	model  *openaitest.Server
	git    *gittest.Server
	traces string // of what ran
}

func newExtended(t *testing.T, opt parleytest.Options) *extended {
	t.Helper()
	x := &extended{t: t, model: openaitest.New(t), traces: tracesDir(t)}
	opt.Sandbox = "process" // it reaches the repositories on this machine, and whatever a hostile one wants to reach
	x.Server = parleytest.Start(t, opt)
	x.UseModel(x.model.URL()+"/v1", nil)
	t.Cleanup(func() {
		for _, r := range x.model.Requests() {
			if r.Problem != "" {
				t.Errorf("a provider would refuse: %s", r.Problem)
			}
		}
	})
	return x
}

// tracesDir has a name without characters that mean something to a shell.
func tracesDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "traces-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// on starts a conversation on a repository.
func (x *extended) on(repository string, more map[string]any) string {
	x.t.Helper()
	body := map[string]any{"selected_repository": x.git.URL(repository)}
	for k, v := range more {
		body[k] = v
	}
	id, err := x.StartWith(body)
	if err != nil {
		x.t.Fatal(err)
	}
	return id
}

// notes is what a conversation tells about its agent.
type agentNotes struct {
	Questions []question `json:"trust_questions"`
	Problems  []string   `json:"extension_problems"`
	Servers   []struct {
		Name, State, Detail string
	} `json:"mcp_servers"`
	Tasks []struct {
		ID             string `json:"id"`
		ConversationID string `json:"conversation_id"`
		Status         string `json:"status"`
	} `json:"tasks"`
}

func (x *extended) notes(id string) agentNotes {
	x.t.Helper()
	var info struct {
		State agentNotes `json:"agent_state"`
	}
	x.AgentOf(id).Do(http.StatusOK, "GET", dashed(id), "", nil, &info)
	return info.State
}

// dashed is an id as the agent protocol writes it.
func dashed(id string) string {
	if len(id) != 32 {
		return id
	}
	return strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
}

// questions are what the API says that is to be decided.
func (x *extended) questions(id string) []question {
	x.t.Helper()
	var out struct {
		Questions []question `json:"questions"`
	}
	if code := x.Call("GET", "/api/v1/app-conversations/"+id+"/trust", nil, &out); code != http.StatusOK {
		x.t.Fatalf("GET trust: %d", code)
	}
	return out.Questions
}

// decide answers a question.
func (x *extended) decide(id string, q question, trusted bool) {
	x.t.Helper()
	if code := x.Call("POST", "/api/v1/app-conversations/"+id+"/trust",
		map[string]any{"subject": q.Subject, "hash": q.Hash, "trusted": trusted}, nil); code/100 != 2 {
		x.t.Fatalf("POST trust: %d", code)
	}
}

// trust says yes to the only question.
func (x *extended) trust(id string) {
	x.t.Helper()
	all := x.questions(id)
	if len(all) != 1 {
		x.t.Fatalf("there are %d questions: %+v", len(all), all)
	}
	x.decide(id, all[0], true)
}

// nothingRan checks that there are no traces.
func (x *extended) nothingRan(when string) {
	x.t.Helper()
	found, err := os.ReadDir(x.traces)
	if err != nil || len(found) > 0 {
		x.t.Errorf("%s something ran: %v %v", when, found, err)
	}
}

// trace is the text that something which ran left.
func (x *extended) trace(name string) string {
	x.t.Helper()
	raw, err := os.ReadFile(filepath.Join(x.traces, name))
	if err != nil && !os.IsNotExist(err) {
		x.t.Fatal(err)
	}
	return string(raw)
}

// hookCall is what a hook reads.
type hookCall struct {
	Event    string         `json:"event_type"`
	Tool     *string        `json:"tool_name"`
	Input    map[string]any `json:"tool_input"`
	Response map[string]any `json:"tool_response"`
	Message  *string        `json:"message"`
	Session  string         `json:"session_id"`
	Dir      string         `json:"working_dir"`
	Metadata map[string]any `json:"metadata"`
}

// hooksOf are the calls that hooks of a conversation got, in their order; "" = of all.
func (x *extended) hooksOf(id string) []hookCall {
	x.t.Helper()
	var all []hookCall
	for line := range strings.Lines(x.trace("hooks.log")) {
		var members map[string]json.RawMessage
		var c hookCall
		if err := json.Unmarshal([]byte(line), &members); err != nil || json.Unmarshal([]byte(line), &c) != nil {
			x.t.Fatalf("a hook got %q: %v", line, err)
		}
		for _, name := range []string{"event_type", "tool_name", "tool_input", "tool_response", "message", "session_id", "working_dir", "metadata"} {
			if _, there := members[name]; !there {
				x.t.Errorf("a hook misses %s: %s", name, line)
			}
		}
		if id == "" || sameID(c.Session, id) {
			all = append(all, c)
		}
	}
	return all
}

func sameID(a, b string) bool {
	return strings.ReplaceAll(a, "-", "") == strings.ReplaceAll(b, "-", "")
}

// order tells calls of hooks by their event and tool.
func order(calls []hookCall) string {
	var names []string
	for _, c := range calls {
		name := c.Event
		if c.Tool != nil {
			name += ":" + *c.Tool
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// systemPrompt is that of a request.
func systemPrompt(r *openaitest.Request) string {
	if len(r.Messages) == 0 || r.Messages[0].Role != "system" {
		return ""
	}
	return r.Messages[0].Text()
}

// ofScout matches the requests of the sub-agent.
func ofScout(r *openaitest.Request) bool {
	return strings.Contains(systemPrompt(r), "You are the scout of this repository.")
}

// A repository that uses everything: nothing of it runs before the user said so, all
// of it after.
func TestARepositoryThatUsesEverything(t *testing.T) {
	t.Parallel()
	x := newExtended(t, parleytest.Options{})
	x.git = gittest.New(t)
	files := everything(t, x.traces)
	x.git.Commit("everything", files)

	id := x.on("everything", nil)
	x.beforeTrust(id)
	x.trust(id)
	x.afterTrust(id)
	x.useAll(id)
	x.checkHooks(id)
	x.checkEvents(id)
	x.checkRequests()
	if left := x.questions(id); len(left) > 0 || len(x.notes(id).Questions) > 0 {
		t.Errorf("it is asked again: %+v", left)
	}

	again := x.on("everything", nil)
	if left := x.questions(again); len(left) > 0 {
		t.Fatalf("the second conversation asks: %+v", left)
	}
	x.Eventually("the second conversation's hooks", func() bool { return order(x.hooksOf(again)) == "SessionStart" })
	if code := x.Call("DELETE", "/api/v1/app-conversations/"+again, nil, nil); code != http.StatusOK {
		t.Fatalf("delete: %d", code)
	}
	x.Eventually("the hook of the end", func() bool { return order(x.hooksOf(again)) == "SessionStart SessionEnd" })

	before := x.trace("hooks.log")
	files[".openhands/hooks/keep.sh"] = gittest.File{Data: "touch " + x.traces + "/changed\n" + keepScript}
	x.git.Commit("everything", files)
	changed := x.on("everything", nil)
	x.model.Reply(openaitest.Text("I see."))
	x.Send(changed, "hello")
	x.WaitStatus(changed, "finished")
	if asked := x.questions(changed); len(asked) != 1 || x.trace("hooks.log") != before || x.trace("changed") != "" {
		t.Errorf("a script that changed is not asked about: %+v", asked)
	}
}

// beforeTrust checks what there is while nobody said yes.
func (x *extended) beforeTrust(id string) {
	x.t.Helper()
	x.model.Reply(openaitest.Text("I wait."))
	x.Send(id, "The database can wait.")
	x.WaitStatus(id, "finished")
	x.nothingRan("before trust")
	asked := x.notes(id).Questions
	if len(asked) != 1 {
		x.t.Fatalf("the questions are %+v", asked)
	}
	q := asked[0]
	if over := x.questions(id); len(over) != 1 || over[0].Hash != q.Hash || !slices.Equal(over[0].Runs, q.Runs) {
		x.t.Errorf("the API asks %+v, the state %+v", over, q)
	}
	runs := strings.Join(q.Runs, "\n")
	for _, want := range []string{"script .openhands/setup.sh", "script .openhands/pre-commit.sh", "hook PreToolUse: sh .openhands/hooks/guard.sh",
		"hook SessionEnd", "skill notes: server notes: ./bin/notes", "skill report: command cat references/lines.txt"} {
		if !strings.Contains(runs, want) {
			x.t.Errorf("%q is not said to run: %s", want, runs)
		}
	}
	if want := "repository " + strings.TrimSuffix(x.git.URL("everything"), ".git"); q.Subject != want {
		x.t.Errorf("the question is about %q, want %q", q.Subject, want)
	}
	problems := strings.Join(x.notes(id).Problems, "\n")
	if !strings.Contains(problems, ".openhands/microagents/broken.md:3: ") || len(x.notes(id).Problems) != 1 {
		x.t.Errorf("the problems are %s", problems)
	}
	last := x.model.Requests()[len(x.model.Requests())-1]
	if slices.Contains(last.ToolNames(), "remember") {
		x.t.Errorf("the model is offered %v", last.ToolNames())
	}
	prompt := systemPrompt(last)
	for _, want := range []string{"Indent with tabs.", "Write short functions.", "The code is in src.", "Notes are kept by a server.",
		"<name>report</name><description>Writes the weekly report.</description>", "scout (of the repository, untrusted)"} {
		if !strings.Contains(prompt, want) {
			x.t.Errorf("%q is not in the system prompt", want)
		}
	}
	for _, not := range []string{"The database is SQLite.", "Pages are in plain HTML.", "Nobody reads this.", "forty-two"} {
		if strings.Contains(prompt, not) {
			x.t.Errorf("%q is in the system prompt", not)
		}
	}
	if user := last.LastUser(); !strings.Contains(user, "The database is SQLite.") {
		x.t.Errorf("text that a keyword calls for needs no trust, but the model reads %s", user)
	}
}

// afterTrust waits for what the start left undone.
func (x *extended) afterTrust(id string) {
	x.t.Helper()
	x.Eventually("the hook of the beginning", func() bool { return order(x.hooksOf(id)) == "SessionStart" })
	x.Eventually("the set-up", func() bool { return x.trace("setup") == "once\n" })
	x.Eventually("the commit hook", func() bool {
		return exists(filepath.Join(x.hooksOf(id)[0].Dir, ".git/hooks/pre-commit"))
	})
}

// useAll lets the model use all that there is.
func (x *extended) useAll(id string) {
	x.t.Helper()
	cost := 0.25
	scouting, found := run("echo scouting-$((40+2))"), openaitest.Text("There are forty-two files.")
	scouting.Usage = &openaitest.Usage{Prompt: 100, Completion: 10, Cost: &cost}
	found.Usage = scouting.Usage
	x.model.ReplyWhen(ofScout, scouting, found)
	x.model.Reply(
		openaitest.Tool("terminal", map[string]any{"command": "echo the-forbidden-command"}),
		openaitest.Tool("invoke_skill", map[string]any{"name": "report"}),
		openaitest.Tool("file_editor", map[string]any{"command": "create", "path": x.hooksOf(id)[0].Dir + "/web/index.html", "file_text": "<p>\n"}),
		openaitest.Tool("remember", map[string]any{"text": "the milk"}),
		openaitest.Tool("task", map[string]any{"prompt": "Count the files.", "description": "count files", "subagent_type": "scout"}),
		openaitest.Text("All done."), openaitest.Text("Now with tests."))
	if code := x.Send(id, "/release the DATABASE, as the database is ready"); code != http.StatusOK {
		x.t.Fatalf("send: %d", code)
	}
	x.WaitEvent(id, "the end of the run", func(e parleytest.Event) bool {
		return e.Kind() == "MessageEvent" && e["source"] == "agent" && strings.Contains(e.Text(), "Now with tests.")
	})
	x.WaitStatus(id, "finished")
	if left := x.model.Left(); left > 0 {
		x.t.Errorf("%d answers were not asked for", left)
	}
}

// checkHooks checks what the hooks got.
func (x *extended) checkHooks(id string) {
	x.t.Helper()
	calls := x.hooksOf(id)
	want := "SessionStart UserPromptSubmit PreToolUse:terminal PreToolUse:invoke_skill PostToolUse:invoke_skill PreToolUse:file_editor PostToolUse:file_editor " +
		"PreToolUse:remember PostToolUse:remember PreToolUse:task PostToolUse:task Stop Stop"
	if got := order(calls); got != want {
		x.t.Fatalf("the hooks ran as\n%s\nwant\n%s", got, want)
	}
	if got, want := order(x.hooksOf("")), "PreToolUse:task PreToolUse:terminal PostToolUse:terminal PostToolUse:task"; !strings.Contains(got, want) {
		x.t.Errorf("the sub-agent's hooks did not run within its task: %s", got)
	}
	dir := calls[0].Dir
	for _, c := range calls {
		if c.Dir != dir || filepath.Base(dir) != "everything" || c.Metadata == nil {
			x.t.Errorf("%s has the directory %q and the metadata %v", c.Event, c.Dir, c.Metadata)
		}
		if (c.Tool != nil) != (c.Input != nil) || (c.Event == "PostToolUse") != (c.Response != nil) {
			x.t.Errorf("%s has input %v and response %v", c.Event, c.Input, c.Response)
		}
	}
	message := func(i int) string {
		if calls[i].Message == nil {
			return "null"
		}
		return *calls[i].Message
	}
	for i, want := range map[int]string{0: "null", 1: "/release the DATABASE, as the database is ready", 2: "null", 11: "All done.", 12: "Now with tests."} {
		if got := message(i); got != want {
			x.t.Errorf("%s %d has the message %q, want %q", calls[i].Event, i, got, want)
		}
	}
	if got := calls[2].Input["command"]; got != "echo the-forbidden-command" {
		x.t.Errorf("the guard saw %v", calls[2].Input)
	}
	if raw, _ := json.Marshal(calls[8].Response); !strings.Contains(string(raw), "the milk") {
		x.t.Errorf("behind the tool a hook saw %s", raw)
	}
}

// checkEvents checks the log of the conversation and of its sub-agent.
func (x *extended) checkEvents(id string) {
	x.t.Helper()
	log := x.Events(id)
	parleytest.CheckLog(x.t, log)
	parleytest.CheckStates(x.t, log)
	var rejected, activated []string
	for _, e := range log {
		switch e.Kind() {
		case "UserRejectObservation":
			rejected = append(rejected, fmt.Sprint(e["rejection_source"], " ", e["rejection_reason"]))
		case "MessageEvent":
			names, _ := e["activated_skills"].([]any)
			for _, name := range names {
				activated = append(activated, fmt.Sprint(name))
			}
		}
	}
	if len(rejected) != 1 || !strings.HasPrefix(rejected[0], "hook ") || !strings.Contains(rejected[0], "Use make instead, says the guard.") {
		x.t.Errorf("rejected is %q", rejected)
	}
	if slices.Sort(activated); strings.Join(activated, " ") != "db release" { // db by the first message, once
		x.t.Errorf("activated are %q", activated)
	}
	if text := texts(log); strings.Contains(text, `"text":"the-forbidden-command"`) {
		x.t.Error("what the guard blocked ran")
	}
	x.checkTask(id)
}

// checkTask checks the sub-agent's conversation.
func (x *extended) checkTask(id string) {
	x.t.Helper()
	tasks := x.notes(id).Tasks
	if len(tasks) != 1 || tasks[0].Status != "finished" || tasks[0].ID != "task_00000001" {
		x.t.Fatalf("the tasks are %+v", tasks)
	}
	parent, child := x.Info(id), x.Info(strings.ReplaceAll(tasks[0].ConversationID, "-", ""))
	if got, _ := child["parent_conversation_id"].(string); !sameID(got, id) || child["sandbox_id"] != parent["sandbox_id"] {
		x.t.Errorf("the sub-agent's conversation is %v", child)
	}
	if subs, _ := parent["sub_conversation_ids"].([]any); len(subs) != 1 || !sameID(fmt.Sprint(subs[0]), tasks[0].ConversationID) {
		x.t.Errorf("the parent's sub-conversations are %v", parent["sub_conversation_ids"])
	}
	log := x.Events(strings.ReplaceAll(tasks[0].ConversationID, "-", ""))
	parleytest.CheckLog(x.t, log)
	if !strings.Contains(texts(log), `"text":"scouting-42"`) {
		x.t.Errorf("the sub-agent did not work: %s", texts(log))
	}
	type spent struct {
		Calls int
		Cost  float64
	}
	var usage struct {
		Own  spent
		Tree spent `json:"with_sub_conversations"`
	}
	if code := x.Call("GET", "/api/v1/app-conversations/"+id+"/usage", nil, &usage); code != http.StatusOK {
		x.t.Fatalf("usage: %d", code)
	}
	if usage.Tree.Calls != usage.Own.Calls+2 || usage.Tree.Cost != usage.Own.Cost+0.5 {
		x.t.Errorf("with the task's two calls at 0.25 each the conversation used %+v", usage)
	}
}

// checkRequests checks what the model read.
func (x *extended) checkRequests() {
	x.t.Helper()
	all := x.model.Requests()
	last := all[len(all)-1]
	var whole strings.Builder
	for _, m := range last.Messages {
		whole.WriteString(m.Text() + "\n")
	}
	text := whole.String()
	for _, want := range []string{"Use make instead, says the guard.", "The build is red today.", "Pages are in plain HTML.", "The report has forty-two lines.",
		"scripts/send.sh", "the milk", "There are forty-two files.", "[Stop hook feedback] The tests are missing.", "This task needs: VERSION."} {
		if strings.Count(text, want) != 1 {
			x.t.Errorf("the model reads %q %d times", want, strings.Count(text, want))
		}
	}
	if n := strings.Count(text, "The database is SQLite."); n != 1 {
		x.t.Errorf("the model reads what the keyword calls for %d times", n)
	}
	if !slices.Contains(last.ToolNames(), "remember") || !slices.Contains(last.ToolNames(), "invoke_skill") {
		x.t.Errorf("the model is offered %v", last.ToolNames())
	}
	for _, r := range all {
		if ofScout(r) && strings.Contains(r.LastUser(), "Count the files.") {
			return
		}
	}
	x.t.Error("the sub-agent was not asked")
}

// jsonText renders a value.
func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
