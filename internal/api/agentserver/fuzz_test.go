package agentserver

import (
	"bytes"
	"encoding/json"
	"testing"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/engine"
	"parley/internal/fault"
)

// FuzzServerTest: a test of an MCP server names one server, or says what is wrong.
func FuzzServerTest(f *testing.F) {
	doc, err := httpkit.ParseDocument(document)
	if err != nil {
		f.Fatal(err)
	}
	schema := doc.Schema("MCPTestRequest")
	for _, seed := range []string{`{"name":"a","server":{"command":"c","env":{"K":"**********"}},"timeout":0.5,"tool_call":{"name":"x","arguments":null}}`,
		`{"name":"mcpServers","server":{}}`, `{"name":"mcpServers","server":{"a":{"url":"http://x"},"b":{"command":"c"}}}`,
		`{"server":{"url":"http://x","type":"shttp","auth":{"strategy":"oauth2"},"enabled":false}}`, `{"name":"sse_servers","server":{"command":"c"}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var q serverTest
		if !fits(t, schema, raw, &q) {
			return
		}
		server, err := q.server(nil)
		switch {
		case err != nil && fault.KindOf(err) != fault.Invalid:
			t.Errorf("our fault: %v", err)
		case err == nil && (server.HTTP == nil) == (server.Stdio == nil):
			t.Errorf("%s is %+v", raw, server)
		}
	})
}

// fits reads what the document lets through.
func fits(t *testing.T, schema *httpkit.Schema, raw string, into any) bool {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(raw)))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return false
	}
	checked, wrong := schema.Check(value, "body")
	if len(wrong) > 0 {
		return false
	}
	again, err := json.Marshal(checked)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, into); err != nil {
		t.Fatalf("the document is laxer than the type: %v", err)
	}
	return true
}

// FuzzStartRequest: what the document lets through fits the types and is read
// without a panic; what is refused is the client's fault.
func FuzzStartRequest(f *testing.F) {
	doc, err := httpkit.ParseDocument(document)
	if err != nil {
		f.Fatal(err)
	}
	schema := doc.Schema("StartConversationRequest")
	for _, seed := range []string{
		`{"agent":{"llm":{"model":"a/b","api_key":"**********"},"tools":[{"name":"x","params":{"plan_path":"/w/.agents_tmp/PLAN.md"}}],
		"filter_tools_regex":"x|(","include_default_tools":["FinishTool","SwitchLLMTool"],"condenser":{"kind":"PipelineCondenser","condensers":
		[{"kind":"LLMSummarizingCondenser","max_size":9,"llm":{"model":""}}]},"critic":{"kind":"PassCritic","iterative_refinement":{}}},
		"workspace":{"working_dir":"."},"secrets":{"A":"x","B":{"value":null},"C":{"kind":"LookupSecret"},"D":null}}`,
		`{"agent_settings":{"agent_kind":"openhands","condenser":{"enabled":true,"keep_first":99},"verification":{"critic_enabled":true}},
		"workspace":{"working_dir":"/w"},"hook_config":{"stop":[]},"plugins":[],"client_tools":[{"name":"a","description":"","annotations":null}]}`,
		`{"agent_profile_id":"8c6976e5-b541-4041-8bde-e908bd4dee15","workspace":{"working_dir":"/w"},"worktree":"yes",
		"confirmation_policy":{"kind":"ConfirmRisky"},"security_analyzer":{"kind":"EnsembleSecurityAnalyzer","analyzers":[{"kind":"LLMSecurityAnalyzer"}]}}`,
		`{"agent":{"llm":{"model":"a/b"},"mcp_config":{"mcpServers":{"a":{"command":"c","env":{"K":"**********"}}}},"filter_tools_regex":"x|(",
		"include_default_tools":["InvokeSkillTool"],"agent_context":{"user_message_suffix":"s","load_project_skills":true,"disabled_skills":["x"],
		"skills":[{"name":"k","content":"c","trigger":{"type":"keyword","keywords":["a b"]},"source":"/w/k.md","mcp_tools":{"m":{"url":"http://x"}}},
		{"name":"t","content":"c","trigger":{"type":"task","triggers":["/t"]},"inputs":[{"name":"I","description":null}]},
		{"name":"p","content":"!` + "`id`" + `","trigger":{"type":"path","paths":["[","src/**"]},"is_agentskills_format":true,"resources":{"skill_root":"/w/p","scripts":["../x"]}}]}},
		"workspace":{"working_dir":"/w"},"hook_config":{"hooks":{"PreToolUse":[{"matcher":"/x(/","hooks":[{"command":"exit 2"}]}]}},
		"plugins":[{"source":"github:o/r","ref":"-x","repo_path":"..","parameters":{"a":{}}}],
		"agent_definitions":[{"name":"a","description":"d","tools":[],"hooks":{"stop":[]},"mcp_config":{"x":{}}},{"name":"default","level":"builtin"}]}`,
		`{"agent_settings":{"enable_sub_agents":true,"mcp_config":{},"agent_context":{"skills":null}},"workspace":{"working_dir":"/w"},"hook_config":null,"plugins":null}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		var q startRequest
		if !fits(t, schema, raw, &q) {
			return
		}
		req := engine.StartRequest{Secrets: map[string]account.CustomSecret{}, WorkingDir: "/w"}
		known := surroundings{tools: []string{"x", "switch_llm", "invoke_skill", taskTools},
			servers: &account.MCPConfig{Stdio: []account.MCPStdioServer{{Name: "a", Command: "c", Env: map[string]account.Secret{"K": account.NewSecret("v")}}}}}
		for _, err := range []error{q.agent(&req, known), q.bring(&req), q.Secrets.addTo(req.Secrets, "body", "secrets"), checkAnalyzer(q.Analyzer)} {
			if err != nil && fault.KindOf(err) == fault.Internal {
				t.Errorf("our fault: %v", err)
			}
		}
		distrust(&req, req.WorkingDir)
	})
}
