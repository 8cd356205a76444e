package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"parley/internal/account"
	"parley/internal/conversation"
)

const agents = "/api/agent-profiles"

// agentOf is an agent profile's request.
func agentOf(llm string, more ...any) map[string]any {
	p := map[string]any{"llm_profile_ref": llm}
	for i := 0; i+1 < len(more); i += 2 {
		p[more[i].(string)] = more[i+1]
	}
	return p
}

// addServer stores an MCP server in the first user's settings, disabled so that no
// conversation waits for it.
func (w *world) addServer(name string) {
	w.Helper()
	w.change(`{"agent_settings_diff":{"mcp_config":{"` + name + `":{"url":"https://` + name + `.example/mcp","headers":{"X-Key":"` + serverSecret + `"}}}}}`)
}

// The routes of V1 and of the agent protocol show one and the same.
func TestAgentProfileRoutes(t *testing.T) {
	w := newWorld(t)
	key, at := w.box()
	w.call(201, "POST", profiles+"/fast", llmOf(profmodel))
	for name, base := range map[string]string{"v1": agents, "agent": at + agents} {
		t.Run(name, func(t *testing.T) {
			if a := w.call(200, "GET", base, nil); len(a.list("profiles")) != 0 || a.at("active_agent_profile_id") != nil {
				t.Errorf("%s", a.body)
			}
			w.call(404, "GET", base+"/coder", nil)
			if a := w.call(201, "POST", base+"/coder", agentOf("fast", "id", uuid.NewString(), "revision", 9, "name", "other")); a.text("name") != "coder" {
				t.Errorf("%s", a.body)
			}
			a := w.call(200, "GET", base+"/coder", nil)
			id := a.text("profile", "id")
			if a.at("profile", "revision") != 0.0 || a.text("profile", "name") != "coder" || a.text("profile", "agent_kind") != "openhands" ||
				a.at("profile", "tools") != nil || a.at("profile", "mcp_server_refs") != nil || a.at("profile", "enable_switch_llm_tool") != true {
				t.Errorf("%s", a.body)
			}
			w.call(201, "POST", base+"/coder", a.at("profile")) // what was shown can be sent back
			if a := w.call(200, "GET", base+"/coder", nil); a.text("profile", "id") != id || a.at("profile", "revision") != 1.0 {
				t.Errorf("an edit is the next revision of the same profile: %s", a.body)
			}
			w.call(201, "POST", base+"/other", map[string]any{"agent_kind": "acp", "acp_server": "codex"})
			w.call(409, "POST", base+"/coder/rename", map[string]any{"new_name": "other"})
			w.call(404, "POST", base+"/none/rename", map[string]any{"new_name": "x"})
			w.call(422, "POST", base+"/coder/rename", map[string]any{"new_name": ".x"})
			w.call(200, "POST", base+"/coder/rename", map[string]any{"new_name": "builder"})
			w.call(404, "POST", base+"/"+uuid.NewString()+"/activate", nil)
			w.call(404, "POST", base+"/builder/activate", nil) // by its id
			if a := w.call(200, "POST", base+"/"+id+"/activate", nil); a.text("id") != id || a.at("agent_settings_applied") != false {
				t.Errorf("%s", a.body)
			}
			a = w.call(200, "GET", base, nil)
			if a.text("active_agent_profile_id") != id || a.text("profiles", 0, "name") != "builder" || a.text("profiles", 0, "llm_profile_ref") != "fast" ||
				a.text("profiles", 1, "agent_kind") != "acp" || a.at("profiles", 1, "llm_profile_ref") != nil {
				t.Errorf("%s", a.body)
			}
			if s := w.call(200, "GET", settingsPath, nil); s.text("active_agent_profile_id") != id || s.at("active_agent_profile_revision") != 1.0 {
				t.Errorf("%s", s.body)
			}
			if s := w.call(200, "GET", at+"/api/settings", nil); s.text("active_agent_profile_id") != id {
				t.Errorf("%s", s.body)
			}
			w.call(409, "DELETE", profiles+"/fast", nil)
			w.call(200, "POST", profiles+"/fast/rename", map[string]any{"new_name": "faster"})
			if a := w.call(200, "GET", base+"/builder", nil); a.text("profile", "llm_profile_ref") != "faster" {
				t.Errorf("the reference did not follow: %s", a.body)
			}
			w.call(200, "POST", profiles+"/faster/rename", map[string]any{"new_name": "fast"})
			for _, name := range []string{"builder", "other", "other"} { // also if absent
				w.call(200, "DELETE", base+"/"+name, nil)
			}
			if a := w.call(200, "GET", base, nil); len(a.list("profiles")) != 0 || a.at("active_agent_profile_id") != nil {
				t.Errorf("%s", a.body)
			}
		})
	}
	w.call(201, "POST", agents+"/coder", agentOf("fast"))
	if a := w.as(key, "GET", agents, nil).is(200); len(a.list("profiles")) != 1 {
		t.Errorf("%s", a.body)
	}
	if a := w.as(otherKey, "GET", agents, nil).is(200); len(a.list("profiles")) != 0 {
		t.Errorf("another user sees them: %s", a.body)
	}
	for _, x := range []struct{ method, path string }{{"POST", "/coder"}, {"DELETE", "/coder"}, {"POST", "/coder/rename"}, {"POST", "/x/activate"}} {
		if a := w.as(key, x.method, agents+x.path, map[string]any{"new_name": "x"}).is(403); a.text("code") != "owner_key_required" {
			t.Errorf("%s", a.body)
		}
	}
	w.as("", "GET", agents, nil).is(401)
}

func TestAgentProfilesThatAreRefused(t *testing.T) {
	w := newWorld(t)
	for name, x := range map[string]struct {
		body any
		loc  string
	}{
		"no model":            {map[string]any{}, "[body llm_profile_ref]"},
		"a key":               {agentOf("p", "api_key", "sk-hush"), "[body api_key]"},
		"a kind":              {agentOf("p", "agent_kind", "robot"), "[body agent_kind]"},
		"the other kind's":    {agentOf("p", "acp_server", "codex"), "[body acp_server]"},
		"a condenser":         {agentOf("p", "condenser", map[string]any{"max_size": 3}), "[body condenser max_size]"},
		"a part of a tool":    {agentOf("p", "tools", []any{map[string]any{"name": "sh", "x": 1}}), "[body tools 0 x]"},
		"a tool without name": {agentOf("p", "tools", []any{map[string]any{}}), "[body tools 0 name]"},
		"a critic's key":      {agentOf("p", "verification", map[string]any{"critic_api_key": "sk-hush"}), "[body verification critic_api_key]"},
		"calls":               {agentOf("p", "tool_concurrency_limit", 0), "[body tool_concurrency_limit]"},
		"servers":             {agentOf("p", "mcp_server_refs", "all"), "[body mcp_server_refs]"},
	} {
		a := w.call(422, "POST", agents+"/p", x.body)
		if got := fmt.Sprint(a.at("detail", 0, "loc")); got != x.loc {
			t.Errorf("%s: %s", name, a.body)
		}
		w.hides(a, "sk-hush")
	}
	w.call(422, "POST", agents+"/.p", agentOf("p"))
	for i := range account.MaxAgentProfiles {
		w.call(201, "POST", fmt.Sprintf("%s/p%d", agents, i), agentOf("p"))
	}
	if a := w.call(409, "POST", agents+"/one-more", agentOf("p")); a.text("code") != account.CodeAgentProfileLimit {
		t.Errorf("%s", a.body)
	}
}

// What a profile says is what a conversation gets, over V1 and over the agent
// protocol.
func TestStartWithAnAgentProfile(t *testing.T) {
	w := newWorld(t)
	_, at := w.box()
	w.call(201, "POST", profiles+"/fast", llmOf(profmodel))
	w.addServer("one")
	w.change(`{"agent_settings_diff":{"mcp_config":{"one":{"url":"https://one.example/mcp","enabled":false},"two":{"url":"https://two.example/mcp","enabled":false}}}}`)
	body := agentOf("fast", "system_message_suffix", "Be brief.", "disabled_skills", []any{"deploy"}, "mcp_server_refs", []any{"one"},
		"tools", []any{map[string]any{"name": "sh"}}, "condenser", map[string]any{"max_size": 40, "keep_first": 3},
		"verification", map[string]any{"critic_enabled": true}, "tool_concurrency_limit", 2, "enable_sub_agents", true)
	w.call(201, "POST", agents+"/coder", body)
	w.call(201, "POST", agents+"/coder", body) // revision 1
	id := w.call(200, "GET", agents+"/coder", nil).text("profile", "id")
	verify := func(v1 *answer, hex string) {
		t.Helper()
		if v1.text("launched_agent_profile", "agent_profile_id") != id || v1.at("launched_agent_profile", "revision") != 1.0 ||
			v1.text("llm_model") != profmodel || v1.text("tags", "agentprofileid") != id || v1.text("tags", "agentprofilerevision") != "1" {
			t.Errorf("%s", v1.body)
		}
		v, err := w.engine.View(t.Context(), account.FirstUserID, conversation.ID(hex))
		check(t, err)
		o := v.Options
		if o.LLM.Model != profmodel || o.LLMProfile != "fast" || !slices.Equal(o.Tools, []string{"sh", "task_tool_set"}) || !strings.HasPrefix(o.SystemSuffix, "Be brief.") ||
			!slices.Equal(o.DisabledSkills, []string{"deploy"}) || o.ToolConcurrency != 2 || o.Condenser.MaxSize != 40 || *o.Condenser.KeepFirst != 3 || o.Critic == nil || len(o.MCP.SHTTP) != 0 {
			t.Errorf("%+v", o)
		}
	}
	start := map[string]any{"agent_profile_id": strings.ToUpper(id)}
	hex, a := w.begin(start)
	verify(a, hex)
	b := w.call(201, "POST", at+"/api/conversations", map[string]any{"agent_profile_id": id, "workspace": map[string]any{"working_dir": "."}, "tags": map[string]any{"mine": "1"}})
	if b.text("launched_agent_profile", "agent_profile_id") != id || b.at("launched_agent_profile", "revision") != 1.0 || b.text("tags", "mine") != "1" {
		t.Errorf("%s", b.body)
	}
	hex = strings.ReplaceAll(b.text("id"), "-", "")
	verify(w.call(200, "GET", "/api/v1/app-conversations/"+hex, nil), hex)
	// The model of a request counts.
	start["llm_model"] = "openai/another"
	if _, a := w.begin(start); a.text("llm_model") != "openai/another" {
		t.Errorf("%s", a.body)
	}
	// Clients may replace the tags; what started the conversation stays.
	w.call(200, "PATCH", at+"/api/conversations/"+hex, map[string]any{"tags": map[string]any{}})
	if a := w.call(200, "GET", "/api/v1/app-conversations/"+hex, nil); a.text("launched_agent_profile", "agent_profile_id") != id {
		t.Errorf("%s", a.body)
	}
}

func TestStartWithAnAgentProfileThatCannotBe(t *testing.T) {
	w := newWorld(t)
	_, at := w.box()
	w.call(201, "POST", profiles+"/fast", llmOf(profmodel))
	for name, x := range map[string]struct {
		body   any
		v1     int
		agent  int
		detail string
	}{
		"no-model":  {agentOf("none"), 404, 404, "needs the LLM profile none"},
		"no-server": {agentOf("fast", "mcp_server_refs", []any{"a", "b"}), 400, 422, "do not exist: a, b"},
		"no-tool":   {agentOf("fast", "tools", []any{map[string]any{"name": "laser"}}), 400, 422, "laser"},
		"a-program": {map[string]any{"agent_kind": "acp"}, 501, 501, "acp"},
		"params":    {agentOf("fast", "tools", []any{map[string]any{"name": "sh", "params": map[string]any{"a": 1}}}), 501, 501, "parameters"},
		"critic":    {agentOf("fast", "verification", map[string]any{"critic_enabled": true, "critic_model_name": "c"}), 501, 501, "critics on other servers"},
	} {
		w.call(201, "POST", agents+"/"+name, x.body)
		id := w.call(200, "GET", agents+"/"+name, nil).text("profile", "id")
		for _, a := range []*answer{w.call(x.v1, "POST", "/api/v1/app-conversations", map[string]any{"agent_profile_id": id}),
			w.call(x.agent, "POST", at+"/api/conversations", map[string]any{"agent_profile_id": id, "workspace": map[string]any{"working_dir": "."}})} {
			if !strings.Contains(string(a.body), x.detail) {
				t.Errorf("%s: %s", name, a.body)
			}
		}
		m := w.call(200, "POST", agents+"/"+name+"/materialize", nil)
		if m.at("valid") != false || m.at("resolved_settings") != nil || !strings.Contains(m.text("errors", 0), x.detail) {
			t.Errorf("%s: %s", name, m.body)
		}
	}
	a := w.call(422, "POST", at+"/api/conversations", map[string]any{"workspace": map[string]any{"working_dir": "."},
		"agent_profile_id": w.call(200, "GET", agents+"/no-server", nil).text("profile", "id")})
	if got := a.list("detail", "dangling_mcp_server_refs"); len(got) != 2 || a.text("detail", "message") == "" {
		t.Errorf("%s", a.body)
	}
	w.call(404, "POST", "/api/v1/app-conversations", map[string]any{"agent_profile_id": uuid.NewString()})
	w.call(404, "POST", at+"/api/conversations", map[string]any{"agent_profile_id": uuid.NewString(), "workspace": map[string]any{"working_dir": "."}})
}

func TestMaterializedAgentProfile(t *testing.T) {
	w := newWorld(t)
	key, at := w.box()
	w.call(201, "POST", profiles+"/fast", llmOf(profmodel))
	w.addServer("one")
	w.call(201, "POST", agents+"/coder", agentOf("fast", "system_message_suffix", "Be brief."))
	for _, a := range []*answer{w.call(200, "POST", agents+"/coder/materialize", nil), w.call(200, "POST", at+agents+"/coder/materialize", nil),
		w.as(key, "POST", agents+"/coder/materialize", nil).is(200)} {
		if a.at("valid") != true || a.at("llm_profile_resolved") != true || a.at("llm_api_key_set") != true || a.text("resolved_mcp_config_keys", 0) != "one" ||
			a.text("resolved_settings", "llm", "api_key") != account.Mask || a.text("resolved_settings", "agent_context", "system_message_suffix") != "Be brief." {
			t.Errorf("%s", a.body)
		}
		w.hides(a, profkey, serverSecret)
	}
	w.call(404, "POST", agents+"/none/materialize", nil)
}
