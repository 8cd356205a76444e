package api_test

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	v0 "parley/internal/api/v0"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/skill"
)

const (
	appConversations = "/api/v1/app-conversations"
	skillsPath       = "/api/v1/skills"
)

// tree makes a directory with files, whose path means nothing to a shell.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tree-")
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	for name, text := range files {
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte(text), 0o755))
	}
	return dir
}

// guardPlugin is a plugin with a skill, and a hook that lets no command run.
func guardPlugin(t testing.TB) string {
	return tree(t, map[string]string{
		"skills/git/SKILL.md": "---\nname: git\ndescription: about git\ntriggers: [git]\n---\nUse git kindly.\n",
		"hooks/hooks.json":    `{"hooks":{"PreToolUse":[{"matcher":"sh","hooks":[{"type":"command","command":"echo never >&2; exit 2","timeout":7}]}]}}`,
	})
}

func TestPluginsAreAskedAboutBeforeTheyRun(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"echo one"}`), say("done"), callTool("sh", `{"command":"echo two"}`), say("done"))
	plugin := guardPlugin(t)
	body := message("please use git")
	body["plugins"] = []any{map[string]any{"source": plugin, "ref": nil, "parameters": map[string]any{"level": "high"}}}
	a := w.call(200, "POST", appConversations, body)
	if a.text("request", "plugins", 0, "source") != plugin || a.at("request", "plugins", 0, "repo_path") != nil || a.text("request", "plugins", 0, "parameters", "level") != "high" {
		t.Errorf("the echo: %s", a.body)
	}
	task := a.text("id")
	w.eventually("READY", func() bool {
		return w.call(200, "GET", appConversations+"/start-tasks?ids="+task, nil).text(0, "status") == "READY"
	})
	id := w.call(200, "GET", appConversations+"/start-tasks?ids="+task, nil).text(0, "app_conversation_id")
	w.waitFor(id, conversation.Finished)
	if kinds := w.ofKind(id, conversation.KindHookExecution); len(kinds) != 0 {
		t.Fatalf("a hook ran before it was trusted: %v", kinds)
	}
	path := appConversations + "/" + id
	question := w.theSkillIsThere(path, plugin)
	w.decide(path, question)
	if a := w.call(200, "GET", path+"/hooks", nil); a.text("hooks", 0, "event_type") != "pre_tool_use" || len(a.list("hooks")) != 1 ||
		a.text("hooks", 0, "matchers", 0, "matcher") != "sh" || a.text("hooks", 0, "matchers", 0, "hooks", 0, "command") != "echo never >&2; exit 2" ||
		a.at("hooks", 0, "matchers", 0, "hooks", 0, "timeout") != 7.0 || a.text("hooks", 0, "matchers", 0, "source") != "plugin "+plugin {
		t.Errorf("%s", a.body)
	}
	w.call(200, "POST", path+"/send-message", map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "again"}}, "run": true})
	w.eventually("the hook", func() bool { return len(w.ofKind(id, conversation.KindUserReject)) == 1 })
	ran := w.ofKind(id, conversation.KindHookExecution)
	if len(ran) != 1 || !strings.Contains(ran[0], `"blocked":true`) || !strings.Contains(ran[0], "never") {
		t.Errorf("%v", ran)
	}
	w.forget(path, question["subject"].(string))
}

// ofKind are the events of a kind, as V1 gives them out.
func (w *world) ofKind(id, kind string) []string {
	w.Helper()
	var out []string
	for _, e := range w.call(200, "GET", "/api/v1/conversation/"+id+"/events/search?kind__eq="+kind, nil).list("items") {
		raw, err := json.Marshal(e)
		check(w.TB, err)
		out = append(out, string(raw))
	}
	return out
}

// theSkillIsThere checks what a conversation with guardPlugin shows before its answer,
// and returns its question.
func (w *world) theSkillIsThere(path, plugin string) map[string]any {
	w.Helper()
	a := w.call(200, "GET", path+"/skills", nil)
	if len(a.list("skills")) != 1 || a.text("skills", 0, "name") != "git" || a.text("skills", 0, "type") != "agentskills" ||
		a.text("skills", 0, "content") != "Use git kindly." || a.text("skills", 0, "triggers", 0) != "git" || a.text("skills", 0, "description") != "about git" {
		w.Errorf("%s", a.body)
	}
	if a := w.call(200, "GET", path+"/hooks", nil); len(a.list("hooks")) != 0 {
		w.Errorf("%s", a.body)
	}
	said := w.ofKind(strings.TrimPrefix(path, appConversations+"/"), conversation.KindMessage)
	if len(said) == 0 || !strings.Contains(said[0], `"activated_skills":["git"]`) {
		w.Errorf("%v", said)
	}
	questions := w.call(200, "GET", path+"/trust", nil).list("questions")
	if len(questions) != 1 {
		w.Fatalf("%v", questions)
	}
	q := questions[0].(map[string]any)
	if q["subject"] != "plugin "+plugin || !strings.Contains(q["runs"].([]any)[0].(string), "exit 2") {
		w.Errorf("%v", q)
	}
	return q
}

// decide says yes to a question, after all the wrong ways to do so.
func (w *world) decide(path string, q map[string]any) {
	w.Helper()
	answer := func(change map[string]any) map[string]any {
		body := map[string]any{"subject": q["subject"], "hash": q["hash"], "trusted": true}
		for k, v := range change {
			body[k] = v
		}
		return body
	}
	w.call(409, "POST", path+"/trust", answer(map[string]any{"hash": "another"}))
	w.call(404, "POST", path+"/trust", answer(map[string]any{"subject": "repository of somebody else"}))
	w.call(422, "POST", path+"/trust", answer(map[string]any{"trusted": nil}))
	w.call(422, "POST", path+"/trust", map[string]any{"subject": "x"})
	w.as(otherKey, "POST", path+"/trust", answer(nil)).is(404)
	if got := w.call(200, "GET", "/api/v1/trust", nil).list("items"); len(got) != 0 {
		w.Errorf("a refused answer was stored: %v", got)
	}
	w.call(200, "POST", path+"/trust", answer(nil))
	if got := w.call(200, "GET", path+"/trust", nil).list("questions"); len(got) != 0 {
		w.Errorf("asked again: %v", got)
	}
	a := w.call(200, "GET", "/api/v1/trust", nil)
	if a.text("items", 0, "subject") != q["subject"] || a.text("items", 0, "hash") != q["hash"] || a.at("items", 0, "trusted") != true {
		w.Errorf("%s", a.body)
	}
	if got := w.as(otherKey, "GET", "/api/v1/trust", nil).is(200).list("items"); len(got) != 0 {
		w.Errorf("another user sees %v", got)
	}
}

// forget takes a decision back: it is asked again.
func (w *world) forget(path, subject string) {
	w.Helper()
	query := "/api/v1/trust?subject=" + strings.ReplaceAll(subject, " ", "%20")
	w.call(422, "DELETE", "/api/v1/trust", nil)
	w.as(otherKey, "DELETE", query, nil).is(404)
	w.call(200, "DELETE", query, nil)
	w.call(404, "DELETE", query, nil)
	w.eventually("the question", func() bool {
		return len(w.call(200, "GET", path+"/trust", nil).list("questions")) == 1
	})
	if a := w.call(200, "GET", path+"/hooks", nil); len(a.list("hooks")) != 0 {
		w.Errorf("%s", a.body)
	}
}

// V1 11 row 13: unknown conversations are 404, of stopped ones the lists are empty.
func TestExtensionsOfConversationsThatDoNotRun(t *testing.T) {
	w := newWorldWith(t, func(c *config) {
		c.collections = []extension.Bundle{{Name: "collection acme", Level: skill.LevelPublic, Skills: []skill.Skill{{Name: "go", Content: "x", Level: skill.LevelPublic}}}}
	})
	id, a := w.begin(map[string]any{})
	path := appConversations + "/" + id
	if a := w.call(200, "GET", path+"/skills", nil); a.text("skills", 0, "name") != "go" {
		t.Errorf("%s", a.body)
	}
	w.call(200, "POST", "/api/v1/sandboxes/"+a.text("sandbox_id")+"/pause", nil)
	for _, list := range []string{"skills", "hooks"} {
		if a := w.call(200, "GET", path+"/"+list, nil); len(a.list(list)) != 0 {
			t.Errorf("%s", a.body)
		}
	}
	for _, route := range []string{"skills", "hooks", "trust"} {
		w.call(404, "GET", appConversations+"/"+uuid.NewString()+"/"+route, nil)
		w.call(400, "GET", appConversations+"/nonsense/"+route, nil)
		w.as(otherKey, "GET", path+"/"+route, nil).is(404)
		w.as("", "GET", path+"/"+route, nil).is(401)
	}
}

func TestUserSkills(t *testing.T) {
	w := newWorldWith(t, func(c *config) {
		c.collections = []extension.Bundle{{Name: "collection acme", Level: skill.LevelPublic, Skills: []skill.Skill{
			{Name: "go", Content: "x", Level: skill.LevelPublic}, {Name: "git", Content: "y", Level: skill.LevelPublic}}}}
	})
	put := func(want int, name, text string) *answer {
		t.Helper()
		return w.call(want, "PUT", skillsPath+"/"+name, map[string]any{"content": text})
	}
	const file = "---\ntriggers: [git]\n---\nUse git.\n"
	if a := put(201, "git", file); a.text("name") != "git" || a.text("type") != "knowledge" || a.text("triggers", 0) != "git" || a.text("content") != "Use git." {
		t.Errorf("%s", a.body)
	}
	put(200, "git", file)
	if a := w.call(200, "GET", skillsPath+"/git", nil); a.text("content") != file || a.text("updated_at") == "" {
		t.Errorf("%s", a.body)
	}
	a := put(422, "bad", "---\nname: x\ntriggers: {\n---\nx")
	if !strings.Contains(a.text("detail", 0, "msg"), "line ") || a.text("detail", 0, "loc", 1) != "content" {
		t.Errorf("%s", a.body)
	}
	put(422, "-x", file)
	put(422, strings.Repeat("x", 65), file)
	put(405, "search", file)
	w.call(422, "PUT", skillsPath+"/x", map[string]any{})
	for _, key := range []string{otherKey} {
		w.as(key, "GET", skillsPath+"/git", nil).is(404)
		w.as(key, "DELETE", skillsPath+"/git", nil).is(404)
	}
	w.change(`{"disabled_skills":["go"]}`)
	const want = `{"items":[{"name":"git","type":"knowledge","source":"user","triggers":["git"],"description":null,"disabled":false},` +
		`{"name":"go","type":"repo","source":"global","triggers":null,"description":null,"disabled":true}],"next_page_id":null}`
	if a := w.call(200, "GET", skillsPath+"/search", nil); strings.TrimSpace(string(a.body)) != want {
		t.Errorf("%s", a.body)
	}
	first := w.call(200, "GET", skillsPath+"/search?limit=1", nil)
	if next := w.call(200, "GET", skillsPath+"/search?limit=1&page_id="+first.text("next_page_id"), nil); next.text("items", 0, "name") != "go" || next.at("next_page_id") != nil {
		t.Errorf("%s then %s", first.body, next.body)
	}
	id, _ := w.begin(map[string]any{}) // has the user's own, and not what is disabled
	if a := w.call(200, "GET", appConversations+"/"+id+"/skills", nil); len(a.list("skills")) != 1 || a.text("skills", 0, "content") != "Use git." {
		t.Errorf("%s", a.body)
	}
	w.call(200, "DELETE", skillsPath+"/git", nil)
	w.call(404, "DELETE", skillsPath+"/git", nil)
	w.call(404, "GET", skillsPath+"/git", nil)
}

// What an earlier version kept without an effect has one now.
func TestKeptSettingsThatHaveAnEffectNow(t *testing.T) {
	w := newWorld(t)
	kept := func() {
		check(t, w.store.Accounts().UpdateSettings(t.Context(), account.FirstUserID, func(s *account.Settings) (*account.Settings, error) {
			s.DisabledSkills, s.SubAgents = nil, nil
			s.Kept = json.RawMessage(`{"disabled_skills":["a",7],"user_version":3,"agent_settings":{"enable_sub_agents":true,"tools":[1]}}`)
			return s, nil
		}))
	}
	kept()
	a := w.call(200, "GET", settingsPath, nil)
	if len(a.list("disabled_skills")) != 1 || a.at("agent_settings", "enable_sub_agents") != true {
		t.Errorf("%s", a.body)
	}
	w.change(`{"language":"fr"}`)
	s := w.settings()
	if len(s.DisabledSkills) != 1 || s.DisabledSkills[0] != "a" || s.SubAgents == nil || !*s.SubAgents || string(s.Kept) != `{"agent_settings":{"tools":[1]},"user_version":3}` {
		t.Errorf("%v %v %s", s.DisabledSkills, s.SubAgents, s.Kept)
	}
	kept()
	w.change(`{"disabled_skills":null,"agent_settings_diff":{"enable_sub_agents":null}}`)
	if s := w.settings(); s.DisabledSkills != nil || s.SubAgents != nil {
		t.Errorf("%v %v", s.DisabledSkills, s.SubAgents)
	}
	w.change(`{"disabled_skills":["b"],"agent_settings_diff":{"enable_sub_agents":false}}`)
	a = w.call(200, "GET", settingsPath, nil)
	if a.text("disabled_skills", 0) != "b" || a.at("agent_settings", "enable_sub_agents") != false || w.settings().DisabledSkills[0] != "b" {
		t.Errorf("%s", a.body)
	}
	w.call(422, "POST", settingsPath, `{"agent_settings_diff":{"enable_sub_agents":"maybe"}}`)
	w.call(422, "POST", settingsPath, `{"disabled_skills":[1]}`)
}

// Credentials of MCP servers are shown as masks, and come back from them.
func TestSecretsOfServersInTheSettings(t *testing.T) {
	w := newWorld(t)
	w.change(`{"agent_settings_diff":{"mcp_config":{
		"a":{"url":"https://a.example/mcp","headers":{"X-Token":"hush-1","X-Named":"${MY_TOKEN}"}},
		"b":{"url":"https://b.example/mcp","auth":{"strategy":"api_key","header_name":"X-Key","value":"hush-2"}},
		"c":{"url":"https://c.example/sse","transport":"sse","auth":{"strategy":"basic","username":"u","password":"hush-3"}},
		"d":{"command":"uvx","args":["x"],"env":{"TOKEN":"hush-4"},"cwd":"/tmp"},
		"e":{"url":"https://e.example/mcp","auth":{"strategy":"oauth2","authentication":{"type":"oauth","client_id":"i","client_secret":"hush-5"}}}}}}`)
	a := w.call(200, "GET", settingsPath, nil)
	if strings.Contains(string(a.body), "hush") {
		t.Errorf("%s", a.body)
	}
	servers := a.at("agent_settings", "mcp_config")
	if walk(t, servers, "a", "headers", "X-Token") != account.Mask || walk(t, servers, "a", "headers", "X-Named") != "${MY_TOKEN}" ||
		walk(t, servers, "b", "auth", "value") != account.Mask || walk(t, servers, "d", "env", "TOKEN") != account.Mask {
		t.Errorf("%v", servers)
	}
	raw, err := json.Marshal(map[string]any{"agent_settings_diff": map[string]any{"mcp_config": servers}})
	check(t, err)
	before, err := account.EncodePrivate(w.settings().MCP)
	check(t, err)
	w.change(string(raw))
	after, err := account.EncodePrivate(w.settings().MCP)
	check(t, err)
	if string(before) != string(after) || strings.Count(string(after), "hush-") != 5 {
		t.Errorf("%s became %s", before, after)
	}
}

func TestServersAreTested(t *testing.T) {
	w := newWorld(t)
	_, conv := w.begin(map[string]any{})
	server := mcpProgram(t, "fine")
	server["env"] = map[string]any{"MCPTEST_TOKEN": "hush-token"}
	raw, err := json.Marshal(map[string]any{"agent_settings_diff": map[string]any{"mcp_config": map[string]any{"mine": server}}})
	check(t, err)
	w.change(string(raw))
	test := func(want int, change map[string]any) *answer {
		t.Helper()
		body := map[string]any{"name": "mine", "sandbox_id": conv.text("sandbox_id"), "timeout": 60}
		for k, v := range change {
			body[k] = v
		}
		return w.call(want, "POST", "/api/v1/mcp/test", body)
	}
	if a := test(200, nil); a.at("ok") != true || len(a.list("tools")) == 0 || a.text("tools", 0, "name") == "" {
		t.Errorf("%s", a.body)
	}
	// The mask is the stored secret: the server got it, and nobody else reads it.
	server["env"] = map[string]any{"MCPTEST_TOKEN": account.Mask}
	call := map[string]any{"name": "info", "arguments": map[string]any{}}
	a := test(200, map[string]any{"server": server, "tool_call": call})
	if result := string(a.body); a.at("ok") != true || strings.Contains(result, "hush-token") || strings.Contains(result, `\"token\":\"\"`) || !strings.Contains(result, `\"token\":`) {
		t.Errorf("%s", a.body)
	}
	for name, body := range map[string]map[string]any{
		"a server that ends":     {"server": map[string]any{"command": "/bin/false"}},
		"a command that is none": {"server": map[string]any{"command": "/nonexistent"}},
		"no sandbox":             {"sandbox_id": nil},
		"a sandbox that is none": {"sandbox_id": "sb-none"},
	} {
		if a := test(200, body); a.at("ok") != false || a.text("error") == "" || a.text("error_kind") == "" {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	test(404, map[string]any{"name": "unknown"})
	test(422, map[string]any{"server": map[string]any{"command": "a b"}})
	test(422, map[string]any{"server": map[string]any{}})
	test(422, map[string]any{"name": "no name"})
	test(422, map[string]any{"timeout": 121})
	test(422, map[string]any{"timeout": 0})
	w.as(otherKey, "POST", "/api/v1/mcp/test", map[string]any{"name": "mine"}).is(404)
}

// legacyServer is the legacy API over the same engine.
func legacyServer(w *world) *httptest.Server {
	w.Helper()
	legacy, err := v0.New(v0.Config{Engine: w.engine, Fleet: w.fleet, Settings: w.store.Accounts(), Events: w.store.Events(),
		Projections: w.store.Projections(), URLs: &httpkit.URLs{}})
	check(w.TB, err)
	mux, err := httpkit.NewMux(legacy)
	check(w.TB, err)
	auth := &httpkit.Authenticator{Users: w.store.Accounts(), Sandbox: w.fleet.BySessionKey}
	s := httptest.NewServer(auth.Wrap(mux))
	w.Cleanup(s.Close)
	return s
}

// Legacy API 4: mcp_config of a creation takes the place of the settings', and its
// servers are used; their calls are shown as such.
func TestLegacyServersOfACreation(t *testing.T) {
	w := newWorld(t, callTool("info", `{}`), say("done"))
	program := mcpProgram(t, "fine")
	raw, err := json.Marshal(map[string]any{"agent_settings_diff": map[string]any{"mcp_config": map[string]any{"of-the-settings": map[string]any{"command": "/nonexistent"}}}})
	check(t, err)
	w.change(string(raw))
	program["name"] = "mine"
	legacy := legacyServer(w)
	a := w.at(legacy.URL, "POST", "/api/conversations", map[string]any{"initial_user_msg": "go", "mcp_config": map[string]any{"stdio_servers": []any{program}}}).is(200)
	id := a.text("conversation_id")
	w.waitFor(id, conversation.Finished)
	v, err := w.engine.View(t.Context(), account.FirstUserID, conversation.ID(id))
	check(t, err)
	if servers := v.Summary.Notes.Servers; len(servers) != 0 {
		t.Errorf("servers in trouble: %+v", servers)
	}
	var call, result map[string]any
	for _, e := range w.at(legacy.URL, "GET", "/api/conversations/"+id+"/events", nil).is(200).list("events") {
		switch m := e.(map[string]any); {
		case m["action"] == "call_tool_mcp":
			call = m
		case m["observation"] == "mcp":
			result = m
		}
	}
	if call == nil || result == nil {
		t.Fatalf("call %v, result %v", call, result)
	}
	if call["args"].(map[string]any)["name"] != "info" || result["cause"] != call["id"] || !strings.HasPrefix(result["content"].(string), `{"content":[{"type":"text","text":"`) ||
		!strings.Contains(result["content"].(string), `{\"args\":\"fine\"`) || !strings.HasSuffix(result["content"].(string), `"isError":false}`) {
		t.Errorf("%v\n%v", call, result)
	}
	if a := w.at(legacy.URL, "GET", "/api/conversations/"+id+"/microagents", nil).is(200); len(a.list("microagents")) != 0 {
		t.Errorf("%s", a.body)
	}
}
