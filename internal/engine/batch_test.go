package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/tool"
)

// workbench is a tool whose calls tell when they run, and end when they are let go.
type workbench struct {
	mu      sync.Mutex
	running map[string]int // by name of the claim
	most    int            // calls at a time
	order   []string       // starts
	overlap bool           // two of one claim
	gates   map[string]chan struct{}
	started chan string
}

func newWorkbench() *workbench {
	return &workbench{running: map[string]int{}, gates: map[string]chan struct{}{}, started: make(chan string, 64)}
}

type benchInput struct {
	Name string `json:"name"` // of the call
	On   string `json:"on"`   // the path that is changed; "" = nothing
	Wait bool   `json:"wait,omitempty"`
}

func (b *workbench) gate(name string) chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gates[name] == nil {
		b.gates[name] = make(chan struct{})
	}
	return b.gates[name]
}

func (b *workbench) tool() tool.Tool {
	claims := func(in benchInput) []tool.Claim {
		if in.On == "" {
			return nil
		}
		return []tool.Claim{tool.ClaimFile(in.On, true)}
	}
	return tool.New(tool.Spec{Name: "work", Description: "works", NoHands: true}, b.run, tool.WithClaims(claims))
}

func (b *workbench) run(ctx context.Context, _ *tool.Env, in benchInput) (tool.Result, error) {
	b.enter(in)
	defer b.leave(in)
	b.started <- in.Name
	if in.Wait {
		select {
		case <-b.gate(in.Name):
		case <-ctx.Done():
			return tool.Result{}, context.Cause(ctx)
		}
	}
	return tool.TextObservation("WorkObservation", in.Name).Result()
}

func (b *workbench) enter(in benchInput) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.order = append(b.order, in.Name)
	if b.running[in.On]++; in.On != "" && b.running[in.On] > 1 {
		b.overlap = true
	}
	n := 0
	for _, c := range b.running {
		n += c
	}
	b.most = max(b.most, n)
}

func (b *workbench) leave(in benchInput) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running[in.On]--
}

func (b *workbench) await(t *testing.T, names ...string) {
	t.Helper()
	for range names {
		select {
		case name := <-b.started:
			if !slices.Contains(names, name) {
				t.Fatalf("%s started, expected %v", name, names)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%v did not all start", names)
		}
	}
}

func work(name, on string, wait bool) string {
	return string(must(json.Marshal(map[string]any{"name": name, "on": on, "wait": wait})))
}

func newBatchWorld(t *testing.T, b *workbench, steps ...step) *world {
	return newWorldWith(t, func(o *engine.Options) {
		o.Tools = must(tool.NewSet(shTool(), b.tool(), finishTool()))
	}, steps...)
}

func answers(trace []string) []string {
	return slices.DeleteFunc(slices.Clone(trace), func(s string) bool {
		return !strings.HasPrefix(s, "observation") && !strings.HasPrefix(s, "agent error")
	})
}

// Calls that do not touch the same things run side by side; their answers come in
// the order of the calls, whichever ends first.
func TestCallsOfOneAnswerRunSideBySide(t *testing.T) {
	b := newWorkbench()
	w := newBatchWorld(t, b, call("work", work("a", "/a", true), "work", work("b", "/b", true), "work", work("c", "", true)))
	id := w.begin("go")
	b.await(t, "a", "b", "c") // all at once, or this waits in vain
	close(b.gate("c"))
	close(b.gate("b"))
	w.eventually("c and b to end", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.running["/b"] == 0 && b.running[""] == 0 })
	if got := answers(w.trace(id)); len(got) != 0 {
		t.Fatalf("%v were answered before the first call", got)
	}
	close(b.gate("a"))
	w.wait(id, conversation.Finished)
	if got := answers(w.trace(id)); !slices.Equal(got, []string{"observation call_0", "observation call_1", "observation call_2"}) {
		t.Fatalf("answers %v", got)
	}
}

// Calls that touch the same thing run one after the other, in the order of the
// calls.
func TestConflictingCallsRunInOrder(t *testing.T) {
	b := newWorkbench()
	w := newBatchWorld(t, b, call("work", work("a", "/d/x", true), "work", work("b", "/d", false), "work", work("c", "/d/y", false), "work", work("d", "/e", false)))
	id := w.begin("go")
	b.await(t, "a", "d")
	close(b.gate("a"))
	w.wait(id, conversation.Finished)
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := func(n string) int { return slices.Index(b.order, n) }; at("a") > at("b") || at("b") > at("c") || b.overlap {
		t.Fatalf("order %v, overlap %v", b.order, b.overlap)
	}
}

// A command may change anything: what comes behind it waits for it.
func TestNothingOvertakesACommand(t *testing.T) {
	b := newWorkbench()
	w := newBatchWorld(t, b, call("sh", `{"command":"printf before > order; sleep 0.2; printf after > order"}`, "sh", `{"command":"cat order"}`))
	id := w.begin("go")
	w.wait(id, conversation.Finished)
	if text := w.text(id); !strings.Contains(text, `"text":"after"`) {
		t.Fatalf("the second command did not see the first one's work:\n%s", text)
	}
}

// A conversation can say how many of its calls run at a time.
func TestToolConcurrency(t *testing.T) {
	b := newWorkbench()
	w := newBatchWorld(t, b, call("work", work("a", "", true), "work", work("b", "", true), "work", work("c", "", true)))
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV1, ToolConcurrency: 2})
	w.send(id, "go")
	b.await(t, "a", "b")
	close(b.gate("a"))
	b.await(t, "c")
	close(b.gate("b"))
	close(b.gate("c"))
	w.wait(id, conversation.Finished)
	if b.most != 2 {
		t.Errorf("%d calls at a time", b.most)
	}
}

// The end of a run waits for what came before it.
func TestFinishWaitsForTheOthers(t *testing.T) {
	b := newWorkbench()
	w := newBatchWorld(t, b, call("work", work("a", "", true), "finish", `{"message":"bye"}`))
	id := w.begin("go")
	b.await(t, "a")
	if got := answers(w.trace(id)); len(got) != 0 {
		t.Fatalf("%v answered", got)
	}
	close(b.gate("a"))
	w.wait(id, conversation.Finished)
	if got := answers(w.trace(id)); !slices.Equal(got, []string{"observation call_0", "observation call_1"}) {
		t.Fatalf("answers %v", got)
	}
}

// An interrupt keeps what is done and answers the rest, once each.
func TestInterruptOfABatchKeepsWhatIsDone(t *testing.T) {
	b := newWorkbench()
	w := newBatchWorld(t, b, call("work", work("a", "/a", true), "work", work("b", "/b", false), "work", work("c", "/b", true), "work", work("d", "/a", false)))
	id := w.begin("go")
	b.await(t, "a", "b", "c")
	if err := w.engine.Interrupt(w.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Paused)
	got := answers(w.trace(id))
	slices.Sort(got)
	if want := []string{"agent error call_0", "agent error call_2", "agent error call_3", "observation call_1"}; !slices.Equal(got, want) {
		t.Fatalf("answers %v, want %v", got, want)
	}
	if slices.Contains(b.order, "d") {
		t.Error("a call was started after the interrupt")
	}
}

// A pause lets what runs end and starts nothing; what is left runs when the user
// goes on.
func TestPauseInABatch(t *testing.T) {
	b := newWorkbench()
	w := newBatchWorld(t, b, call("work", work("a", "/a", true), "work", work("b", "/a", false)))
	id := w.begin("go")
	b.await(t, "a")
	if err := w.engine.Pause(w.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	close(b.gate("a"))
	w.wait(id, conversation.Paused)
	if got := answers(w.trace(id)); !slices.Equal(got, []string{"observation call_0"}) {
		t.Fatalf("answers %v", got)
	}
	if err := w.engine.Run(w.Context(), owner, id); err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Finished)
	if got := answers(w.trace(id)); !slices.Equal(got, []string{"observation call_0", "observation call_1"}) {
		t.Fatalf("answers %v", got)
	}
}

// Answers wait for a full store, in order, while other calls go on.
func TestABatchWithAFullStore(t *testing.T) {
	b := newWorkbench()
	w := newBatchWorld(t, b, call("work", work("a", "", true), "work", work("b", "", true)))
	id := w.begin("go")
	b.await(t, "a", "b")
	w.store.setFull(true)
	close(b.gate("a"))
	w.eventually("a refusal", func() bool { return w.store.refusals() > 0 })
	close(b.gate("b"))
	w.store.setFull(false)
	w.wait(id, conversation.Finished)
	if got := answers(w.trace(id)); !slices.Equal(got, []string{"observation call_0", "observation call_1"}) {
		t.Fatalf("answers %v", got)
	}
}

// A server that leaves in the middle records what ended and never repeats the rest.
func TestRestartInABatch(t *testing.T) {
	b := newWorkbench()
	w := newBatchWorld(t, b, call("work", work("a", "", true), "work", work("b", "", true), "work", work("c", "", false)))
	id := w.begin("go")
	b.await(t, "a", "b", "c")
	close(b.gate("a"))
	w.eventually("the first answer", func() bool { return len(answers(w.trace(id))) == 1 })
	w.stop()
	w.start()
	w.wait(id, conversation.Finished)
	got := answers(w.trace(id))
	if want := []string{"observation call_0", "observation call_2", "agent error call_1"}; !slices.Equal(got, want) {
		t.Fatalf("answers %v, want %v", got, want)
	}
	if n := len(b.order); n != 3 {
		t.Errorf("%d calls ran: %v", n, b.order)
	}
}

// A result that cannot be recorded ends the run, and every call is answered.
func TestABatchWithAResultThatIsNoEvent(t *testing.T) {
	bad := tool.New(tool.Spec{Name: "bad", Description: "fails", NoHands: true},
		func(context.Context, *tool.Env, struct{}) (tool.Result, error) {
			return tool.Result{}, errors.New("a\xffb")
		}, tool.WithClaims(func(struct{}) []tool.Claim { return nil }))
	b := newWorkbench()
	w := newWorldWith(t, func(o *engine.Options) { o.Tools = must(tool.NewSet(b.tool(), bad, finishTool())) },
		call("bad", "{}", "work", work("a", "", false)))
	id := w.begin("go")
	w.wait(id, conversation.Finished)
	if got := fmt.Sprint(answers(w.trace(id))); got != "[agent error call_0 observation call_1]" {
		t.Fatalf("answers %s", got)
	}
}
