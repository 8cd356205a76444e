package golden_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// patience is how long anything may take on a machine that has other things to do.
const patience = 60 * time.Second

// play is a scenario while it runs: one client, one model, one conversation at a
// time.
type play struct {
	t     *testing.T
	house *house
	model *model
	name  string

	mu    sync.Mutex
	talks []*talk
	words []string // that a trace shows
	asked chan struct{}
	names map[string]bool // of the requests so far
}

// talk is a conversation.
type talk struct {
	id    string
	title string // of its part of the trace
	ws    *socket
	marks []mark
	from  int // frames before the last action
}

// mark is something in a trace that is no frame: an action of the client, or a
// request that the model gets.
type mark struct {
	label  string
	frames int // that came before an action
	head   int // of the log at a request
	ask    *ask
}

func (t *talk) path() string { return "/api/conversations/" + t.id }

func newPlay(t *testing.T, h *house, name string) *play {
	p := &play{t: t, house: h, name: name, asked: make(chan struct{}), names: map[string]bool{}}
	p.model = newModel(t, p.arrive)
	return p
}

// replies queues answers to the agent, aside those to anybody else.
func (p *play) replies(all ...reply) { p.queue("r", all) }
func (p *play) asides(all ...reply)  { p.queue("a", all) }

func (p *play) queue(who string, all []reply) {
	for _, r := range all {
		p.show(r.show...)
	}
	p.model.add(who, all...)
}

// show names texts that the trace shows wherever they occur.
func (p *play) show(words ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words = append(p.words, words...)
}

// arrive notes where in the log a request comes.
func (p *play) arrive(a ask) {
	t := p.talk()
	head, err := p.house.count(t.path())
	if err != nil {
		p.t.Errorf("request %s: %v", a.name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t.marks = append(t.marks, mark{label: "? " + a.name + a.note, head: head, ask: &a})
	p.names[a.name] = true
	close(p.asked)
	p.asked = make(chan struct{})
}

func (p *play) talk() *talk {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.talks[len(p.talks)-1]
}

// awaitAsked waits until the model was asked for an answer.
func (p *play) awaitAsked(name string) {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		done, asked := p.names[name], p.asked
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-asked:
		case <-deadline:
			p.t.Fatalf("the model was not asked for %s", name)
		}
	}
}

// await waits for a full_state with a status, after the last action.
func (p *play) await(status string) {
	p.t.Helper()
	t := p.talk()
	t.ws.until("full_state "+status, t.from, func(frames []event) bool {
		return slices.ContainsFunc(frames, func(e event) bool { return e.isFull() && e.status() == status })
	})
}

// awaitGoal waits for a full_state behind the news that a goal has a status.
func (p *play) awaitGoal(status string) {
	p.t.Helper()
	t := p.talk()
	t.ws.until("goal "+status, t.from, func(frames []event) bool {
		at := slices.IndexFunc(frames, func(e event) bool {
			goal, _ := e["value"].(map[string]any)
			return e.isState() && e.str("key") == "goal" && goal["status"] == status
		})
		return at >= 0 && slices.ContainsFunc(frames[at:], event.isFull)
	})
}

// awaitStatus waits for a status without the event socket.
func (p *play) awaitStatus(status string) {
	p.t.Helper()
	p.house.Eventually(status, func() bool {
		var info struct {
			Status string `json:"execution_status"`
		}
		return p.house.CallAs(p.house.key, "GET", p.talk().path(), nil, &info) == 200 && info.Status == status
	})
}

// awaitEvents waits until there are so many events that are no state updates.
func (p *play) awaitEvents(n int) {
	p.t.Helper()
	p.talk().ws.until(fmt.Sprintf("e%d", n), 0, func(frames []event) bool {
		seen := 0
		for _, e := range stored(frames) {
			if !e.isState() {
				seen++
			}
		}
		return seen >= n
	})
}

// awaitFull waits until a full_state is the last frame, behind all that is in the
// log: for the end of a run that is not the end of the matter.
func (p *play) awaitFull() {
	p.t.Helper()
	t := p.talk()
	p.settled(t)
	t.ws.until("a full_state at the end", 0, func(frames []event) bool { return frames[len(frames)-1].isFull() })
}

// makeFile makes a file that a command waits for.
func (p *play) makeFile(name string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.house.dir, p.dir(), name), nil, 0o666); err != nil {
		p.t.Fatal(err)
	}
}

// awaitFile waits until a command has made a file in the working directory.
func (p *play) awaitFile(name string) {
	p.t.Helper()
	file := filepath.Join(p.house.dir, p.dir(), name)
	p.house.Eventually(file, func() bool { _, err := os.Stat(file); return err == nil })
}

func (p *play) dir() string { return "golden-" + p.name }

type obj = map[string]any

// start makes a conversation; members are those of the request that are not as
// usual, agent those of its agent.
func (p *play) start(members, agent obj) {
	p.t.Helper()
	label := "> start"
	for _, m := range []obj{agent, members} {
		if m != nil {
			label += " " + compact(m)
		}
	}
	p.begin(label, members, agent)
	p.connect()
}

// begin is start without a connection to the event socket.
func (p *play) begin(label string, members, agent obj) {
	p.t.Helper()
	body := obj{"workspace": obj{"working_dir": filepath.Join(p.house.dir, p.dir())}, "autotitle": false,
		"agent": obj{"kind": "Agent", "llm": p.llm(), "tools": []any{obj{"name": "terminal"}}}}
	maps.Copy(body, members)
	for name, value := range agent {
		if name == "llm" {
			maps.Copy(body["agent"].(obj)["llm"].(obj), value.(obj))
			continue
		}
		body["agent"].(obj)[name] = value
	}
	p.open("", newSocket(p.t))
	t := p.talk()
	// The model may be asked before the answer is there: the id is the client's.
	t.id = uuid.NewString()
	body["conversation_id"] = t.id
	t.marks = append(t.marks, mark{label: label})
	status, raw, err := p.house.call("POST", "/api/conversations", body)
	if err != nil || status != 201 {
		p.t.Fatalf("POST conversations: %d %s %v", status, raw, err)
	}
}

func (p *play) llm() obj {
	return obj{"model": "openai/test-model", "base_url": p.model.URL() + "/v1", "api_key": "sk-of-the-scenario", "num_retries": 1}
}

// open turns to another conversation.
func (p *play) open(title string, ws *socket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.talks = append(p.talks, &talk{title: title, ws: ws})
}

func (p *play) connect() {
	p.t.Helper()
	t := p.talk()
	t.ws.connect(p.house.URL + "/sockets/events/" + t.id + "?resend_mode=all&session_api_key=" + p.house.key)
}

// settled returns when the socket has shown what is in the log.
func (p *play) settled(t *talk) int {
	p.t.Helper()
	n, err := p.house.count(t.path())
	if err != nil {
		p.t.Fatal(err)
	}
	t.ws.until(fmt.Sprintf("%d events", n), 0, func(frames []event) bool { return len(stored(frames)) >= n })
	return t.ws.count()
}

// note puts a line into the trace: the client does something now.
func (p *play) note(label string) {
	p.t.Helper()
	t := p.talk()
	n := p.settled(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	t.from = n
	t.marks = append(t.marks, mark{label: label, frames: n})
}

// do notes and makes a request below the conversation, and returns the answer.
func (p *play) do(label, method, below string, body any) obj {
	p.t.Helper()
	p.note("> " + label)
	status, raw, err := p.house.call(method, p.talk().path()+below, body)
	if err != nil {
		p.t.Fatal(err)
	}
	if status >= 300 {
		p.mu.Lock()
		defer p.mu.Unlock()
		marks := p.talks[len(p.talks)-1].marks
		for i := len(marks) - 1; i >= 0; i-- {
			if marks[i].ask == nil {
				marks[i].label += fmt.Sprintf(" -> %d", status)
				break
			}
		}
		return nil
	}
	var out obj
	if err := json.Unmarshal(raw, &out); err != nil {
		p.t.Fatalf("%s: %v", raw, err)
	}
	return out
}

func message(words string, parts ...any) obj {
	return obj{"role": "user", "content": append([]any{obj{"type": "text", "text": words}}, parts...)}
}

func (p *play) say(words string) {
	p.t.Helper()
	p.show(words)
	p.do(fmt.Sprintf("say %q", words), "POST", "/events", message(words))
}

func (p *play) ask(words string, parts ...any) {
	p.t.Helper()
	p.show(words)
	m := message(words, parts...)
	m["run"] = true
	label := fmt.Sprintf("say %q", words)
	if len(parts) > 0 {
		label += " with an image"
	}
	p.do(label+" and run", "POST", "/events", m)
}

func (p *play) run()       { p.t.Helper(); p.do("run", "POST", "/run", nil) }
func (p *play) pause()     { p.t.Helper(); p.do("pause", "POST", "/pause", nil) }
func (p *play) interrupt() { p.t.Helper(); p.do("interrupt", "POST", "/interrupt", nil) }
func (p *play) condense()  { p.t.Helper(); p.do("condense", "POST", "/condense", nil) }

func (p *play) accept() {
	p.t.Helper()
	p.do("accept", "POST", "/events/respond_to_confirmation", obj{"accept": true})
}

func (p *play) reject(reason string) {
	p.t.Helper()
	body := obj{"accept": false}
	label := "reject"
	if reason != "" {
		p.show(reason)
		label, body["reason"] = fmt.Sprintf("reject %q", reason), reason
	}
	p.do(label, "POST", "/events/respond_to_confirmation", body)
}

func (p *play) goal(objective string, iterations int) {
	p.t.Helper()
	p.show(objective)
	p.do(fmt.Sprintf("goal %q, at most %d runs", objective, iterations), "POST", "/goal",
		obj{"objective": objective, "max_iterations": iterations})
}

// eventID is the id of the n-th event that is no state update.
func (p *play) eventID(n int) string {
	p.t.Helper()
	for _, e := range stored(p.talk().ws.frames()) {
		if e.isState() {
			continue
		}
		if n--; n == 0 {
			return e.str("id")
		}
	}
	p.t.Fatalf("there is no such event")
	return ""
}

// navigate goes to the n-th event, 0 is the very start.
func (p *play) navigate(n int) {
	p.t.Helper()
	if n == 0 {
		p.do("navigate to the start", "POST", "/navigate", obj{"event_id": nil})
		return
	}
	p.settled(p.talk())
	p.do(fmt.Sprintf("navigate to e%d", n), "POST", "/navigate", obj{"event_id": p.eventID(n)})
}

// fork turns to a copy of the conversation up to the n-th event, 0 is all of it.
func (p *play) fork(n int) {
	p.t.Helper()
	label, body := "fork", obj{}
	if n > 0 {
		label, body["from_event_id"] = fmt.Sprintf("fork from e%d", n), p.eventID(n)
	}
	info := p.do(label, "POST", "/fork", body)
	id, _ := info["id"].(string)
	if id == "" || info["execution_status"] != "idle" {
		p.t.Fatalf("the fork is %v", info)
	}
	p.open("the copy", newSocket(p.t))
	p.talk().id = id
	p.connect()
}

// kill ends the server like a crash and starts it again.
func (p *play) kill() {
	p.t.Helper()
	p.note("> the server is killed and started again, and the client connects again")
	p.house.Kill()
	p.house.Again()
}

// end checks what holds for every log, and returns the trace.
func (p *play) end() string {
	p.t.Helper()
	p.model.check()
	tr := &tracer{words: p.words, names: map[string]string{}}
	for _, t := range p.talks {
		p.settled(t)
		log, err := p.house.events(t.path())
		if err != nil {
			p.t.Fatal(err)
		}
		lawful(p.t, log, t.ws.frames())
		if t.title != "" {
			tr.out.WriteString("\n" + t.title + "\n\n")
		}
		tr.trace(t)
	}
	return tr.out.String()
}

func compact(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSpace(b.String())
}
