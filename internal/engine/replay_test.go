package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/llm"
	"parley/internal/store"
)

// recording makes items: "user: x" and "agent: x" are said, "wait: x" is the agent's
// question, anything else is a command.
func recording(lines ...string) engine.StartRequest {
	req := engine.StartRequest{Owner: owner, Origin: conversation.OriginV0, InitialMessage: []content.Part{content.Text("first")}}
	for i, line := range lines {
		who, text, _ := strings.Cut(line, ": ")
		item := conversation.ReplayItem{Source: conversation.SourceAgent, Parts: []content.Part{content.Text(text)}}
		switch who {
		case "user":
			item.Source = conversation.SourceUser
		case "user runs":
			item.Source, item.Parts = conversation.SourceUser, nil
			item.Call = &content.ToolCall{Name: "terminal", Arguments: fmt.Sprintf("{%q:%q}", "command", text)}
		case "agent":
		case "wait":
			item.Waits = true
		case "finish":
			item.Parts, item.Call = nil, &content.ToolCall{ID: fmt.Sprint("replay_", i), Name: "finish", Arguments: `{"message":"f"}`}
		default:
			item.Parts, item.Call = nil, &content.ToolCall{ID: fmt.Sprint("replay_", i), Name: "sh", Arguments: fmt.Sprintf("{%q:%q}", "command", line)}
		}
		req.Replay = append(req.Replay, item)
	}
	return req
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) wantTrace(id conversation.ID, want ...string) {
	w.Helper()
	if got := w.trace(id); !slices.Equal(got, want) {
		w.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The trace of the legacy API (16): a command really runs, messages keep their source,
// no model is asked and nothing is paid; a later message wakes the model.
func TestReplay(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) { o.AutoTitle = true }, say("hello"))
	id := w.beginWith(recording("echo out", "agent: seen", "user: go on", "finish: "))
	w.wait(id, conversation.Finished)
	w.wantTrace(id, "prompt", "user: first", "status running", "action sh replay_0", "observation replay_0", "agent: seen",
		"user: go on", "action finish replay_3", "observation replay_3", "status finished")
	if w.model.calls() != 0 || !strings.Contains(w.text(id), `"text":"out\n"`) {
		t.Errorf("%d calls of the model", w.model.calls())
	}
	if own, _, err := w.store.Ledger().Conversation(w.Context(), id); err != nil || len(own) > 0 {
		t.Errorf("%v %v", own, err)
	}
	w.send(id, "and now?")
	w.wait(id, conversation.Finished)
	if got := w.trace(id); got[len(got)-2] != "agent: hello" || !strings.Contains(w.model.lastRequest(), "seen") {
		t.Errorf("%q", got)
	}
}

// Only the last item decides whether the agent waits: what came before goes on, and
// where nothing waits the model does (16).
func TestReplayGoesOnNormally(t *testing.T) {
	w := newWorld(t, say("mine"))
	id := w.beginWith(recording("wait: really?", "user: yes", "agent: well"))
	w.wait(id, conversation.Finished)
	w.wantTrace(id, "prompt", "user: first", "status running", "agent: really?", "user: yes", "agent: well", "agent: mine", "status finished")

	id = w.beginWith(recording("finish: ", "wait: bye"))
	w.wait(id, conversation.Finished)
	w.wantTrace(id, "prompt", "user: first", "status running", "action finish replay_0", "observation replay_0", "agent: bye", "status finished")
}

// A command that the user ran is the user's again, and really runs.
func TestReplayOfTheUsersCommand(t *testing.T) {
	w := newWorld(t)
	id := w.beginWith(recording("user runs: echo $((40+2))", "wait: bye"))
	w.wait(id, conversation.Finished)
	w.wantTrace(id, "prompt", "user: first", "status running", "environment: The user ran this command in the sandbox, without you:\n$ echo $((40+2))",
		"environment: The command that the user ran gave:\n42\n\n[exit code 0]", "agent: bye", "status finished")
}

// A restart in the middle goes on where the log is: nothing happens twice, and what was
// under way has an unknown outcome.
func TestReplayGoesOnAfterARestart(t *testing.T) {
	w := newWorld(t)
	id := w.beginWith(recording("echo 1", "sleep 30", "echo 3", "wait: bye"))
	w.eventually("the second call", func() bool { return slices.Contains(w.trace(id), "action sh replay_1") })
	w.stop()
	w.start()
	w.wait(id, conversation.Finished)
	w.wantTrace(id, "prompt", "user: first", "status running", "action sh replay_0", "observation replay_0", "action sh replay_1",
		"agent error replay_1", "action sh replay_2", "observation replay_2", "agent: bye", "status finished")
	if w.model.calls() != 0 {
		t.Error("the model was asked")
	}
}

// A kill between any two events of a replay loses nothing and doubles nothing: whatever
// part of the log there is, the rest follows.
func TestReplayGoesOnFromAnyPartOfItsLog(t *testing.T) {
	w := newWorld(t)
	req := recording("echo 1", "agent: a", "user: b", "finish: ", "user: c", "wait: d")
	whole := w.beginWith(req)
	w.wait(whole, conversation.Finished)
	log := w.events(whole)
	for cut := 3; cut < len(log); cut++ { // from the state running on
		id := conversation.NewID()
		conv := must(w.store.Conversations().Get(w.Context(), owner, whole))
		conv.ID, conv.Replay = id, req.Replay
		conv.Summary = conversation.Summary{Status: conversation.Running}
		part := renamed(t, log[:cut], whole, id)
		if err := w.store.Conversations().Fork(w.Context(), conv, part); err != nil {
			t.Fatal(err)
		}
		w.stop()
		w.start()
		w.wait(id, conversation.Finished)
		var said []string
		for _, line := range w.trace(id) {
			if !strings.Contains(line, "observation") && !strings.Contains(line, "agent error") {
				said = append(said, line)
			}
		}
		want := []string{"prompt", "user: first", "status running", "action sh replay_0", "agent: a", "user: b",
			"action finish replay_3", "user: c", "agent: d", "status finished"}
		if !slices.Equal(said, want) {
			t.Errorf("cut at %d: %q", cut, said)
		}
	}
}

// renamed gives the events of a replay the ids that they have in another conversation.
func renamed(t *testing.T, events []conversation.Event, from, to conversation.ID) []conversation.Event {
	t.Helper()
	var out []conversation.Event
	for _, ev := range events {
		raw := string(ev.Raw)
		for i := range 10 {
			raw = strings.ReplaceAll(raw, conversation.ReplayEventID(from, i), conversation.ReplayEventID(to, i))
		}
		raw = strings.ReplaceAll(raw, conversation.InitialMessageID(from), conversation.InitialMessageID(to))
		ev.Raw = []byte(raw)
		h := conversation.HeaderOf(must(conversation.Decode(ev)))
		ev.ID = h.ID
		out = append(out, ev)
	}
	return out
}

// Calls that repeat each other are faithful, not stuck (10.5), also when the model
// takes over right behind them.
func TestReplayIsNotStuck(t *testing.T) {
	w := newWorld(t, say("mine"))
	id := w.beginWith(recording(slices.Repeat([]string{"echo same"}, 8)...))
	w.wait(id, conversation.Finished)
	if got := w.trace(id); got[len(got)-2] != "agent: mine" {
		t.Errorf("%q", got)
	}
}

// Steps count (max_iterations); a message goes on with the next item.
func TestReplayCountsSteps(t *testing.T) {
	w := newWorld(t)
	w.settings(func(s *account.Settings) { s.MaxIterations = ptr(2) })
	id := w.beginWith(recording("echo 1", "echo 2", "echo 3", "wait: bye"))
	w.wait(id, conversation.Error)
	w.send(id, "on")
	w.wait(id, conversation.Finished)
	w.wantTrace(id, "prompt", "user: first", "status running", "action sh replay_0", "observation replay_0", "action sh replay_1", "observation replay_1",
		"error MaxIterationsReached", "status error", "user: on", "status running", "action sh replay_2", "observation replay_2", "agent: bye", "status finished")
}

// Calls wait for the user as any others; what is rejected does not run.
func TestReplayAsks(t *testing.T) {
	w := newWorld(t)
	req := recording("echo 1", "echo 2", "wait: bye")
	req.Confirmation = &conversation.ConfirmationPolicy{Kind: conversation.AlwaysConfirm}
	id := w.beginWith(req)
	w.wait(id, conversation.WaitingConfirmation)
	ok(t, w.engine.Confirm(t.Context(), owner, id, true, ""))
	w.eventually("the second question", func() bool {
		return slices.Contains(w.trace(id), "action sh replay_1") && w.status(id) == conversation.WaitingConfirmation
	})
	ok(t, w.engine.Confirm(t.Context(), owner, id, false, "no"))
	ok(t, w.engine.Run(t.Context(), owner, id))
	w.wait(id, conversation.Finished)
	w.wantTrace(id, "prompt", "user: first", "status running", "action sh replay_0", "status waiting_for_confirmation", "status running", "observation replay_0",
		"action sh replay_1", "status waiting_for_confirmation", "rejected replay_1", "status idle", "status running", "agent: bye", "status finished")
}

// A command that the recording says a user ran was typed by nobody here: where calls
// wait for the user, it does as well.
func TestReplayAsksForTheUsersCommands(t *testing.T) {
	w := newWorld(t)
	req := recording("user runs: echo unasked", "wait: bye")
	req.Replay[0].Call.Name, req.Replay[0].Call.ID = "sh", "replay_0"
	req.Confirmation = &conversation.ConfirmationPolicy{Kind: conversation.AlwaysConfirm}
	id := w.beginWith(req)
	w.eventually("an answer", func() bool { return w.status(id) != conversation.Running && w.status(id) != conversation.Idle })
	w.wantTrace(id, "prompt", "user: first", "status running", "action sh replay_0", "status waiting_for_confirmation")
	ok(t, w.engine.Confirm(t.Context(), owner, id, true, ""))
	w.wait(id, conversation.Finished)
	w.wantTrace(id, "prompt", "user: first", "status running", "action sh replay_0", "status waiting_for_confirmation", "status running",
		"observation replay_0", "agent: bye", "status finished")
}

// An interrupt ends the call; the next run goes on behind it.
func TestReplayIsInterrupted(t *testing.T) {
	w := newWorld(t)
	id := w.beginWith(recording("sleep 30", "wait: bye"))
	w.eventually("the call", func() bool { return slices.Contains(w.trace(id), "action sh replay_0") })
	ok(t, w.engine.Interrupt(t.Context(), owner, id))
	w.wait(id, conversation.Paused)
	ok(t, w.engine.Run(t.Context(), owner, id))
	w.wait(id, conversation.Finished)
	if got := w.trace(id); got[len(got)-2] != "agent: bye" || w.model.calls() != 0 {
		t.Errorf("%q", got)
	}
}

// Who goes back to an earlier event leaves the recording for good; so does a fork.
func TestReplayEndsWhereTheUserGoesBack(t *testing.T) {
	w := newWorld(t, say("mine"), say("mine too"))
	id := w.beginWith(recording("echo 1", "wait: bye"))
	w.wait(id, conversation.Finished)
	first := w.events(id)[1].ID
	ok(t, w.engine.Navigate(t.Context(), owner, id, first))
	w.send(id, "otherwise")
	w.wait(id, conversation.Finished)
	if got := w.trace(id); got[len(got)-2] != "agent: mine" {
		t.Errorf("%q", got)
	}
	fork := must(w.engine.Fork(t.Context(), owner, id, engine.ForkRequest{FromEvent: first}))
	w.send(fork.ID, "elsewhere")
	w.wait(fork.ID, conversation.Finished)
	if got := w.trace(fork.ID); got[len(got)-2] != "agent: mine too" {
		t.Errorf("%q", got)
	}
}

// A call that cannot be made here is answered with an error, and the replay goes on.
func TestReplayOfAnUnknownTool(t *testing.T) {
	w := newWorld(t)
	req := recording("echo 1", "wait: bye")
	req.Replay[0].Call.Name = "no_such_tool"
	id := w.beginWith(req)
	w.wait(id, conversation.Finished)
	w.wantTrace(id, "prompt", "user: first", "status running", "action no_such_tool replay_0", "agent error replay_0", "agent: bye", "status finished")
}

// A ceiling stops the run only when the model is to be asked: what is repeated is free.
func TestReplayUnderACeiling(t *testing.T) {
	w := newWorld(t, func(context.Context, *llm.Request) (*llm.Response, error) { panic("asked") })
	w.settings(func(s *account.Settings) { s.MaxBudgetPerTask = ptr(0.000000001) })
	id := w.beginWith(recording("echo 1"))
	w.wait(id, conversation.Error)
	if got := w.trace(id); !slices.Contains(got, "observation replay_0") || !slices.Contains(got, "error MaxBudgetReached") {
		t.Errorf("%q", got)
	}
	if _, tree, err := w.store.Ledger().Conversation(t.Context(), id); err != nil || tree != (store.Spending{}) {
		t.Errorf("%+v %v", tree, err)
	}
}
