package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"parley/internal/conversation"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/anthropictest"
	"parley/internal/llm/llmtest/bedrocktest"
	"parley/internal/llm/llmtest/geminitest"
	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

var (
	profileCurl  = regexp.MustCompile(`(?s)/api/v1/settings/profiles/([A-Za-z0-9._-]+) -d '(\{.*?\})'\n`)
	settingsCurl = regexp.MustCompile(`(?s)\$PARLEY(/api/(?:v1/)?settings) -d '(\{.*?\})'\n`)
)

// providers is a server for every provider's wire.
func providers(t *testing.T) *httptest.Server {
	t.Helper()
	next := func(*http.Request, []byte) llmtest.Reply {
		return llmtest.Reply{Text: "ready", Usage: conversation.Usage{PromptTokens: 20, CompletionTokens: 2}}
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/messages", anthropictest.Handler(next))
	mux.Handle("/v1beta/", geminitest.Handler(next))
	mux.Handle("/model/", bedrocktest.Handler(next))
	mux.Handle("/", openaitest.Handler(next))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// defaultPath is where the providers' own APIs begin, for those whose example
// names no base URL.
func defaultPath(model string) string {
	provider, _, _ := strings.Cut(model, "/")
	return map[string]string{"openai": "/v1", "gemini": "/v1beta", "openrouter": "/api/v1"}[provider]
}

// What docs/models.md tells users to send is taken, and the model that it makes
// speaks to a server of that provider's kind.
func TestTheExamplesOfTheDocumentation(t *testing.T) {
	doc, err := os.ReadFile("../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	s, fake := parleytest.Start(t, parleytest.Options{}), providers(t)
	found := profileCurl.FindAllStringSubmatch(string(doc), -1)
	if len(found) != 11 {
		t.Errorf("%d examples of profiles", len(found))
	}
	for _, example := range found {
		name, body := example[1], example[2]
		path := "/api/v1/settings/profiles/" + name
		if code := s.Call("POST", path, body, nil); code != http.StatusCreated {
			t.Errorf("%s: %d", name, code)
			continue
		}
		var request struct {
			LLM map[string]any `json:"llm"`
		}
		if err := json.Unmarshal([]byte(body), &request); err != nil {
			t.Fatal(err)
		}
		model, _ := request.LLM["model"].(string)
		at := fake.URL + defaultPath(model)
		if base, ok := request.LLM["base_url"].(string); ok {
			u, err := url.Parse(base)
			if err != nil {
				t.Fatal(err)
			}
			at = fake.URL + u.Path
		}
		request.LLM["base_url"] = at
		if request.LLM["aws_access_key_id"] != nil { // the fake knows one identity
			request.LLM["aws_access_key_id"], request.LLM["aws_secret_access_key"] = bedrocktest.AccessKeyID, bedrocktest.SecretAccessKey
			request.LLM["aws_region_name"] = bedrocktest.Region
		}
		if code := s.Call("POST", path, request, nil); code != http.StatusCreated {
			t.Errorf("%s at the fake server: %d", name, code)
		}
		_, answer, err := s.Raw(t.Context(), parleytest.Key, "POST", path+"/test", nil)
		if err != nil || !strings.Contains(string(answer), `"ok":true`) {
			t.Errorf("%s: %s %v", name, answer, err)
		}
		if code := s.Call("POST", path+"/activate", nil, nil); code != http.StatusOK {
			t.Errorf("activating %s: %d", name, code)
		}
	}
	settings := settingsCurl.FindAllStringSubmatch(string(doc), -1)
	for _, example := range settings {
		if code := s.Call("POST", example[1], example[2], nil); code != http.StatusOK {
			t.Errorf("%s: %d", example[2], code)
		}
	}
	if len(settings) != 4 {
		t.Errorf("%d examples of settings", len(settings))
	}
}

// Titles are paid for and told apart.
func TestTitlesAreAUseOfTheirOwn(t *testing.T) {
	s, model := withPriced(t, "PARLEY_AUTO_TITLES=true")
	title := openaitest.Text("A fine title")
	title.Usage = &openaitest.Usage{Prompt: 300, Completion: 10} // as much as the short request can be
	model.ReplyWhen(openaitest.NoTools, title)
	model.Handle(func(*openaitest.Request) openaitest.Reply { return priced("done") })
	id := s.Conversation("please name this")
	s.Eventually("the title", func() bool { return s.Info(id)["title"] == "A fine title" })
	s.WaitStatus(id, "finished")
	var u usage
	s.Eventually("both costs", func() bool { u = usageOf(t, s, id); return u.Own.Calls == 2 })
	const titleCost, all = 0.00031, 0.00581
	if u.ByUse["agent"].Cost != usd(1) || u.ByUse["title"].Cost != titleCost || u.Own.Cost != all {
		t.Errorf("%+v", u)
	}
	s.Eventually("the metrics", func() bool {
		m, _ := s.Info(id)["metrics"].(map[string]any)
		return m["accumulated_cost"] == all
	})
}

// The model of titles is chosen in the settings of V1, and is another one.
func TestTitlesAreMadeWithTheirProfile(t *testing.T) {
	s, model := withPriced(t, "PARLEY_AUTO_TITLES=true")
	cheap := openaitest.New(t)
	cheap.RequireKey("sk-of-the-cheap-one")
	cheap.Reply(openaitest.Text("A cheap title"))
	model.Handle(func(*openaitest.Request) openaitest.Reply { return priced("done") })
	saveProfile(t, s, "cheap", pricedLLM(cheap.URL(), "model", "openai/cheap", "api_key", "sk-of-the-cheap-one"))
	change := map[string]any{"title_llm_profile": "no-such-profile"}
	if code := s.Call("POST", "/api/v1/settings", change, nil); code != http.StatusUnprocessableEntity {
		t.Errorf("a profile that does not exist: %d", code)
	}
	change["title_llm_profile"] = "cheap"
	if code := s.Call("POST", "/api/v1/settings", change, nil); code != http.StatusOK {
		t.Fatalf("title_llm_profile: %d", code)
	}
	setBudget(t, s, 2) // the legacy API leaves it alone
	id := s.Conversation("please name this")
	s.Eventually("the title", func() bool { return s.Info(id)["title"] == "A cheap title" })
	s.WaitStatus(id, "finished")
	for _, r := range model.Requests() {
		if openaitest.NoTools(r) {
			t.Errorf("the conversation's model was asked for a title: %s", r.Raw)
		}
	}
	if all := cheap.Requests(); len(all) != 1 || all[0].Model != "cheap" {
		t.Errorf("the titles' model got %d requests", len(all))
	}
}
