package api_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm"
)

// hearing keeps what the model was told.
type hearing struct {
	mu    sync.Mutex
	told  []string // the texts of each request
	tools []string // the names of the tools of each request
}

func (h *hearing) then(next step) step {
	return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		var all []string
		for _, m := range req.Messages {
			all = append(all, content.JoinText(m.Parts))
		}
		names := make([]string, len(req.Tools))
		for i, tool := range req.Tools {
			names[i] = tool.Name
		}
		h.mu.Lock()
		h.told = append(h.told, strings.Join(all, "\n"))
		h.tools = append(h.tools, strings.Join(names, " "))
		h.mu.Unlock()
		return next(ctx, req)
	}
}

// last is what the model was told the last time.
func (h *hearing) last() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.told) == 0 {
		return ""
	}
	return h.told[len(h.told)-1]
}

// conversation starts one with a first message and waits for a status.
func (b *bench) conversation(first string, until conversation.Status) (id, path string) {
	b.Helper()
	a := b.post(201, conversations, b.with(map[string]any{"initial_message": userSays(first)}))
	b.waitFor(hexOf(a), until)
	return hexOf(a), conversations + "/" + a.text("id")
}

func (b *bench) info(path string) *answer {
	b.Helper()
	return b.as(b.key, "GET", path, nil).is(200)
}

func unknownConversation() string { return conversations + "/" + uuid.NewString() }

func TestAgentPolicyAndAnalyzer(t *testing.T) {
	h := &hearing{}
	b := newBench(t, say("hello"), callTool("sh", `{"command":"touch x"}`), h.then(say("so be it")))
	id, path := b.conversation("hi", conversation.Finished)
	b.post(200, path+"/confirmation_policy", map[string]any{"policy": map[string]any{"kind": "ConfirmRisky", "threshold": "LOW"}})
	b.post(200, path+"/security_analyzer", map[string]any{"security_analyzer": map[string]any{"kind": "EnsembleSecurityAnalyzer",
		"analyzers": []any{map[string]any{"kind": "LLMSecurityAnalyzer"}, map[string]any{"kind": "PatternSecurityAnalyzer"}}}})
	a := b.info(path)
	if a.text("confirmation_policy", "threshold") != "LOW" || a.at("confirmation_policy", "confirm_unknown") != true ||
		a.text("security_analyzer", "analyzers", 1, "kind") != "PatternSecurityAnalyzer" {
		t.Errorf("%s", a.body)
	}
	b.post(200, path+"/confirmation_policy", map[string]any{"policy": map[string]any{"kind": "AlwaysConfirm"}})
	b.post(200, path+"/security_analyzer", map[string]any{"security_analyzer": nil})
	if a := b.info(path); a.text("confirmation_policy", "kind") != "AlwaysConfirm" || a.at("security_analyzer") != nil {
		t.Errorf("%s", a.body)
	}
	if a := b.as(b.key, "GET", path+"/events/search?kind=ConversationStateUpdateEvent", nil).is(200); !strings.Contains(string(a.body), `"key":"confirmation_policy"`) {
		t.Errorf("followers were not told: %s", a.body)
	}

	m := userSays("go")
	m["run"] = true
	b.post(200, path+"/events", m)
	b.waitFor(id, conversation.WaitingConfirmation)
	b.post(200, path+"/events/respond_to_confirmation", map[string]any{"accept": false, "reason": "x is precious"})
	b.waitFor(id, conversation.Idle)
	b.post(200, path+"/run", nil)
	b.waitFor(id, conversation.Finished)
	if !strings.Contains(h.last(), "x is precious") {
		t.Errorf("the model does not know why: %s", h.last())
	}

	for what, body := range map[string]any{
		"confirmation_policy": map[string]any{"policy": map[string]any{"kind": "NeverConfirm"}},
		"security_analyzer":   map[string]any{"security_analyzer": nil},
	} {
		b.post(404, unknownConversation()+"/"+what, body)
		b.post(422, path+"/"+what, map[string]any{})
		b.post(422, path+"/"+what, nil)
	}
	a = b.post(422, path+"/confirmation_policy", map[string]any{"policy": map[string]any{"type": "always"}})
	c := b.post(422, path+"/security_analyzer", map[string]any{"security_analyzer": map[string]any{"kind": "GraySwanAnalyzer"}})
	if !strings.Contains(string(a.body), "kind") || !strings.Contains(string(c.body), "PolicyRailSecurityAnalyzer") {
		t.Errorf("%s%s", a.body, c.body)
	}
	deep := map[string]any{"kind": "LLMSecurityAnalyzer"}
	for range 5 {
		deep = map[string]any{"kind": "EnsembleSecurityAnalyzer", "analyzers": []any{deep}}
	}
	b.post(422, path+"/security_analyzer", map[string]any{"security_analyzer": deep})
}

// Secrets that come later are seen by commands that name them, and by nobody else.
func TestAgentSecrets(t *testing.T) {
	b := newBench(t, say("hello"), callTool("sh", `{"command":"printf %s \"$LATE\" | rev; printf %s \"$LATE\""}`), say("done"))
	id, path := b.conversation("hi", conversation.Finished)
	b.post(200, path+"/secrets", map[string]any{"secrets": map[string]any{"LATE": "hush-hush-late",
		"OTHER": map[string]any{"kind": "StaticSecret", "value": "hush-hush-other", "description": "for later"}}})
	if a := b.info(path); a.text("secret_registry", "secret_sources", "OTHER", "description") != "for later" || strings.Contains(string(a.body), "hush") {
		t.Errorf("%s", a.body)
	}
	m := userSays("go")
	m["run"] = true
	b.post(200, path+"/events", m)
	b.waitFor(id, conversation.Finished)
	log := string(b.as(b.key, "GET", path+"/events/search", nil).is(200).body)
	if !strings.Contains(log, "etal-hsuh-hsuh") || strings.Contains(log, "hush-hush") {
		t.Errorf("the command did not see the secret, or the log shows it: %s", log)
	}
	b.post(404, unknownConversation()+"/secrets", map[string]any{"secrets": map[string]any{"A": "b"}})
	for _, bad := range []any{nil, map[string]any{}, map[string]any{"secrets": map[string]any{"A": map[string]any{"kind": "LookupSecret", "url": "http://x"}}}} {
		b.post(422, path+"/secrets", bad)
	}
	b.post(422, path+"/secrets", map[string]any{"secrets": map[string]any{"LONG": strings.Repeat("hush", 17<<10)}})
}

func TestAgentAsk(t *testing.T) {
	h := &hearing{}
	b := newBench(t, say("the answer is 42"), h.then(say("I said 42.")))
	id, path := b.conversation("think", conversation.Finished)
	before := len(b.events(id))
	if a := b.post(200, path+"/ask_agent", map[string]any{"question": "What did you say?"}); a.text("response") != "I said 42." {
		t.Errorf("%s", a.body)
	}
	if told := h.last(); !strings.Contains(told, "the answer is 42") || !strings.Contains(told, "What did you say?") {
		t.Errorf("the model was told %s", told)
	}
	for _, e := range b.events(id)[before:] {
		if e.Kind != conversation.KindStateUpdate {
			t.Errorf("the question left %s", e.Raw)
		}
	}
	b.post(422, path+"/ask_agent", map[string]any{})
	b.post(422, path+"/ask_agent", map[string]any{"question": ""})
	b.post(404, unknownConversation()+"/ask_agent", map[string]any{"question": "x"})
}

func TestAgentTagsAreBounded(t *testing.T) {
	b := newBench(t)
	path := conversations + "/" + b.post(201, conversations, b.with(nil)).text("id")
	b.post(201, path+"/fork", map[string]any{"tags": numbered("t", 256, "x")})
	b.post(422, path+"/fork", map[string]any{"tags": numbered("t", 257, "x")})
	b.as(b.key, "PATCH", path, map[string]any{"tags": numbered("t", 257, "x")}).is(422)
}

func TestAgentFork(t *testing.T) {
	b := newBench(t, say("one"), say("two"), say("three"))
	id, path := b.conversation("first", conversation.Finished)
	m := userSays("second")
	m["run"] = true
	b.post(200, path+"/events", m)
	b.eventually("the second answer", func() bool {
		return strings.Contains(string(b.as(b.key, "GET", path+"/agent_final_response", nil).body), "two")
	})
	b.waitFor(id, conversation.Finished)
	var messages []string // ids
	leaf := ""
	for _, e := range b.events(id) {
		if e.Kind != conversation.KindStateUpdate {
			leaf = e.ID
		}
		if e.Kind == conversation.KindMessage {
			messages = append(messages, e.ID)
		}
	}
	a := b.info(path)
	if a.text("leaf_event_id") != leaf || a.text("last_user_message_id") != messages[2] || a.at("forked_from_conversation_id") != nil {
		t.Errorf("%s", a.body)
	}

	whole := b.post(201, path+"/fork", nil)
	if whole.text("execution_status") != "idle" || whole.text("forked_from_conversation_id") != a.text("id") ||
		whole.text("forked_from_event_id") != leaf || whole.text("leaf_event_id") != leaf || whole.text("title") != a.text("title") {
		t.Errorf("%s", whole.body)
	}
	fid := uuid.NewString()
	part := b.post(201, path+"/fork", map[string]any{"id": fid, "title": "Branch", "tags": map[string]any{"a": "b"},
		"from_event_id": messages[1], "reset_metrics": false})
	if part.text("id") != fid || part.text("title") != "Branch" || part.text("tags", "a") != "b" || part.text("forked_from_event_id") != messages[1] {
		t.Errorf("%s", part.body)
	}
	if n := b.as(b.key, "GET", conversations+"/"+fid+"/events/count?kind=MessageEvent", nil).is(200); string(n.body) != "2\n" {
		t.Errorf("%s messages", n.body)
	}
	if got, want := cost(part), 0.25; got < want || cost(whole) != 0 {
		t.Errorf("costs %v and %v", got, cost(whole))
	}
	// The copy goes on by itself, with what it was told.
	b.post(200, conversations+"/"+fid+"/events", m)
	b.waitFor(hexOf(part), conversation.Finished)
	if n := b.as(b.key, "GET", path+"/events/count?kind=MessageEvent", nil).is(200); string(n.body) != "4\n" {
		t.Errorf("the source has %s messages", n.body)
	}

	b.post(409, path+"/fork", map[string]any{"id": fid})
	if a := b.post(404, path+"/fork", map[string]any{"from_event_id": "none"}); a.text("code") != "event_not_found" {
		t.Errorf("%s", a.body)
	}
	b.post(404, unknownConversation()+"/fork", map[string]any{})
	b.post(422, path+"/fork", map[string]any{"id": "seven"})
	b.post(422, path+"/fork", map[string]any{"title": strings.Repeat("x", 201)})
	b.post(422, path+"/fork", map[string]any{"tags": map[string]any{"No": "x"}})
}

// cost is what an answer says the agent's use has cost.
func cost(a *answer) float64 {
	a.Helper()
	uses, _ := a.at("stats", "usage_to_metrics").(map[string]any)
	total := 0.0
	for _, use := range uses {
		c, _ := use.(map[string]any)["accumulated_cost"].(float64)
		total += c
	}
	return total
}

func TestAgentNavigate(t *testing.T) {
	h := &hearing{}
	proceed := make(chan struct{})
	b := newBench(t, say("one"), h.then(say("two")), h.then(say("other")), streams(proceed, "x"))
	id, path := b.conversation("first", conversation.Finished)
	m := userSays("second")
	m["run"] = true
	b.post(200, path+"/events", m)
	b.eventually("the second answer", func() bool {
		return strings.Contains(string(b.as(b.key, "GET", path+"/agent_final_response", nil).body), "two")
	})
	b.waitFor(id, conversation.Finished)
	first := ""
	for _, e := range b.events(id) {
		if e.Kind == conversation.KindMessage && e.Source == conversation.SourceAgent {
			first = e.ID
			break
		}
	}
	a := b.post(200, path+"/navigate", map[string]any{"event_id": first})
	if a.text("leaf_event_id") != first || a.text("execution_status") != "idle" {
		t.Errorf("%s", a.body)
	}
	b.post(200, path+"/events", map[string]any{"content": m["content"], "run": true})
	b.eventually("the other answer", func() bool {
		return strings.Contains(string(b.as(b.key, "GET", path+"/agent_final_response", nil).body), "other")
	})
	b.waitFor(id, conversation.Finished)
	if told := h.last(); strings.Contains(told, "two") || strings.Count(told, "second") != 1 {
		t.Errorf("the model knows the other branch: %s", told)
	}
	if a := b.post(404, path+"/navigate", map[string]any{"event_id": "none"}); a.text("code") != "event_not_found" {
		t.Errorf("%s", a.body)
	}
	if a := b.post(200, path+"/navigate", map[string]any{"event_id": nil}); a.at("leaf_event_id") != nil || a.at("last_user_message_id") != nil {
		t.Errorf("%s", a.body)
	}
	b.post(422, path+"/navigate", map[string]any{})
	b.post(404, unknownConversation()+"/navigate", map[string]any{"event_id": nil})
	b.post(200, path+"/events", m)
	b.waitFor(id, conversation.Running)
	if a := b.post(409, path+"/navigate", map[string]any{"event_id": first}); a.text("code") != "already_running" {
		t.Errorf("%s", a.body)
	}
	close(proceed)
}

func TestAgentCondense(t *testing.T) {
	steps := []step{}
	for i := range 12 {
		steps = append(steps, callTool("sh", fmt.Sprintf(`{"command":"echo %d"}`, i)))
	}
	b := newBench(t, append(steps, say("done"))...)
	id, path := b.conversation("work", conversation.Finished)
	b.post(200, path+"/condense", nil)
	found := 0
	for _, e := range b.events(id) {
		if e.Kind == conversation.KindCondensation {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d condensations", found)
	}
	b.post(404, unknownConversation()+"/condense", nil)
}

func TestAgentGoal(t *testing.T) {
	b := newBench(t, say("hello"), say("did a bit"), say("did it all"))
	id, path := b.conversation("hi", conversation.Finished)
	b.model.judge("{\"score\": 0.4, \"complete\": false, \"missing\": \"the end\"}", "{\"score\": 1, \"complete\": true, \"missing\": \"\"}")
	b.post(200, path+"/goal", map[string]any{"objective": "do it all", "max_iterations": 3})
	b.eventually("the goal", func() bool {
		a := b.as(b.key, "GET", path+"/events/search?kind=ConversationStateUpdateEvent&sort_order=TIMESTAMP_DESC", nil).is(200)
		return strings.Contains(string(a.body), `"status":"complete"`)
	})
	b.waitFor(id, conversation.Finished)
	if a := b.post(400, path+"/goal/resume", nil); a.text("code") != "no_resumable_goal" {
		t.Errorf("%s", a.body)
	}
	b.post(200, path+"/goal/stop", nil)
	b.post(400, path+"/goal", map[string]any{"objective": "  "})
	b.post(422, path+"/goal", map[string]any{})
	b.post(422, path+"/goal", map[string]any{"objective": "x", "max_iterations": 0})
	for _, what := range []string{"/goal/stop", "/goal/resume"} {
		b.post(404, unknownConversation()+what, nil)
	}
	b.post(404, unknownConversation()+"/goal", map[string]any{"objective": "x"})
}

func TestAgentGoalStopAndResume(t *testing.T) {
	proceed := make(chan struct{})
	b := newBench(t, say("hello"), streams(proceed, "slowly"), say("again"))
	id, path := b.conversation("hi", conversation.Finished)
	b.post(200, path+"/goal", map[string]any{"objective": "do it"})
	b.waitFor(id, conversation.Running)
	if a := b.post(409, path+"/goal", map[string]any{"objective": "another"}); a.text("code") == "" {
		t.Errorf("%s", a.body)
	}
	b.post(409, path+"/goal/resume", nil)
	b.post(200, path+"/goal/stop", nil)
	close(proceed)
	b.eventually("the run's end", func() bool { return b.info(path).text("execution_status") != "running" })
	b.model.judge(`{"score": 1, "complete": true, "missing": ""}`)
	b.post(200, path+"/goal/resume", nil)
	b.eventually("the goal", func() bool {
		a := b.as(b.key, "GET", path+"/events/search?kind=ConversationStateUpdateEvent&sort_order=TIMESTAMP_DESC", nil).is(200)
		return strings.Contains(string(a.body), `"status":"complete"`)
	})
}
