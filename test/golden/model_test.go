package golden_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"parley/test/testkit/openaitest"
)

// reply is what the model does with a request, and the texts in it that a trace
// shows.
type reply struct {
	openaitest.Reply
	show []string
}

func text(s string) reply { return reply{Reply: openaitest.Text(s), show: []string{s}} }

// call is a tool call as the model writes it.
func call(name, arguments string) openaitest.Call {
	return openaitest.Call{Name: name, Arguments: arguments}
}

func use(calls ...openaitest.Call) reply { return reply{Reply: openaitest.Calls(calls...)} }

// run is a call of the terminal.
func run(command string) openaitest.Call {
	return openaitest.ToolCall("terminal", map[string]string{"command": command})
}

func think(thought string) openaitest.Call {
	return openaitest.ToolCall("think", map[string]string{"thought": thought})
}

func finish(message string) openaitest.Call {
	return openaitest.ToolCall("finish", map[string]string{"message": message})
}

// saying adds words to calls: the thought.
func (r reply) saying(s string) reply {
	r.Text, r.show = s, append(r.show, s)
	return r
}

// held makes the model wait with its answer until release is called.
func (r reply) held() (held reply, release func()) {
	ch := make(chan struct{})
	r.Release = ch
	return r, sync.OnceFunc(func() { close(ch) })
}

func never() reply { return reply{Reply: openaitest.Reply{Hang: true}} }

func refuse(status int, message string) reply {
	return reply{Reply: openaitest.Fail(status, message), show: []string{message}}
}

// model is the model of a scenario: it gives the answers it was told, in order.
// Answers to the agent are r1, r2, ..., those to anybody else (summaries, judges)
// a1, a2, ...
type model struct {
	*openaitest.Server
	t      *testing.T
	arrive func(ask) // is told of each request, before it is answered

	mu      sync.Mutex
	replies map[string][]reply // by who is answered: "r" or "a"
	taken   map[string]int
}

func newModel(t *testing.T, arrive func(ask)) *model {
	m := &model{Server: openaitest.New(t), t: t, arrive: arrive, replies: map[string][]reply{}, taken: map[string]int{}}
	m.Handle(m.answer)
	return m
}

func (m *model) add(who string, replies ...reply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replies[who] = append(m.replies[who], replies...)
}

// ask is a request.
type ask struct {
	name string // of its answer
	req  *openaitest.Request
	note string // what kind of answer it gets, if none of the usual ones
}

func (m *model) answer(req *openaitest.Request) openaitest.Reply {
	who := "r"
	if len(req.Tools) == 0 {
		who = "a"
	}
	r, name := m.take(who)
	a := ask{name: name, req: req}
	switch {
	case r.Status != 0:
		a.note = fmt.Sprintf(" -> %d", r.Status)
	case r.Hang, r.Drop:
		a.note = " -> nothing"
	}
	m.arrive(a)
	return r.Reply
}

func (m *model) take(who string) (reply, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.taken[who]
	m.taken[who]++
	name := fmt.Sprintf("%s%d", who, n+1)
	if n >= len(m.replies[who]) {
		m.t.Errorf("the scenario has no %s", name)
		return refuse(http.StatusTeapot, "no more answers"), name
	}
	r := m.replies[who][n]
	r.ID, r.Calls = name, slices.Clone(r.Calls) // the server gives each call an id of its own
	return r, name
}

// check says whether all answers were asked for, by requests that a strict
// provider takes.
func (m *model) check() {
	m.t.Helper()
	for i, req := range m.Requests() {
		problem := req.Problem
		if problem == "" {
			problem = wellFormed(req)
		}
		if problem != "" {
			m.t.Errorf("request %d: %s\n%s", i+1, problem, req.Raw)
		}
	}
	for _, who := range []string{"r", "a"} {
		if m.taken[who] != len(m.replies[who]) {
			m.t.Errorf("%d answers %s1, %s2, ... were taken, of %d", m.taken[who], who, who, len(m.replies[who]))
		}
	}
}

// wellFormed checks what the protocol promises beyond what openaitest refuses: one
// system message, no two messages of the user in a row, results in the order of the
// calls right behind them.
func wellFormed(req *openaitest.Request) string {
	var due []string
	last := ""
	for i, m := range req.Messages {
		switch {
		case (m.Role == "system") != (i == 0):
			return "one system message, at the start"
		case m.Role == "user" && last == "user":
			return "two messages of the user in a row"
		case m.Role == "tool" && (len(due) == 0 || due[0] != m.ToolCallID):
			return "the results are not in the order of the calls"
		case m.Role == "tool":
			due = due[1:]
		}
		for _, c := range m.ToolCalls {
			due = append(due, c.ID)
		}
		last = m.Role
	}
	return ""
}

func usage(prompt, completion int64) *openaitest.Usage {
	return &openaitest.Usage{Prompt: prompt, Completion: completion}
}
