package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/conversation"
	"parley/test/testkit/parleytest"
	"parley/test/testkit/workertest"
)

// The numbers at which the user of the long session does something.
const (
	target      = 300
	atSteer     = 40
	atInterrupt = 80
	atCrash     = 121
	atSwitch    = 160
	atPause     = 190
	atRun       = 205
	atBack      = 220
	atCondense  = 250
)

// longSession is one conversation that goes on for hundreds of steps.
type longSession struct {
	*parleytest.Agent
	t       *testing.T
	worker  *workertest.Worker
	id      string
	gates   map[int]*workertest.Gate
	earlier []parleytest.Event // of the log, when it was last read
	left    []string           // calls that were open when the conversation went back
}

// A model counts to 300 in a file, in a context window that holds a part of it,
// while the user steers, interrupts, pauses, goes back and changes the model, and
// the server is killed. Every number must be there once, and everything that
// anybody saw of the conversation must agree.
func TestLongSession(t *testing.T) {
	t.Parallel()
	began := time.Now()
	l := beginLongSession(t)
	bySeq, byTime := l.Follow(l.id, parleytest.BySeq, 70), l.Follow(l.id, parleytest.BySame, 45)

	l.steer()
	l.interrupt()
	l.crash()
	l.switchTo("claude", atSwitch)
	l.pauseAndGoBack()
	l.pauseAndRun()
	l.switchTo("worker", atBack)
	l.condense()
	l.finish()
	t.Logf("the session took %s, the worker's replies: %v", time.Since(began).Round(time.Millisecond), l.worker.Counts())

	log := l.check()
	conns := bySeq.Check(t, log)
	t.Logf("%d events, followed over %d and %d connections", len(log), conns, byTime.Check(t, log))
	l.checkFile()
	l.checkCondensations(log)
	l.checkMoney()
}

func beginLongSession(t *testing.T) *longSession {
	worker := workertest.New(t, workertest.Config{Target: target, Window: map[string]int{workertest.Chat: 14_000, workertest.Anthropic: 16_000}})
	s := parleytest.Start(t, parleytest.Options{})
	llm := map[string]any{"model": "openai/worker", "base_url": worker.URL(workertest.Chat), "api_key": "sk-secret-of-the-user",
		"input_cost_per_token": workertest.InputPrice, "output_cost_per_token": workertest.OutputPrice, "max_output_tokens": 2000}
	saveProfile(t, s, "worker", llm)
	saveProfile(t, s, "claude", map[string]any{"model": "anthropic/claude-sonnet-4-5", "base_url": worker.URL(workertest.Anthropic),
		"api_key": "sk-ant-secret", "max_input_tokens": 16_000, "max_output_tokens": 2000,
		"input_cost_per_token": workertest.InputPrice, "output_cost_per_token": workertest.OutputPrice})
	activate(t, s, "worker")
	setBudget(t, s, 100)
	l := &longSession{Agent: s.Agent(), t: t, worker: worker, gates: map[int]*workertest.Gate{}}
	for _, n := range []int{atInterrupt, atCrash} {
		worker.Block(n, fmt.Sprintf("touch at-%d; sleep 3600", n))
	}
	for _, n := range []int{atSteer, atSwitch, atPause, atRun, atBack, atCondense} {
		l.gates[n] = worker.Hold(n)
	}
	l.id = l.Start(map[string]any{
		"agent": map[string]any{"llm": llm, "tool_concurrency_limit": 4,
			"condenser": map[string]any{"kind": "LLMSummarizingCondenser", "max_size": 90, "keep_first": 2},
			"tools":     []any{map[string]any{"name": "terminal"}, map[string]any{"name": "file_editor"}, map[string]any{"name": "grep"}}},
		"workspace": map[string]any{"working_dir": "."}, "max_iterations": 2000, "stuck_detection": true,
		"confirmation_policy": map[string]any{"kind": "NeverConfirm"},
		"initial_message":     map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": workertest.Task}}}})
	return l
}

// most bounds every stretch of the session, on a machine with other work.
const most = 2 * time.Minute

// at waits until the model is asked for what follows n-1. It answers when f is done.
func (l *longSession) at(n int, f func()) {
	l.t.Helper()
	gate := l.gates[n]
	l.until(fmt.Sprintf("the number %d", n), func() bool {
		select {
		case <-gate.Reached:
			return true
		default:
			return false
		}
	})
	l.look()
	f()
	gate.Release()
}

// until waits; if that is in vain, it shows where the conversation is.
func (l *longSession) until(what string, ok func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(most); !ok(); time.Sleep(10 * time.Millisecond) {
		status := l.Status(l.id)
		over := status == "finished" || status == "error" || status == "stuck"
		if (over && !ok()) || time.Now().After(deadline) {
			l.t.Fatalf("waited in vain for %s; the conversation is %s:\n%s", what, status, l.tail())
		}
	}
}

// tail is the end of the log, for whoever has to find out what is wrong.
func (l *longSession) tail() string {
	log := l.Log(l.id)
	return fmt.Sprintf("%.9000s", texts(log[max(0, len(log)-6):]))
}

// look reads the log: what was there must be there still, as it was.
func (l *longSession) look() []parleytest.Event {
	l.t.Helper()
	log := l.Log(l.id)
	if len(log) < len(l.earlier) {
		l.t.Fatalf("the log had %d events, and has %d", len(l.earlier), len(log))
	}
	for i, e := range l.earlier {
		if e.Text() != log[i].Text() {
			l.t.Fatalf("event %d was\n%.2000s\nand is\n%.2000s", i, e.Text(), log[i].Text())
		}
	}
	l.earlier = log
	return log
}

// waitPaused waits until the conversation is paused.
func (l *longSession) waitPaused() {
	l.t.Helper()
	l.until("a pause", func() bool { return l.Status(l.id) == "paused" })
}

// waitFile waits for a file that a command of the agent makes.
func (l *longSession) waitFile(n int) {
	l.t.Helper()
	l.until(fmt.Sprintf("the command at %d", n), func() bool {
		_, err := os.Stat(l.File(fmt.Sprintf("at-%d", n)))
		return err == nil
	})
}

func (l *longSession) steer() {
	l.at(atSteer, func() { l.Say(l.id, "One more thing: "+workertest.Wish+".") })
}

func (l *longSession) interrupt() {
	l.waitFile(atInterrupt)
	l.look()
	began := time.Now()
	l.Do(http.StatusOK, "POST", l.id, "/interrupt", nil, nil)
	l.waitPaused()
	took := time.Since(began)
	if l.t.Logf("the interrupt took %s", took); took > 5*time.Second {
		l.t.Errorf("the interrupt took %s", took)
	}
	l.Say(l.id, workertest.Look)
}

func (l *longSession) crash() {
	l.waitFile(atCrash)
	l.look()
	l.Kill()
	l.Again()
}

func (l *longSession) switchTo(profile string, n int) {
	l.at(n, func() {
		l.Do(http.StatusOK, "POST", l.id, "/switch_profile", map[string]any{"profile_name": profile}, nil)
	})
}

func (l *longSession) pause(n int) {
	l.at(n, func() { l.Do(http.StatusOK, "POST", l.id, "/pause", nil, nil) })
	l.waitPaused()
}

// pauseAndGoBack lets the agent forget the last numbers, which are in the file.
func (l *longSession) pauseAndGoBack() {
	l.pause(atPause)
	log := l.look()
	l.left = parleytest.OpenCalls(log)
	results := 0
	for _, e := range slices.Backward(log) {
		if e.Kind() != "ObservationEvent" {
			continue
		}
		if results++; results == 8 {
			l.Do(http.StatusOK, "POST", l.id, "/navigate", map[string]any{"event_id": e.ID()}, nil)
			break
		}
	}
	l.Say(l.id, workertest.Look)
}

func (l *longSession) pauseAndRun() {
	l.pause(atRun)
	l.Do(http.StatusOK, "POST", l.id, "/run", nil, nil)
}

// condense asks for a condensation in the middle of the run.
func (l *longSession) condense() {
	done := make(chan int, 1)
	l.at(atCondense, func() {
		go func() {
			code, _, _ := l.Raw(l.t.Context(), l.Key, "POST", l.Base+"/api/conversations/"+l.id+"/condense", nil)
			done <- code
		}()
		l.until("the request for a condensation", func() bool {
			log := l.Log(l.id)
			last := log[len(log)-1]
			return last.Kind() == "CondensationRequest"
		})
	})
	select {
	case code := <-done:
		if code != http.StatusOK {
			l.t.Errorf("condense: %d", code)
		}
	case <-time.After(most):
		l.t.Error("condense does not answer")
	}
}

func (l *longSession) finish() {
	l.until("the end", func() bool { return l.Status(l.id) != "running" })
	if got := l.Status(l.id); got != "finished" {
		l.t.Fatalf("the conversation is %s: %s", got, l.tail())
	}
	var answer struct {
		Response string `json:"response"`
	}
	l.Do(http.StatusOK, "GET", l.id, "/agent_final_response", nil, &answer)
	if want := fmt.Sprintf("Counted to %d.", target); answer.Response != want {
		l.t.Errorf("the agent says %q", answer.Response)
	}
}

// check checks what holds for every log, and that the models saw sound histories.
func (l *longSession) check() []parleytest.Event {
	log := l.look()
	parleytest.CheckLog(l.t, log, l.left...)
	parleytest.CheckStates(l.t, log)
	// That an endpoint wants short ids is learnt from one refusal.
	long := func(refusal string) bool { return strings.Contains(refusal, "tool_calls.id': string too long") }
	bad := l.worker.Refusals()
	if n := len(bad); n > 1 || n == 1 && !long(bad[0]) {
		l.t.Errorf("%d requests that no provider takes: %s", n, strings.Join(bad, "\n"))
	}
	if missed := l.worker.Problems(); len(missed) > 0 {
		l.t.Errorf("the model missed something: %s", strings.Join(missed, "\n"))
	}
	next := int64(0)
	if err := l.Stream(l.Within(20*time.Second), strings.ReplaceAll(l.id, "-", ""), -1, func(f parleytest.Frame) bool {
		if f.Seq < 0 {
			return false
		}
		if f.Seq != next || !strings.Contains(f.Data, log[next].ID()) {
			l.t.Errorf("seq %d is %.200s, want %d, %s", f.Seq, f.Data, next, log[next].ID())
			return true
		}
		next++
		return next == int64(len(log))
	}); err != nil || next != int64(len(log)) {
		l.t.Errorf("the stream has %d of %d events: %v", next, len(log), err)
	}
	return log
}

// checkFile checks what the agent did: every number once, and as the user wished
// from the moment on that the wish was read.
func (l *longSession) checkFile() {
	raw, err := os.ReadFile(l.File(workertest.File))
	if err != nil {
		l.t.Fatal(err)
	}
	var want strings.Builder
	for n := 1; n <= target; n++ {
		fmt.Fprintf(&want, "count=%d", n)
		if n > atSteer {
			want.WriteString(" done")
		}
		want.WriteString("\n")
	}
	if diff := cmp.Diff(want.String(), string(raw)); diff != "" {
		l.t.Errorf("%s: -want +got\n%s", workertest.File, diff)
	}
}

// checkCondensations checks that there were many, that they name events of the log,
// and that all kinds of trouble were met.
func (l *longSession) checkCondensations(log []parleytest.Event) {
	ids := map[string]bool{}
	n := 0
	for _, e := range log {
		ids[e.ID()] = true
		if e.Kind() != "Condensation" {
			continue
		}
		n++
		forgotten, _ := e["forgotten_event_ids"].([]any)
		for _, id := range forgotten {
			if name, _ := id.(string); !ids[name] && !strings.HasSuffix(name, "-summary") {
				l.t.Errorf("condensation %s forgets %v, which is not in the log", e.ID(), id)
			}
		}
	}
	counts := l.worker.Counts()
	steps := counts["steps "+workertest.Chat] + counts["steps "+workertest.Anthropic]
	if n < 6 || steps < target || counts["summaries failed"] == 0 || counts["too long"] == 0 {
		l.t.Errorf("%d condensations, %d steps, replies %v", n, steps, counts)
	}
	l.t.Logf("%d condensations, %d steps", n, steps)
}

// checkMoney compares the books of the models with the ledger and the log.
func (l *longSession) checkMoney() {
	u := usageOf(l.t, l.Server, strings.ReplaceAll(l.id, "-", ""))
	if want := l.worker.Billed().USD(); u.Own.Cost != want || u.Own.Uncertain != 0 {
		l.t.Errorf("the models charged %v, the ledger has %+v", want, u.Own)
	}
	var info struct {
		Stats struct {
			Usage map[string]struct {
				Cost float64 `json:"accumulated_cost"`
			} `json:"usage_to_metrics"`
		} `json:"stats"`
	}
	l.Do(http.StatusOK, "GET", l.id, "", nil, &info)
	var sum conversation.Money
	for use, m := range info.Stats.Usage {
		sum += conversation.MoneyOf(m.Cost)
		if m.Cost != u.ByUse[use].Cost {
			l.t.Errorf("%s: the conversation shows %v, the ledger has %v", use, m.Cost, u.ByUse[use].Cost)
		}
	}
	if sum != l.worker.Billed() {
		l.t.Errorf("the conversation shows %s, the models charged %s", sum, l.worker.Billed())
	}
}
