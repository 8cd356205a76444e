package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/internal/account"
	"parley/internal/agent"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/llm"
	"parley/internal/llm/factory"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/anthropictest"
	"parley/internal/llm/llmtest/bedrocktest"
	"parley/internal/llm/llmtest/geminitest"
	"parley/internal/llm/llmtest/responsestest"
	"parley/internal/tool"
	"parley/test/testkit/openaitest"
)

// picture is an image of one pixel.
const picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// wires are all the ways to a model that the server knows, each with an endpoint
// that refuses what the provider would refuse.
type wires struct {
	profiles map[string]account.LLM
	names    []string

	mu       sync.Mutex
	replies  []llmtest.Reply
	refusals []string // what endpoints refused, by model
	known    map[string]int
	made     map[string]llm.Model
}

func newWires(t *testing.T) *wires {
	w := &wires{profiles: map[string]account.LLM{}, made: map[string]llm.Model{}, known: map[string]int{}}
	type handler func(func(*http.Request, []byte) llmtest.Reply) http.Handler
	secret := account.NewSecret
	text := false
	for name, of := range map[string]struct {
		serve handler
		llm   account.LLM
		path  string
	}{
		"chat":        {openaitest.Handler, account.LLM{Model: "openai/some-model"}, "/v1"},
		"chat-2":      {openaitest.Handler, account.LLM{Model: "openai/some-model"}, "/v1"},
		"gateway":     {openaitest.Handler, account.LLM{Model: "litellm_proxy/anthropic/claude-sonnet-4-5"}, "/v1"},
		"router":      {openaitest.Handler, account.LLM{Model: "openrouter/google/gemini-3-pro", ReasoningEffort: "high"}, "/v1"},
		"text":        {openaitest.Handler, account.LLM{Model: "ollama/tiny", NativeToolCalling: &text}, "/v1"},
		"text-claude": {anthropictest.Handler, account.LLM{Model: "anthropic/claude-opus-4-5", NativeToolCalling: &text, ReasoningEffort: "high"}, ""},
		"responses":   {responsestest.Handler, account.LLM{Model: "openai/gpt-5-test", APIMode: "responses", ReasoningEffort: "high", ReasoningSummary: "auto"}, "/v1"},
		"claude":      {anthropictest.Handler, account.LLM{Model: "anthropic/claude-sonnet-4-5-20250929", ReasoningEffort: "high"}, ""},
		"claude-new":  {anthropictest.Handler, account.LLM{Model: "anthropic/claude-opus-5", ReasoningEffort: "medium"}, ""},
		"gemini-2":    {geminitest.Handler, account.LLM{Model: "gemini/gemini-2.5-flash"}, "/v1beta"},
		"gemini-3":    {geminitest.Handler, account.LLM{Model: "gemini/gemini-3.1-pro-preview"}, "/v1beta"},
		"bedrock":     {bedrocktest.Handler, account.LLM{Model: "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0", ReasoningEffort: "high"}, ""},
		"nova":        {bedrocktest.Handler, account.LLM{Model: "bedrock/amazon.nova-lite-v1:0"}, ""},
		"llama":       {bedrocktest.Handler, account.LLM{Model: "bedrock/meta.llama3-3-70b-instruct-v1:0"}, ""},
	} {
		l := of.llm
		l.APIKey = secret("key-of-" + name + "-0123456789")
		if l.Provider() == "bedrock" {
			l.APIKey = account.Secret{}
			l.AWSAccessKeyID, l.AWSSecretAccessKey, l.AWSRegion = secret(bedrocktest.AccessKeyID), secret(bedrocktest.SecretAccessKey), bedrocktest.Region
		}
		s := httptest.NewServer(w.noting(name, of.serve(w.next)))
		t.Cleanup(func() {
			s.CloseClientConnections()
			s.Close()
		})
		l.BaseURL = s.URL + of.path
		w.profiles[name] = l
		w.names = append(w.names, name)
	}
	slices.Sort(w.names)
	return w
}

func (w *wires) next(*http.Request, []byte) llmtest.Reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.replies) == 0 {
		return llmtest.Reply{Text: "Done."}
	}
	r := w.replies[0]
	w.replies = w.replies[1:]
	return r
}

func (w *wires) script(replies []llmtest.Reply) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replies = replies
}

// noting keeps what h refuses.
func (w *wires) noting(name string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		n := &noted{ResponseWriter: rw}
		h.ServeHTTP(n, r)
		if n.status >= 400 {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refusals = append(w.refusals, name+": "+n.said.String()+"\n\tto "+string(body))
		}
	})
}

type noted struct {
	http.ResponseWriter
	status int
	said   bytes.Buffer
}

func (n *noted) WriteHeader(status int) {
	n.status = status
	n.ResponseWriter.WriteHeader(status)
}

func (n *noted) Write(b []byte) (int, error) {
	if n.status >= 400 {
		n.said.Write(b)
	}
	return n.ResponseWriter.Write(b)
}

func (n *noted) Unwrap() http.ResponseWriter { return n.ResponseWriter }
func (n *noted) Flush()                      { _ = http.NewResponseController(n.ResponseWriter).Flush() }

// bare makes a model, once per configuration: adapters learn.
func (w *wires) bare(l account.LLM) (llm.Model, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := l.Model + " " + l.BaseURL
	if m, ok := w.made[key]; ok {
		return m, nil
	}
	m, err := factory.New(l, factory.Options{Timeout: 20 * time.Second, AWS: factory.AWS{NoEnvironment: true},
		Retry: factory.Retry{MaxAttempts: 3, Min: time.Millisecond, Max: time.Millisecond}})
	if err == nil {
		w.made[key] = m
	}
	return m, err
}

// models is what the engine takes.
func (w *wires) models(l account.LLM, o engine.ModelOptions) (llm.Model, error) {
	m, err := w.bare(l)
	if err != nil {
		return nil, err
	}
	return guard(o, m), nil
}

// bench are tools that need no sandbox.
func bench(t *testing.T) *tool.Set {
	t.Helper()
	type in struct {
		Command string `json:"command"`
	}
	spec := func(name string) tool.Spec {
		return tool.Spec{Name: name, Description: "does " + name, Kind: name + "Tool", ActionKind: name + "Action", ObservationKind: name + "Observation",
			NoConfirm: true, ReadOnly: true}
	}
	return must(tool.NewSet(finishTool(),
		tool.New(spec("echo"), func(_ context.Context, _ *tool.Env, in in) (tool.Result, error) {
			return tool.TextObservation("echoObservation", in.Command).Result()
		}),
		tool.New(spec("shot"), func(_ context.Context, _ *tool.Env, in in) (tool.Result, error) {
			return tool.Observation{Kind: "shotObservation", Content: []content.Part{content.Text(in.Command), content.Image(picture, picture), content.Text("")}}.Result()
		}),
		tool.New(spec("silent"), func(_ context.Context, _ *tool.Env, in in) (tool.Result, error) {
			return tool.Observation{Kind: "silentObservation", IsError: in.Command == ""}.Result()
		}),
		tool.New(spec("wait"), func(ctx context.Context, _ *tool.Env, _ in) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, context.Cause(ctx)
		}),
	))
}

// texts that models say, with secrets, spaces and characters of all sizes.
func spoken(t *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"", " ", "Fine.", "Gr\u00fc\u00df \U0001f600", "the key is key-of-claude-0123456789, use it", "\n\nkey-of-gemini-3-0123456789",
		"ends with space \n", strings.Repeat("long ", 300), "<function=echo>", "AKIAPARLEYTEST000000", "\u2028"}).Draw(t, label)
}

// drawCall is a call. once is part of its id: the endpoints know by it what they
// have signed, and for whom.
func drawCall(t *rapid.T, once string) content.ToolCall {
	name := rapid.SampledFrom([]string{"echo", "echo", "shot", "silent", "finish", "no such tool", "bad n\u00e4me/\x01", "key-of-chat-0123456789", strings.Repeat("x", 200)}).Draw(t, "tool")
	id := rapid.SampledFrom([]string{"call", "call_0", "call_1", "toolu_1", "", "a b/\u00e4", strings.Repeat("i", 100)}).Draw(t, "id")
	if id != "" {
		id += once
	}
	args := rapid.SampledFrom([]string{`{"command":"x"}`, `{"command":"key-of-chat-0123456789"}`, `{}`, `{"command":`, ``, `[1]`, `"text"`, `{"command":"\u0000\ud800"}`, `{"a":1,"a":2}`,
		`{"command":"x","security_risk":"LOW","summary":"s"}`}).Draw(t, "args")
	return content.ToolCall{ID: id, Name: name, Arguments: args}
}

// drawReplies are what models answer to one message of the user.
func drawReplies(t *rapid.T, message int) []llmtest.Reply {
	var out []llmtest.Reply
	for n := range rapid.IntRange(0, 3).Draw(t, "answers") {
		r := llmtest.Reply{Text: spoken(t, "text")}
		if rapid.Bool().Draw(t, "thinks") {
			// A secret in a signed thought makes the thought unusable, which the endpoints
			// here refuse though the providers do not: see TestSignedSecretsAreDropped.
			r.Reasoning = rapid.SampledFrom([]string{"Let me think.", "\u00e4", "key-of-claude-0123456789"}).Draw(t, "reasoning")
			if r.Reasoning[0] != 'k' {
				r.Signature = rapid.SampledFrom([]string{"", "c2lnbmVk", "c2lnMg=="}).Draw(t, "signature")
			}
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "calls") {
			r.Calls = append(r.Calls, drawCall(t, fmt.Sprint("_", message, "_", n, "_", i)))
		}
		r.Fault = rapid.SampledFrom([]llmtest.Fault{"", "", "", llmtest.DuplicateIDs, llmtest.OddFinish, llmtest.WrongUsage, llmtest.KeepAlives}).Draw(t, "fault")
		if r.Signature != "" && r.Fault == llmtest.DuplicateIDs {
			r.Fault = ""
		}
		if rapid.IntRange(0, 5).Draw(t, "cut") == 0 {
			r.Finish = "length"
		}
		out = append(out, r)
	}
	return out
}

// TestConversationsChangeTheirModel: a conversation may go on with any model,
// whatever other models left in its history, and no provider refuses it.
func TestConversationsChangeTheirModel(t *testing.T) {
	ws := newWires(t)
	w := newWorldWith(t, func(o *engine.Options) { o.Models, o.Tools = ws.models, bench(t) })
	w.settings(func(s *account.Settings) {
		s.Profiles = ws.profiles
		s.LLMModel, s.LLMBaseURL, s.LLMAPIKey = ptr(ws.profiles["chat"].Model), ptr(ws.profiles["chat"].BaseURL), ws.profiles["chat"].APIKey
	})
	count := 0
	rapid.Check(t, func(rt *rapid.T) {
		ws.script(nil)
		id := w.begin("")
		for range rapid.IntRange(1, 4).Draw(rt, "messages") {
			if err := w.engine.SwitchProfile(t.Context(), owner, id, rapid.SampledFrom(ws.names).Draw(rt, "model")); err != nil {
				rt.Fatal(err)
			}
			count++
			replies := drawReplies(rt, count)
			interrupt := rapid.IntRange(0, 4).Draw(rt, "interrupt") == 0
			if interrupt {
				calls := []content.ToolCall{{ID: fmt.Sprint("w1_", count), Name: "echo", Arguments: `{"command":"a"}`}, {ID: fmt.Sprint("w2_", count), Name: "wait", Arguments: `{"command":"a"}`},
					{ID: fmt.Sprint("w3_", count), Name: "echo", Arguments: `{"command":"a"}`}}
				replies = append(replies, llmtest.Reply{Text: "waiting", Calls: calls, Reasoning: "hm", Signature: "c2lnMw=="})
			}
			ws.script(replies)
			parts := []content.Part{content.Text(rapid.SampledFrom([]string{"go", "  ", "the key is key-of-chat-0123456789"}).Draw(rt, "said"))}
			if rapid.Bool().Draw(rt, "image") {
				parts = append(parts, content.Image(picture))
			}
			if err := w.engine.Send(t.Context(), owner, id, engine.Message{Parts: parts, Run: true}); err != nil {
				rt.Fatal(err)
			}
			w.eventually("the end of a run", func() bool {
				if interrupt && w.waits(id) {
					if err := w.engine.Interrupt(t.Context(), owner, id); err != nil {
						rt.Fatal(err)
					}
				}
				return w.status(id) != conversation.Running
			})
			if trace := w.trace(id); w.status(id) == conversation.Error && !slices.Contains(trace[len(trace)-2:], "error LLMNoResponseError") {
				rt.Fatalf("%s\n%s", strings.Join(trace, "\n"), strings.Join(ws.refusals, "\n"))
			}
		}
		checkCondensed(rt, ws, w, id)
		ws.checkRefusals(rt)
	})
}

var numbers = regexp.MustCompile(`\[?\d+\]?`)

// checkRefusals: what endpoints refuse is a matter of taste, which models learn
// once and for all.
func (w *wires) checkRefusals(t *rapid.T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.refusals {
		short, _, _ := strings.Cut(r, "\n\tto ")
		taste := slices.ContainsFunc([]string{"tool_calls.id': string too long", "argument supplied: reasoning", "argument supplied: usage", "'cache_control' was"},
			func(s string) bool { return strings.Contains(short, s) })
		short = numbers.ReplaceAllString(short, "N")
		if w.known[short]++; !taste || w.known[short] > 1 {
			t.Errorf("%d times refused: %s", w.known[short], r)
		}
	}
	w.refusals = nil
}

// waits reports whether the tool that waits was called since the last message.
func (w *world) waits(id conversation.ID) bool {
	for _, ev := range slices.Backward(w.events(id)) {
		switch p := must(conversation.Decode(ev)).(type) {
		case *conversation.ActionEvent:
			if p.ToolName == "wait" {
				return true
			}
		case *conversation.MessageEvent:
			return false
		}
	}
	return false
}

// checkCondensed asks every model to go on from a history of which a part was
// replaced by a summary.
func checkCondensed(rt *rapid.T, ws *wires, w *world, id conversation.ID) {
	ws.script(nil)
	state := conversation.NewState()
	var history []conversation.Payload
	for _, ev := range w.events(id) {
		p := must(conversation.Decode(ev))
		state.Apply(ev, p)
		if ev.Kind != conversation.KindStateUpdate {
			history = append(history, p)
		}
	}
	from := rapid.IntRange(0, len(history)).Draw(rt, "from")
	to := rapid.IntRange(from, len(history)).Draw(rt, "to")
	said := func(text string) conversation.Payload {
		return &conversation.MessageEvent{Header: conversation.Head(conversation.KindMessage, conversation.SourceUser, time.Time{}),
			LLMMessage: conversation.LLMMessage{Role: content.RoleUser, Content: []content.Part{content.Text(text)}}}
	}
	cut := slices.Concat(history[:from], []conversation.Payload{said("What happened so far: much.")}, history[to:], []conversation.Payload{said("go on")})
	var tools []llm.Tool
	for _, t := range bench(w.T).Tools() {
		s := t.Spec()
		tools = append(tools, llm.Tool{Name: s.Name, Description: s.Description, Parameters: []byte(`{"type":"object","properties":{"command":{"type":"string"}}}`)})
	}
	for _, name := range ws.names {
		m := must(ws.bare(ws.profiles[name]))
		resp, err := m.Do(context.Background(), &llm.Request{Messages: agent.View(cut, state.ProviderFields), Tools: tools, SessionID: string(id)})
		if err != nil || resp.Message.Text() != "Done." {
			ws.mu.Lock()
			refusals := strings.Join(ws.refusals, "\n")
			ws.mu.Unlock()
			rt.Fatalf("%s: %v, %v\n%s", name, resp, err, refusals)
		}
	}
}
