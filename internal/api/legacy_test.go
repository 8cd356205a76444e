package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	v0 "parley/internal/api/v0"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/forge"
	"parley/internal/forge/forgetest"
	"parley/internal/store"
	"parley/test/testkit/gittest"
)

// legacy is the legacy API over a world, with its git providers.
type legacy struct {
	*world
	base string
}

func newLegacy(w *world) *legacy {
	w.Helper()
	api, err := v0.New(v0.Config{Engine: w.engine, Fleet: w.fleet, Settings: w.store.Accounts(), Events: w.store.Events(),
		Projections: w.store.Projections(), URLs: &httpkit.URLs{}, Git: w.git})
	check(w.TB, err)
	mux, err := httpkit.NewMux(api)
	check(w.TB, err)
	auth := &httpkit.Authenticator{Users: w.store.Accounts(), Sandbox: w.fleet.BySessionKey}
	s := httptest.NewServer(auth.Wrap(mux))
	w.Cleanup(s.Close)
	return &legacy{w, s.URL}
}

func (l *legacy) ask(want int, method, path string, body any) *answer {
	l.Helper()
	return l.at(l.base, method, path, body).is(want)
}

// create starts a conversation and waits until it runs.
func (l *legacy) create(body map[string]any) string {
	l.Helper()
	id := l.ask(200, "POST", "/api/conversations", body).text("conversation_id")
	l.await(id, "RUNNING")
	return id
}

func (l *legacy) await(id, status string) {
	l.Helper()
	l.eventually(status, func() bool { return l.ask(200, "GET", "/api/conversations/"+id, nil).text("status") == status })
}

func (l *legacy) options(id string) conversation.Options {
	l.Helper()
	c, err := l.store.Conversations().Get(l.Context(), account.FirstUserID, conversation.ID(id))
	check(l.TB, err)
	return c.Options
}

// logged is everything that the log says.
func (l *legacy) logged(id string) string {
	var out strings.Builder
	for _, e := range l.events(id) {
		out.Write(e.Raw)
		out.WriteByte('\n')
	}
	return out.String()
}

// Legacy API 5.2: programs find all secrets as variables in capitals, whether or not a
// command names them, and no event shows a value.
func TestLegacySecretsAreVariables(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"set | grep -E '^(QUITE|GITLAB|BOTH|LONG)' | cut -d= -f1; set | grep ^QUITE"}`), say("done"))
	l := newLegacy(w)
	l.ask(201, "POST", "/api/secrets", map[string]any{"name": "quite_secret", "value": "hush-of-the-user"})
	l.ask(201, "POST", "/api/secrets", map[string]any{"name": "Both", "value": "not-this-one"})
	l.ask(201, "POST", "/api/secrets", map[string]any{"name": "BOTH", "value": "but-this-one"})
	l.ask(201, "POST", "/api/secrets", map[string]any{"name": "long_one", "value": strings.Repeat("x", 40<<10)})
	l.ask(201, "POST", "/api/secrets", map[string]any{"name": "no=name", "value": "hush-too"})
	l.ask(201, "POST", "/api/secrets", map[string]any{"name": "", "value": ""})
	git := forgetest.New(t, forge.GitLab)
	l.ask(200, "POST", "/api/add-git-providers", gitTokens("gitlab", forgetest.Token, git.Host()))
	id := l.create(map[string]any{"initial_user_msg": "go"})
	w.waitFor(id, conversation.Finished)
	log := l.logged(id)
	for _, name := range []string{"QUITE_SECRET", "GITLAB_TOKEN", "BOTH"} {
		if !strings.Contains(log, name+`\n`) {
			t.Errorf("there is no variable %s", name)
		}
	}
	if strings.Contains(log, `LONG_ONE\n`) {
		t.Error("a long value is brought along by each command")
	}
	if strings.Contains(log, "hush-of-the-user") || strings.Contains(log, forgetest.Token) || !strings.Contains(log, "secret-hidden") {
		t.Errorf("the value is shown, or was not there: %s", log)
	}
}

// Legacy API 5.2 and 6: the first recall tells what the user's secrets are for, and the
// instructions; it stays as it was told.
func TestLegacyRecallTellsOfSecretsAndInstructions(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"git checkout -q -b other"}`), say("done"))
	l := newLegacy(w)
	h := newHosting(t, forge.GitLab)
	l.ask(200, "POST", "/api/add-git-providers", gitTokens("gitlab", forgetest.Token, h.host))
	l.ask(201, "POST", "/api/secrets", map[string]any{"name": "deploy_key", "value": "hush-of-the-user", "description": "for deployments"})
	id := l.create(map[string]any{"repository": "acme/alpha", "selected_branch": "feature/one", "initial_user_msg": "go", "conversation_instructions": "be kind"})
	w.waitFor(id, conversation.Finished)
	l.ask(200, "DELETE", "/api/secrets/deploy_key", nil)
	body := string(l.ask(200, "GET", "/api/conversations/"+id+"/events?limit=100", nil).body)
	for _, want := range []string{`"custom_secrets_descriptions":{"deploy_key":"for deployments"}`, `"conversation_instructions":"be kind"`,
		`"repo_branch":"feature/one"`, `"repo_name":"acme/alpha"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	if got := l.ask(200, "GET", "/api/conversations/"+id, nil).text("selected_branch"); got != "other" {
		t.Error(got)
	}
}

// A secret is no settings: a creation says what is missing.
func TestLegacyCreationWithoutSettings(t *testing.T) {
	w := newWorld(t)
	l := newLegacy(w)
	const key = "key-of-a-new-user"
	a := w.store.Accounts()
	check(t, a.PutUser(t.Context(), account.User{ID: "newcomer"}))
	check(t, a.SetKeys(t.Context(), "newcomer", "test", []account.KeyHash{account.HashKey(key)}))
	want := `{"status":"error","message":"Settings not found","msg_id":"CONFIGURATION$SETTINGS_NOT_FOUND"}`
	for _, body := range []string{``, `{"name":"A","value":"v"}`} {
		if body != "" {
			w.request(l.base, "POST", "/api/secrets", http.Header{"X-Session-Api-Key": {key}}, body).is(201)
		}
		got := w.request(l.base, "POST", "/api/conversations", http.Header{"X-Session-Api-Key": {key}}, `{}`).is(400)
		if strings.TrimSpace(string(got.body)) != want {
			t.Errorf("%s", got.body)
		}
	}
}

// Of conversations of other APIs commands have what they name, as ever.
func TestOtherConversationsHaveNoVariablesUnasked(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"set | grep -c ^QUITE"}`), say("done"))
	newLegacy(w).ask(201, "POST", "/api/secrets", map[string]any{"name": "quite_secret", "value": "hush-of-the-user"})
	id, _ := w.begin(message("go"))
	w.waitFor(id, conversation.Finished)
	if log := (&legacy{world: w}).logged(id); !strings.Contains(log, `"text":"0\n`) {
		t.Errorf("%s", log)
	}
}

// Legacy API 6: the metadata follows the branch that the agent works on.
func TestLegacyBranchIsTheRealOne(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"git branch --show-current && git checkout -q -b agent/work"}`), say("done"),
		callTool("sh", `{"command":"git checkout -q --detach && git switch nowhere"}`), say("done"),
		callTool("sh", `{"command":"git checkout -q -b next; false"}`), say("done"))
	l := newLegacy(w)
	h := newHosting(t, forge.Forgejo)
	l.ask(200, "POST", "/api/add-git-providers", gitTokens("forgejo", forgetest.Token, h.host))
	id := l.create(map[string]any{"repository": "acme/alpha", "initial_user_msg": "go"})
	w.waitFor(id, conversation.Finished)
	info := l.ask(200, "GET", "/api/conversations/"+id, nil)
	if info.text("selected_branch") != "agent/work" || info.text("git_provider") != "forgejo" {
		t.Errorf("%s", info.body)
	}
	if log := l.logged(id); !strings.Contains(log, `"text":"openhands-workspace-`) {
		t.Errorf("it did not begin on a branch of its own: %s", log)
	}
	for runs, want := range []string{"agent/work", "next"} { // a detached head is on none
		l.ask(200, "POST", "/api/conversations/"+id+"/message", map[string]any{"message": "more"})
		w.eventually("the run", func() bool { return strings.Count(l.logged(id), `"done"`) == runs+2 })
		w.waitFor(id, conversation.Finished)
		if got := l.ask(200, "GET", "/api/conversations/"+id, nil).text("selected_branch"); got != want {
			t.Errorf("on %s, want %s", got, want)
		}
	}
}

// Choice 12 of the legacy contract's section 20: settings with an unknown agent are
// stored, and the session that starts with them says what is wrong.
func TestLegacyUnknownAgent(t *testing.T) {
	w := newWorld(t, say("hello"))
	l := newLegacy(w)
	l.ask(200, "POST", "/api/settings", map[string]any{"agent": "NoSuchAgent"})
	id := l.ask(200, "POST", "/api/conversations", map[string]any{"initial_user_msg": "hi"}).text("conversation_id")
	w.waitFor(id, conversation.Error)
	if log := l.logged(id); !strings.Contains(log, `There is no agent named \"NoSuchAgent\"`) || strings.Contains(log, "hello") {
		t.Errorf("%s", log)
	}
	shown := l.ask(200, "GET", "/api/conversations/"+id+"/events?limit=100", nil)
	if !strings.Contains(string(shown.body), `"agent_state":"error"`) || !strings.Contains(string(shown.body), "NoSuchAgent") {
		t.Errorf("%s", shown.body)
	}
	for _, fine := range []any{nil, "", "CodeActAgent"} {
		l.ask(200, "POST", "/api/settings", map[string]any{"agent": fine})
		l.create(map[string]any{})
	}
	// With settings that are right again, the next message does the start again.
	check(t, w.engine.Send(t.Context(), account.FirstUserID, conversation.ID(id), engine.Message{Parts: []content.Part{content.Text("hi")}, Run: true}))
	w.waitFor(id, conversation.Finished)
}

// Legacy API 3.3 and choice 20 of section 20: a session that starts again takes the
// settings as they are, and what the creation said stays.
func TestLegacySettingsAreTakenWhenASessionStarts(t *testing.T) {
	w := newWorld(t)
	l := newLegacy(w)
	servers := map[string]any{"shttp_servers": []any{"https://mcp.example.com/mcp"}}
	plain := l.create(map[string]any{"conversation_instructions": "be kind"})
	own := l.create(map[string]any{"mcp_config": servers, "conversation_instructions": "be brief"})
	l.ask(200, "POST", "/api/settings", map[string]any{"llm_model": "test/other", "max_iterations": 7, "confirmation_mode": true, "security_analyzer": "llm",
		"max_budget_per_task": 2.5, "git_user_name": "Ada", "git_user_email": "ada@example.com",
		"mcp_config": map[string]any{"sse_servers": []any{"https://other.example.com/sse"}}})
	for _, id := range []string{plain, own} { // those that run do not change
		if o := l.options(id); o.LLM.Model != "test/model" || o.MaxIterations != 500 || o.ConfirmationMode {
			t.Errorf("%+v", o)
		}
		l.ask(200, "POST", "/api/conversations/"+id+"/stop", nil)
		l.await(id, "STOPPED")
		l.ask(200, "POST", "/api/conversations/"+id+"/start", map[string]any{})
		l.await(id, "RUNNING")
		o := l.options(id)
		if o.LLM.Model != "test/other" || o.MaxIterations != 7 || !o.ConfirmationMode || o.SecurityAnalyzer != "llm" || *o.MaxBudget != 2.5 ||
			o.GitUserName != "Ada" || o.GitUserEmail != "ada@example.com" {
			t.Errorf("%+v", o)
		}
	}
	if o := l.options(plain); o.SystemSuffix != "be kind" || len(o.MCP.SSE) != 1 {
		t.Errorf("%+v", o)
	}
	if o := l.options(own); o.SystemSuffix != "be brief" || len(o.MCP.SSE) != 0 || len(o.MCP.SHTTP) != 1 {
		t.Errorf("what the creation said is lost: %+v", o)
	}
	// A model that was chosen for the conversation stays.
	check(t, w.engine.SwitchLLM(t.Context(), account.FirstUserID, conversation.ID(plain), account.LLM{Model: "test/chosen", APIKey: account.NewSecret("own-key-of-it")}))
	l.ask(200, "POST", "/api/settings", map[string]any{"agent": "NoSuchAgent"})
	l.ask(200, "POST", "/api/conversations/"+plain+"/stop", nil)
	l.await(plain, "STOPPED")
	a := l.at(l.base, "POST", "/api/conversations/"+plain+"/start", map[string]any{})
	if a.status < 400 || !strings.Contains(string(a.body), "Failed to start conversation: There is no agent named") {
		t.Errorf("%d %s", a.status, a.body)
	}
	l.ask(200, "POST", "/api/settings", map[string]any{})
	l.ask(200, "POST", "/api/conversations/"+plain+"/start", map[string]any{})
	l.await(plain, "RUNNING")
	if o := l.options(plain); o.LLM.Model != "test/chosen" || o.MaxIterations != 500 || o.MCP != nil {
		t.Errorf("%+v", o)
	}
}

// A creation that is refused leaves nothing behind (choice 6 of section 20).
func TestLegacyRefusedCreationsLeaveNothing(t *testing.T) {
	w := newWorld(t)
	l := newLegacy(w)
	before, err := w.store.Conversations().Count(t.Context(), store.ConversationQuery{Owner: account.FirstUserID})
	check(t, err)
	for body, want := range map[string]int{
		`{"repository":"../x"}`: 401,
		`{"repository":"a/b","git_provider":"bitbucket_data_center"}`:                    401,
		`{"selected_branch":"-x --upload-pack=y","repository":"http://127.0.0.1:1/a/b"}`: 400,
		`{"conversation_id":"a/b"}`: 400,
		`{"x":1}`:                   422,
	} {
		if a := l.at(l.base, "POST", "/api/conversations", body); a.status != want {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	l.ask(200, "POST", "/api/settings", map[string]any{"llm_api_key": ""})
	if a := l.ask(400, "POST", "/api/conversations", `{}`); a.text("msg_id") != "STATUS$ERROR_LLM_AUTHENTICATION" {
		t.Errorf("%s", a.body)
	}
	after, err := w.store.Conversations().Count(t.Context(), store.ConversationQuery{Owner: account.FirstUserID})
	check(t, err)
	if before != after {
		t.Errorf("%d conversations were left", after-before)
	}
}

// Legacy API 3.3, as far as a creation shows it: what the settings ask of the agent and
// of the sandbox.
func TestLegacySettingsOfACreation(t *testing.T) {
	w := newWorld(t)
	l := newLegacy(w)
	for body, check := range map[string]func(o *conversation.Options) bool{
		`{}`: func(o *conversation.Options) bool {
			return o.MaxIterations == 500 && o.MaxBudget == nil && o.MCP == nil
		},
		`{"max_iterations":0}`:        func(o *conversation.Options) bool { return o.MaxIterations == 500 },
		`{"max_iterations":-1}`:       func(o *conversation.Options) bool { return o.MaxIterations == 500 },
		`{"max_iterations":"7"}`:      func(o *conversation.Options) bool { return o.MaxIterations == 7 },
		`{"max_budget_per_task":0}`:   func(o *conversation.Options) bool { return o.MaxBudget == nil },
		`{"max_budget_per_task":1.5}`: func(o *conversation.Options) bool { return *o.MaxBudget == 1.5 },
		`{"security_analyzer":"llm"}`: func(o *conversation.Options) bool { return o.Policy().Kind == conversation.NeverConfirm },
		`{"confirmation_mode":true}`:  func(o *conversation.Options) bool { return o.Policy().Kind == conversation.AlwaysConfirm },
		`{"confirmation_mode":true,"security_analyzer":"llm"}`: func(o *conversation.Options) bool {
			return o.Policy().Kind == conversation.ConfirmRisky && o.Policy().Threshold == conversation.RiskHigh
		},
		`{"confirmation_mode":true,"security_analyzer":"nobody-knows"}`: func(o *conversation.Options) bool { return o.Policy().Kind == conversation.AlwaysConfirm },
		`{"remote_runtime_resource_factor":4}`:                          func(o *conversation.Options) bool { return o.Sandbox.Factor == 4 },
		`{"remote_runtime_resource_factor":-4}`:                         func(o *conversation.Options) bool { return o.Sandbox.Factor == 0 },
		`{"git_user_name":"Ada","git_user_email":"a@x"}`:                func(o *conversation.Options) bool { return o.GitUserName == "Ada" && o.GitUserEmail == "a@x" },
		`{"language":"tlh","email":"no mail","email_verified":"maybe"}`: nil,
	} {
		want := 200
		if check == nil {
			want = 422
		}
		l.ask(want, "POST", "/api/settings", body)
		if check == nil {
			continue
		}
		id := l.ask(200, "POST", "/api/conversations", `{}`).text("conversation_id")
		if o := l.options(id); !check(&o) {
			t.Errorf("%s: %+v", body, o)
		}
	}
	// What cannot be had is said, and nothing is made.
	for body, code := range map[string]int{`{"sandbox_runtime_container_image":"example.com/image"}`: 501, `{"sandbox_base_container_image":"example.com/image"}`: 501,
		`{"remote_runtime_resource_factor":1000000}`: 400} {
		l.ask(200, "POST", "/api/settings", body)
		if a := l.ask(code, "POST", "/api/conversations", `{"conversation_id":"refused"}`); a.text("status") != "error" || a.text("message") == "" {
			t.Errorf("%s: %s", body, a.body)
		}
		if a := l.ask(200, "GET", "/api/conversations/refused", nil); string(a.body) != "null\n" && string(a.body) != "null" {
			t.Errorf("%s: %s", body, a.body)
		}
	}
}

// Section 17 for conversations of the legacy API: what a repository brings is there,
// and what runs of it waits for the user's trust.
func TestLegacyRepositoryBringsMicroagents(t *testing.T) {
	w := newWorld(t, say("one"), say("two"), callTool("sh", `{"command":"ls"}`), say("three"))
	l := newLegacy(w)
	h := newHosting(t, forge.GitLab)
	h.git.Commit("acme/alpha", gittest.Text(map[string]string{
		".openhands/microagents/repo.md":    "---\nname: other\ntype: repo\n---\nRun make test.\n",
		".openhands/microagents/db.md":      "---\ntriggers: [database]\n---\nUse migrations.\n",
		".openhands/microagents/a/task.md":  "---\ninputs:\n- name: PR\n  description: the number\n---\nReview ${PR}.\n",
		".openhands/microagents/README.md":  "no microagent",
		".openhands/microagents/broken.md":  "---\ntriggers: {\n---\n",
		".openhands/microagents/servers.md": "---\nmcp_tools:\n  stdio_servers:\n  - name: fetch\n    command: uvx\n---\nFetch.\n",
		".cursorrules":                      "Be brief.\n",
		"AGENTS.md":                         "We are agents.\n",
		".openhands/setup.sh":               "touch set-up-ran\n",
		".openhands/pre-commit.sh":          "exit 1\n",
		".openhands_instructions":           "Old notes.\n",
	}))
	l.ask(200, "POST", "/api/add-git-providers", gitTokens("gitlab", forgetest.Token, h.host))
	id := l.create(map[string]any{"repository": "acme/alpha", "initial_user_msg": "hello"})
	w.waitFor(id, conversation.Finished)
	got := map[string]string{}
	for _, m := range l.ask(200, "GET", "/api/conversations/"+id+"/microagents", nil).list("microagents") {
		m := m.(map[string]any)
		got[m["name"].(string)] = fmt.Sprint(m["type"], " ", m["triggers"], " ", m["inputs"], " ", m["tools"])
	}
	for name, want := range map[string]string{"repo": "repo [] [] []", "db": "knowledge [database] [] []",
		"a/task": "knowledge [/a/task] [map[description:the number name:PR]] []", "cursorrules": "repo [] [] []", "agents": "repo [] [] []",
		"repo_legacy": "repo [] [] []"} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	if _, there := got["README"]; there || got["broken"] != "" {
		t.Errorf("%v", got)
	}
	l.ask(200, "POST", "/api/conversations/"+id+"/message", map[string]any{"message": "the Database is slow"})
	w.eventually("the recall", func() bool {
		return strings.Contains(string(l.ask(200, "GET", "/api/conversations/"+id+"/events?limit=100", nil).body), `"microagent_knowledge":[{"name":"db"`)
	})
	w.waitFor(id, conversation.Finished)

	ran := func() bool {
		_, err := os.Stat(filepath.Join(l.options(id).WorkingDir, "set-up-ran"))
		return err == nil
	}
	if ran() {
		t.Error("the set-up script ran without the user's trust")
	}
	q := w.call(200, "GET", "/api/v1/app-conversations/"+id+"/trust", nil)
	w.call(200, "POST", "/api/v1/app-conversations/"+id+"/trust", map[string]any{"subject": q.text("questions", 0, "subject"), "hash": q.text("questions", 0, "hash"), "trusted": true})
	w.eventually("the set-up script", ran)
	l.ask(200, "POST", "/api/conversations/"+id+"/stop", nil)
	again := l.create(map[string]any{"repository": "acme/alpha"})
	id = again
	w.eventually("the set-up script of a trusted repository", ran)
	if _, err := os.Stat(filepath.Join(l.options(id).WorkingDir, ".git/hooks/pre-commit")); err != nil {
		t.Errorf("no commit hook: %v", err)
	}
}
