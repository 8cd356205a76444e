package cli_test

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"parley/internal/cli"
)

// runs answers every message with a run.
func runs(text string) []entry { return stored(simpleRun(text, "reply to "+text)...) }

// person is a terminal with somebody in front of it.
func person() cli.Terminal { return cli.Terminal{Interactive: true, OutTTY: true, ErrTTY: true} }

func callsTo(s *server, part string) []string {
	return slices.DeleteFunc(s.called(), func(call string) bool { return !strings.Contains(call, part) })
}

func TestTalking(t *testing.T) {
	s := newServer(t, stored(simpleRun("first", "answer")...)...)
	s.onMessage = runs
	c := startChat(t, s, cli.ChatOptions{}, person())
	c.out.waitFor(t, "> ", 1)
	c.typeLine("  ")
	c.typeLine("first")
	c.out.waitFor(t, "answer\n", 1)
	c.out.waitFor(t, "-- finished", 1)
	c.typeLine("second\npasted")
	c.out.waitFor(t, "reply to second\npasted\n", 1)
	c.out.waitFor(t, "-- finished", 2)
	_ = c.keys.Close()
	if exit := c.wait(); exit != cli.ExitOK || c.failure != nil {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
	if strings.Contains(c.out.String(), "> first") || strings.Contains(c.out.String(), "> second") {
		t.Errorf("what was typed is shown again:\n%s", c.out)
	}
	if !strings.Contains(c.out.String(), "come back with: parley chat --conversation "+testConv) {
		t.Errorf("not told how to come back:\n%s", c.out)
	}
}

// waiting is the log of a run that asks for permission.
func waiting() []string {
	return []string{says("user", "q"), status("running"),
		acts("file_editor", "c0", "", `{"kind":"FileEditorAction","command":"str_replace","path":"/w/a","old_str":"old\n","new_str":"new\n"}`),
		terminal("c1", "rm -rf build"), status("waiting_for_confirmation")}
}

func TestAllowing(t *testing.T) {
	s := newServer(t, stored(waiting()...)...)
	s.onConfirm = func(accept bool) []entry {
		if !accept {
			t.Error("it was rejected")
		}
		return stored(status("running"), output("c1", "removed", 0), says("agent", "done"), status("finished"))
	}
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, person())
	c.out.waitFor(t, "Allow it?", 1)
	for _, want := range []string{"$ rm -rf build", "-old", "+new"} {
		if !strings.Contains(c.out.String(), want) {
			t.Errorf("the question does not show %q:\n%s", want, c.out)
		}
	}
	c.typeLine("perhaps")
	c.out.waitFor(t, "Allow it?", 2)
	c.typeLine("y")
	c.out.waitFor(t, "-- finished", 1)
	_ = c.keys.Close()
	if exit := c.wait(); exit != cli.ExitOK {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
}

func TestRejecting(t *testing.T) {
	s := newServer(t, stored(waiting()...)...)
	s.onMessage = runs
	s.onConfirm = func(accept bool) []entry {
		if accept {
			t.Error("it was accepted")
		}
		return stored(event("UserRejectObservation", "environment", `"tool_name":"terminal","tool_call_id":"c1","rejection_reason":"not the build","rejection_source":"user","action_id":"e"`), status("idle"))
	}
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, person())
	c.out.waitFor(t, "Allow it?", 1)
	c.typeLine("n, not the build")
	c.out.waitFor(t, "rejected: terminal (not the build)\n> ", 1)
	c.typeLine("clean up")
	c.out.waitFor(t, "reply to clean up", 1)
	_ = c.keys.Close()
	c.wait()
	calls := callsTo(s, "respond_to_confirmation")
	if len(calls) != 1 || !strings.Contains(calls[0], `{"accept":false,"reason":"not the build"}`) {
		t.Errorf("calls: %v", calls)
	}
}

func TestSomebodyElseAllows(t *testing.T) {
	s := newServer(t, stored(waiting()...)...)
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, person())
	c.out.waitFor(t, "Allow it?", 1)
	s.add(stored(status("running"), output("c1", "removed", 0), status("finished"))...)
	c.out.waitFor(t, "-- finished", 1)
	_ = c.keys.Close()
	if exit := c.wait(); exit != cli.ExitOK || len(callsTo(s, "respond_to_confirmation")) != 0 {
		t.Errorf("exit %d, %v", exit, s.called())
	}
}

func TestLeavingAQuestion(t *testing.T) {
	c := startChat(t, newServer(t, stored(waiting()...)...), cli.ChatOptions{Message: "q"}, person())
	c.out.waitFor(t, "Allow it?", 1)
	_ = c.keys.Close()
	if exit := c.wait(); exit != cli.ExitConfirmation {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
}

func TestInterrupting(t *testing.T) {
	s := newServer(t, stored(says("user", "q"), status("running"), terminal("c1", "sleep 100"))...)
	s.onMessage = runs
	s.onCancel = func() []entry {
		return stored(event("AgentErrorEvent", "agent", `"tool_name":"terminal","tool_call_id":"c1","error":"interrupted"`),
			event("InterruptEvent", "user", ""), status("paused"))
	}
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, person())
	c.out.waitFor(t, "$ sleep 100", 1)
	c.interrupts <- os.Interrupt
	c.out.waitFor(t, "-- paused", 1)
	c.typeLine("go on")
	c.out.waitFor(t, "-- finished", 1)
	c.interrupts <- os.Interrupt // at the prompt
	if exit := c.wait(); exit != cli.ExitOK {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
}

func TestInterruptingAScript(t *testing.T) {
	s := newServer(t, stored(says("user", "q"), status("running"))...)
	s.onCancel = func() []entry { return stored(event("InterruptEvent", "user", ""), status("paused")) }
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, cli.Terminal{})
	c.out.waitFor(t, "> q", 1)
	c.interrupts <- os.Interrupt
	if exit := c.wait(); exit != cli.ExitInterrupted || c.failure != nil {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
}

func TestTwoInterruptsLeaveTheRunAlone(t *testing.T) {
	s := newServer(t, stored(says("user", "q"), status("running"))...)
	s.onCancel = func() []entry { return nil } // the server takes its time
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, person())
	c.out.waitFor(t, "> q", 1)
	c.interrupts <- os.Interrupt
	c.interrupts <- os.Interrupt
	if exit := c.wait(); exit != cli.ExitInterrupted || !strings.Contains(c.out.String(), "come back with") {
		t.Errorf("exit %d, %v\n%s", exit, c.failure, c.out)
	}
}

func TestFailedInterruptIsTold(t *testing.T) {
	s := newServer(t, stored(says("user", "q"), status("running"))...)
	s.override["POST /agent/sb1/api/conversations/"+testConv+"/interrupt"] = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	}
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, person())
	c.out.waitFor(t, "> q", 1)
	c.interrupts <- os.Interrupt
	c.out.waitFor(t, "could not be interrupted", 1)
	s.add(stored(status("finished"))...)
	c.out.waitFor(t, "-- finished", 1)
	_ = c.keys.Close()
	c.wait()
}

// history is a finished conversation with n runs.
func history(n int) []string {
	var log []string
	for range n {
		log = append(log, simpleRun("old question", "old answer")...)
	}
	return log
}

func TestResuming(t *testing.T) {
	s := newServer(t, stored(history(10)...)...)
	s.onMessage = runs
	c := startChat(t, s, cli.ChatOptions{Conversation: testConv, Message: "more"}, cli.Terminal{})
	if exit := c.wait(); exit != cli.ExitOK || c.failure != nil {
		t.Fatalf("exit %d, %v", exit, c.failure)
	}
	text := c.out.String()
	if n := strings.Count(text, "old answer"); n != 3 {
		t.Errorf("%d old answers are shown:\n%s", n, text)
	}
	if !strings.Contains(text, "> more\nreply to more\n-- finished") {
		t.Errorf("the new run is missing:\n%s", text)
	}
	if len(callsTo(s, "POST /api/v1/app-conversations {")) != 0 {
		t.Error("a new conversation was started")
	}
}

func TestResumingAsJSONPrintsWhatIsNew(t *testing.T) {
	s := newServer(t, stored(history(3)...)...)
	s.onMessage = runs
	out := &screen{}
	c := startChat(t, s, cli.ChatOptions{Conversation: testConv, Message: "more", JSON: true}, cli.Terminal{Out: out})
	c.wait()
	if want := strings.Join(simpleRun("more", "reply to more"), "\n") + "\n"; out.String() != want {
		t.Errorf("printed\n%s", out)
	}
}

func TestResumingWithoutAMessage(t *testing.T) {
	tests := map[string]struct {
		last string
		exit cli.Exit
	}{
		"finished": {"finished", cli.ExitOK}, "error": {"error", cli.ExitAgentError},
		"idle": {"idle", cli.ExitOK}, "waiting": {"waiting_for_confirmation", cli.ExitConfirmation},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, stored(says("user", "q"), status("running"), status(test.last))...)
			c := startChat(t, s, cli.ChatOptions{Conversation: testConv}, cli.Terminal{In: strings.NewReader("")})
			if exit := c.wait(); exit != test.exit || c.failure != nil {
				t.Errorf("exit %d, %v", exit, c.failure)
			}
		})
	}
	s := newServer(t, stored(says("user", "q"), status("running"))...)
	c := startChat(t, s, cli.ChatOptions{Conversation: testConv}, cli.Terminal{In: strings.NewReader("")})
	c.out.waitFor(t, "> q", 1)
	s.add(stored(says("agent", "late answer"), status("finished"))...)
	if exit := c.wait(); exit != cli.ExitOK || !strings.Contains(c.out.String(), "late answer") {
		t.Errorf("a running conversation is followed to its end: exit %d\n%s", exit, c.out)
	}
}

func TestResumingAnEmptyLog(t *testing.T) {
	s := newServer(t)
	s.onMessage = runs
	c := startChat(t, s, cli.ChatOptions{Conversation: testConv}, person())
	c.out.waitFor(t, "> ", 1)
	c.typeLine("hello")
	c.out.waitFor(t, "reply to hello", 1)
	_ = c.keys.Close()
	if exit := c.wait(); exit != cli.ExitOK {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
}

func TestResumingAPausedSandbox(t *testing.T) {
	s := newServer(t, stored(history(1)...)...)
	s.sandbox, s.onMessage = "PAUSED", runs
	c := startChat(t, s, cli.ChatOptions{Conversation: testConv, Message: "more"}, cli.Terminal{})
	if exit := c.wait(); exit != cli.ExitOK || !strings.Contains(c.out.String(), "reply to more") {
		t.Errorf("exit %d, %v\n%s", exit, c.failure, c.out)
	}
	if len(callsTo(s, "/sandboxes/sb1/resume")) != 1 {
		t.Errorf("calls: %v", s.called())
	}
}

// A message would run the conversation and so grant what it waits for.
func TestMessageDoesNotGrantPermission(t *testing.T) {
	s := newServer(t, stored(waiting()...)...)
	c := startChat(t, s, cli.ChatOptions{Conversation: testConv, Message: "more"}, cli.Terminal{})
	if exit := c.wait(); exit != cli.ExitConfirmation || len(callsTo(s, "send-message")) != 0 {
		t.Errorf("exit %d, calls %v", exit, s.called())
	}

	s = newServer(t, stored(waiting()...)...)
	s.onMessage = runs
	s.onConfirm = func(bool) []entry { return stored(status("running")) }
	c = startChat(t, s, cli.ChatOptions{Conversation: testConv, Message: "more"}, person())
	c.out.waitFor(t, "Allow it?", 1)
	if len(callsTo(s, "send-message")) != 0 {
		t.Error("the message was sent before the answer")
	}
	c.typeLine("yes")
	c.out.waitFor(t, "reply to more", 1)
	_ = c.keys.Close()
	if exit := c.wait(); exit != cli.ExitOK {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
}

func TestUnknownConversation(t *testing.T) {
	c := startChat(t, newServer(t), cli.ChatOptions{Conversation: "nope", Message: "q"}, cli.Terminal{})
	if exit := c.wait(); exit != cli.ExitFailure || !strings.Contains(c.failure.Error(), "no conversation nope") {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
}

// Output that arrives while the user is asked displaces the prompt.
func TestPromptReturnsAfterOutput(t *testing.T) {
	s := newServer(t, stored(simpleRun("q", "answer")...)...)
	c := startChat(t, s, cli.ChatOptions{Message: "q"}, person())
	c.out.waitFor(t, "$0.0123\n> ", 1)
	s.add(stored(simpleRun("from another client", "indeed")...)...)
	c.out.waitFor(t, "> from another client\n> ", 1)
	c.out.waitFor(t, "indeed\n> ", 1)
	_ = c.keys.Close()
	c.wait()
}

func TestOnceAsksNothing(t *testing.T) {
	s := newServer(t, stored(simpleRun("q", "answer")...)...)
	c := startChat(t, s, cli.ChatOptions{Message: "q", Once: true}, person())
	if exit := c.wait(); exit != cli.ExitOK {
		t.Errorf("exit %d, %v", exit, c.failure)
	}
}
