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
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		d := json.NewDecoder(bytes.NewReader([]byte(raw)))
		d.UseNumber()
		var value any
		if d.Decode(&value) != nil {
			return
		}
		checked, wrong := schema.Check(value, "body")
		if len(wrong) > 0 {
			return
		}
		again, err := json.Marshal(checked)
		if err != nil {
			t.Fatal(err)
		}
		var q startRequest
		if err := json.Unmarshal(again, &q); err != nil {
			t.Fatalf("the document is laxer than the type: %v", err)
		}
		req := engine.StartRequest{Secrets: map[string]account.CustomSecret{}}
		for _, err := range []error{q.built(), q.agent(&req, []string{"x", "switch_llm"}), q.Secrets.addTo(req.Secrets, "body", "secrets"), checkAnalyzer(q.Analyzer)} {
			if err != nil && fault.KindOf(err) == fault.Internal {
				t.Errorf("our fault: %v", err)
			}
		}
	})
}
