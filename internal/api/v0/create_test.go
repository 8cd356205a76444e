package v0_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/forge"
	"parley/internal/store"
)

// Legacy API 6.2: the repository is looked for before anything is made, and the answer
// where nobody has it is a bare text.
func TestCreateLooksForTheRepository(t *testing.T) {
	r := newRig(t)
	servers := r.configured(forge.GitHub, forge.GitLab)
	for body, provider := range map[string]string{
		`{"repository":"acme/alpha"}`:                                 "github",
		`{"repository":"acme/alpha","git_provider":"gitlab"}`:         "gitlab",
		`{"repository":"acme/alpha","git_provider":"enterprise_sso"}`: "github",
		`{"create_microagent":{"repo":"acme/alpha"}}`:                 "github",
		`{"repository":""}`:                                           "",
		`{"repository":null,"git_provider":"bitbucket"}`:              "bitbucket",
		`{"suggested_task":{"git_provider":"gitlab","task_type":"OPEN_ISSUE","repo":"acme/gone","issue_number":1,"title":"t"}}`: "",
	} {
		code, answer := r.call("POST", "/api/conversations", body)
		if got := r.engine.start[len(r.engine.start)-1]; code != 200 || got.GitProvider != provider {
			t.Errorf("%s: %d %s, provider %q", body, code, answer, got.GitProvider)
		}
	}
	r.engine.took()
	servers[forge.GitHub].Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusUnauthorized); return true })
	if code, answer := r.call("POST", "/api/conversations", `{"repository":"acme/alpha","git_provider":"github"}`); code != 200 {
		t.Errorf("the others are tried, too: %d %s", code, answer)
	}
	r.engine.took()
	for _, repository := range []string{"not-a-name", "a/b/../c", "a b/c", "https://u:p@h/a/b"} {
		r.want("POST", "/api/conversations", fmt.Sprintf(`{"repository":%q,"git_provider":"enterprise_sso"}`, repository), 401,
			fmt.Sprintf(`"Unable to access repo %s"`, repository))
	}
	if calls := r.engine.took(); len(calls) > 0 {
		t.Errorf("something was started: %q", calls)
	}
	var list struct{ Results []any }
	r.decode("GET", "/api/conversations", "", &list)
	if len(list.Results) != 8 {
		t.Errorf("%d conversations", len(list.Results))
	}
}

// The checks come in the documented order, and a refused creation leaves nothing.
func TestCreateChecksInOrder(t *testing.T) {
	r := newRig(t)
	r.withGit()
	r.engine.fail = fault.New(fault.Invalid, engine.CodeNoKey, "no key")
	bad := `"repository":"gone","git_provider":"enterprise_sso"`
	if got := r.wrongs("POST", "/api/conversations", `{`+bad+`,"x":1}`); len(got) != 1 {
		t.Errorf("the form first: %q", got)
	}
	if got := r.wrongs("POST", "/api/conversations", `{`+bad+`,"mcp_config":{"shttp_servers":[7]}}`); len(got) != 1 {
		t.Errorf("the form first: %q", got)
	}
	r.want("POST", "/api/conversations", `{`+bad+`,"conversation_id":"a..b"}`, 400, `{"detail":"Conversation ID contains invalid path characters"}`)
	r.want("POST", "/api/conversations", `{`+bad+`}`, 401, `"Unable to access repo gone"`)
	if calls := r.engine.took(); len(calls) > 0 {
		t.Errorf("the engine was asked: %q", calls)
	}
	r.want("POST", "/api/conversations", `{"conversation_id":"mine"}`, 400,
		`{"status":"error","message":"Error authenticating with the LLM provider. Please check your API key","msg_id":"STATUS$ERROR_LLM_AUTHENTICATION"}`)
	r.want("GET", "/api/conversations/mine", "", 200, "null")
}

// Choice 1 of the contract's section 20: one request at a time deals with an id, so that
// a message that is sent twice at once is said once.
func TestCreationsOfOneIDWaitForEachOther(t *testing.T) {
	r := newRig(t)
	r.call("POST", "/api/conversations", `{"conversation_id":"`+anID+`"}`)
	r.engine.ready(t, anID, store.SandboxPaused)
	r.engine.took()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if code, body := r.call("POST", "/api/conversations", `{"conversation_id":"`+anID+`","initial_user_msg":"hi"}`); code != 200 {
				t.Errorf("%d %s", code, body)
			}
		})
	}
	all.Wait()
	calls := r.engine.took()
	said := slices.DeleteFunc(slices.Clone(calls), func(c string) bool { return !strings.HasPrefix(c, "send") })
	if len(said) != 1 {
		t.Errorf("%q", calls)
	}
}

// Legacy API 6: a bare message is none, a suggested task wins over everything else that
// could be said, and the prompt names what it is about.
func TestPromptsOfSuggestedTasks(t *testing.T) {
	for provider, words := range map[string][]string{
		"github":         {"GitHub API", "GITHUB_TOKEN", "PR", "GitHub Actions"},
		"gitlab":         {"GitLab API", "GITLAB_TOKEN", "MR", "CI pipelines"},
		"bitbucket":      {"Bitbucket API", "BITBUCKET_TOKEN", "PR", "Bitbucket Pipelines"},
		"azure_devops":   {"Azure DevOps API", "AZURE_DEVOPS_TOKEN", "PR"},
		"enterprise_sso": {"PR"},
	} {
		r := newRig(t)
		said := ""
		for _, kind := range []string{"MERGE_CONFLICTS", "FAILING_CHECKS", "UNRESOLVED_COMMENTS", "OPEN_ISSUE", "OPEN_PR", "CREATE_MICROAGENT"} {
			body := fmt.Sprintf(`{"suggested_task":{"git_provider":%q,"task_type":%q,"repo":"own/repo","issue_number":7.0,"title":"T"}}`, provider, kind)
			if code, answer := r.call("POST", "/api/conversations", body); code != 200 {
				t.Fatalf("%s: %d %s", kind, code, answer)
			}
			text := r.engine.start[len(r.engine.start)-1].InitialMessage[0].Text
			if !strings.Contains(text, "own/repo") || !strings.Contains(text, "#7") || !strings.Contains(text, "_TOKEN") {
				t.Errorf("%s, %s: %s", provider, kind, text)
			}
			said += text
		}
		for _, w := range words {
			if !strings.Contains(said, w) {
				t.Errorf("%s: no %q", provider, w)
			}
		}
	}
}
