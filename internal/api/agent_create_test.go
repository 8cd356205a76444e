package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/llm"
)

const conversations = "/api/conversations"

// bench is a sandbox with a key, and the directory that its conversations share.
type bench struct {
	*world
	key, sandbox, dir string
}

func newBench(t *testing.T, steps ...step) *bench {
	t.Helper()
	return newBenchWith(t, nil, steps...)
}

func newBenchWith(t *testing.T, change option, steps ...step) *bench {
	t.Helper()
	w := newWorldWith(t, change, steps...)
	_, a := w.begin(map[string]any{})
	return &bench{w, a.text("session_api_key"), a.text("sandbox_id"), a.text("workspace", "working_dir")}
}

// post calls with the sandbox's key.
func (b *bench) post(want int, path string, body any) *answer {
	b.Helper()
	return b.as(b.key, "POST", path, body).is(want)
}

// with is a request to start a conversation with a model, changed by members.
func (b *bench) with(members map[string]any) map[string]any {
	body := map[string]any{"agent": map[string]any{"kind": "Agent", "llm": map[string]any{"model": "test/model"}},
		"workspace": map[string]any{"working_dir": "."}}
	maps.Copy(body, members)
	return body
}

// agentWith is the same with members of its agent changed.
func (b *bench) agentWith(members map[string]any) map[string]any {
	body := b.with(nil)
	maps.Copy(body["agent"].(map[string]any), members)
	return body
}

// withSkills is the same with the skills of its agent.
func (b *bench) withSkills(all ...map[string]any) map[string]any {
	return b.agentWith(map[string]any{"agent_context": map[string]any{"skills": all}})
}

func settingsWith(members map[string]any) map[string]any {
	return map[string]any{"agent_settings": members, "workspace": map[string]any{"working_dir": "."}}
}

// options are what a started conversation runs with.
func (b *bench) options(a *answer) *engine.View {
	b.Helper()
	id, err := conversation.ParseID(a.text("id"))
	check(b.TB, err)
	v, err := b.engine.View(b.Context(), account.FirstUserID, id)
	check(b.TB, err)
	return v
}

// hexOf is the id of a conversation without the dashes that this protocol writes.
func hexOf(a *answer) string { return strings.ReplaceAll(a.text("id"), "-", "") }

func TestAgentCreate(t *testing.T) {
	b := newBench(t, callTool("sh", `{"command":"pwd; ls -a"}`), say("here"))
	id := uuid.NewString()
	body := b.with(map[string]any{"conversation_id": id, "workspace": map[string]any{"working_dir": "sub/dir", "type": "local"},
		"initial_message": userSays("where are you?"), "tags": map[string]any{"source": "test"}, "max_iterations": 7})
	a := b.post(201, conversations, body)
	if a.text("id") != id || a.at("max_iterations") != 7.0 || a.text("tags", "source") != "test" || a.at("stuck_detection") != true ||
		a.text("workspace", "working_dir") != path.Join(b.dir, "sub/dir") {
		t.Errorf("%s", a.body)
	}
	b.waitFor(hexOf(a), conversation.Finished) // the first message runs, whatever "run" says
	log := b.as(b.key, "GET", conversations+"/"+id+"/events/search?kind=ObservationEvent", nil).is(200)
	if text := string(log.body); !strings.Contains(text, path.Join(b.dir, "sub/dir")) {
		t.Errorf("it works elsewhere: %s", text)
	}

	// The same id again: what is there, whatever the request says.
	again := b.post(200, conversations, map[string]any{"conversation_id": id, "workspace": map[string]any{"working_dir": "/elsewhere"},
		"agent": map[string]any{"llm": map[string]any{"model": "x"}, "tools": []any{map[string]any{"name": "nonsense"}}}})
	if again.text("id") != id || again.text("execution_status") != "finished" {
		t.Errorf("%s", again.body)
	}
	// An id of another sandbox is taken.
	_, other := b.begin(map[string]any{})
	if a := b.as(other.text("session_api_key"), "POST", conversations, body).is(409); strings.Contains(string(a.body), "source") {
		t.Errorf("%s", a.body)
	}
	// The owner's key makes one too, below the prefix.
	if a := b.as(userKey, "POST", "/agent/"+b.sandbox+conversations, b.with(nil)).is(201); a.text("execution_status") != "idle" {
		t.Errorf("%s", a.body)
	}
	b.as(otherKey, "POST", "/agent/"+b.sandbox+conversations, b.with(nil)).is(404)
	b.as("", "POST", "/agent/"+b.sandbox+conversations, b.with(nil)).is(401)
}

// The bodies that clients send (agent protocol 6), nulls and unknown members
// included.
func TestAgentCreateTakesWhatClientsSend(t *testing.T) {
	b := newBench(t)
	for name, raw := range map[string]string{
		"python": `{"agent":{"kind":"Agent","llm":{"model":"test/model","api_key":"**********","base_url":null,"num_retries":5,
			"retry_multiplier":8.0,"retry_min_wait":8,"retry_max_wait":64,"timeout":300,"max_message_chars":30000,"temperature":null,
			"top_p":null,"drop_params":true,"caching_prompt":true,"log_completions":false,"native_tool_calling":true,"reasoning_effort":"high",
			"extended_thinking_budget":200000,"usage_id":"default","litellm_extra_body":{},"novel_member":[1]},
			"tools":[{"name":"sh","params":{}}],"mcp_config":{},"filter_tools_regex":null,"include_default_tools":["FinishTool","ThinkTool"],
			"agent_context":{"skills":[],"system_message_suffix":null,"user_message_suffix":null,"load_user_skills":false,"load_public_skills":true,
			"marketplace_path":"marketplaces/default.json","secrets":null,"current_datetime":"2026-01-01T00:00:00"},
			"system_prompt":null,"system_prompt_filename":"system_prompt.j2","security_policy_filename":"security_policy.j2",
			"system_prompt_kwargs":{"llm_security_analyzer":true},
			"condenser":{"kind":"LLMSummarizingCondenser","llm":{"model":"test/model","usage_id":"condenser"},"max_size":80,"max_tokens":null,"keep_first":4},
			"critic":null,"tool_concurrency_limit":1},"initial_message":null,"max_iterations":500,"stuck_detection":true,
			"stuck_detection_thresholds":{"action_observation":4,"action_error":3,"monologue":3,"alternating_pattern":6},
			"workspace":{"kind":"LocalWorkspace","working_dir":"workspace/project"},"tool_module_qualnames":{"sh":"a.b"},
			"agent_definitions":[{"name":"explorer","description":"x"}],"plugins":null,"hook_config":null,"client_tools":[],"tags":{},
			"observability_metadata":{},"observability_tags":[],"observability_span_name":"conversation","user_id":null}`,
		"typescript": `{"agent":{"kind":"Agent","llm":{"model":"test/model","api_key":"k"}},"workspace":{"type":"local","working_dir":"."},
			"max_iterations":50,"stuck_detection":true,"hook_config":null,"user_id":null,
			"initial_message":{"role":"user","content":[{"type":"text","text":"hi"}]}}`,
		"web": `{"agent_settings":{"schema_version":1,"agent_kind":"openhands","agent":"CodeActAgent","llm":{"model":"test/model","stream":true},
			"tools":null,"enable_sub_agents":false,"enable_switch_llm_tool":true,"tool_concurrency_limit":1,"mcp_config":{"mcpServers":{}},
			"agent_context":{"skills":[]},"condenser":{"enabled":true,"condenser_kind":"llm_summarizing","max_size":240},
			"verification":{"critic_enabled":false,"critic_server_url":null}},"workspace":{"kind":"LocalWorkspace","working_dir":"."},
			"conversation_id":"` + uuid.NewString() + `","secrets_encrypted":false,"worktree":false,"autotitle":true,"title_llm_profile":null,
			"client_tools":[{"name":"canvas_ui","description":"shows","parameters":{"type":"object","properties":{"tab":{"type":"string"}}}}],
			"confirmation_policy":{"kind":"NeverConfirm"},"hook_config":{"pre_tool_use":[],"stop":[]},"plugins":[],
			"tags":{"clientsource":"canvas"},"secrets":{"A":{"kind":"StaticSecret","value":"v","description":"d"},"B":"plain","C":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			b.TB = t
			a := b.post(201, conversations, raw)
			if a.text("agent", "llm", "model") != "test/model" || strings.Contains(string(a.body), `"v"`) || strings.Contains(string(a.body), "plain") {
				t.Errorf("%s", a.body)
			}
		})
	}
}

func TestAgentCreateSaysHowTheAgentRuns(t *testing.T) {
	b := newBench(t)
	check(t, b.store.Accounts().UpdateSettings(t.Context(), account.FirstUserID, func(s *account.Settings) (*account.Settings, error) {
		return s, s.SaveProfile("fast", account.ProfileSave{WithSecrets: true})
	}))
	two, half := 2, 0.5
	keep := 1
	for name, c := range map[string]struct {
		body map[string]any
		want func(o *conversation.Options, v *engine.View)
	}{
		"policy": {b.with(map[string]any{"confirmation_policy": map[string]any{"kind": "ConfirmRisky", "threshold": "MEDIUM"},
			"security_analyzer": map[string]any{"kind": "EnsembleSecurityAnalyzer", "analyzers": []any{
				map[string]any{"kind": "PatternSecurityAnalyzer", "high_patterns": []any{"x"}}, map[string]any{"kind": "PolicyRailSecurityAnalyzer"}}}}),
			func(o *conversation.Options, _ *engine.View) {
				yes := true
				o.Confirmation = &conversation.ConfirmationPolicy{Kind: conversation.ConfirmRisky, Threshold: "MEDIUM", ConfirmUnknown: &yes}
				o.Analyzer = &conversation.Analyzer{Kind: conversation.AnalyzerEnsemble, Analyzers: []conversation.Analyzer{
					{Kind: conversation.AnalyzerPattern}, {Kind: conversation.AnalyzerRails}}}
			}},
		"stuck": {b.with(map[string]any{"stuck_detection": false, "stuck_detection_thresholds": map[string]any{"monologue": 9}}),
			func(o *conversation.Options, _ *engine.View) {
				o.Stuck = &conversation.StuckDetection{Off: true, Monologue: 9}
			}},
		"condenser": {b.agentWith(map[string]any{"condenser": map[string]any{"kind": "PipelineCondenser", "condensers": []any{
			map[string]any{"kind": "NoOpCondenser"}, map[string]any{"kind": "LLMSummarizingCondenser", "max_size": 30, "keep_first": 1,
				"llm": map[string]any{"model": "test/small"}, "minimum_progress": 0.5, "hard_context_reset_max_retries": 2}}}}),
			func(o *conversation.Options, _ *engine.View) {
				o.Condenser = &conversation.Condenser{Kind: conversation.CondenserPipeline, Condensers: []conversation.Condenser{
					{Kind: conversation.CondenserNone}, {Kind: conversation.CondenserSummarizing, MaxSize: 30, KeepFirst: &keep,
						LLM: &account.LLM{Model: "test/small"}, MinimumProgress: &half, ResetRetries: &two}}}
			}},
		"critic": {b.agentWith(map[string]any{"critic": map[string]any{"kind": "AgentFinishedCritic", "iterative_refinement": map[string]any{}}}),
			func(o *conversation.Options, _ *engine.View) {
				o.Critic = &conversation.Critic{Kind: conversation.CriticFinished, Mode: "finish_and_message",
					Refinement: &conversation.Refinement{SuccessThreshold: 0.6, MaxIterations: 3}}
			}},
		"suffix and secrets": {b.agentWith(map[string]any{"agent_context": map[string]any{"system_message_suffix": "be kind",
			"secrets": map[string]any{"TOKEN": "t1"}}, "tool_concurrency_limit": 3}),
			func(o *conversation.Options, _ *engine.View) {
				o.SystemSuffix, o.ToolConcurrency = "be kind", 3
				o.Secrets = map[string]account.CustomSecret{"TOKEN": {Value: account.NewSecret("t1")}}
			}},
		"additions": {b.with(map[string]any{"agent_launch_additions": map[string]any{"system_message_suffix_append": "more"},
			"autotitle": false, "title_llm_profile": "fast"}),
			func(o *conversation.Options, _ *engine.View) {
				o.SystemSuffix, o.NoTitle, o.TitleProfile = "more", true, "fast"
			}},
		"client tools": {b.with(map[string]any{"client_tools": []any{map[string]any{"name": "show", "description": "d"}}}),
			func(o *conversation.Options, _ *engine.View) {
				o.ClientTools = []conversation.ClientTool{{Name: "show", Description: "d", Parameters: json.RawMessage(`{"properties":{},"type":"object"}`)}}
			}},
		"named tools": {b.agentWith(map[string]any{"tools": []any{map[string]any{"name": "sh"}, map[string]any{"name": "finish", "params": map[string]any{}}},
			"filter_tools_regex": "s"}), func(o *conversation.Options, _ *engine.View) {
			o.Tools, o.ToolFilter = []string{"sh", "finish"}, "s"
		}},
		"filter alone": {b.agentWith(map[string]any{"filter_tools_regex": "x|y", "include_default_tools": []any{"InvokeSkillTool", "ThinkTool"}}),
			func(o *conversation.Options, _ *engine.View) { o.ToolFilter = "x|y" }},
		"context": {b.agentWith(map[string]any{"agent_context": map[string]any{"user_message_suffix": "be brief", "load_project_skills": true,
			"load_public_skills": true, "disabled_skills": []any{"git"}}}), func(o *conversation.Options, _ *engine.View) {
			o.UserSuffix, o.NoProject, o.DisabledSkills = "be brief", false, []string{"git"}
		}},
		"servers": {b.agentWith(map[string]any{"mcp_config": map[string]any{"mcpServers": map[string]any{"off": map[string]any{"command": "c", "enabled": false,
			"env": map[string]any{"K": "v"}}}}}), func(o *conversation.Options, _ *engine.View) {
			o.MCP = &account.MCPConfig{Stdio: []account.MCPStdioServer{{MCPCommon: account.MCPCommon{Disabled: true}, Name: "off", Command: "c",
				Env: map[string]account.Secret{"K": account.NewSecret("v")}}}}
		}},
		"sub-agents": {settingsWith(map[string]any{"enable_sub_agents": true, "mcp_config": map[string]any{}, "tools": []any{map[string]any{"name": "sh"}}}),
			func(o *conversation.Options, _ *engine.View) {
				o.LLM, o.OwnKey = account.LLM{Model: "test/model", APIKey: account.NewSecret("sk-llm-key-of-the-user")}, false
				o.Tools, o.MCP = []string{"sh", "task_tool_set"}, &account.MCPConfig{}
			}},
		"no tools": {b.agentWith(map[string]any{"tools": []any{}}), func(o *conversation.Options, _ *engine.View) { o.Tools = []string{"finish"} }},
		"planner": {b.agentWith(map[string]any{"system_prompt_filename": "system_prompt_planning.j2"}),
			func(o *conversation.Options, v *engine.View) { o.Tools, v.AgentType = []string{"think"}, "plan" }},
		"settings": {settingsWith(map[string]any{"llm": map[string]any{"model": "test/other", "api_key": "k2"}, "confirmation_mode": true, "security_analyzer": "llm",
			"condenser": map[string]any{"enabled": true, "max_size": 40, "keep_first": 1}, "verification": map[string]any{"critic_enabled": true,
				"enable_iterative_refinement": true, "critic_threshold": 0.5, "max_refinement_iterations": 2}}),
			func(o *conversation.Options, _ *engine.View) {
				o.LLM, o.OwnKey = account.LLM{Model: "test/other", APIKey: account.NewSecret("k2")}, true
				o.Confirmation = &conversation.ConfirmationPolicy{Kind: conversation.ConfirmRisky}
				o.Analyzer = &conversation.Analyzer{Kind: conversation.AnalyzerLLM}
				o.Condenser = &conversation.Condenser{Kind: conversation.CondenserSummarizing, MaxSize: 40, KeepFirst: &keep}
				o.Critic = &conversation.Critic{Kind: conversation.CriticModel, Refinement: &conversation.Refinement{SuccessThreshold: 0.5, MaxIterations: 2}}
			}},
		"settings of older clients": {settingsWith(map[string]any{"verification": map[string]any{"confirmation_mode": true},
			"condenser": map[string]any{"enabled": false}}),
			func(o *conversation.Options, _ *engine.View) {
				o.LLM, o.OwnKey = account.LLM{Model: "test/model", APIKey: account.NewSecret("sk-llm-key-of-the-user")}, false
				o.Confirmation = &conversation.ConfirmationPolicy{Kind: conversation.AlwaysConfirm}
				o.Analyzer = &conversation.Analyzer{Kind: conversation.AnalyzerNone}
				o.Condenser = &conversation.Condenser{Kind: conversation.CondenserNone}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			b.TB = t
			got := b.options(b.post(201, conversations, c.body))
			wantView := *got
			conv := *got.Conversation
			conv.Options = conversation.Options{LLM: account.LLM{Model: "test/model"}, MaxIterations: 500, WorkingDir: b.dir, AskedDir: b.dir,
				Secrets: map[string]account.CustomSecret{}, NoProject: true}
			if c.body["agent"] != nil { // a program says everything
				conv.Options.MCP = &account.MCPConfig{}
			}
			wantView.Conversation = &conv
			wantView.AgentType = ""
			c.want(&conv.Options, &wantView)
			conv.Options.SettingsMCP = conv.Options.MCP == nil // the settings' servers, which are none
			if diff := cmp.Diff(conv.Options, got.Options, cmp.AllowUnexported(account.Secret{}), cmpopts.EquateEmpty()); diff != "" || wantView.AgentType != got.AgentType {
				t.Errorf("agent type %q, options (-want +got):\n%s", got.AgentType, diff)
			}
		})
	}
}

// numbered are n members with the same value.
func numbered(prefix string, n int, value string) map[string]any {
	all := map[string]any{}
	for i := range n {
		all[fmt.Sprintf("%s%d", prefix, i)] = value
	}
	return all
}

// wordyTools are client tools of 60 KiB each.
func wordyTools(n int) []any {
	var all []any
	for i := range n {
		all = append(all, map[string]any{"name": fmt.Sprintf("wordy%d", i), "description": strings.Repeat("w", 60<<10)})
	}
	return all
}

// TestAgentCreateRefusals: what is wrong is a 422 that says where, what is not
// built is a 501 that says what, and nothing is stored.
func TestAgentCreateRefusals(t *testing.T) {
	b := newBench(t)
	named := func(name string) map[string]any {
		return b.agentWith(map[string]any{"tools": []any{map[string]any{"name": name}}})
	}
	for name, c := range map[string]struct {
		status int
		body   map[string]any
		want   string // in the answer's text
	}{
		"nobody":          {422, map[string]any{"workspace": map[string]any{"working_dir": "."}}, "agent, agent_settings and agent_profile_id"},
		"two":             {422, b.with(map[string]any{"agent_profile_id": uuid.NewString()}), "agent_profile_id"},
		"agent profile":   {404, map[string]any{"agent_profile_id": uuid.NewString(), "workspace": map[string]any{"working_dir": "."}}, "Agent profile not found"},
		"no workspace":    {422, map[string]any{"agent": map[string]any{"llm": map[string]any{"model": "m"}}}, "workspace"},
		"no llm":          {422, map[string]any{"agent": map[string]any{}, "workspace": map[string]any{"working_dir": "."}}, "llm"},
		"no model":        {422, b.agentWith(map[string]any{"llm": map[string]any{}}), "model"},
		"bad id":          {422, b.with(map[string]any{"conversation_id": "seven"}), "conversation_id"},
		"no such parent":  {422, b.with(map[string]any{"parent_conversation_id": uuid.NewString()}), "parent_conversation_id"},
		"bad tag":         {422, b.with(map[string]any{"tags": map[string]any{"No": "x"}}), "tags"},
		"no iterations":   {422, b.with(map[string]any{"max_iterations": 0}), "max_iterations"},
		"no message":      {422, b.with(map[string]any{"initial_message": map[string]any{"content": []any{}}}), "initial_message"},
		"their message":   {422, b.with(map[string]any{"initial_message": map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": "x"}}}}), "role"},
		"unknown tool":    {422, named("nonsense"), "The tools are"},
		"unknown class":   {422, b.agentWith(map[string]any{"include_default_tools": []any{"MagicTool"}}), "FinishTool, InvokeSkillTool, ThinkTool"},
		"unknown policy":  {422, b.with(map[string]any{"confirmation_policy": map[string]any{"kind": "Sometimes"}}), "ConfirmRisky"},
		"policy by type":  {422, b.with(map[string]any{"confirmation_policy": map[string]any{"type": "always"}}), "discriminator"},
		"threshold":       {422, b.with(map[string]any{"confirmation_policy": map[string]any{"kind": "ConfirmRisky", "threshold": "UNKNOWN"}}), "threshold"},
		"other analyzer":  {422, b.with(map[string]any{"security_analyzer": map[string]any{"kind": "GraySwanAnalyzer"}}), "PolicyRailSecurityAnalyzer"},
		"nested analyzer": {422, b.with(map[string]any{"security_analyzer": map[string]any{"kind": "EnsembleSecurityAnalyzer", "analyzers": []any{map[string]any{"kind": "x"}}}}), "PatternSecurityAnalyzer"},
		"other condenser": {422, b.agentWith(map[string]any{"condenser": map[string]any{"kind": "Magic"}}), "LLMSummarizingCondenser"},
		"no room":         {422, b.agentWith(map[string]any{"condenser": map[string]any{"kind": "LLMSummarizingCondenser", "max_size": 10, "keep_first": 4}}), "keep_first"},
		"its model":       {422, b.agentWith(map[string]any{"condenser": map[string]any{"kind": "LLMSummarizingCondenser", "llm": map[string]any{"temperature": "hot"}}}), "temperature"},
		"other critic":    {422, b.agentWith(map[string]any{"critic": map[string]any{"kind": "APIBasedCritic"}}), "AgentFinishedCritic"},
		"restless critic": {422, settingsWith(map[string]any{"verification": map[string]any{"critic_enabled": true, "enable_iterative_refinement": true,
			"max_refinement_iterations": 1000}}), "max_iterations"},
		"lookup secret":   {422, b.with(map[string]any{"secrets": map[string]any{"A": map[string]any{"kind": "LookupSecret", "url": "/x"}}}), "this server stores"},
		"bad secret name": {422, b.with(map[string]any{"secrets": map[string]any{"A B": "hush-hush"}}), "secrets"},
		"tool clash":      {422, b.with(map[string]any{"client_tools": []any{map[string]any{"name": "sh", "description": "d"}}}), "client_tools"},
		"tool twice":      {422, b.with(map[string]any{"client_tools": []any{map[string]any{"name": "a", "description": "d"}, map[string]any{"name": "a", "description": "d"}}}), "client_tools"},
		"tool's name":     {422, b.with(map[string]any{"client_tools": []any{map[string]any{"name": "a b", "description": "d"}}}), "client_tools"},
		"tool's schema":   {422, b.with(map[string]any{"client_tools": []any{map[string]any{"name": "a", "description": "d", "parameters": map[string]any{"type": "array"}}}}), "client_tools"},
		"filter":          {422, b.agentWith(map[string]any{"tools": []any{map[string]any{"name": "sh"}}, "filter_tools_regex": "^(?!x)"}), "filter_tools_regex"},
		"additions":       {422, b.with(map[string]any{"agent_launch_additions": map[string]any{"more": 1}}), "agent_launch_additions"},
		"many tags":       {422, b.with(map[string]any{"tags": numbered("t", 257, "x")}), "at most 256 tags"},
		"many secrets":    {422, b.with(map[string]any{"secrets": numbered("S", 1001, "hush")}), "at most 1000 secrets"},
		"long secret":     {422, b.with(map[string]any{"secrets": map[string]any{"A": strings.Repeat("hush", 16<<10) + "!"}}), "at most 65536 bytes"},
		"long secrets":    {422, b.with(map[string]any{"secrets": numbered("S", 5, strings.Repeat("hush", 15<<10))}), "at most 262144 bytes"},
		"long tools":      {422, b.with(map[string]any{"client_tools": wordyTools(9)}), "at most 524288 bytes"},
		"many tools":      {422, b.agentWith(map[string]any{"tools": slices.Repeat([]any{map[string]any{"name": "sh"}}, 1001)}), "1000 items"},
		"long suffix":     {422, b.agentWith(map[string]any{"agent_context": map[string]any{"system_message_suffix": strings.Repeat("x", 1<<18+1)}}), "262144 characters"},
		"kind":            {422, b.agentWith(map[string]any{"kind": "MyAgent"}), "kind"},
		"settings kind":   {422, settingsWith(map[string]any{"agent_kind": "other"}), "agent_kind"},

		"plugin":        {422, b.with(map[string]any{"plugins": []any{map[string]any{"source": "git@github.com:o/r"}}}), `"plugins"`},
		"plugin's path": {422, b.with(map[string]any{"plugins": []any{map[string]any{"source": "github:o/r", "repo_path": "../x"}}}), "repo_path"},
		"no source":     {422, b.with(map[string]any{"plugins": []any{map[string]any{"ref": "main"}}}), "source"},
		"many plugins":  {422, b.with(map[string]any{"plugins": slices.Repeat([]any{map[string]any{"source": "github:o/r"}}, 33)}), "32 items"},
		"long plugins":  {422, b.with(map[string]any{"plugins": []any{map[string]any{"source": "github:o/r", "parameters": map[string]any{"token": strings.Repeat("hush", 16<<10)}}}}), "65536 bytes"},
		"hook's event":  {422, b.with(map[string]any{"hook_config": map[string]any{"before_tool": []any{}}}), `"body","hook_config"`},
		"hook's type":   {422, b.with(map[string]any{"hook_config": map[string]any{"hooks": map[string]any{"Stop": []any{map[string]any{"hooks": []any{map[string]any{"type": "magic"}}}}}}}), "hook_config"},
		"server":        {422, b.agentWith(map[string]any{"mcp_config": map[string]any{"a": map[string]any{"env": map[string]any{"K": "hush"}}}}), `"mcp_config","a"`},
		"server's name": {422, b.agentWith(map[string]any{"mcp_config": map[string]any{"a b": map[string]any{"command": "c"}}}), "mcp_config"},
		"settings' server": {422, settingsWith(map[string]any{"mcp_config": map[string]any{"mcpServers": map[string]any{"a": map[string]any{"command": "c", "url": "http://x"}}}}),
			`"agent_settings","mcp_config","mcpServers","a"`},
		"long servers":   {422, b.agentWith(map[string]any{"mcp_config": map[string]any{"a": map[string]any{"command": "c", "args": []any{strings.Repeat("x", 257<<10)}}}}), "262144 bytes"},
		"nameless skill": {422, b.withSkills(map[string]any{"content": "c"}), `"skills",0,"name"`},
		"skill twice":    {422, b.withSkills(map[string]any{"name": "a", "content": "c"}, map[string]any{"name": "a", "content": "d"}), `"skills",1,"name"`},
		"long skill":     {422, b.withSkills(map[string]any{"name": "a", "content": strings.Repeat("x", 256<<10+1)}), "262144 bytes"},
		"other trigger":  {422, b.withSkills(map[string]any{"name": "a", "content": "c", "trigger": map[string]any{"type": "moon"}}), "keyword"},
		"skill's path":   {422, b.withSkills(map[string]any{"name": "a", "content": "c", "trigger": map[string]any{"type": "path", "paths": []any{"ok", "../up"}}}), `"trigger","paths",1`},
		"skill's server": {422, b.withSkills(map[string]any{"name": "a", "content": "c", "mcp_tools": map[string]any{"m": map[string]any{}}}), `"mcp_tools","m"`},
		"agent's mode":   {422, b.with(map[string]any{"agent_definitions": []any{map[string]any{"name": "a", "permission_mode": "yolo"}}}), `"agent_definitions",0,"permission_mode"`},
		"agent's name":   {422, b.with(map[string]any{"agent_definitions": []any{map[string]any{"description": "d"}}}), `"agent_definitions",0,"name"`},

		"acp":           {501, b.agentWith(map[string]any{"kind": "ACPAgent"}), "ACPAgent"},
		"acp settings":  {501, settingsWith(map[string]any{"agent_kind": "acp"}), "acp"},
		"prompt":        {501, b.agentWith(map[string]any{"system_prompt": "be evil"}), "agent.system_prompt"},
		"policy file":   {501, b.agentWith(map[string]any{"security_policy_filename": "/x.j2"}), "security_policy_filename"},
		"two of them":   {501, b.agentWith(map[string]any{"system_prompt": "x", "security_policy_filename": "/x.j2"}), "are not built yet"},
		"tool's params": {501, b.agentWith(map[string]any{"tools": []any{map[string]any{"name": "sh", "params": map[string]any{"shell": "zsh"}}}}), "agent.tools[0].params.shell"},
	} {
		t.Run(name, func(t *testing.T) {
			b.TB = t
			a := b.post(c.status, conversations, c.body)
			if text := string(a.body); !strings.Contains(text, c.want) || strings.Contains(text, "hush") {
				t.Errorf("%q is not in %s", c.want, text)
			}
			if c.status == 501 && !strings.HasPrefix(a.text("exception"), "501: ") {
				t.Errorf("%s", a.body)
			}
		})
	}
	b.TB = t
	if a := b.as(b.key, "GET", conversations+"/count", nil).is(200); string(a.body) != "1\n" {
		t.Errorf("something was stored: %s", a.body)
	}
}

func TestAgentCreateChild(t *testing.T) {
	b := newBench(t)
	parent := b.post(201, conversations, b.with(nil)).text("id")
	body := b.with(map[string]any{"parent_conversation_id": parent})
	if a := b.post(201, conversations, body); a.text("parent_conversation_id") != parent {
		t.Errorf("%s", a.body)
	}
	body["workspace"] = map[string]any{"working_dir": "elsewhere"}
	if a := b.post(422, conversations, body); !strings.Contains(string(a.body), "working_dir") {
		t.Errorf("%s", a.body)
	}
	_, other := b.begin(map[string]any{})
	b.as(other.text("session_api_key"), "POST", conversations, b.with(map[string]any{"parent_conversation_id": parent})).is(422)
}

// A client's tool is told to the model, and its calls are answered at once.
func TestAgentClientTool(t *testing.T) {
	var told []string
	b := newBench(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		for _, tool := range req.Tools {
			told = append(told, tool.Name)
		}
		return callTool("show", `{"tab":"files"}`)(ctx, req)
	}, say("shown"))
	a := b.post(201, conversations, b.with(map[string]any{"initial_message": userSays("show it"),
		"client_tools": []any{map[string]any{"name": "show", "description": "shows a tab", "parameters": map[string]any{
			"type": "object", "properties": map[string]any{"tab": map[string]any{"type": "string"}}}}}}))
	if a.text("client_tools", 0, "parameters", "properties", "tab", "type") != "string" {
		t.Errorf("%s", a.body)
	}
	b.waitFor(hexOf(a), conversation.Finished)
	if !slices.Contains(told, "show") {
		t.Errorf("the model was told of %v", told)
	}
	log := b.as(b.key, "GET", conversations+"/"+a.text("id")+"/events/search", nil).is(200)
	for _, want := range []string{`"kind":"ClientAction_show"`, `"kind":"ClientToolObservation"`} {
		if !strings.Contains(string(log.body), want) {
			t.Errorf("%s is not in %s", want, log.body)
		}
	}
}

// TestAgentCreateAtOnce: of several requests for one id one makes the
// conversation, and the others get it.
func TestAgentCreateAtOnce(t *testing.T) {
	b := newBench(t)
	raw, err := json.Marshal(b.with(map[string]any{"conversation_id": uuid.NewString()}))
	check(t, err)
	const n = 4
	statuses := make(chan int, n)
	for range n {
		go func() {
			status := 0
			req, err := http.NewRequestWithContext(t.Context(), "POST", b.server.URL+conversations, bytes.NewReader(raw))
			if err == nil {
				req.Header.Set("X-Session-API-Key", b.key)
				req.Header.Set("Content-Type", "application/json")
				var resp *http.Response
				if resp, err = b.server.Client().Do(req); err == nil {
					status = resp.StatusCode
					_ = resp.Body.Close()
				}
			}
			statuses <- status
		}()
	}
	got := map[int]int{}
	for range n {
		got[<-statuses]++
	}
	if got[201] != 1 || got[200] != n-1 {
		t.Errorf("statuses %v", got)
	}
}

// Who deletes a conversation over the agent protocol works in its sandbox and goes on
// there, also after the last one.
func TestAgentDeleteKeepsTheSandbox(t *testing.T) {
	b := newBench(t)
	for range 2 {
		all := b.as(b.key, "GET", conversations+"/search", nil).is(200).list("items")
		for i := range all {
			id := walk(t, all, i, "id").(string)
			b.as(b.key, "DELETE", conversations+"/"+id, nil).is(200)
		}
		if a := b.call(200, "GET", "/api/v1/sandboxes?id="+b.sandbox, nil); a.text(0, "status") != "RUNNING" {
			t.Fatalf("%s", a.body)
		}
		b.post(201, conversations, b.with(nil))
	}
}
