package v0_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/internal/forge"
	"parley/internal/forge/forgetest"
)

// userRoutes are all routes of section 15 with what users without a token read there.
func userRoutes() map[string]string {
	const like, plain = `"Git provider token required. (such as GitHub)."`, `"Git provider token required."`
	return map[string]string{
		"/api/user/installations?provider=github":                               like,
		"/api/user/installations?provider=gitlab":                               like,
		"/api/user/repositories":                                                like,
		"/api/user/repositories?selected_provider=github":                       like,
		"/api/user/info":                                                        like,
		"/api/user/search/repositories?query=a":                                 plain,
		"/api/user/search/branches?repository=a/b&query=":                       plain,
		"/api/user/suggested-tasks":                                             `"No providers set."`,
		"/api/user/repository/branches?repository=a/b":                          like,
		"/api/user/repository/a%2Fb/microagents/content?file_path=.cursorrules": plain,
	}
}

func TestWithoutTokensTheAnswerIsABareText(t *testing.T) {
	r := newRig(t)
	r.withGit()
	for path, text := range userRoutes() {
		r.want("GET", path, "", 401, text)
		if code, body := r.callAs("wrong", "GET", path, ""); code != 401 || body != `{"detail":"Unauthorized"}` {
			t.Errorf("%s with a wrong key: %d %s", path, code, body)
		}
	}
	r.want("GET", "/api/user/repository/a%2Fb/microagents", "", 200, `[]`)
	r.want("POST", "/api/settings", `{}`, 200, `{"message":"Settings stored"}`)
	r.want("GET", "/api/user/info", "", 401, `"Git provider token required. (such as GitHub)."`)
}

func TestUserRoutesOfEveryProvider(t *testing.T) {
	r := newRig(t)
	servers := r.configured(forge.Providers()...)
	for _, p := range forge.Providers() {
		s := servers[p]
		alpha := s.Name("acme", "alpha")
		var pages []string
		for page := 1; page < 5; page++ {
			var got []map[string]any
			r.decode("GET", fmt.Sprintf("/api/user/repositories?selected_provider=%s&page=%d&per_page=2&installation_id=acme", p, page), "", &got)
			for _, x := range got {
				if x["git_provider"] != p || len(x) != 9 {
					t.Errorf("%s: %v", p, x)
				}
				if link, _ := x["link_header"].(string); (page == 1) != strings.Contains(link, fmt.Sprintf(`page=%d`, page+1)) {
					t.Errorf("%s: page %d has the link %q", p, page, link)
				}
				pages = append(pages, x["full_name"].(string))
			}
		}
		if len(pages) != 3 || pages[0] != alpha {
			t.Errorf("%s: %q", p, pages)
		}
		var all []map[string]any
		r.decode("GET", "/api/user/repositories?selected_provider="+p, "", &all) // the reference failed without page and per_page
		if want := map[bool]int{true: 3, false: 5}[p == forge.Bitbucket]; len(all) < want {
			t.Errorf("%s: %v", p, all)
		}
		var found []map[string]any
		r.decode("GET", "/api/user/search/repositories?query=alpha&per_page=1&selected_provider="+p, "", &found)
		if len(found) != 1 || !strings.Contains(found[0]["full_name"].(string), "alpha") {
			t.Errorf("%s: %v", p, found)
		}
		var branches []map[string]any
		r.decode("GET", "/api/user/search/branches?repository="+url.QueryEscape(alpha)+"&query=feature&selected_provider="+p, "", &branches)
		if len(branches) != 2 || branches[0]["commit_sha"] != "b2" || len(branches[0]) != 4 {
			t.Errorf("%s: %v", p, branches)
		}
		r.want("GET", "/api/user/search/branches?repository=acme/gone&query=&selected_provider="+p, "", 200, `[]`)
	}
	var me map[string]any
	r.decode("GET", "/api/user/info", "", &me)
	if me["login"] != "ada" || me["id"] != "7" || me["company"] != nil || len(me) != 6 {
		t.Errorf("%v", me)
	}
	var tasks []conversation.SuggestedTask
	r.decode("GET", "/api/user/suggested-tasks", "", &tasks)
	if len(tasks) < 5 {
		t.Errorf("%v", tasks)
	}
	for _, task := range tasks {
		if task.TaskType == conversation.TaskOpenPR {
			t.Errorf("a kind that no client knows: %v", task)
		}
	}
	var everywhere []map[string]any
	r.decode("GET", "/api/user/repositories?sort=updated", "", &everywhere)
	if len(everywhere) < 25 {
		t.Errorf("%d of all providers", len(everywhere))
	}
	servers[forge.GitHub].Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(502); return true })
	r.decode("GET", "/api/user/repositories", "", &everywhere)
	if len(everywhere) < 20 {
		t.Errorf("one that fails hides the others: %d", len(everywhere))
	}
}

func TestInstallations(t *testing.T) {
	r := newRig(t)
	r.configured(forge.GitHub, forge.GitLab, forge.Bitbucket, forge.AzureDevOps)
	r.want("GET", "/api/user/installations?provider=github", "", 200, `[]`) // a token of no app sees none
	r.want("GET", "/api/user/installations?provider=bitbucket", "", 200, `["acme","empty","ada"]`)
	r.want("GET", "/api/user/installations?provider=azure_devops", "", 200, `["acme","ada"]`)
	for _, p := range []string{"gitlab", "enterprise_sso"} {
		r.want("GET", "/api/user/installations?provider="+p, "", 400, `"Provider `+p+` doesn't support installations"`)
	}
	r.want("GET", "/api/user/installations?provider=forgejo", "", 401, `"Git provider token required. (such as GitHub)."`)
}

func TestBranchesArePaged(t *testing.T) {
	for _, p := range forge.Providers() {
		t.Run(p, func(t *testing.T) {
			r := newRig(t)
			s := r.configured(p)[p]
			var names []string
			for page := 1; page <= 4; page++ {
				var got struct {
					Branches []struct{ Name string }
					More     bool `json:"has_next_page"`
					Page     int  `json:"current_page"`
					PerPage  int  `json:"per_page"`
					Total    *int `json:"total_count"`
				}
				r.decode("GET", fmt.Sprintf("/api/user/repository/branches?repository=%s&page=%d&per_page=2", url.QueryEscape(s.Name("acme", "alpha")), page), "", &got)
				if got.Page != page || got.PerPage != 2 || got.Total != nil || got.More != (page < 3) {
					t.Errorf("page %d: %+v", page, got)
				}
				for _, b := range got.Branches {
					names = append(names, b.Name)
				}
			}
			if strings.Join(names, " ") != "main feature/one feature/two fix-1 release" {
				t.Errorf("%q", names)
			}
			r.want("GET", "/api/user/repository/branches?repository=acme/gone", "", 200,
				`{"branches":[],"has_next_page":false,"current_page":1,"per_page":30,"total_count":0}`)
		})
	}
}

// A provider's fault is a bare text with 500, one of its token with 401.
func TestFaultsOfProvidersAreBareTexts(t *testing.T) {
	r := newRig(t)
	s := r.configured(forge.GitHub)[forge.GitHub]
	for status, want := range map[int]int{http.StatusUnauthorized: 401, http.StatusForbidden: 500, http.StatusNotFound: 500,
		http.StatusTooManyRequests: 500, http.StatusBadGateway: 500, http.StatusUnprocessableEntity: 400} {
		s.Fail(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(status); return true })
		for path := range userRoutes() {
			code, body := r.call("GET", path, "")
			var text string
			switch {
			case strings.Contains(path, "gitlab"), strings.Contains(path, "branches"), strings.Contains(path, "content"):
			case strings.Contains(path, "installations") && (status == 403 || status == 404):
			case strings.Contains(path, "info"):
				if code != 401 || body != `"Need valid provider token"` {
					t.Errorf("%s: %d %s", path, code, body)
				}
			case code != want || json.Unmarshal([]byte(body), &text) != nil || text == "" || strings.Contains(body, forgetest.Token):
				t.Errorf("%d, %s: %d %s", status, path, code, body)
			}
		}
		r.want("GET", "/api/user/search/branches?repository=a/b&query=x", "", 200, `[]`)
	}
}

func TestMicroagentsOfARepository(t *testing.T) {
	for _, p := range forge.Providers() {
		t.Run(p, func(t *testing.T) {
			r := newRig(t)
			s := r.configured(p)[p]
			alpha := s.Name("acme", "alpha")
			var got []map[string]string
			base := "/api/user/repository/" + strings.ReplaceAll(alpha, "/", "%2F") + "/microagents"
			r.decode("GET", base, "", &got)
			var names []string
			for _, m := range got {
				names = append(names, m["name"]+"="+m["path"])
				if _, err := time.Parse("2006-01-02T15:04:05.000000", m["created_at"]); err != nil || len(m) != 3 {
					t.Errorf("%v", m)
				}
			}
			want := "cursorrules=.cursorrules a/db=.openhands/microagents/a/db.md bad=.openhands/microagents/bad.md repo=.openhands/microagents/repo.md"
			if strings.Join(names, " ") != want {
				t.Errorf("%q", names)
			}
			content := func(path, body, triggers string) {
				t.Helper()
				r.want("GET", base+"/content?file_path="+url.QueryEscape(path), "", 200,
					fmt.Sprintf(`{"content":%q,"path":%q,"triggers":%s,"git_provider":%q}`, body, path, triggers, p))
			}
			content(".openhands/microagents/a/db.md", "Use migrations.", `["database","sql"]`)
			content(".openhands/microagents/repo.md", "Run make test.", `[]`)
			content(".cursorrules", "Be brief.\n", `[]`)
			content(".openhands/microagents/bad.md", forgetest.Files()[".openhands/microagents/bad.md"], `[]`)
			r.want("GET", base+"/content?file_path=gone.md", "", 401, fmt.Sprintf(`"Microagent file gone.md not found in %s"`, alpha))
			if code, body := r.call("GET", base+"/content?file_path=..%2F..%2Fuser", ""); code != 400 || !strings.HasPrefix(body, `"The path`) {
				t.Errorf("%d %s", code, body)
			}
			if got := r.wrongs("GET", base+"/content", ""); len(got) != 1 || !strings.HasPrefix(got[0], `["query","file_path"] missing`) {
				t.Errorf("%q", got)
			}
			r.want("GET", "/api/user/repository/"+strings.ReplaceAll(s.Name("acme", "beta"), "/", "%2F")+"/microagents", "", 200, `[]`)
			gone := s.Name("acme", "gone")
			r.want("GET", "/api/user/repository/"+strings.ReplaceAll(gone, "/", "%2F")+"/microagents", "", 401, `"Unable to access repo `+gone+`"`)
		})
	}
}

// Names of repositories have slashes, and clients do not escape them.
func TestNamesMaySpanSlashes(t *testing.T) {
	r := newRig(t)
	r.configured(forge.GitHub)
	for path, want := range map[string]int{
		"/api/user/repository/acme/alpha/microagents":                                                        200,
		"/api/user/repository/acme/alpha/microagents/content?file_path=.cursorrules":                         200,
		"/api/user/repository/acme/gone/microagents":                                                         401,
		"/api/user/repository/acme/alpha/microagent":                                                         404,
		"/api/user/repository/microagents":                                                                   404,
		"/api/user/repository/acme/%2e%2e/microagents":                                                       401,
		"/api/user/repository/acme/alpha/microagents/content?file_path=.openhands%2Fmicroagents%2Fa%2Fdb.md": 200,
		"/api/user/repository/acme/microagents/microagents":                                                  401,
		"/api/user/repository/" + strings.Repeat("a/", 300) + "microagents":                                  401,
	} {
		req := httptest.NewRequestWithContext(context.Background(), "GET", path, nil)
		req.Header.Set("X-Session-API-Key", key)
		w := httptest.NewRecorder()
		r.server.ServeHTTP(w, req)
		if w.Code != want {
			t.Errorf("%.80s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestUserRoutesCheckWhatIsAsked(t *testing.T) {
	r := newRig(t)
	r.configured(forge.GitHub)
	for path, want := range map[string]string{
		"installations":                              `["query","provider"] missing`,
		"installations?provider=svn":                 `["query","provider"] enum`,
		"repositories?selected_provider=svn":         `["query","selected_provider"] enum`,
		"repositories?page=x":                        `["query","page"] int_parsing`,
		"repositories?per_page=1.5":                  `["query","per_page"] int_parsing`,
		"search/repositories":                        `["query","query"] missing`,
		"search/repositories?query=a&per_page=":      `["query","per_page"] int_parsing`,
		"search/branches?query=a":                    `["query","repository"] missing`,
		"search/branches?repository=a/b":             `["query","query"] missing`,
		"repository/branches":                        `["query","repository"] missing`,
		"repository/branches?repository=a/b&page=aa": `["query","page"] int_parsing`,
	} {
		if got := r.wrongs("GET", "/api/user/"+path, ""); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: %q", path, got)
		}
	}
	// Odd numbers are moved to the nearest bound; odd words are ignored.
	for _, path := range []string{"repositories?selected_provider=github&page=-1&per_page=100000&sort=nonsense", "repositories?page=99999999999&selected_provider=github",
		"search/repositories?query=alpha&per_page=0&sort=%00&order=sideways", "repository/branches?repository=acme/alpha&page=0&per_page=-5",
		"search/branches?repository=../../x&query=y", "repository/branches?repository=%00"} {
		if code, body := r.call("GET", "/api/user/"+path, ""); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	r.want("GET", "/api/user/repositories?selected_provider=github&page=99999999999", "", 200, `[]`)
	if code, body := r.call("GET", "/api/user/search/repositories?query="+strings.Repeat("x", 300), ""); code != 400 || body[0] != '"' {
		t.Errorf("%d %s", code, body)
	}
}

func TestConversationsAboutMicroagents(t *testing.T) {
	r := newRig(t)
	r.configured(forge.GitHub)
	create := func(body string) string {
		t.Helper()
		var got struct {
			ID string `json:"conversation_id"`
		}
		r.decode("POST", "/api/conversations", body, &got)
		return got.ID
	}
	mine := create(`{"create_microagent":{"repo":"acme/alpha"}}`)
	opened := create(`{"create_microagent":{"repo":"acme/alpha","git_provider":"github"}}`)
	closed := create(`{"create_microagent":{"repo":"acme/alpha"}}`)
	create(`{"create_microagent":{"repo":"acme/beta"}}`)
	create(`{"repository":"acme/alpha"}`)
	for id, prs := range map[string][]int{opened: {3, 4}, closed: {4, 3}} {
		_, err := r.store.Conversations().Update(t.Context(), conversation.ID(id), time.Now(), func(c *conversation.Conversation) error {
			c.PRNumbers = prs
			return nil
		})
		check(t, err)
	}
	var got struct {
		Results []struct {
			ID      string `json:"conversation_id"`
			Trigger string
		}
		Next *string `json:"next_page_id"`
	}
	r.decode("GET", "/api/microagent-management/conversations?selected_repository=acme/alpha", "", &got)
	if len(got.Results) != 2 || got.Results[0].ID != opened || got.Results[1].ID != mine || got.Next != nil || got.Results[0].Trigger != "microagent_management" {
		t.Errorf("%+v", got)
	}
	r.decode("GET", "/api/microagent-management/conversations?selected_repository=acme/alpha&limit=1", "", &got)
	if got.Next == nil {
		t.Errorf("%+v", got)
	}
	r.decode("GET", "/api/microagent-management/conversations?selected_repository=acme/alpha&limit=1&page_id="+url.QueryEscape(*got.Next), "", &got)
	if len(got.Results) > 1 {
		t.Errorf("%+v", got)
	}
	if code, _ := r.call("GET", "/api/microagent-management/conversations?selected_repository=acme/alpha&page_id=%21", ""); code != 400 {
		t.Error(code)
	}
	if wrong := r.wrongs("GET", "/api/microagent-management/conversations", ""); len(wrong) != 1 {
		t.Errorf("%q", wrong)
	}
}
