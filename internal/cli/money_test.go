package cli_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/cli"
)

// answering is a server that answers one path, and the queries it was asked.
func answering(t *testing.T, path string, bodies ...string) (*cli.Client, *[]string) {
	t.Helper()
	s := newServer(t)
	asked := &[]string{}
	s.override["GET "+path] = func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		body := bodies[min(len(*asked), len(bodies)-1)]
		*asked = append(*asked, r.URL.RawQuery)
		if strings.HasPrefix(body, "422 ") {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		_, _ = io.WriteString(w, strings.TrimPrefix(body, "422 "))
	}
	c := testClient(s)
	t.Cleanup(c.Close)
	return c, asked
}

const detailsPath = "/api/v1/config/models/details"

func TestModels(t *testing.T) {
	c, asked := answering(t, detailsPath,
		`{"items":[{"id":"openai/gpt-x","verified":true,"context_window":1048576,"max_output":32768,"vision":true,"tools":true,"reasoning":false,
			"prompt_cache":true,"price":{"input":0.15,"output":10,"cache_read":0.075,"cache_write":0.15,"rises_above":200000}}],"next_page_id":"1"}`,
		`{"items":[{"id":"groq/e\u001b[31mvil","verified":false,"context_window":null,"max_output":null,"vision":null,"tools":null,"reasoning":null,
			"prompt_cache":null,"price":null},{"id":"ollama/free","verified":false,"context_window":8192,"max_output":null,"vision":false,"tools":true,
			"reasoning":null,"prompt_cache":false,"price":{"input":0,"output":0,"cache_read":0,"cache_write":0,"rises_above":null}}],"next_page_id":null}`)
	var out strings.Builder
	if err := cli.ShowModels(t.Context(), c, &out, "x&y"); err != nil {
		t.Fatal(err)
	}
	golden(t, "models.txt", out.String())
	if got := strings.Join(*asked, " "); got != "limit=100&query=x%26y limit=100&page_id=1&query=x%26y" {
		t.Errorf("asked %s", got)
	}
}

func TestModelsThatAreNotThere(t *testing.T) {
	c, _ := answering(t, detailsPath, `{"items":[],"next_page_id":null}`)
	err := cli.ShowModels(t.Context(), c, io.Discard, "gtp")
	if err == nil || !strings.Contains(err.Error(), `"gtp"`) || cli.ExitOf(err) != cli.ExitFailure {
		t.Errorf("%v", err)
	}
	wrong := cli.NewClient(c.Base(), account.NewSecret("wrong"), "the test", "test")
	defer wrong.Close()
	if err := cli.ShowUsage(t.Context(), wrong, io.Discard, "", ""); cli.ExitOf(err) != cli.ExitServer {
		t.Errorf("%v", err)
	}
}

func TestUsage(t *testing.T) {
	const items = `"calls":1234,"cost":12.5,"uncertain_cost":0,"prompt_tokens":1234567,"completion_tokens":89,"cache_read_tokens":1000,"cache_write_tokens":0,"reasoning_tokens":0`
	c, asked := answering(t, "/api/v1/usage",
		`{"items":[{"day":"2026-01-31","use":"agent","model":"openai/gpt-x",`+items+`},{"day":"2026-01-31","use":"title","model":"\u001b]0;evil\u0007m",
			"calls":1,"cost":0.000001,"uncertain_cost":0.25,"prompt_tokens":10,"completion_tokens":5,"cache_read_tokens":0}],
			"total":{"calls":1235,"cost":12.500001,"uncertain_cost":0.25,"prompt_tokens":1234577,"completion_tokens":94,"cache_read_tokens":1000},"daily_budget":20}`,
		`{"items":[],"total":{"calls":0,"cost":0,"uncertain_cost":0,"prompt_tokens":0,"completion_tokens":0,"cache_read_tokens":0},"daily_budget":null}`,
		`422 {"detail":[{"type":"value_error","loc":["query","from"],"msg":"Value error, from must not be after to","input":"x"}]}`)
	var out strings.Builder
	for range 2 {
		if err := cli.ShowUsage(t.Context(), c, &out, "2026-01-31", ""); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "usage.txt", out.String())
	err := cli.ShowUsage(t.Context(), c, io.Discard, "", "2026-01-31")
	if err == nil || !strings.Contains(err.Error(), "from must not be after to") {
		t.Errorf("%v", err)
	}
	if got := strings.Join(*asked, " "); got != "from=2026-01-31 from=2026-01-31 to=2026-01-31" {
		t.Errorf("asked %s", got)
	}
}
