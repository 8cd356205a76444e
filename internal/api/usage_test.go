package api_test

import (
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/llm"
)

// What a conversation cost is the same wherever it is shown.
func TestUsageAgreesEverywhere(t *testing.T) {
	daily := 7 * conversation.USD
	w := newWorldWith(t, func(c *config) { c.v1.DailyBudget = &daily }, say("one"), say("two"))
	budget := 5.0
	check(t, w.store.Accounts().UpdateSettings(t.Context(), account.FirstUserID, func(s *account.Settings) (*account.Settings, error) {
		s.MaxBudgetPerTask = &budget
		return s, nil
	}))
	id, a := w.begin(message("hi"))
	w.waitFor(id, conversation.Finished)
	path := "/api/v1/app-conversations/" + id
	u := w.call(200, "GET", path+"/usage", nil)
	if u.at("own", "calls") != 1.0 || u.at("own", "cost") != 0.25 || u.at("by_use", "agent", "prompt_tokens") != 10.0 ||
		u.at("with_sub_conversations", "cost") != 0.25 || u.at("max_budget_per_task") != 5.0 || u.at("daily_budget") != 7.0 {
		t.Errorf("%s", u.body)
	}
	if m := w.call(200, "GET", path, nil); m.at("metrics", "accumulated_cost") != 0.25 || m.at("metrics", "max_budget_per_task") != 5.0 {
		t.Errorf("%s", m.body)
	}
	info := w.as(a.text("session_api_key"), "GET", "/api/conversations/"+id, nil).is(200)
	stats := info.at("stats", "usage_to_metrics", "agent").(map[string]any)
	if stats["accumulated_cost"] != 0.25 || len(stats["token_usages"].([]any)) != 1 || stats["max_budget_per_task"] != 5.0 {
		t.Errorf("%v", stats)
	}
	sub, _ := w.begin(map[string]any{"parent_conversation_id": id, "initial_message": message("sub")["initial_message"]})
	w.waitFor(sub, conversation.Finished)
	if u := w.call(200, "GET", path+"/usage", nil); u.at("own", "cost") != 0.25 || u.at("with_sub_conversations", "cost") != 0.5 {
		t.Errorf("%s", u.body)
	}
	d := w.call(200, "GET", "/api/v1/usage", nil)
	if d.at("total", "cost") != 0.5 || d.at("items", 0, "calls") != 2.0 || d.text("items", 0, "model") != "test/model" || d.at("daily_budget") != 7.0 {
		t.Errorf("%s", d.body)
	}
	w.as(otherKey, "GET", path+"/usage", nil).is(404)
	if d := w.as(otherKey, "GET", "/api/v1/usage", nil).is(200); len(d.list("items")) != 0 || d.at("total", "cost") != 0.0 {
		t.Errorf("%s", d.body)
	}
}

func TestDaysOfUsage(t *testing.T) {
	w := newWorld(t)
	today := time.Now().UTC().Format(time.DateOnly)
	for query, want := range map[string]int{
		"": 200, "?from=2026-01-01&to=2026-12-31": 200, "?to=2026-01-01": 200, "?from=" + today: 200,
		"?from=2025-01-01&to=2026-01-01": 200, "?from=2025-01-01&to=2026-01-02": 422, // 366 days, and one more
		"?from=2026-02-01&to=2026-01-31": 422, "?from=yesterday": 422, "?to=2026-02-30": 422, "?from=": 422,
		"?from=1900-01-01": 422, "?from=9999-12-31": 422, "?from=2026-1-1": 422,
	} {
		a := w.call(want, "GET", "/api/v1/usage"+query, nil)
		if want == 422 && a.text("detail", 0, "loc", 0) != "query" {
			t.Errorf("%s: %s", query, a.body)
		}
	}
}

func TestModelDetails(t *testing.T) {
	yes, no := true, false
	details := []llm.Details{
		{Offer: llm.Offer{Provider: "openai", Name: "known", Verified: true}, ContextWindow: 1000, MaxOutput: 10, Vision: &yes, Tools: &no,
			Price: &llm.Price{Input: 0.15e-6, Output: 0.6e-6, CacheRead: 0.075e-6, CacheWrite: 0.15e-6, LongFrom: 500, Long: &llm.Price{}}},
		{Offer: llm.Offer{Provider: "openai", Name: "unknown"}},
	}
	w := newWorldWith(t, func(c *config) { c.v1.Details = func() []llm.Details { return details } })
	const path = "/api/v1/config/models/details"
	a := w.call(200, "GET", path, nil)
	if a.text("items", 0, "id") != "openai/known" || a.at("items", 0, "price", "input") != 0.15 || a.at("items", 0, "price", "cache_read") != 0.075 ||
		a.at("items", 0, "price", "rises_above") != 500.0 || a.at("items", 0, "vision") != true || a.at("items", 0, "tools") != false ||
		a.at("items", 0, "reasoning") != nil || a.at("items", 1, "price") != nil || a.at("items", 1, "context_window") != nil {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "GET", path+"?query=UNK&limit=1", nil); len(a.list("items")) != 1 || a.text("items", 0, "id") != "openai/unknown" {
		t.Errorf("%s", a.body)
	}
	if a := w.call(200, "GET", path+"?limit=1", nil); a.text("next_page_id") != "1" {
		t.Errorf("%s", a.body)
	}
}
