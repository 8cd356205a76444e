package imports_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/api/v0/projection"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/imports"
	"parley/internal/store/sqlstore"
	"parley/internal/vault"
)

const (
	one   = "0123456789abcdef0123456789abcdef"
	two   = "1123456789abcdef0123456789abcdef"
	agent = "2123456789abcdef0123456789abcdef"
)

// world is a source and a store to import into.
type world struct {
	testing.TB
	dir   string
	store *sqlstore.Store
}

func newWorld(t testing.TB) *world {
	t.Helper()
	data := t.TempDir()
	v, err := vault.Open(data)
	check(t, err)
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(data, "parley.db"), Sealer: v})
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	check(t, s.Accounts().PutUser(t.Context(), account.User{ID: "u", CreatedAt: time.Now()}))
	return &world{TB: t, dir: t.TempDir(), store: s}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes a file of the source.
func (w *world) put(name, text string) {
	w.Helper()
	path := filepath.Join(w.dir, name)
	check(w.TB, os.MkdirAll(filepath.Dir(path), 0o755))
	check(w.TB, os.WriteFile(path, []byte(text), 0o644))
}

func (w *world) events(dir string, events ...string) {
	w.Helper()
	for i, e := range events {
		if e != "" {
			w.put(fmt.Sprintf("%s/events/%d.json", dir, i), strings.Replace(e, "{", fmt.Sprintf(`{"id":%d,`, i), 1))
		}
	}
}

func (w *world) run(do, overwrite bool) map[string]imports.Item {
	w.Helper()
	i, err := imports.Open(w.dir, imports.Options{Owner: "u", Accounts: w.store.Accounts(), Conversations: w.store.Conversations(),
		Imports: w.store.Imports(), Projection: projection.Name, Part: projection.ImportedPart, MaxIterations: 500,
		OverwriteSettings: overwrite, Mask: func(s []string) func(string) string { return vault.NewMasker(s...).Mask }})
	check(w.TB, err)
	defer func() { check(w.TB, i.Close()) }()
	items := map[string]imports.Item{}
	check(w.TB, i.Run(w.Context(), do, func(item imports.Item) { items[item.Path] = item }))
	return items
}

func (w *world) trace(id string) []string {
	w.Helper()
	events, err := w.store.Events().Read(w.Context(), conversation.ID(id), -1, 1000)
	check(w.TB, err)
	var out []string
	for _, ev := range events {
		p, err := conversation.Decode(ev)
		check(w.TB, err)
		switch e := p.(type) {
		case *conversation.MessageEvent:
			out = append(out, e.Source+": "+content.JoinText(e.LLMMessage.Content))
		case *conversation.ActionEvent:
			out = append(out, "action "+e.ToolName+" "+string(e.Action))
		case *conversation.ObservationEvent:
			out = append(out, "result "+string(e.Observation))
		case *conversation.AgentErrorEvent:
			out = append(out, "error "+e.Error)
		case *conversation.UserRejectObservation:
			out = append(out, "rejected")
		case *conversation.ConversationErrorEvent:
			out = append(out, "run failed: "+e.Detail)
		case *conversation.StateUpdateEvent:
			out = append(out, e.Key)
		}
	}
	return out
}

func (w *world) get(id string) *conversation.Conversation {
	w.Helper()
	c, err := w.store.Conversations().Get(w.Context(), "u", conversation.ID(id))
	check(w.TB, err)
	return c
}

const when = `"timestamp":"2025-11-20T10:00:00.123456"`

func act(source, action, args string) string {
	return fmt.Sprintf(`{%s,"source":%q,"message":"m","action":%q,"args":%s}`, when, source, action, args)
}

func obs(source, kind string, cause int, text, extras string) string {
	return fmt.Sprintf(`{%s,"source":%q,"message":"m","cause":%d,"observation":%q,"content":%q,"extras":%s}`, when, source, cause, kind, text, extras)
}

func state(s string) string {
	return fmt.Sprintf(`{%s,"source":"environment","message":"","observation":"agent_state_changed","content":"","extras":{"agent_state":%q,"reason":""}}`, when, s)
}

// legacySource is a file store as the legacy server leaves one behind.
func (w *world) legacySource() {
	w.put("settings.json", `{"language":"en","llm_model":"openai/gpt","llm_api_key":"sk-from-settings","max_iterations":33,"mcp_config":{"sse_servers":["http://a"]}}`)
	w.put("secrets.json", `{"provider_tokens":{"github":{"token":"ghp-secret","host":null,"user_id":"7"}},"custom_secrets":{"NAME":{"secret":"hush-hush","description":"d"}}}`)
	dir := "sessions/" + one
	w.put(dir+"/metadata.json", `{"conversation_id":"`+one+`","title":"A title","selected_repository":"o/r","selected_branch":"main","git_provider":"github",
		"trigger":"gui","created_at":"2025-11-20T09:00:00.5+00:00","last_updated_at":"2025-11-20T11:00:00","llm_model":"old/model",
		"accumulated_cost":1.25,"prompt_tokens":100,"completion_tokens":20,"pr_number":[3]}`)
	w.put(dir+"/agent_state.pkl", "cos\nsystem\n(S'false'\ntR.")
	w.events(dir, state("loading"), act("agent", "system", `{"content":"their prompt"}`), act("user", "message", `{"content":"hi hush-hush"}`),
		act("environment", "change_agent_state", `{"agent_state":"running"}`), act("user", "recall", `{"recall_type":"workspace_context","query":"hi"}`),
		state("running"), obs("environment", "recall", 4, "Added workspace context", `{}`), act("agent", "run", `{"command":"ls","thought":"look"}`),
		obs("agent", "run", 7, "a.txt", `{"command":"ls","metadata":{"exit_code":0,"pid":3,"working_dir":"/workspace"}}`),
		act("agent", "run_ipython", `{"code":"1+1","thought":""}`), obs("agent", "run_ipython", 9, "2", `{"code":"1+1"}`),
		act("agent", "edit", `{"path":"/a","command":"create","file_text":"x","thought":""}`), act("user", "run", `{"command":"pwd"}`),
		obs("agent", "run", 12, "/workspace", `{}`), act("agent", "message", `{"content":"done?","wait_for_response":true}`), state("awaiting_user_input"))
}

func TestLegacyConversation(t *testing.T) {
	w := newWorld(t)
	w.legacySource()
	before := checksum(t, w.dir)
	plan := w.run(false, false)
	if _, err := w.store.Conversations().Get(t.Context(), "u", one); !fault.Is(err, fault.NotFound) {
		t.Fatalf("a plan imported: %v", err)
	}
	done := w.run(true, false)
	if !maps.EqualFunc(plan, done, func(a, b imports.Item) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("planned %v, did %v", plan, done)
	}
	want := []string{"user: hi <secret-hidden>", `action terminal {"command":"ls","is_input":false,"kind":"TerminalAction"}`,
		`result {"command":"ls","content":[{"cache_prompt":false,"type":"text","text":"a.txt"}],"exit_code":0,"is_error":false,"kind":"TerminalObservation","metadata":{"exit_code":0,"pid":3,"working_dir":"/workspace"},"timeout":false}`,
		`action run_ipython {"data":{"code":"1+1"},"kind":"MCPToolAction"}`,
		`result {"content":[{"cache_prompt":false,"type":"text","text":"2"}],"is_error":false,"kind":"MCPToolObservation","tool_name":"run_ipython"}`,
		`action file_editor {"command":"create","file_text":"x","kind":"FileEditorAction","path":"/a"}`,
		"environment: The user ran this command in the sandbox, without you:\n$ pwd",
		"environment: The command that the user ran gave:\n/workspace\n[exit code -1]", "agent: done?",
		"error It is not recorded what came of this call: it may not have run. Look before you rely on it.", "stats"}
	if got := w.trace(one); !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	c := w.get(one)
	if c.Title != "A title" || c.Repository != "o/r" || c.Branch != "main" || c.GitProvider != "github" || c.Trigger != "gui" || c.PRNumbers[0] != 3 ||
		c.CreatedAt.Format(time.RFC3339Nano) != "2025-11-20T09:00:00.5Z" || c.Summary.Metrics.AccumulatedCost != 1.25 || c.Summary.Metrics.Usage.PromptTokens != 100 ||
		c.Summary.Status != conversation.Idle || c.Origin != conversation.OriginV0 || c.Options.LLM.Model != "openai/gpt" || c.Options.MaxIterations != 33 ||
		c.Summary.Head != int64(len(want)) || c.Options.Imported == nil {
		t.Errorf("%+v", c)
	}
	// Every legacy event keeps its number.
	numbers, err := w.store.Projections().Range(t.Context(), one, projection.Name, 0, 99, false, 99)
	check(t, err)
	raw, err := w.store.Imports().Raw(t.Context(), one, 0, 99)
	check(t, err)
	if len(numbers) != 16 || len(raw) != 16 || !strings.Contains(string(raw[7]), `"command":"ls"`) || !strings.Contains(string(raw[7]), `"confirmation_state":"confirmed"`) || strings.Contains(string(raw[2]), "hush") {
		t.Errorf("%v %v", numbers, raw)
	}
	if checksum(t, w.dir) != before {
		t.Error("the source changed")
	}
}

func TestSettingsAndSecrets(t *testing.T) {
	w := newWorld(t)
	w.legacySource()
	items := w.run(true, false)
	s, err := w.store.Accounts().Settings(t.Context(), "u")
	check(t, err)
	if *s.LLMModel != "openai/gpt" || s.LLMAPIKey.Reveal() != "sk-from-settings" || s.Secrets.ProviderTokens["github"].Token.Reveal() != "ghp-secret" ||
		s.Secrets.Custom["NAME"].Value.Reveal() != "hush-hush" || len(s.MCP.SSE) != 1 || items["settings.json"].Status != imports.New {
		t.Errorf("%+v", s)
	}
	w.put("settings.json", `{"llm_model":"other/model"}`)
	if items := w.run(true, false); items["settings.json"].Status != imports.Kept || items["secrets.json"].Status != imports.Kept {
		t.Errorf("%+v", items)
	}
	if items := w.run(true, true); items["settings.json"].Status != imports.Replaced {
		t.Errorf("%+v", items)
	}
	s, err = w.store.Accounts().Settings(t.Context(), "u")
	if check(t, err); *s.LLMModel != "other/model" || s.Secrets.Custom["NAME"].Value.Reveal() != "hush-hush" {
		t.Errorf("%+v", s)
	}
	for _, bad := range []string{`{`, `[]`, `{"mcp_config":{"stdio_servers":[{"name":"n","command":"c","env":"TOKEN-hush"}]}}`} {
		w.put("settings.json", bad)
		if item := w.run(true, true)["settings.json"]; item.Status != imports.Broken || strings.Contains(fmt.Sprint(item), "hush") {
			t.Errorf("%s: %+v", bad, item)
		}
	}
}

// A second import does nothing; what changed in the source is told and left alone; an id
// that is somebody else's is not taken.
func TestAgain(t *testing.T) {
	w := newWorld(t)
	w.legacySource()
	w.run(true, false)
	dir := "sessions/" + one
	if item := w.run(true, false)[dir]; item.Status != imports.Same {
		t.Errorf("%+v", item)
	}
	w.put(dir+"/events/16.json", `{"id":16,"source":"user","action":"message","args":{"content":"more"}}`)
	if item := w.run(true, false)[dir]; item.Status != imports.Changed || item.Events != 17 {
		t.Errorf("%+v", item)
	}
	if slices.Contains(w.trace(one), "user: more") {
		t.Error("it was changed here")
	}
	check(t, w.store.Conversations().Create(t.Context(), &conversation.Conversation{ID: two, Owner: "other", CreatedAt: time.Now(), UpdatedAt: time.Now()}))
	w.put("sessions/"+two+"/metadata.json", `{"created_at":"2025-11-20T09:00:00Z"}`)
	w.put("users/7/conversations/"+one+"/metadata.json", `{"created_at":"2025-11-20T09:00:00Z"}`)
	items := w.run(true, false)
	if items["sessions/"+two].Status != imports.Taken || items["users/7/conversations/"+one].Status != imports.Elsewhere {
		t.Errorf("%+v", items)
	}
	check(t, w.store.Conversations().Delete(t.Context(), one))
	if item := w.run(true, false)[dir]; item.Status != imports.New {
		t.Errorf("after it was deleted: %+v", item)
	}
}

// Broken stores: what can be read comes over with its numbers, the rest is listed.
func TestBrokenStores(t *testing.T) {
	w := newWorld(t)
	outside := t.TempDir()
	check(t, os.WriteFile(filepath.Join(outside, "o.json"), []byte(act("user", "message", `{"content":"from outside"}`)), 0o644))
	dir := "sessions/" + one
	w.put(dir+"/metadata.json", `{"created_at":"2025-11-20 09:00:00","title":7,"pr_number":"x","accumulated_cost":-1}`)
	w.events(dir, act("user", "message", `{"content":"a"}`), "", "", `{"broken":`, act("agent", "fly", `{}`), act("agent", "run", `{"command":"x"}`))
	w.put(dir+"/events/7.json", strings.Replace(act("user", "message", `{"content":"b"}`), "{", `{"id":3,`, 1))
	w.put(dir+"/events/08.json", `{}`)
	w.put(dir+"/events/note.txt", `{}`)
	w.put(dir+"/event_cache/0-25.json", "["+strings.Repeat(act("user", "message", `{"content":"cached"}`)+",", 2)+act("user", "message", `{"content":"c"}`)+"]")
	check(t, os.Symlink(filepath.Join(outside, "o.json"), filepath.Join(w.dir, dir, "events/9.json")))
	check(t, syscall.Mkfifo(filepath.Join(w.dir, dir, "events/10.json"), 0o644))
	w.put(dir+"/events/99999999.json", act("user", "message", `{"content":"far"}`))
	check(t, os.Symlink(outside, filepath.Join(w.dir, "sessions", two)))
	w.put("sessions/no-date/metadata.json", `{"title":"x"}`)
	w.put("sessions/no-json/metadata.json", `{`)
	items := w.run(true, false)
	if items["sessions/no-date"].Status != imports.Broken || items["sessions/no-json"].Status != imports.Broken ||
		items["sessions/"+two].Status != imports.Broken || len(items) != 4 {
		t.Errorf("%+v", items)
	}
	if got := w.trace(one); !slices.Equal(got, []string{"user: a", "user: cached", "user: c", `action terminal {"command":"x","is_input":false,"kind":"TerminalAction"}`,
		"user: b", "error It is not recorded what came of this call: it may not have run. Look before you rely on it."}) {
		t.Errorf("%q", got)
	}
	all := strings.Join(items[dir].Problems, "\n")
	for _, want := range []string{"events/08.json", "events/note.txt", "events/3.json", `events/4.json: there is no action "fly"`, "events/7.json: its id is 3",
		"events/9.json", "events/10.json: it is no regular file", "events/99999999.json"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not listed in\n%s", want, all)
		}
	}
	if c := w.get(one); c.Title != "Conversation 01234" || len(c.PRNumbers) > 0 {
		t.Errorf("%+v", c)
	}
	numbers, err := w.store.Projections().Range(t.Context(), one, projection.Name, 0, 99, false, 99)
	check(t, err)
	if len(numbers) != 8 {
		t.Errorf("%v", numbers)
	}
}

func TestAgentServersConversation(t *testing.T) {
	w := newWorld(t)
	dir := "workspace/conversations/" + agent
	w.put(dir+"/meta.json", `{"id":"21234567-89ab-cdef-0123-456789abcdef","title":"T","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T04:00:00Z","tags":{"a":"b"}}`)
	w.put(dir+"/base_state.json", `{"execution_status":"running","agent":{"kind":"Agent","llm":{"model":"m/x","api_key":"gAAAAA"}}}`)
	at := `"timestamp":"2026-01-02T03:04:05",`
	for i, e := range []string{
		`{"kind":"SystemPromptEvent","id":"p",` + at + `"source":"agent","system_prompt":{"type":"text","text":"S"},"tools":[]}`,
		`{"kind":"MessageEvent","id":"a",` + at + `"source":"user","llm_message":{"role":"user","content":[{"cache_prompt":false,"type":"text","text":"hi"}],"thinking_blocks":[]},"activated_skills":[],"extended_content":[]}`,
		`{"kind":"ConversationStateUpdateEvent","id":"b",` + at + `"source":"environment","key":"execution_status","value":"running"}`,
		`{"kind":"ConversationStateUpdateEvent","id":"g",` + at + `"source":"environment","key":"goal","value":{"active":true}}`,
		`{"kind":"ActionEvent","id":"c",` + at + `"source":"agent","thought":[],"thinking_blocks":[],"action":{"kind":"TerminalAction","command":"ls"},"tool_name":"terminal","tool_call_id":"t","tool_call":{"id":"t","name":"terminal","arguments":"{}","origin":"completion"},"llm_response_id":"r","security_risk":"LOW","more":1}`,
		`{"kind":"SomethingNew","id":"n",` + at + `"source":"agent"}`,
		`{"kind":"MessageEvent","id":"a",` + at + `"source":"user"}`,
		`{`,
	} {
		w.put(fmt.Sprintf("%s/events/event-%05d-%s.json", dir, i, "x"), e)
	}
	w.put(dir+"/events/.eventlog.lock", "")
	items := w.run(true, false)
	item := items[dir]
	if item.Status != imports.New || len(item.Problems) != 2 || item.Title != "T" {
		t.Errorf("%+v", item)
	}
	if got := w.trace(agent); !slices.Equal(got, []string{"user: hi", "execution_status", `action terminal {"kind":"TerminalAction","command":"ls"}`,
		"error It is not recorded what came of this call: it may not have run. Look before you rely on it.", "execution_status"}) {
		t.Errorf("%q", got)
	}
	c := w.get(agent)
	if c.Summary.Status != conversation.Idle || c.Origin != conversation.OriginAgent || c.Options.LLM.Model != "m/x" || c.Tags["a"] != "b" || c.Summary.Head != 6 {
		t.Errorf("%+v", c)
	}
	if item := w.run(true, false)[dir]; item.Status != imports.Same {
		t.Errorf("%+v", item)
	}
}

func checksum(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			_, _ = fmt.Fprintln(sum, path, info.ModTime())
			return err
		}
		raw, err := os.ReadFile(path)
		_, _ = fmt.Fprintln(sum, path, info.Mode(), info.ModTime(), string(raw))
		return err
	}))
	return fmt.Sprintf("%x", sum.Sum(nil))
}
