// Package soak lets the real binary work for a long time with models that fail
// in every way models fail, with users who interrupt and servers that are
// killed, and checks at the end that every conversation can go on, that every
// log is whole, that no budget was passed, and that every cent is accounted for.
//
//	make soak SOAK=60m
package soak_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/internal/llm/llmtest/bedrocktest"
	"parley/test/testkit/parleytest"
)

var (
	length  = flag.Duration("soak", 20*time.Second, "how long the soak goes on")
	seed    = flag.Uint64("soak-seed", 0, "of the random choices; 0 = a new one")
	workers = flag.Int("soak-workers", 12, "conversations that run at a time")
	budget  = flag.Float64("soak-budget", 0.25, "USD, the ceiling of a conversation with its sub-conversations")
)

func TestMain(m *testing.M) {
	code := m.Run()
	parleytest.Cleanup()
	os.Exit(code)
}

// messages is how many a conversation gets before the next one is begun.
const messages = 12

// talk is one conversation of the soak.
type talk struct {
	n      int // its number, in the marker of its first message
	id     string
	parent *talk
	sent   int
}

// soak is one run.
type soak struct {
	*parleytest.Server
	t      *testing.T
	models *models
	rand   *rand.Rand // guarded by mu
	mu     sync.Mutex
	talks  []*talk
	down   sync.RWMutex // held for writing while the server is being killed and started
	kills  int
	notes  map[string]int // what the workers met
}

func TestSoak(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d, %s", *seed, *length)
	s := &soak{t: t, rand: rand.New(rand.NewPCG(*seed, 2)), notes: map[string]int{}}
	s.models = serveModels(t, *seed)
	s.Server = parleytest.Start(t, parleytest.Options{Sandbox: "process",
		Env: []string{"PARLEY_LLM_TIMEOUT=2s", "PARLEY_LLM_MAX_ATTEMPTS=3", "PARLEY_MAX_SANDBOXES=100000", "PARLEY_AUTO_TITLES=true"}})
	s.configure()
	s.work()
	s.check("under the budget", s.underBudget)
	s.finishAll()
	s.check("logs", s.logsAreWhole)
	s.check("accounts", s.accountsAgree)
	s.models.mu.Lock()
	defer s.models.mu.Unlock()
	t.Logf("%d conversations, %d kills, met %v, replies %v", len(s.talks), s.kills, s.notes, s.models.counts)
}

func (s *soak) check(name string, f func(t *testing.T)) { s.t.Run(name, f) }

// configure stores the settings and a profile for each wire.
func (s *soak) configure() {
	s.t.Helper()
	s.UseModel(s.models.urls["chat"]+"/v1", map[string]any{"max_budget_per_task": *budget})
	for name, llm := range profiles(s.models.urls) {
		llm["input_cost_per_token"], llm["output_cost_per_token"] = inputPrice, outputPrice
		llm["max_output_tokens"] = 2000
		if code := s.Call("POST", "/api/v1/settings/profiles/"+name, map[string]any{"llm": llm}, nil); code != http.StatusCreated {
			s.t.Fatalf("profile %s: %d", name, code)
		}
	}
}

// work lets the workers talk until the time is over, and kills the server now
// and then.
func (s *soak) work() {
	ctx, cancel := context.WithTimeout(context.Background(), *length)
	defer cancel()
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(func() { s.worker(ctx) })
	}
	every := min(max(*length/20, 4*time.Second), 45*time.Second)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(every):
			s.down.Lock()
			if s.chance(70) {
				s.Kill()
			} else {
				s.Stop()
			}
			s.Again()
			s.kills++
			s.down.Unlock()
		}
	}
	wg.Wait()
}

func (s *soak) chance(percent int) bool { return s.pick(100) < percent }

func (s *soak) pick(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rand.IntN(n)
}

func (s *soak) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes[what]++
}

// worker drives one conversation after the other.
func (s *soak) worker(ctx context.Context) {
	var own *talk
	for ctx.Err() == nil {
		switch {
		case own == nil || own.sent >= messages:
			own = s.begin(ctx, nil)
		case s.chance(15):
			if sub := s.begin(ctx, own); sub != nil {
				s.turn(ctx, sub)
			}
		default:
			s.turn(ctx, own)
		}
	}
}

// ask makes a request; the error is of the connection, which a kill breaks.
func (s *soak) ask(ctx context.Context, method, path string, body, out any) (int, error) {
	s.down.RLock()
	defer s.down.RUnlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	status, raw, err := s.Raw(ctx, parleytest.Key, method, path, body)
	if err != nil {
		return 0, err
	}
	if status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable {
		s.t.Errorf("%s %s: %d %s", method, path, status, raw)
	}
	if out != nil && status < 300 {
		err = json.Unmarshal(raw, out)
	}
	return status, err
}

// begin starts a conversation; nil if that was refused.
func (s *soak) begin(ctx context.Context, parent *talk) *talk {
	s.mu.Lock()
	k := &talk{n: len(s.talks), parent: parent}
	s.talks = append(s.talks, k)
	s.mu.Unlock()
	names := profileNames()
	body := map[string]any{"llm_profile": names[s.pick(len(names))],
		"initial_message": map[string]any{"role": "user", "content": say(fmt.Sprintf("soak-%d. Do something.", k.n))}}
	if parent != nil {
		body["parent_conversation_id"] = parent.id
	} else if box := s.someSandbox(ctx); box != "" {
		body["sandbox_id"] = box
	}
	var task struct {
		ID string `json:"id"`
	}
	status, err := s.ask(ctx, "POST", "/api/v1/app-conversations", body, &task)
	if err != nil || status != http.StatusOK {
		s.note(fmt.Sprintf("start %d", status))
		return nil
	}
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var tasks []*struct {
			Status string  `json:"status"`
			ID     *string `json:"app_conversation_id"`
		}
		if _, err := s.ask(ctx, "GET", "/api/v1/app-conversations/start-tasks?ids="+task.ID, nil, &tasks); err != nil || len(tasks) != 1 || tasks[0] == nil {
			continue
		}
		if tasks[0].ID != nil {
			s.mu.Lock()
			k.id = *tasks[0].ID
			s.mu.Unlock()
			return k
		}
		if tasks[0].Status == "ERROR" {
			s.note("start task ERROR")
			return nil
		}
	}
	s.t.Errorf("start task %s did not end", task.ID)
	return nil
}

// someSandbox returns the sandbox of an earlier conversation, mostly: thousands of
// conversations need not have thousands of sandboxes.
func (s *soak) someSandbox(ctx context.Context) string {
	known := s.known()
	if len(known) == 0 || len(known) < 200 && s.chance(10) {
		return ""
	}
	return s.info(ctx, known[s.pick(len(known))]).Sandbox
}

func say(text string) []any { return []any{map[string]any{"type": "text", "text": text}} }

// turn sends a message and waits for the end of the run, with what users do
// meanwhile.
func (s *soak) turn(ctx context.Context, k *talk) {
	k.sent++
	path := "/api/v1/app-conversations/" + k.id
	status, err := s.ask(ctx, "POST", path+"/send-message", map[string]any{"role": "user", "content": say("Go on."), "run": true}, nil)
	s.note(fmt.Sprintf("send %d", status))
	if err != nil {
		return
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(30 * time.Millisecond) {
		switch s.pick(200) {
		case 0:
			s.agent(ctx, k, "interrupt")
		case 1:
			s.agent(ctx, k, "pause")
		case 2:
			names := profileNames()
			status, _ := s.ask(ctx, "POST", path+"/switch_profile", map[string]any{"profile_name": names[s.pick(len(names))]}, nil)
			s.note(fmt.Sprintf("switch %d", status))
		}
		switch st := s.status(ctx, k); st {
		case "running", "":
		default:
			s.note("end " + st)
			return
		}
		if time.Now().After(deadline) {
			s.t.Errorf("conversation %s still runs after two minutes", k.id)
			return
		}
	}
}

// info is a conversation's record.
type info struct {
	Status  string `json:"execution_status"`
	URL     string `json:"conversation_url"`
	Key     string `json:"session_api_key"`
	Sandbox string `json:"sandbox_id"`
	Metrics struct {
		Cost float64 `json:"accumulated_cost"`
	} `json:"metrics"`
}

func (s *soak) info(ctx context.Context, k *talk) *info {
	var list []*info
	if _, err := s.ask(ctx, "GET", "/api/v1/app-conversations?ids="+k.id, nil, &list); err != nil || len(list) != 1 || list[0] == nil {
		return &info{}
	}
	return list[0]
}

func (s *soak) status(ctx context.Context, k *talk) string { return s.info(ctx, k).Status }

// agent uses the agent protocol.
func (s *soak) agent(ctx context.Context, k *talk, verb string) {
	i := s.info(ctx, k)
	if i.URL == "" {
		return
	}
	s.down.RLock()
	defer s.down.RUnlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if _, _, err := s.Raw(ctx, i.Key, "POST", i.URL+"/"+verb, nil); err == nil {
		s.note(verb)
	}
}

// usage is what the ledger says of a conversation.
type usage struct {
	Own  spending `json:"own"`
	Tree spending `json:"with_sub_conversations"`
}

type spending struct {
	Cost      float64 `json:"cost"`
	Uncertain float64 `json:"uncertain_cost"`
}

func (s *soak) usage(t *testing.T, k *talk) usage {
	var u usage
	if code, err := s.ask(context.Background(), "GET", "/api/v1/app-conversations/"+k.id+"/usage", nil, &u); code != http.StatusOK {
		t.Errorf("usage of %s: %d %v", k.id, code, err)
	}
	return u
}

// known lists the conversations that were made.
func (s *soak) known() []*talk {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*talk
	for _, k := range s.talks {
		if k.id != "" {
			out = append(out, k)
		}
	}
	return out
}

// underBudget: no conversation, with all below it, was billed more than its
// ceiling, by the books of the provider.
func (s *soak) underBudget(t *testing.T) {
	s.quiet(t)
	bills := s.models.bills()
	trees := map[*talk]conversation.Money{}
	for _, k := range s.known() {
		root := k
		for root.parent != nil {
			root = root.parent
		}
		trees[root] += bills[k.n]
	}
	reached := 0
	for root, sum := range trees {
		if sum > conversation.MoneyOf(*budget) {
			t.Errorf("conversation %s and its subs were billed %s, the ceiling is %v USD", root.id, sum, *budget)
		}
		if u := s.usage(t, root); u.Tree.Cost+u.Tree.Uncertain > *budget+1e-9 {
			t.Errorf("the ledger has %+v for %s", u.Tree, root.id)
		} else if u.Tree.Cost+u.Tree.Uncertain > 0.9**budget {
			reached++
		}
	}
	t.Logf("%d trees, %d near their ceiling", len(trees), reached)
}

// quiet waits until nothing runs.
func (s *soak) quiet(t *testing.T) {
	s.each(func(k *talk) {
		for deadline := time.Now().Add(2 * time.Minute); s.status(context.Background(), k) == "running"; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("conversation %s still runs", k.id)
				return
			}
		}
	})
}

// finishAll takes faults and ceilings away: every conversation can be continued
// and ends well.
func (s *soak) finishAll() {
	s.t.Helper()
	s.models.calm.Store(true)
	s.UseModel(s.models.urls["chat"]+"/v1", map[string]any{"max_budget_per_task": nil})
	s.each(func(k *talk) {
		var last string
		for try := 0; last != "finished" && try < 3; try++ { // a fallen endpoint may rest for a moment
			last = s.finish(k)
		}
		if last != "finished" {
			s.t.Errorf("conversation %s is %q and cannot be finished: %.900s", k.id, last, s.lastError(k))
		}
	})
}

// each does something with every conversation, several at a time.
func (s *soak) each(f func(*talk)) {
	next := make(chan *talk)
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(func() {
			for k := range next {
				f(k)
			}
		})
	}
	for _, k := range s.known() {
		next <- k
	}
	close(next)
	wg.Wait()
}

// finish sends a last message and returns how the run ended.
func (s *soak) finish(k *talk) (last string) {
	ctx := context.Background()
	if code, err := s.ask(ctx, "POST", "/api/v1/app-conversations/"+k.id+"/send-message",
		map[string]any{"role": "user", "content": say("Finish now."), "run": true}, nil); code != http.StatusOK {
		s.t.Errorf("conversation %s takes no message: %d %v", k.id, code, err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if last = s.status(ctx, k); last != "running" && last != "" {
			break
		}
	}
	return last
}

// lastError is the last event of a log that says what went wrong.
func (s *soak) lastError(k *talk) (text string) {
	for _, e := range s.Events(k.id) {
		if e.Kind() == "ConversationErrorEvent" {
			text = e.Text()
		}
	}
	return text
}

func (s *soak) logsAreWhole(t *testing.T) {
	for _, k := range s.known() {
		parleytest.CheckLog(t, s.Events(k.id))
	}
}

// accountsAgree: what a conversation shows is what the ledger has, and what was
// billed is covered by what is accounted for as cost or as uncertain.
func (s *soak) accountsAgree(t *testing.T) {
	bills := s.models.bills()
	var billed conversation.Money
	var cost, uncertain float64
	for _, k := range s.known() {
		i, u := s.info(context.Background(), k), s.usage(t, k)
		if d := i.Metrics.Cost - u.Own.Cost; d > 1e-9 || d < -1e-9 {
			t.Errorf("conversation %s shows %.9f USD, the ledger has %.9f", k.id, i.Metrics.Cost, u.Own.Cost)
		}
		if bills[k.n].USD() > u.Own.Cost+u.Own.Uncertain+1e-9 {
			t.Errorf("conversation %s was billed %s, but only %.9f + %.9f uncertain are accounted for", k.id, bills[k.n], u.Own.Cost, u.Own.Uncertain)
		}
		billed += bills[k.n]
		cost, uncertain = cost+u.Own.Cost, uncertain+u.Own.Uncertain
	}
	t.Logf("billed %s, accounted %.6f USD and %.6f USD uncertain", billed, cost, uncertain)
	var days struct {
		Items []struct {
			Cost float64 `json:"cost"`
		} `json:"items"`
	}
	if code, err := s.ask(context.Background(), "GET", "/api/v1/usage", nil, &days); code != http.StatusOK {
		t.Fatalf("usage: %d %v", code, err)
	}
	var sum float64
	for _, d := range days.Items {
		sum += d.Cost
	}
	if d := sum - cost; d > 1e-6 || d < -1e-6 {
		t.Errorf("the days have %.9f USD, the conversations %.9f", sum, cost)
	}
}

func profileNames() []string {
	var names []string
	for name := range profiles(nil) {
		names = append(names, name)
	}
	return names
}

// profiles are the configurations that lead to each wire of the model server.
func profiles(urls map[string]string) map[string]map[string]any {
	key := strings.Repeat("k", 24)
	return map[string]map[string]any{
		"chat": {"model": "openai/soak-chat", "base_url": urls["chat"] + "/v1", "api_key": key, "api_mode": "chat",
			"fallback_profiles": []string{"anthropic", "gemini"}},
		"responses": {"model": "openai/soak-responses", "base_url": urls["responses"] + "/v1", "api_key": key, "api_mode": "responses"},
		"anthropic": {"model": "anthropic/soak-claude", "base_url": urls["anthropic"], "api_key": key},
		"gemini":    {"model": "gemini/soak-gemini", "base_url": urls["gemini"], "api_key": key},
		"bedrock": {"model": "bedrock/soak-bedrock", "base_url": urls["bedrock"], "aws_region_name": bedrocktest.Region,
			"aws_access_key_id": bedrocktest.AccessKeyID, "aws_secret_access_key": bedrocktest.SecretAccessKey},
	}
}
