package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/anthropictest"
	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

// Every call of priced costs the same: 5,000 tokens in, 500 out, a millionth of a
// dollar each.
const callCost = 0.0055

func priced(text string) openaitest.Reply {
	r := openaitest.Text(text)
	r.Usage = &openaitest.Usage{Prompt: 5000, Completion: 500}
	return r
}

func pricedCall(command string) openaitest.Reply {
	r := openaitest.Tool("terminal", map[string]any{"command": command})
	r.Usage = &openaitest.Usage{Prompt: 5000, Completion: 500}
	return r
}

// pricedCalls are calls of which no two are the same: an agent that repeats itself
// is stopped.
func pricedCalls() func() openaitest.Reply {
	var n atomic.Int32
	return func() openaitest.Reply { return pricedCall(fmt.Sprintf("echo %d", n.Add(1))) }
}

// pricedLLM is a model whose calls priced answers.
func pricedLLM(base string, more ...any) map[string]any {
	l := map[string]any{"model": "openai/priced", "api_key": "sk-secret-of-the-user", "base_url": base + "/v1",
		"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6, "max_output_tokens": 1000}
	for i := 0; i+1 < len(more); i += 2 {
		l[more[i].(string)] = more[i+1]
	}
	return l
}

func saveProfile(t *testing.T, s *parleytest.Server, name string, llm map[string]any) {
	t.Helper()
	if code := s.Call("POST", "/api/v1/settings/profiles/"+name, map[string]any{"llm": llm}, nil); code != http.StatusCreated {
		t.Fatalf("saving %s: %d", name, code)
	}
}

func activate(t *testing.T, s *parleytest.Server, name string) {
	t.Helper()
	if code := s.Call("POST", "/api/v1/settings/profiles/"+name+"/activate", nil, nil); code != http.StatusOK {
		t.Fatalf("activating %s: %d", name, code)
	}
}

// withPriced starts a server whose user has a model with prices, as a profile.
func withPriced(t *testing.T, env ...string) (*parleytest.Server, *openaitest.Server) {
	t.Helper()
	model := openaitest.New(t)
	s := parleytest.Start(t, parleytest.Options{Env: env})
	saveProfile(t, s, "priced", pricedLLM(model.URL()))
	activate(t, s, "priced")
	return s, model
}

// setBudget changes max_budget_per_task as the legacy API does.
func setBudget(t *testing.T, s *parleytest.Server, usd any) {
	t.Helper()
	if code := s.Call("POST", "/api/settings", map[string]any{"max_budget_per_task": usd}, nil); code != http.StatusOK {
		t.Fatalf("setting the budget: %d", code)
	}
}

type spending struct {
	Calls            int     `json:"calls"`
	Cost             float64 `json:"cost"`
	Uncertain        float64 `json:"uncertain_cost"`
	PromptTokens     int     `json:"prompt_tokens"`
	CompletionTokens int     `json:"completion_tokens"`
}

type usage struct {
	Own         spending            `json:"own"`
	ByUse       map[string]spending `json:"by_use"`
	WithSubs    spending            `json:"with_sub_conversations"`
	MaxBudget   *float64            `json:"max_budget_per_task"`
	DailyBudget *float64            `json:"daily_budget"`
}

func usageOf(t *testing.T, s *parleytest.Server, id string) usage {
	t.Helper()
	var u usage
	if code := s.Call("GET", "/api/v1/app-conversations/"+id+"/usage", nil, &u); code != http.StatusOK {
		t.Fatalf("usage: %d", code)
	}
	return u
}

func usd(calls int) float64 { return conversation.MoneyOf(callCost * float64(calls)).USD() }

func TestProfilesOverBothAPIs(t *testing.T) {
	s, model := withPriced(t)
	model.Handle(func(*openaitest.Request) openaitest.Reply { return priced("done") })
	id := s.Conversation("")
	url, key := s.AgentURL(id)
	agent := url[:strings.Index(url, "/api/")] + "/api/profiles"
	var list struct {
		Profiles []struct {
			Name      string `json:"name"`
			APIKeySet bool   `json:"api_key_set"`
		} `json:"profiles"`
		Active *string `json:"active_profile"`
	}
	if code := s.CallAs(key, "GET", agent, nil, &list); code != 200 || len(list.Profiles) != 1 || !list.Profiles[0].APIKeySet || *list.Active != "priced" {
		t.Errorf("%d %+v", code, list)
	}
	if code := s.CallAs(key, "POST", agent+"/other", map[string]any{"llm": pricedLLM(model.URL())}, nil); code != 403 {
		t.Errorf("a sandbox's key changes its owner's profiles: %d", code)
	}
	if code := s.Call("POST", strings.TrimPrefix(agent, s.URL)+"/other", map[string]any{"llm": pricedLLM(model.URL(), "model", "openai/other")}, nil); code != 201 {
		t.Errorf("save over the agent protocol: %d", code)
	}
	if code := s.Call("POST", strings.TrimPrefix(agent, s.URL)+"/other/activate", map[string]any{}, nil); code != 200 {
		t.Errorf("activate over the agent protocol: %d", code)
	}
	var settings map[string]any
	if s.Call("GET", "/api/settings", nil, &settings); settings["llm_model"] != "openai/other" || settings["llm_api_key_set"] != true {
		t.Errorf("%v", settings)
	}
	if code := s.Call("POST", "/api/v1/settings/profiles/other/rename", map[string]any{"new_name": "renamed"}, nil); code != 200 {
		t.Errorf("rename over V1: %d", code)
	}
	setBudget(t, s, 3)
	if code := s.CallAs(key, "GET", agent, nil, &list); code != 200 || len(list.Profiles) != 2 || *list.Active != "renamed" {
		t.Errorf("%d %+v", code, list)
	}
	for _, path := range []string{"/api/v1/settings/profiles/renamed", agent + "/renamed"} {
		_, body, err := s.Raw(t.Context(), parleytest.Key, "GET", path, nil)
		if err != nil || strings.Contains(string(body), "sk-secret") || !strings.Contains(string(body), `"api_key":null`) {
			t.Errorf("%s: %s %v", path, body, err)
		}
	}
	s.Kill() // what was answered is stored
	s.Again()
	if s.Call("GET", "/api/v1/settings/profiles", nil, &list); len(list.Profiles) != 2 || *list.Active != "renamed" {
		t.Errorf("%+v", list)
	}
}

// claude is a server that speaks Anthropic's wire and keeps the requests.
type claude struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string
}

func newClaude(t *testing.T, reply func(body string) llmtest.Reply) *claude {
	c := &claude{}
	c.Server = httptest.NewServer(anthropictest.Handler(func(_ *http.Request, body []byte) llmtest.Reply {
		c.mu.Lock()
		c.seen = append(c.seen, string(body))
		c.mu.Unlock()
		return reply(string(body))
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *claude) last() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seen) == 0 {
		return ""
	}
	return c.seen[len(c.seen)-1]
}

// A run goes on with a model of another wire, in the middle of a step's call, and
// back again; each reads the whole history.
func TestSwitchInTheMiddleOfARun(t *testing.T) {
	s, model := withPriced(t)
	other := newClaude(t, func(string) llmtest.Reply {
		return llmtest.Reply{Text: "answered over the other wire", Usage: conversation.Usage{PromptTokens: 100, CompletionTokens: 10}}
	})
	saveProfile(t, s, "claude", map[string]any{"model": "anthropic/claude-sonnet-4-5", "api_key": "sk-ant", "base_url": other.URL})
	release := make(chan struct{})
	first := pricedCall("echo tool-$((40+2))")
	first.Release = release
	model.Reply(first)
	id := s.Conversation("begin")
	model.WaitRequests(t, 1, 20*time.Second)
	path := "/api/v1/app-conversations/" + id
	if code := s.Call("POST", path+"/switch_profile", map[string]any{"profile_name": "claude"}, nil); code != http.StatusOK {
		t.Fatalf("switch: %d", code)
	}
	if got := s.Info(id)["llm_model"]; got != "anthropic/claude-sonnet-4-5" {
		t.Errorf("llm_model %v", got)
	}
	close(release)
	s.WaitStatus(id, "finished")
	parleytest.CheckLog(t, s.Events(id))
	if !strings.Contains(texts(s.Events(id)), "answered over the other wire") || !strings.Contains(other.last(), "tool-42") {
		t.Errorf("log %s\nthe other model read %s", texts(s.Events(id)), other.last())
	}
	model.Reply(priced("the first wire again"))
	url, key := s.AgentURL(id)
	if code := s.CallAs(key, "POST", url+"/switch_profile", map[string]any{"profile_name": "priced"}, nil); code != http.StatusOK {
		t.Fatalf("switch back: %d", code)
	}
	s.Send(id, "go on")
	s.WaitEvent(id, "the answer", func(e parleytest.Event) bool { return strings.Contains(e.Text(), "the first wire again") })
	requests := model.Requests()
	if last := requests[len(requests)-1]; !strings.Contains(string(last.Raw), "answered over the other wire") || last.Problem != "" {
		t.Errorf("the first model was sent %s: %s", last.Raw, last.Problem)
	}
	var stats struct {
		Stats struct {
			Usage map[string]struct {
				Costs []struct {
					Model string `json:"model"`
				} `json:"costs"`
			} `json:"usage_to_metrics"`
		} `json:"stats"`
	}
	s.WaitStatus(id, "finished")
	s.CallAs(key, "GET", url, nil, &stats)
	var models []string
	for _, c := range stats.Stats.Usage["agent"].Costs {
		models = append(models, c.Model)
	}
	if got := strings.Join(models, " "); got != "openai/priced anthropic/claude-sonnet-4-5 openai/priced" {
		t.Errorf("costs of %s", got)
	}
	if code := s.CallAs(key, "POST", url+"/switch_llm", map[string]any{"llm": map[string]any{
		"model": "anthropic/claude-sonnet-4-5", "api_key": "sk-ant", "base_url": other.URL}}, nil); code != http.StatusOK {
		t.Fatalf("switch_llm: %d", code)
	}
	s.Send(id, "once more")
	s.Eventually("the other wire", func() bool { return strings.Contains(other.last(), "once more") })
	s.WaitStatus(id, "finished")
}

func TestATestOfAProfileExplainsAWrongKey(t *testing.T) {
	s, model := withPriced(t)
	model.RequireKey("sk-the-right-one")
	model.Reply(priced("ready"))
	var got struct {
		OK      bool     `json:"ok"`
		Model   string   `json:"model"`
		Latency float64  `json:"latency_seconds"`
		Cost    *float64 `json:"cost"`
		Error   *struct {
			Code   string  `json:"code"`
			Detail string  `json:"detail"`
			Action *string `json:"action"`
		} `json:"error"`
	}
	code := s.Call("POST", "/api/v1/settings/profiles/priced/test", nil, &got)
	if code != 200 || got.OK || got.Error == nil || got.Error.Code != "LLMAuthenticationError" || got.Error.Action == nil || *got.Error.Action == "" {
		t.Errorf("%d %+v %+v", code, got, got.Error)
	}
	code = s.Call("POST", "/api/v1/settings/llm/test", map[string]any{"llm": pricedLLM(model.URL(), "api_key", "sk-the-right-one")}, &got)
	if code != 200 || !got.OK || got.Cost == nil || *got.Cost != callCost || got.Latency <= 0 {
		t.Errorf("%d %+v %+v", code, got, got.Error)
	}
	code = s.Call("POST", "/api/v1/settings/llm/test", map[string]any{"llm": map[string]any{"model": "gpt-4o", "api_key": "x"}}, &got)
	if code != 200 || got.OK || !strings.Contains(got.Error.Detail, "gpt-4o") {
		t.Errorf("a bare id: %d %+v %+v", code, got, got.Error)
	}
	if strings.Contains(s.Log(), "sk-the-right-one") || strings.Contains(s.Log(), "sk-secret") {
		t.Error("a key is in the server's log")
	}
}

// The ceiling holds, is explained, and the conversation goes on once it is raised.
func TestBudgetReachedRaisedAndGoneOn(t *testing.T) {
	s, model := withPriced(t)
	const budget = 0.045
	setBudget(t, s, budget)
	more, next := true, pricedCalls()
	var mu sync.Mutex
	model.Handle(func(*openaitest.Request) openaitest.Reply {
		mu.Lock()
		defer mu.Unlock()
		if more {
			return next()
		}
		return priced("at last")
	})
	id := s.Conversation("spend")
	s.WaitStatus(id, "error")
	e := s.WaitEvent(id, "the reason", kind("ConversationErrorEvent"))
	if e["code"] != "MaxBudgetReached" || !strings.Contains(e.Text(), "max_budget_per_task") {
		t.Errorf("%s", e.Text())
	}
	u := usageOf(t, s, id)
	if u.Own.Cost > budget || u.Own.Calls < 2 || u.Own.Cost != usd(u.Own.Calls) || u.Own.Uncertain != 0 || u.MaxBudget == nil || *u.MaxBudget != budget {
		t.Errorf("%+v", u)
	}
	mu.Lock()
	more = false
	mu.Unlock()
	setBudget(t, s, 1)
	if m, _ := s.Info(id)["metrics"].(map[string]any); m["max_budget_per_task"] != 1.0 {
		t.Errorf("%v", m)
	}
	s.Send(id, "go on")
	s.WaitStatus(id, "finished")
	parleytest.CheckLog(t, s.Events(id))
	if after := usageOf(t, s, id); after.Own.Calls != u.Own.Calls+1 || after.Own.Cost != usd(after.Own.Calls) {
		t.Errorf("%+v", after)
	}
}

func TestDailyBudgetOverTwoConversations(t *testing.T) {
	s, model := withPriced(t, "PARLEY_DAILY_BUDGET=0.045")
	next := pricedCalls()
	model.Handle(func(*openaitest.Request) openaitest.Reply { return next() })
	one := s.Conversation("spend")
	s.WaitStatus(one, "error")
	model.Handle(func(*openaitest.Request) openaitest.Reply { return priced("cheap") })
	two := s.Conversation("hello")
	s.WaitStatus(two, "error")
	e := s.WaitEvent(two, "the reason", kind("ConversationErrorEvent"))
	if e["code"] != "MaxBudgetReached" || !strings.Contains(e.Text(), "today") {
		t.Errorf("%s", e.Text())
	}
	if u := usageOf(t, s, two); u.Own.Calls != 0 || u.Own.Cost != 0 || u.DailyBudget == nil || *u.DailyBudget != 0.045 {
		t.Errorf("%+v", u)
	}
	var probe map[string]any
	if s.Call("POST", "/api/v1/settings/profiles/priced/test", nil, &probe); probe["ok"] != false {
		t.Logf("a test still fits: %v", probe) // its worst case is smaller than a step's
	}
	var day struct {
		Total spending `json:"total"`
	}
	if s.Call("GET", "/api/v1/usage", nil, &day); day.Total.Cost > 0.045 || day.Total.Cost < 2*callCost {
		t.Errorf("%+v", day)
	}
}

func TestSubConversationsShareTheCeiling(t *testing.T) {
	s, model := withPriced(t)
	setBudget(t, s, 0.06)
	model.Handle(func(*openaitest.Request) openaitest.Reply { return priced("done") })
	parent := s.Conversation("hello")
	s.WaitStatus(parent, "finished")
	next := pricedCalls()
	model.Handle(func(*openaitest.Request) openaitest.Reply { return next() })
	sub, err := s.StartWith(map[string]any{"parent_conversation_id": parent,
		"initial_message": map[string]any{"content": []any{map[string]any{"type": "text", "text": "spend the rest"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.WaitStatus(sub, "error")
	if e := s.WaitEvent(sub, "the reason", kind("ConversationErrorEvent")); e["code"] != "MaxBudgetReached" {
		t.Errorf("%s", e.Text())
	}
	all, below := usageOf(t, s, parent), usageOf(t, s, sub)
	if all.Own.Cost != usd(1) || all.WithSubs.Cost > 0.06 || all.WithSubs.Cost != usd(1+below.Own.Calls) || below.Own.Calls < 2 {
		t.Errorf("parent %+v\nsub %+v", all, below)
	}
	s.Send(parent, "and you?")
	s.WaitEvent(parent, "the refusal", func(e parleytest.Event) bool { return e["code"] == "MaxBudgetReached" })
}

// Events, conversation, usage routes, stats and the legacy events say the same.
func TestCostsAgreeEverywhere(t *testing.T) {
	s, model := withPriced(t)
	setBudget(t, s, 1)
	model.Handle(func(req *openaitest.Request) openaitest.Reply {
		if toolResults(req) < 2 {
			return pricedCall("true")
		}
		return priced("done")
	})
	id := s.Conversation("work")
	s.WaitStatus(id, "finished")
	want := usd(3)

	u := usageOf(t, s, id)
	if u.Own.Cost != want || u.Own.Calls != 3 || u.ByUse["agent"] != u.Own || u.WithSubs != u.Own || u.Own.PromptTokens != 15000 || u.Own.CompletionTokens != 1500 {
		t.Errorf("usage %+v", u)
	}
	type metrics struct {
		Cost      float64    `json:"accumulated_cost"`
		MaxBudget *float64   `json:"max_budget_per_task"`
		Costs     []spending `json:"costs"`
		Latencies []any      `json:"response_latencies"`
		Tokens    []any      `json:"token_usages"`
		Usage     spending   `json:"accumulated_token_usage"`
	}
	type byUse struct {
		Usage map[string]metrics `json:"usage_to_metrics"`
	}
	var lastStats byUse
	for _, e := range s.Events(id) {
		if e["key"] == "stats" {
			raw, _ := json.Marshal(e["value"])
			if err := json.Unmarshal(raw, &lastStats); err != nil {
				t.Fatal(err)
			}
		}
	}
	if m := lastStats.Usage["agent"]; m.Cost != want || m.Usage.PromptTokens != 15000 {
		t.Errorf("events %+v", m)
	}
	if m, _ := s.Info(id)["metrics"].(map[string]any); m["accumulated_cost"] != want || m["max_budget_per_task"] != 1.0 {
		t.Errorf("conversation %v", m)
	}
	url, key := s.AgentURL(id)
	var info struct {
		Stats byUse `json:"stats"`
	}
	s.CallAs(key, "GET", url, nil, &info)
	m := info.Stats.Usage["agent"]
	sum := 0.0
	for _, c := range m.Costs {
		sum += c.Cost
	}
	if m.Cost != want || conversation.MoneyOf(sum).USD() != want || len(m.Costs) != 3 || len(m.Latencies) != 3 || len(m.Tokens) != 3 || *m.MaxBudget != 1 {
		t.Errorf("stats %+v", m)
	}
	var day struct {
		Items []struct {
			spending
			Use   string `json:"use"`
			Model string `json:"model"`
		} `json:"items"`
		Total spending `json:"total"`
	}
	s.Call("GET", "/api/v1/usage", nil, &day)
	if len(day.Items) != 1 || day.Items[0].Use != "agent" || day.Items[0].Model != "openai/priced" || day.Items[0].Cost != want || day.Total.Cost != want {
		t.Errorf("day %+v", day)
	}
	var legacy struct {
		Events []struct {
			Metrics *metrics `json:"llm_metrics"`
		} `json:"events"`
	}
	s.Call("GET", "/api/conversations/"+id+"/events?limit=100", nil, &legacy)
	var last *metrics
	for _, e := range legacy.Events {
		if e.Metrics != nil {
			last = e.Metrics
		}
	}
	if last == nil || last.Cost != want || last.MaxBudget == nil || *last.MaxBudget != 1 {
		t.Errorf("legacy %+v", last)
	}
	out := command(t, s, "usage")
	if !strings.Contains(out, "openai/priced") || !strings.Contains(out, "0.0165") {
		t.Errorf("parley usage:\n%s", out)
	}
	if out := command(t, s, "models", "claude-sonnet-4-5"); !strings.Contains(out, "anthropic/claude-sonnet-4-5") || !strings.Contains(out, "tools") {
		t.Errorf("parley models:\n%s", out)
	}
}

// command runs a client command of the binary.
func command(t *testing.T, s *parleytest.Server, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), parleytest.Binary(t), append(args, "--server", s.URL)...)
	cmd.Env = []string{"PARLEY_API_KEY=" + parleytest.Key, "HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("parley %v: %v: %s", args, err, out)
	}
	return string(out)
}

// A call that the crash cut off may have been charged: its worst case shows as
// uncertain and counts, and the conversation goes on.
func TestKillNineInTheMiddleOfAModelCall(t *testing.T) {
	s, model := withPriced(t)
	setBudget(t, s, 1)
	model.Reply(openaitest.Reply{Hang: true})
	id := s.Conversation("hello")
	model.WaitRequests(t, 1, 20*time.Second)
	s.Kill()
	model.Handle(func(*openaitest.Request) openaitest.Reply { return priced("back") })
	s.Again()
	s.WaitStatus(id, "finished")
	parleytest.CheckLog(t, s.Events(id))
	u := usageOf(t, s, id)
	if u.Own.Cost != usd(1) || u.Own.Uncertain <= 0 || u.Own.Uncertain > 1 {
		t.Errorf("%+v", u)
	}
	if m, _ := s.Info(id)["metrics"].(map[string]any); m["accumulated_cost"] != usd(1) {
		t.Errorf("%v", m)
	}
	var day struct {
		Total spending `json:"total"`
	}
	if s.Call("GET", "/api/v1/usage", nil, &day); day.Total.Uncertain != u.Own.Uncertain {
		t.Errorf("%+v, conversation %+v", day, u)
	}
	// It counts: a ceiling below it has no room.
	setBudget(t, s, u.Own.Cost+u.Own.Uncertain)
	s.Send(id, "again")
	s.WaitEvent(id, "the refusal", func(e parleytest.Event) bool { return e["code"] == "MaxBudgetReached" })
}

// picture is a message with an image.
func picture() map[string]any {
	return map[string]any{"role": "user", "run": true, "content": []any{
		map[string]any{"type": "text", "text": "what is this?"},
		map[string]any{"type": "image", "image_urls": []any{"data:image/png;base64,iVBORw0KGgo="}}}}
}

// Nobody can look at the image: the user hears of it, and no model is paid for it.
func TestImageForAModelWithoutVision(t *testing.T) {
	model := openaitest.New(t)
	s := parleytest.Start(t, parleytest.Options{})
	saveProfile(t, s, "blind", pricedLLM(model.URL(), "disable_vision", true))
	activate(t, s, "blind")
	id, err := s.StartWith(map[string]any{"llm_profile": "blind", "initial_message": picture()})
	if err != nil {
		t.Fatal(err)
	}
	s.WaitStatus(id, "finished")
	if log := texts(s.Events(id)); !strings.Contains(log, "disable_vision") || len(model.Requests()) != 0 {
		t.Errorf("%d requests, log %s", len(model.Requests()), log)
	}
	saveProfile(t, s, "priced", pricedLLM(model.URL()))
	model.Reply(priced("It is a tabby-cat."))
	if code := s.Call("POST", "/api/v1/app-conversations/"+id+"/switch_profile", map[string]any{"profile_name": "priced"}, nil); code != 200 {
		t.Fatalf("switch: %d", code)
	}
	if code := s.Call("POST", "/api/v1/app-conversations/"+id+"/send-message", picture(), nil); code != 200 {
		t.Fatalf("send: %d", code)
	}
	s.WaitEvent(id, "an answer", func(e parleytest.Event) bool { return strings.Contains(e.Text(), "tabby-cat") })
	if got := string(model.Requests()[0].Raw); !strings.Contains(got, "iVBORw0KGgo=") {
		t.Errorf("the model was sent %s", got)
	}
}

// A model that cannot see asks one of the user's that can.
func TestAnotherModelLooksAtTheImage(t *testing.T) {
	s, model := withPriced(t)
	saveProfile(t, s, "blind", pricedLLM(model.URL(), "model", "openai/blind", "disable_vision", true))
	blind := func(r *openaitest.Request) bool { return r.Model == "blind" }
	ask := openaitest.Tool("inspect_image_with_vision", map[string]any{"image_index": 0, "question": "What is it?"})
	ask.Usage = &openaitest.Usage{Prompt: 5000, Completion: 500}
	model.ReplyWhen(blind, ask, priced("It is a cat."))
	model.ReplyWhen(func(r *openaitest.Request) bool { return !blind(r) }, priced("The image shows a cat."))
	id, err := s.StartWith(map[string]any{"llm_profile": "blind", "initial_message": picture()})
	if err != nil {
		t.Fatal(err)
	}
	s.WaitStatus(id, "finished")
	parleytest.CheckLog(t, s.Events(id))
	for _, r := range model.Requests() {
		if sees := strings.Contains(string(r.Raw), "iVBORw0KGgo="); sees == blind(r) || r.Problem != "" {
			t.Errorf("%s was sent %s (%s)", r.Model, r.Raw, r.Problem)
		}
	}
	u := usageOf(t, s, id)
	if last := model.Requests()[2]; !strings.Contains(string(last.Raw), "The image shows a cat.") || u.Own.Cost != usd(3) || u.ByUse["vision"].Cost != usd(1) {
		t.Errorf("%+v, the last request is %s", u, last.Raw)
	}
}

func TestFallbackProfileAnswers(t *testing.T) {
	s, model := withPriced(t)
	model.Handle(func(*openaitest.Request) openaitest.Reply { return priced("from the fallback") })
	saveProfile(t, s, "down", pricedLLM("http://127.0.0.1:9", "model", "openai/down", "num_retries", 2,
		"fallback_profiles", []any{"gone", "priced"}))
	id, err := s.StartWith(map[string]any{"llm_profile": "down",
		"initial_message": map[string]any{"content": []any{map[string]any{"type": "text", "text": "hello"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.WaitStatus(id, "finished")
	log := texts(s.Events(id))
	for _, want := range []string{"from the fallback", `"fallback":"openai/priced"`, `"gone"`} {
		if !strings.Contains(log, want) {
			t.Errorf("%s is missing in %s", want, log)
		}
	}
	u := usageOf(t, s, id)
	if u.Own.Cost != usd(1) {
		t.Errorf("%+v", u)
	}
	var day struct {
		Items []struct {
			Model string `json:"model"`
		} `json:"items"`
	}
	if s.Call("GET", "/api/v1/usage", nil, &day); !strings.Contains(fmt.Sprint(day), "openai/priced") {
		t.Errorf("%+v", day)
	}
}
