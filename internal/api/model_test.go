package api_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/llm"
)

// offering is a server with models to choose from.
func offering(t *testing.T, offers ...llm.Offer) *world {
	models := func() []llm.Offer { return offers }
	return newWorldWith(t, func(c *config) { c.v1.Models, c.agent.Models = models, models })
}

func someOffers() []llm.Offer {
	return []llm.Offer{{Provider: "anthropic", Name: "claude-x", Verified: true}, {Provider: "groq", Name: "openai/gpt-oss"},
		{Provider: "openai", Name: "gpt-a", Verified: true}, {Provider: "openai", Name: "gpt-b"}}
}

func TestSearchModels(t *testing.T) {
	w := offering(t, someOffers()...)
	const path = "/api/v1/config/models/search"
	whole := w.call(200, "GET", path, nil)
	want := map[string]any{"provider": "anthropic", "name": "claude-x", "verified": true, "hidden": false, "canonical": nil}
	if diff := cmp.Diff(want, whole.at("items", 0)); diff != "" || len(whole.list("items")) != 4 || whole.at("next_page_id") != nil {
		t.Errorf("%s %s", whole.body, diff)
	}
	for query, want := range map[string][]string{
		"?query=GPT":                      {"openai/gpt-oss", "gpt-a", "gpt-b"},
		"?query=openai/gpt-a":             {"gpt-a"},
		"?query=":                         {"claude-x", "openai/gpt-oss", "gpt-a", "gpt-b"},
		"?verified__eq=true":              {"claude-x", "gpt-a"},
		"?verified__eq=false&query=o":     {"openai/gpt-oss", "gpt-b"},
		"?provider__eq=openai":            {"gpt-a", "gpt-b"},
		"?provider__eq=open":              {},
		"?limit=1&page_id=1":              {"openai/gpt-oss"},
		"?page_id=nonsense&limit=1":       {"claude-x"},
		"?page_id=-7&limit=1":             {"claude-x"},
		"?page_id=99999999999999999999":   {"claude-x", "openai/gpt-oss", "gpt-a", "gpt-b"},
		"?page_id=400":                    {},
		"?provider__eq=openai&query=%25":  {},
		"?sort_order=UPDATED_AT&limit=01": {"claude-x"},
	} {
		names := []string{}
		for _, item := range w.call(200, "GET", path+query, nil).list("items") {
			names = append(names, item.(map[string]any)["name"].(string))
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	for _, bad := range []string{"?limit=0", "?limit=101", "?verified__eq=perhaps"} {
		w.call(422, "GET", path+bad, nil)
	}
	w.as("", "GET", path, nil).is(401)
}

// Every model is on exactly one page.
func TestPagesOfModels(t *testing.T) {
	var offers []llm.Offer
	for i := range 107 {
		offers = append(offers, llm.Offer{Provider: "p", Name: fmt.Sprintf("%03d", i)})
	}
	w := offering(t, offers...)
	n, pages := 0, 0
	for next := "?page_id="; ; pages++ {
		a := w.call(200, "GET", "/api/v1/config/models/search"+next, nil)
		for _, item := range a.list("items") {
			if got := item.(map[string]any)["name"]; got != fmt.Sprintf("%03d", n) {
				t.Fatalf("model %d is %v", n, got)
			}
			n++
		}
		id, more := a.at("next_page_id").(string)
		if !more {
			break
		}
		next = "?page_id=" + id
	}
	if n != 107 || pages != 2 {
		t.Errorf("%d models on %d pages", n, pages+1)
	}
}

func TestSearchProviders(t *testing.T) {
	w := offering(t, someOffers()...)
	const path = "/api/v1/config/providers/search"
	a := w.call(200, "GET", path, nil)
	want := []any{map[string]any{"name": "anthropic", "verified": true}, map[string]any{"name": "groq", "verified": false},
		map[string]any{"name": "openai", "verified": true}}
	if diff := cmp.Diff(want, a.list("items")); diff != "" || a.at("next_page_id") != nil {
		t.Errorf("%s %s", a.body, diff)
	}
	for query, n := range map[string]int{"?query=O": 3, "?query=open": 1, "?verified__eq=false": 1, "?limit=2": 2, "?limit=2&page_id=2": 1} {
		if got := w.call(200, "GET", path+query, nil).list("items"); len(got) != n {
			t.Errorf("%s: %v", query, got)
		}
	}
	if a := newWorld(t).call(200, "GET", path, nil); len(a.list("items")) != 0 {
		t.Errorf("without models: %s", a.body)
	}
}

// Agent protocol 1.7, with the sandbox's key at both mounts.
func TestAgentModels(t *testing.T) {
	w := offering(t, someOffers()...)
	_, a := w.begin(map[string]any{"title": "T"})
	key := a.text("session_api_key")
	for _, base := range []string{"", "/agent/" + a.text("sandbox_id")} {
		for path, want := range map[string]string{
			"/api/llm/providers":              `{"providers":["anthropic","groq","openai"]}`,
			"/api/llm/models":                 `{"models":["anthropic/claude-x","groq/openai/gpt-oss","openai/gpt-a","openai/gpt-b"]}`,
			"/api/llm/models?provider=openai": `{"models":["openai/gpt-a","openai/gpt-b"]}`,
			"/api/llm/models?provider=nobody": `{"models":[]}`,
			"/api/llm/models/verified":        `{"models":{"anthropic":["claude-x"],"openai":["gpt-a"]}}`,
			"/api/tools/":                     `["sh","invoke_skill","finish","think","task_tool_set"]`,
		} {
			if b := w.as(key, "GET", base+path, nil).is(200); string(b.body) != want+"\n" && string(b.body) != want {
				t.Errorf("%s: %s", path, b.body)
			}
		}
		w.as(key, "GET", base+"/api/llm/subscription/openai/models", nil).is(501)
		w.as(key, "GET", base+"/api/tools/none", nil).is(404)
	}
}
