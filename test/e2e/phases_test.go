package e2e_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

// phase is a conversation that the server's death finds in the middle of something.
type phase struct {
	name   string
	more   map[string]any                       // of the request that starts it
	before []openaitest.Reply                   // until the server dies, by the number of tool results
	reach  func(a *parleytest.Agent, id string) // waits until it is there; nil = the file below shows it
	after  func(a *parleytest.Agent, id string) // goes on behind the restart; nil = it goes on by itself
	file   string                               // what the agent wrote, into a file with the phase's name
	log    []string                             // what the log must show
	never  string                               // what it must not show
	asked  atomic.Int32                         // answers that were given before the death
}

// append is a command that writes a line into the phase's file.
func (p *phase) append(line string) string { return "echo " + line + " >> " + p.name + "; " }

const unknownOutcome = "outcome is unknown"

// phases are all of them; each ends with the answer "it goes on".
func phases() []*phase {
	return []*phase{inModelCall(), inAnswer(), inCommand(), inBatch(), waitingForUser(), pausedBeforeCall(), inSummary()}
}

func inModelCall() *phase {
	return &phase{name: "model-call", before: []openaitest.Reply{{Hang: true}}, reach: func(*parleytest.Agent, string) {}}
}

func inAnswer() *phase {
	text := strings.Repeat("half an answer ", 9)
	return &phase{name: "mid-answer", before: []openaitest.Reply{{Text: text, HangAfter: 4}}, reach: func(*parleytest.Agent, string) {},
		never: "half an answer"}
}

func inCommand() *phase {
	p := &phase{name: "command", file: "once\n", log: []string{unknownOutcome}}
	p.before = []openaitest.Reply{run(p.append("once") + "sleep 3600")}
	return p
}

func inBatch() *phase {
	p := &phase{name: "batch", file: "once\ntwice\n", log: []string{unknownOutcome, `"text":"first"`}, never: `"text":"third"`}
	var calls []openaitest.Call
	for _, command := range []string{p.append("once") + "echo first", p.append("twice") + "sleep 3600", p.append("never") + "echo third"} {
		calls = append(calls, openaitest.ToolCall("terminal", map[string]any{"command": command}))
	}
	p.before = []openaitest.Reply{openaitest.Calls(calls...)}
	return p
}

func waitingForUser() *phase {
	p := &phase{name: "waiting", file: "once\n", never: unknownOutcome,
		more: map[string]any{"confirmation_policy": map[string]any{"kind": "AlwaysConfirm"}}}
	p.before = []openaitest.Reply{run(p.append("once"))}
	p.reach = func(a *parleytest.Agent, id string) { waits(a, id, "waiting_for_confirmation") }
	p.after = func(a *parleytest.Agent, id string) {
		waits(a, id, "waiting_for_confirmation")
		a.Do(http.StatusOK, "POST", id, "/events/respond_to_confirmation", map[string]any{"accept": true}, nil)
	}
	return p
}

// pausedBeforeCall has a call that was decided on, and not begun.
func pausedBeforeCall() *phase {
	p := &phase{name: "paused", file: "once\n", never: unknownOutcome}
	release := make(chan struct{})
	call := run(p.append("once"))
	call.Release = release
	p.before = []openaitest.Reply{call}
	p.reach = func(a *parleytest.Agent, id string) {
		a.Eventually("the model to be asked", func() bool { return p.asked.Load() > 0 })
		a.Do(http.StatusOK, "POST", id, "/pause", nil, nil)
		close(release)
		waits(a, id, "paused")
	}
	p.after = func(a *parleytest.Agent, id string) {
		waits(a, id, "paused")
		a.Do(http.StatusOK, "POST", id, "/run", nil, nil)
	}
	return p
}

// inSummary has a condensation that the user asked for.
func inSummary() *phase {
	return &phase{name: "summary", before: []openaitest.Reply{openaitest.Text("first answer")}, log: []string{`"kind":"Condensation"`},
		reach: func(a *parleytest.Agent, id string) {
			waits(a, id, "finished")
			go func() { // the server dies meanwhile
				_, _, _ = a.Raw(context.Background(), a.Key, "POST", a.Base+"/api/conversations/"+id+"/condense", nil)
			}()
		},
		after: func(a *parleytest.Agent, id string) { a.Say(id, "go on, please") }}
}

// wrote waits until the agent wrote what it writes before the death.
func (p *phase) wrote(a *parleytest.Agent, _ string) {
	a.Eventually(p.name, func() bool {
		raw, err := os.ReadFile(a.File(p.name))
		return err == nil && string(raw) == p.file
	})
}

// Whatever goes on when the server is killed: nothing runs twice, nothing runs
// unasked, and every conversation can go on.
func TestKillNineInEveryPhase(t *testing.T) {
	t.Parallel()
	a, model := agentWith(t)
	all, ids, dead := phases(), map[string]string{}, atomic.Bool{}
	hanging := make(chan string, 64)
	model.Handle(func(req *openaitest.Request) openaitest.Reply {
		for _, p := range all {
			if !strings.Contains(string(req.Raw), "phase "+p.name+".") {
				continue
			}
			if openaitest.NoTools(req) && !dead.Load() {
				hanging <- "the summary"
				return openaitest.Reply{Hang: true}
			}
			if openaitest.NoTools(req) {
				return openaitest.Text("GOALS: phase " + p.name + ".")
			}
			if n := toolResults(req); !dead.Load() && n < len(p.before) {
				p.asked.Add(1)
				if r := p.before[n]; r.Hang || r.HangAfter > 0 {
					hanging <- p.name
				}
				return p.before[n]
			}
			return openaitest.Text("it goes on")
		}
		return openaitest.Text("which phase?")
	})
	for _, p := range all {
		ids[p.name] = a.Start(starting(model, "This is phase "+p.name+". "+strings.Repeat("Many words. ", 400), p.more))
		if p.reach == nil {
			p.reach = p.wrote
		}
		p.reach(a, ids[p.name])
	}
	for range 3 {
		select {
		case <-hanging:
		case <-time.After(30 * time.Second):
			t.Fatal("not all calls of models that hang were made")
		}
	}
	a.Kill()
	dead.Store(true)
	a.Again()
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) { p.check(t, a, ids[p.name]) })
	}
}

func (p *phase) check(t *testing.T, a *parleytest.Agent, id string) {
	if p.after != nil {
		p.after(a, id)
	}
	deadline := time.Now().Add(20 * time.Second)
	for a.Status(id) != "finished" || !strings.Contains(texts(a.Log(id)), "it goes on") {
		if time.Now().After(deadline) {
			t.Fatalf("the conversation does not go on, it is %s: %s", a.Status(id), texts(a.Log(id)))
		}
		time.Sleep(10 * time.Millisecond)
	}
	log := a.Log(id)
	parleytest.CheckLog(t, log)
	parleytest.CheckStates(t, log)
	text := texts(log)
	for _, want := range p.log {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
	if p.never != "" && strings.Contains(text, p.never) {
		t.Errorf("%s is in %s", p.never, text)
	}
	if raw, _ := os.ReadFile(a.File(p.name)); string(raw) != p.file {
		t.Errorf("the agent wrote %q, want %q", raw, p.file)
	}
}
