package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/skill"
	"parley/internal/subagent"
)

// hooks is a hook_config with one command for an event.
func hooks(event, command string) map[string]any {
	return map[string]any{event: []any{map[string]any{"matcher": "*", "hooks": []any{map[string]any{"type": "command", "command": command}}}}}
}

// file writes a file into the directory that the conversations share.
func (b *bench) file(name, text string) string {
	b.Helper()
	full := filepath.Join(b.dir, name)
	check(b.TB, os.MkdirAll(filepath.Dir(full), 0o755))
	check(b.TB, os.WriteFile(full, []byte(text), 0o644))
	return full
}

// exists reports whether there is a file in the directory.
func (b *bench) exists(name string) bool {
	_, err := os.Stat(filepath.Join(b.dir, name))
	return err == nil
}

// log is what a client reads of a conversation's events of a kind.
func (b *bench) log(path, kind string) *answer {
	b.Helper()
	return b.as(b.key, "GET", path+"/events/search?kind="+kind, nil).is(200)
}

// run starts a conversation, waits for the end of its first run and returns its path.
func (b *bench) run(body map[string]any, until conversation.Status) (id, path string) {
	b.Helper()
	a := b.post(201, conversations, body)
	b.waitFor(hexOf(a), until)
	return hexOf(a), conversations + "/" + a.text("id")
}

func has(a *answer, parts ...string) {
	a.Helper()
	for _, p := range parts {
		if !strings.Contains(string(a.body), p) {
			a.Errorf("%q is not in %s", p, a.body)
		}
	}
}

// Hooks of a request are the user's own: they run without a question.
func TestAgentHookBlocksAnAction(t *testing.T) {
	h := &hearing{}
	b := newBench(t, callTool("sh", `{"command":"touch made"}`), h.then(say("so be it")))
	_, path := b.run(b.with(map[string]any{"initial_message": userSays("make it"),
		"hook_config": map[string]any{"hooks": hooks("PreToolUse", "echo not here >&2; exit 2")}}), conversation.Finished)
	if b.exists("made") || !strings.Contains(h.last(), "not here") {
		t.Errorf("made: %v; the model was told %q", b.exists("made"), h.last())
	}
	has(b.log(path, "UserRejectObservation"), `"rejection_source":"hook"`, `"rejection_reason":"not here`)
	has(b.log(path, "HookExecutionEvent"), `"hook_event_type":"PreToolUse"`, `"blocked":true`, `"exit_code":2`)
	action := b.log(path, "ActionEvent").text("items", 0, "id")
	info := b.info(path)
	if !strings.Contains(info.text("blocked_actions", action), "not here") {
		t.Errorf("%s", info.body)
	}
	if info.text("hook_config", "pre_tool_use", 0, "hooks", 0, "command") != "echo not here >&2; exit 2" {
		t.Errorf("%s", info.body)
	}
	if list := b.as(b.key, "GET", conversations+"?ids="+info.text("id"), nil).is(200); list.at(0, "hook_config") != nil || list.text(0, "blocked_actions", action) == "" {
		t.Errorf("%s", list.body)
	}
}

func TestAgentHookBlocksAMessage(t *testing.T) {
	b := newBench(t, say("never"))
	_, path := b.run(b.with(map[string]any{"initial_message": userSays("the secret word"),
		"hook_config": hooks("user_prompt_submit", "exit 2")}), conversation.Finished)
	info := b.info(path)
	if blocked, ok := info.at("blocked_messages").(map[string]any); !ok || len(blocked) != 1 {
		t.Errorf("%s", info.body)
	}
	if b.model.calls != 0 {
		t.Error("the model was asked")
	}
}

func TestAgentSkillsOfARequest(t *testing.T) {
	h := &hearing{}
	b := newBench(t, h.then(callTool("invoke_skill", `{"name":"pdf"}`)), h.then(say("done")), h.then(say("again")))
	body := b.agentWith(map[string]any{"agent_context": map[string]any{"user_message_suffix": "be brief", "skills": []any{
		map[string]any{"name": "frog", "content": "Frogs are green.", "trigger": map[string]any{"type": "keyword", "keywords": []any{"frog"}}},
		map[string]any{"name": "notes", "content": "Write tests.", "trigger": nil, "source": nil},
		map[string]any{"name": "pdf", "content": "It says !`echo ran`.", "description": "makes PDFs", "is_agentskills_format": true},
		map[string]any{"name": "off", "content": "Nobody reads this."}}, "disabled_skills": []any{"off"}}})
	body["initial_message"] = userSays("draw a frog")
	_, path := b.run(body, conversation.Finished)
	first := h.told[0]
	for _, want := range []string{"Frogs are green.", "Write tests.", "makes PDFs", "be brief"} {
		if !strings.Contains(first, want) {
			t.Errorf("%q is not in %s", want, first)
		}
	}
	if strings.Contains(first, "It says") || strings.Contains(first, "Nobody reads") || !strings.Contains(h.last(), "It says ran.") {
		t.Errorf("the model was told first %s, and then %s", first, h.last())
	}
	has(b.log(path, "MessageEvent"), `"activated_skills":["frog"]`, "Frogs are green.")
	b.post(200, path+"/events", map[string]any{"role": "user", "run": true, "content": []any{map[string]any{"type": "text", "text": "a frog again"}}})
	b.eventually("the second answer", func() bool { return strings.Contains(string(b.log(path, "MessageEvent").body), `"again"`) })
	info := b.info(path)
	if fmt.Sprint(info.at("activated_knowledge_skills")) != "[frog]" || fmt.Sprint(info.at("invoked_skills")) != "[pdf]" {
		t.Errorf("%s", info.body)
	}
	if !strings.Contains(h.tools[0], "invoke_skill") {
		t.Errorf("the model has %s", h.tools[0])
	}
}

// Without AgentSkills there is nothing to open; and a copy of a skill of the
// repository is not trusted because a client sent it along.
func TestAgentSkillsAreNotTrustedBlindly(t *testing.T) {
	h := &hearing{}
	b := newBench(t, h.then(say("no skills")), h.then(callTool("invoke_skill", `{"name":"pdf"}`)), h.then(say("done")))
	_, _ = b.run(b.with(map[string]any{"initial_message": userSays("hi")}), conversation.Finished)
	if strings.Contains(h.tools[0], "invoke_skill") {
		t.Errorf("the model has %s", h.tools[0])
	}
	body := b.withSkills(map[string]any{"name": "pdf", "content": "!`touch ran`", "is_agentskills_format": true,
		"source": filepath.Join(b.dir, ".agents/skills/pdf/SKILL.md")})
	body["initial_message"] = userSays("hi")
	_, _ = b.run(body, conversation.Finished)
	if b.exists("ran") {
		t.Error("a command of a skill from the working directory ran")
	}
}

// Nor is what skills and agents of the repository bring along.
func TestAgentCopiesOfARepositoryBringNothingThatRuns(t *testing.T) {
	h := &hearing{}
	b := newBench(t, callTool("task", `{"prompt":"count them","description":"Count","subagent_type":"counter"}`),
		callTool("sh", `{"command":"true"}`), h.then(say("three")), h.then(say("done")))
	server := func(file string) map[string]any {
		return map[string]any{"x": map[string]any{"command": "touch", "args": []any{filepath.Join(b.dir, file)}}}
	}
	body := b.agentWith(map[string]any{"tools": []any{map[string]any{"name": "sh"}, map[string]any{"name": "task_tool_set", "params": map[string]any{}}},
		"agent_context": map[string]any{"skills": []any{map[string]any{"name": "notes", "content": "Notes.",
			"source": filepath.Join(b.dir, ".openhands/skills/notes.md"), "mcp_tools": server("skill")}}}})
	body["agent_definitions"] = []any{map[string]any{"name": "counter", "description": "counts", "system_prompt": "You count.", "tools": []any{"sh"},
		"source": filepath.Join(b.dir, ".openhands/agents/counter.md"), "mcp_config": server("agent"), "hooks": hooks("pre_tool_use", "touch hook")}}
	body["initial_message"] = userSays("how many?")
	b.run(body, conversation.Finished)
	if !strings.Contains(h.last(), "three") {
		t.Errorf("the agents were told %q", h.told)
	}
	for _, file := range []string{"skill", "agent", "hook"} {
		if b.exists(file) {
			t.Errorf("what a copied %s brings ran", file)
		}
	}
}

// What a repository brings waits for the user's trust, and so does a copy of it that
// a client sends along.
func TestAgentTrust(t *testing.T) {
	for _, along := range []string{"nothing", "the same hooks", "the same hooks and others"} {
		t.Run("sent along: "+along, func(t *testing.T) {
			b := newBench(t, callTool("sh", `{"command":"true"}`), say("one"), callTool("sh", `{"command":"true"}`), say("two"), callTool("sh", `{"command":"true"}`), say("three"))
			b.file(".openhands/hooks.json", `{"hooks":{"PostToolUse":[{"matcher":"sh","hooks":[{"command":"touch ran"}]}]}}`)
			body := b.with(map[string]any{"initial_message": userSays("go")})
			found := b.post(200, "/api/hooks", map[string]any{"project_dir": b.dir})
			if found.text("hook_config", "post_tool_use", 0, "hooks", 0, "command") != "touch ran" {
				t.Errorf("%s", found.body)
			}
			switch copied := found.at("hook_config"); along {
			case "the same hooks":
				body["hook_config"] = copied
			case "the same hooks and others":
				own := hooks("post_tool_use", "touch own")
				own["post_tool_use"] = append(own["post_tool_use"].([]any), copied.(map[string]any)["post_tool_use"].([]any)...)
				body["hook_config"] = own
			}
			id, path := b.run(body, conversation.Finished)
			if b.exists("ran") {
				t.Fatal("a hook ran before it was trusted")
			}
			info := b.info(path)
			if others := along == "the same hooks and others"; b.exists("own") != others || (info.at("hook_config") != nil) != others || len(info.list("agent_state", "trust_questions")) != 1 {
				t.Errorf("%s", info.body)
			}
			q := b.as(b.key, "GET", path+"/trust", nil).is(200)
			has(q, "touch ran")
			if along != "nothing" { // nor by way of a sub-conversation
				below := b.with(map[string]any{"initial_message": userSays("below"), "hook_config": found.at("hook_config"), "parent_conversation_id": info.text("id")})
				sub, _ := b.run(below, conversation.Finished)
				if b.exists("ran") {
					t.Fatalf("a copied hook ran in the sub-conversation %s", sub)
				}
			}
			subject, hash := q.text("questions", 0, "subject"), q.text("questions", 0, "hash")
			answer := func(want int, subject, hash string) *answer {
				return b.post(want, path+"/trust", map[string]any{"subject": subject, "hash": hash, "trusted": true})
			}
			answer(404, "something else", hash)
			answer(409, subject, "0123")
			b.post(422, path+"/trust", map[string]any{"subject": subject, "hash": hash})
			b.post(404, unknownConversation()+"/trust", map[string]any{"subject": subject, "hash": hash, "trusted": true})
			if a := answer(200, subject, hash); a.at("success") != true {
				t.Errorf("%s", a.body)
			}
			if q := b.as(b.key, "GET", path+"/trust", nil).is(200); len(q.list("questions")) != 0 {
				t.Errorf("%s", q.body)
			}
			answer(404, subject, hash) // asked once
			b.post(200, path+"/events", map[string]any{"role": "user", "run": true, "content": userSays("again")["content"]})
			b.eventually("the hook", func() bool { return b.exists("ran") })
			b.waitFor(id, conversation.Finished)
			has(b.info(path), `"touch ran"`)
		})
	}
}

func TestAgentSubAgents(t *testing.T) {
	h := &hearing{}
	b := newBench(t, callTool("task", `{"prompt":"count them","description":"Count","subagent_type":"counter"}`),
		h.then(say("there are three")), h.then(say("three it is")))
	body := b.agentWith(map[string]any{"tools": []any{map[string]any{"name": "sh"}, map[string]any{"name": "task_tool_set", "params": map[string]any{}}}})
	body["agent_definitions"] = []any{map[string]any{"name": "counter", "description": "counts", "system_prompt": "You count.", "tools": []any{"sh"}},
		map[string]any{"name": "general-purpose", "level": "builtin", "description": "a copy", "system_prompt": "a copy"}}
	body["initial_message"] = userSays("how many?")
	_, path := b.run(body, conversation.Finished)
	if !strings.Contains(h.told[0], "You count.") || !strings.Contains(h.last(), "there are three") {
		t.Errorf("the agents were told %q", h.told)
	}
	has(b.log(path, "ObservationEvent"), `"kind":"TaskObservation"`, "there are three")
	info := b.info(path)
	child := info.text("sub_conversation_ids", 0)
	if info.text("agent_state", "tasks", 0, "agent") != "counter" || info.text("agent", "tools", 1, "name") != "task_tool_set" {
		t.Errorf("%s", info.body)
	}
	if c := b.info(conversations + "/" + child); c.text("parent_conversation_id") != info.text("id") || c.text("execution_status") != "finished" {
		t.Errorf("%s", c.body)
	}
	if list := b.as(b.key, "GET", conversations+"/search", nil).is(200); !strings.Contains(string(list.body), `"sub_conversation_ids":["`+child+`"]`) {
		t.Errorf("%s", list.body)
	}
}

// enable_sub_agents gives the default set of tools the one for tasks.
func TestAgentSettingsEnableSubAgents(t *testing.T) {
	h := &hearing{}
	b := newBench(t, h.then(say("with")), h.then(say("without")))
	for _, on := range []bool{true, false} {
		body := settingsWith(map[string]any{"enable_sub_agents": on})
		body["initial_message"] = userSays("hi")
		b.run(body, conversation.Finished)
	}
	if !strings.Contains(h.tools[0], "task") || strings.Contains(h.tools[1], "task") {
		t.Errorf("the models have %q", h.tools)
	}
}

func TestAgentServersOfARequest(t *testing.T) {
	h := &hearing{}
	b := newBench(t, h.then(callTool("echo", `{"text":"over there"}`)), h.then(say("done")), h.then(say("filtered")))
	server := mcpProgram(t, "fine")
	server["env"] = map[string]any{"MCPTEST_TOKEN": "hush-hush"}
	body := b.agentWith(map[string]any{"mcp_config": map[string]any{"there": server}})
	body["initial_message"] = userSays("call it")
	_, path := b.run(body, conversation.Finished)
	has(b.log(path, "ObservationEvent"), `"kind":"MCPToolObservation"`, "over there")
	info := b.info(path)
	if info.text("agent", "mcp_config", "there", "env", "MCPTEST_TOKEN") != account.Mask || strings.Contains(string(info.body), "hush") {
		t.Errorf("%s", info.body)
	}
	body = b.agentWith(map[string]any{"mcp_config": map[string]any{"there": server}, "filter_tools_regex": "inf|sh"})
	body["initial_message"] = userSays("what have you?")
	b.run(body, conversation.Finished)
	if !strings.Contains(h.tools[0], "echo") || strings.Contains(h.tools[2], "echo") || !strings.Contains(h.tools[2], "info") {
		t.Errorf("the models have %q", h.tools)
	}
}

// Only agent_settings take the servers of the settings, and with them their secrets.
func TestAgentServersOfTheSettings(t *testing.T) {
	b := newBench(t)
	token := account.NewSecret("stored-token")
	check(t, b.store.Accounts().UpdateSettings(t.Context(), account.FirstUserID, func(s *account.Settings) (*account.Settings, error) {
		s.MCP = &account.MCPConfig{SHTTP: []account.MCPHTTPServer{{Name: "api", URL: "http://127.0.0.1:1/mcp", APIKey: token}}}
		return s, nil
	}))
	masked := map[string]any{"api": map[string]any{"url": "http://127.0.0.1:1/mcp", "auth": map[string]any{"strategy": "bearer", "value": account.Mask}}}
	for name, c := range map[string]struct {
		body map[string]any
		want int // servers
	}{
		"agent":           {b.with(nil), 0},
		"agent, masked":   {b.agentWith(map[string]any{"mcp_config": masked}), 1},
		"settings":        {settingsWith(map[string]any{}), 1},
		"settings, none":  {settingsWith(map[string]any{"mcp_config": map[string]any{}}), 0},
		"settings masked": {settingsWith(map[string]any{"mcp_config": map[string]any{"mcpServers": masked}}), 1},
	} {
		t.Run(name, func(t *testing.T) {
			b.TB = t
			a := b.post(201, conversations, c.body)
			got := b.options(a).Options.MCP
			if len(got.SHTTP) != c.want || c.want == 1 && got.SHTTP[0].APIKey.Reveal() != "stored-token" || strings.Contains(string(a.body), "stored-token") {
				t.Errorf("%+v, shown as %s", got, a.body)
			}
		})
	}
	b.TB = t
	masked["api"].(map[string]any)["url"] = "http://127.0.0.1:2/mcp"
	has(b.post(422, conversations, b.agentWith(map[string]any{"mcp_config": masked})), "belongs to another server")
}

func TestAgentListsWhatThereIs(t *testing.T) {
	b := newBenchWith(t, func(c *config) {
		c.collections = []extension.Bundle{{Name: "collection acme", Level: skill.LevelOrg,
			Skills: []skill.Skill{{Name: "frog", Content: "of the organisation", Level: skill.LevelOrg}, {Name: "toad", Content: "t", Level: skill.LevelOrg}},
			Agents: []subagent.Definition{{Name: "reviewer", Description: "reviews", Model: subagent.ModelInherit, Level: subagent.LevelUser}}}}
	})
	_, err := b.engine.PutSkill(t.Context(), account.FirstUserID, "mine", "My way.")
	check(t, err)
	b.file("sub/AGENTS.md", "Notes.")
	b.file("sub/.openhands/microagents/frog.md", "---\ntriggers: [frog]\n---\nof the project")
	b.file("sub/.agents/agents/tester.md", "---\nname: tester\ndescription: tests\n---\nYou test.")
	sub := filepath.Join(b.dir, "sub")
	a := b.post(200, "/api/skills", map[string]any{"project_dir": sub, "load_public": true, "org_config": map[string]any{"org_name": "x"}})
	if fmt.Sprint(a.at("sources")) != "map[org:2 plugin:0 project:2 public:0 user:1]" {
		t.Errorf("%s", a.body)
	}
	var names []string
	for i := range a.list("skills") {
		names = append(names, a.text("skills", i, "name")+" "+a.text("skills", i, "type"))
	}
	if got := strings.Join(names, ", "); got != "agents repo, frog knowledge, mine repo, toad repo" || a.text("skills", 1, "content") != "of the project" ||
		a.text("skills", 1, "triggers", 0) != "frog" || a.text("skills", 1, "source") != filepath.Join(sub, ".openhands/microagents/frog.md") {
		t.Errorf("%s", a.body)
	}
	a = b.post(200, "/api/skills", map[string]any{"load_org": false, "load_project": false, "load_public": false})
	if len(a.list("skills")) != 1 || fmt.Sprint(a.at("sources")) != "map[user:1]" {
		t.Errorf("%s", a.body)
	}
	// As the web UI asks: below the working directory.
	a = b.post(200, "/api/skills", map[string]any{"load_public": false, "load_user": false, "load_org": false, "load_project": true, "project_dir": "sub"})
	if len(a.list("skills")) != 2 || a.text("skills", 1, "source") != filepath.Join(sub, ".openhands/microagents/frog.md") {
		t.Errorf("%s", a.body)
	}
	if a := b.post(200, "/api/skills", nil); len(a.list("skills")) != 4 || a.text("skills", 2, "name") != "sub/agents" { // of the working directory
		t.Errorf("%s", a.body)
	}
	if a := b.post(200, "/api/skills", map[string]any{"project_dir": "/does/not/exist"}); len(a.list("skills")) != 3 {
		t.Errorf("%s", a.body)
	}
	a = b.post(200, "/api/sub-agents", map[string]any{"project_dir": sub})
	has(a, `"name":"tester"`, `"level":"project"`, `"name":"general-purpose"`, `"is_builtin":true`, `"name":"reviewer"`)
	a = b.post(200, "/api/sub-agents", map[string]any{"project_dir": sub, "load_builtin": false, "load_user": false})
	if len(a.list("agents")) != 1 || a.text("agents", 0, "system_prompt") != "You test." {
		t.Errorf("%s", a.body)
	}
	if a := b.post(200, "/api/hooks", map[string]any{"project_dir": sub}); a.at("hook_config") != nil {
		t.Errorf("%s", a.body)
	}
	for _, path := range []string{"/api/skills", "/api/hooks", "/api/sub-agents"} {
		has(b.post(422, path, map[string]any{"project_dir": "a\x00b"}), `"body","project_dir"`)
		b.as("", "POST", "/agent/"+b.sandbox+path, nil).is(401)
		b.as(otherKey, "POST", "/agent/"+b.sandbox+path, nil).is(404)
	}
	has(b.post(501, "/api/skills/install", nil), "not built yet")
	has(b.as(b.key, "GET", "/api/plugins/marketplace", nil).is(501), "not built yet")
}

func TestAgentTrustIsItsOwners(t *testing.T) {
	b := newBench(t, say("hi"))
	_, path := b.conversation("hi", conversation.Finished)
	_, other := b.begin(map[string]any{})
	b.as(other.text("session_api_key"), "GET", path+"/trust", nil).is(404)
	b.as(b.key, "GET", conversations+"/"+uuid.NewString()+"/trust", nil).is(404)
	b.as(b.key, "GET", conversations+"/nothing/trust", nil).is(422)
	if a := b.as(b.key, "GET", path+"/trust", nil).is(200); len(a.list("questions")) != 0 {
		t.Errorf("%s", a.body)
	}
}

// A plugin's texts count at once; what it runs waits for the user's trust. One that
// cannot be had is told, and the conversation starts without it.
func TestAgentPlugins(t *testing.T) {
	h := &hearing{}
	b := newBench(t, h.then(say("hi")))
	b.file("plug/.claude-plugin/plugin.json", `{"name":"plug","version":"1.0.0","description":"d"}`)
	b.file("plug/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: tidies up\n---\nTidy ${dir}.")
	b.file("plug/hooks/hooks.json", `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"touch ran-${mark}"}]}]}}`)
	body := b.with(map[string]any{"initial_message": userSays("hi"), "plugins": []any{
		map[string]any{"source": filepath.Join(b.dir, "plug"), "ref": nil, "parameters": map[string]any{"mark": "one"}},
		map[string]any{"source": "http://127.0.0.1:1/none.git"}}})
	_, path := b.run(body, conversation.Finished)
	if !strings.Contains(h.told[0], "tidies up") || b.exists("plug/ran-one") {
		t.Errorf("ran: %v; the model was told %s", b.exists("plug/ran-one"), h.told[0])
	}
	info := b.info(path)
	if len(info.list("agent_state", "extension_problems")) == 0 {
		t.Errorf("%s", info.body)
	}
	q := b.as(b.key, "GET", path+"/trust", nil).is(200)
	has(q, "touch ran-one")
	b.post(200, path+"/trust", map[string]any{"subject": q.at("questions", 0, "subject"), "hash": q.at("questions", 0, "hash"), "trusted": true})
	b.post(200, path+"/events", map[string]any{"role": "user", "run": true, "content": userSays("again")["content"]})
	b.eventually("the hook", func() bool { return b.exists("plug/ran-one") })
}
