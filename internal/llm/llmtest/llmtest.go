// Package llmtest is the suite that every model adapter passes: what llm.Model
// promises, checked against a server that speaks the provider's own wire format.
package llmtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm"
)

// Reply is what the provider's server shall answer, whatever its wire format.
// Exactly one of the groups is used.
type Reply struct {
	// An answer.
	Text      string
	Reasoning string
	Calls     []content.ToolCall
	Usage     conversation.Usage // prompt (cached included), completion, cache read, reasoning
	Finish    string             // "" = as fits; else "length"

	// A failure, as the provider reports that class.
	Fail       llm.Class
	RetryAfter time.Duration

	// A fault of the connection, after the first part of Text was streamed.
	HangAfterText bool
	CutAfterText  bool

	Hang bool // never answer

	// Signature makes the server sign the answer's reasoning, where its wire has
	// such a thing, and refuse (as ClassMalformed) a later request whose history
	// has the answer's calls without the signature.
	Signature string

	Fault Fault // trouble in the middle of an answer; "" = none
}

// Fault is what real endpoints do to an answer. A server shows it as far as its
// wire can.
type Fault string

// The faults. The first group leaves the answer usable, the second does not.
const (
	OddFinish    Fault = "odd_finish"    // a finish reason that nobody has heard of
	WrongUsage   Fault = "wrong_usage"   // negative, absurd or textual token counts
	DuplicateIDs Fault = "duplicate_ids" // all calls have the same id, and no index
	LongName     Fault = "long_name"     // a call of a tool with a name of 30,000 characters
	KeepAlives   Fault = "keep_alives"   // comments, pings and empty lines between the events
	SlowBytes    Fault = "slow_bytes"    // every byte in a packet of its own

	HalfCall      Fault = "half_call"       // the stream ends in order, in the middle of a call's arguments, without a finish
	ErrorInStream Fault = "error_in_stream" // an "overloaded" error object after the first part of the text
	CutJSON       Fault = "cut_json"        // the connection ends inside an event
	Garbage       Fault = "garbage"         // an event that is not what the API says
)

// Options are what a test wants of the model.
type Options struct {
	Timeout     time.Duration // until the answer begins; 0 = long
	IdleTimeout time.Duration // between two parts of it; 0 = long
}

// Serve starts a server that gives the replies in turn, one per request, and
// returns a model that talks to it. It may skip a reply its wire cannot show.
type Serve func(t *testing.T, opt Options, replies ...Reply) llm.Model

// Lack is what a wire has no word for; the suite does not ask for it then.
type Lack string

// NoReasoningCount says that the usage does not tell reasoning from other output tokens.
const NoReasoningCount Lack = "reasoning_count"

// wait bounds what must happen promptly.
const wait = 10 * time.Second

// Run runs the suite.
func Run(t *testing.T, serve Serve, lacks ...Lack) {
	for name, test := range map[string]func(*testing.T, Serve){
		"Text":                   testText,
		"StreamedText":           testStreamedText,
		"Calls":                  testCalls,
		"History":                testHistory,
		"Usage":                  func(t *testing.T, serve Serve) { testUsage(t, serve, lacks) },
		"Length":                 testLength,
		"Failures":               testFailures,
		"CancelBeforeAnswer":     testCancelBeforeAnswer,
		"CancelMidStream":        testCancelMidStream,
		"BrokenStream":           testBrokenStream,
		"ConcurrentCalls":        testConcurrent,
		"CancelledContextAtOnce": testCancelledContext,
		"SignedReasoning":        testSignedReasoning,
		"ParallelCallsStreamed":  testManyCalls,
		"HarmlessFaults":         testHarmlessFaults,
		"DuplicateIDs":           testDuplicateIDs,
		"LongName":               testLongName,
		"FatalFaults":            testFatalFaults,
		"Silence":                testSilence,
		"EmptyHistoryMessages":   testOddHistory,
	} {
		t.Run(name, func(t *testing.T) { test(t, serve) })
	}
}

// Request returns a plain request.
func Request(onDelta func(llm.Delta)) *llm.Request {
	return &llm.Request{
		Messages: []content.Message{
			{Role: content.RoleSystem, Parts: []content.Part{content.Text("You help.")}},
			{Role: content.RoleUser, Parts: []content.Part{content.Text("Hello")}},
		},
		Tools: []llm.Tool{{Name: "terminal", Description: "Runs a command.",
			Parameters: []byte(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}},
		SessionID: "session-1",
		OnDelta:   onDelta,
	}
}

func testText(t *testing.T, serve Serve) {
	m := serve(t, Options{}, Reply{Text: "Hi there, gr\u00fc\u00df Gott \U0001f600"})
	resp, err := m.Do(t.Context(), Request(nil))
	if err != nil {
		t.Fatal(err)
	}
	if resp.Message.Text() != "Hi there, gr\u00fc\u00df Gott \U0001f600" || resp.Message.Role != content.RoleAssistant {
		t.Errorf("message %+v", resp.Message)
	}
	if resp.ID == "" || resp.FinishReason != "stop" {
		t.Errorf("id %q, finish reason %q", resp.ID, resp.FinishReason)
	}
	if info := m.Info(); info.Model == "" || resp.Usage.Model != info.Model {
		t.Errorf("info %+v, usage of %q", info, resp.Usage.Model)
	}
}

func testStreamedText(t *testing.T, serve Serve) {
	text := strings.Repeat("one two \u00e4\u00f6\u00fc three. ", 20)
	m := serve(t, Options{}, Reply{Text: text, Reasoning: "hmm, let me see"})
	var said, thought strings.Builder
	pieces := 0
	resp, err := m.Do(t.Context(), Request(func(d llm.Delta) {
		pieces++
		said.WriteString(d.Text)
		thought.WriteString(d.Reasoning)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if resp.Message.Text() != text || said.String() != text {
		t.Errorf("the message has %q, the deltas %q", resp.Message.Text(), said.String())
	}
	if thought.String() != resp.Message.Reasoning {
		t.Errorf("reasoning: the message has %q, the deltas %q", resp.Message.Reasoning, thought.String())
	}
	if pieces < 2 {
		t.Errorf("%d deltas: not streamed", pieces)
	}
}

func testCalls(t *testing.T, serve Serve) {
	want := []content.ToolCall{
		{ID: "call_a", Name: "terminal", Arguments: `{"command":"echo 'a \"b\"'"}`, Origin: "completion"},
		{ID: "call_b", Name: "terminal", Arguments: `{"command":"ls"}`, Origin: "completion"},
		{ID: "call_c", Name: "think", Arguments: `{}`, Origin: "completion"},
	}
	for name, onDelta := range map[string]func(llm.Delta){"whole": nil, "streamed": func(llm.Delta) {}} {
		t.Run(name, func(t *testing.T) {
			resp, err := serve(t, Options{}, Reply{Text: "Doing.", Calls: want}).Do(t.Context(), Request(onDelta))
			if err != nil {
				t.Fatal(err)
			}
			for i := range resp.Message.ToolCalls { // the origin is the wire's
				resp.Message.ToolCalls[i].Origin = "completion"
			}
			if d := cmp.Diff(want, resp.Message.ToolCalls); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if resp.FinishReason != "tool_calls" || resp.Message.Text() != "Doing." {
				t.Errorf("finish reason %q, text %q", resp.FinishReason, resp.Message.Text())
			}
		})
	}
}

// testHistory sends an answer with calls back, with its results: a strict
// server accepts it.
func testHistory(t *testing.T, serve Serve) {
	calls := []content.ToolCall{{ID: "h1", Name: "terminal", Arguments: `{"command":"a"}`}, {ID: "h2", Name: "a bad name\u00e4", Arguments: `{"broken`}}
	m := serve(t, Options{}, Reply{Calls: calls}, Reply{Text: "done"})
	req := Request(nil)
	first, err := m.Do(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	req.Messages = append(req.Messages, first.Message)
	for _, c := range first.Message.ToolCalls {
		req.Messages = append(req.Messages, content.Message{Role: content.RoleTool, ToolCallID: c.ID, ToolName: c.Name,
			Parts: []content.Part{content.Text("result"), content.Image("data:image/png;base64,AAAA")}})
	}
	req.Messages = append(req.Messages, content.Message{Role: content.RoleAssistant, Reasoning: "nothing to say"},
		content.Message{Role: content.RoleUser, Parts: []content.Part{content.Text("go on")}})
	second, err := m.Do(t.Context(), req)
	if err != nil || second.Message.Text() != "done" {
		t.Fatalf("%+v, %v", second, err)
	}
}

func testUsage(t *testing.T, serve Serve, lacks []Lack) {
	want := conversation.Usage{PromptTokens: 1200, CompletionTokens: 34, CacheReadTokens: 1000, ReasoningTokens: 5}
	thought := want.ReasoningTokens
	if slices.Contains(lacks, NoReasoningCount) {
		thought = 0
	}
	for name, onDelta := range map[string]func(llm.Delta){"whole": nil, "streamed": func(llm.Delta) {}} {
		resp, err := serve(t, Options{}, Reply{Text: "x", Usage: want}).Do(t.Context(), Request(onDelta))
		if err != nil {
			t.Fatal(err)
		}
		u := resp.Usage
		if u.PromptTokens != 1200 || u.CompletionTokens != 34 || u.CacheReadTokens != 1000 || u.ReasoningTokens != thought {
			t.Errorf("%s: %+v", name, u)
		}
		if u.PerTurnToken != 1234 || u.ResponseID != resp.ID {
			t.Errorf("%s: per turn %d, response id %q of %q", name, u.PerTurnToken, u.ResponseID, resp.ID)
		}
	}
}

func testLength(t *testing.T, serve Serve) {
	resp, err := serve(t, Options{}, Reply{Text: "cut o", Finish: "length"}).Do(t.Context(), Request(nil))
	if err != nil || resp.FinishReason != "length" || resp.Message.Text() != "cut o" {
		t.Fatalf("%+v, %v", resp, err)
	}
}

func testFailures(t *testing.T, serve Serve) {
	for _, class := range []llm.Class{llm.ClassAuth, llm.ClassQuota, llm.ClassRateLimit, llm.ClassOverloaded, llm.ClassTimeout,
		llm.ClassContext, llm.ClassContentPolicy, llm.ClassMalformed, llm.ClassBadRequest, llm.ClassNetwork, llm.ClassNoResponse} {
		t.Run(string(class), func(t *testing.T) {
			reply := Reply{Fail: class}
			if class == llm.ClassRateLimit {
				reply.RetryAfter = 7 * time.Second
			}
			for _, onDelta := range []func(llm.Delta){nil, func(llm.Delta) {}} {
				_, err := serve(t, Options{}, reply).Do(t.Context(), Request(onDelta))
				var e *llm.Error
				if !errors.As(err, &e) || e.Class != class || e.Streamed || e.Message == "" {
					t.Fatalf("got %#v", err)
				}
				if e.RetryAfter != reply.RetryAfter {
					t.Errorf("retry after %v, want %v", e.RetryAfter, reply.RetryAfter)
				}
			}
		})
	}
}

func testCancelBeforeAnswer(t *testing.T, serve Serve) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	m := serve(t, Options{}, Reply{Hang: true})
	time.AfterFunc(20*time.Millisecond, func() { cancel(stopped) })
	if err := within(t, func() error { _, err := m.Do(ctx, Request(nil)); return err }); !errors.Is(err, stopped) {
		t.Fatalf("got %v, want the context's cause", err)
	}
}

func testCancelMidStream(t *testing.T, serve Serve) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	m := serve(t, Options{}, Reply{Text: "a long answer that stops somewhere", HangAfterText: true})
	err := within(t, func() error {
		_, err := m.Do(ctx, Request(func(llm.Delta) { cancel(stopped) }))
		return err
	})
	if !errors.Is(err, stopped) {
		t.Fatalf("got %v, want the context's cause", err)
	}
}

func testBrokenStream(t *testing.T, serve Serve) {
	_, err := serve(t, Options{}, Reply{Text: "a long answer that breaks somewhere", CutAfterText: true}).Do(t.Context(), Request(func(llm.Delta) {}))
	var e *llm.Error
	if !errors.As(err, &e) || e.Class != llm.ClassNetwork || !e.Streamed {
		t.Fatalf("got %#v, want a network error that says that a part was shown", err)
	}
}

func testConcurrent(t *testing.T, serve Serve) {
	const n = 8
	m := serve(t, Options{}, slices.Repeat([]Reply{{Text: "same"}}, n)...)
	errs := make(chan error, n)
	for i := range n {
		onDelta := func(llm.Delta) {}
		if i%2 == 0 {
			onDelta = nil
		}
		go func() {
			resp, err := m.Do(t.Context(), Request(onDelta))
			if err == nil && resp.Message.Text() != "same" {
				err = errors.New("mixed up: " + resp.Message.Text())
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func testCancelledContext(t *testing.T, serve Serve) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if _, err := serve(t, Options{}, Reply{Text: "x"}).Do(ctx, Request(nil)); !errors.Is(err, stopped) {
		t.Fatalf("got %v", err)
	}
}

func within(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(wait):
		t.Fatal("did not return")
		return nil
	}
}
