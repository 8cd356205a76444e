package engine_test

import (
	"slices"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
)

// commands are what the log says of the user's commands.
func (w *world) commands(id conversation.ID) (all []conversation.UserCommand) {
	w.Helper()
	for _, ev := range w.events(id) {
		if m, ok := must(conversation.Decode(ev)).(*conversation.MessageEvent); ok {
			if c, ok := conversation.UserCommandOf(m); ok {
				all = append(all, c)
			}
		}
	}
	return all
}

func (w *world) commanded(id conversation.ID, n int) []conversation.UserCommand {
	w.Helper()
	w.eventually("the commands' results", func() bool { return len(w.commands(id)) == n })
	return w.commands(id)
}

// What the user runs is in the log before it runs, and so is what came of it; the model
// reads it unless it is hidden; it starts no run and is no message of the user's.
func TestUserCommand(t *testing.T) {
	w := newWorld(t, say("hello"), say("I see"))
	id := w.begin("hi")
	w.wait(id, conversation.Finished)
	if err := w.engine.RunForUser(t.Context(), owner, id, "echo one; echo two >&2; exit 3", false); err != nil {
		t.Fatal(err)
	}
	got := w.commanded(id, 2)
	if got[0].Command != "echo one; echo two >&2; exit 3" || got[1].Answers == "" || got[1].ExitCode != 3 || got[1].Output != "one\ntwo\n" {
		t.Errorf("%+v", got)
	}
	if err := w.engine.RunForUser(t.Context(), owner, id, "echo hidden words", true); err != nil {
		t.Fatal(err)
	}
	if got := w.commanded(id, 4); !got[2].Hidden || !got[3].Hidden || got[3].ExitCode != 0 {
		t.Errorf("%+v", got)
	}
	if w.status(id) != conversation.Finished {
		t.Error("it started a run")
	}
	w.send(id, "well?")
	w.eventually("an answer", func() bool { return slices.Contains(w.trace(id), "agent: I see") })
	if read := w.model.lastRequest(); !strings.Contains(read, "echo one") || !strings.Contains(read, "exit code 3") || strings.Contains(read, "hidden words") {
		t.Errorf("the model reads %s", read)
	}
	if err := w.engine.RunForUser(t.Context(), "somebody", id, "ls", false); !fault.Is(err, fault.NotFound) {
		t.Errorf("another user's: %v", err)
	}
	if err := w.engine.RunForUser(t.Context(), owner, id, strings.Repeat("x", 1<<20), false); !fault.Is(err, fault.TooLarge) {
		t.Errorf("%v", err)
	}
}

// A command that a secret is named in gets it, and the log never shows it.
func TestUserCommandWithASecret(t *testing.T) {
	w := newWorld(t)
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV0,
		Secrets: map[string]account.CustomSecret{"TOKEN": {Value: account.NewSecret("very-secret-value")}}})
	if err := w.engine.RunForUser(t.Context(), owner, id, `echo "$TOKEN"; echo very-secret-value`, false); err != nil {
		t.Fatal(err)
	}
	if got := w.commanded(id, 2)[1].Output; strings.Count(got, "\n") != 2 || strings.TrimSpace(got) == "" {
		t.Errorf("%q", got)
	}
	if strings.Contains(w.text(id), "very-secret-value") {
		t.Error("the log shows the secret")
	}
}

// Legacy API 5.2: commands of the user's have the same environment as the agent's.
func TestUserCommandHasAllSecretsInCapitals(t *testing.T) {
	w := newWorld(t)
	for origin, want := range map[conversation.Origin]string{conversation.OriginV0: "17\n", conversation.OriginV1: "0\n"} {
		id := w.beginWith(engine.StartRequest{Owner: owner, Origin: origin,
			Secrets: map[string]account.CustomSecret{"deploy_token": {Value: account.NewSecret("very-secret-value")}}})
		if err := w.engine.RunForUser(t.Context(), owner, id, `printf '%s\n' "${#DEPLOY_TOKEN}"`, false); err != nil {
			t.Fatal(err)
		}
		if got := w.commanded(id, 2)[1].Output; got != want {
			t.Errorf("%v: %q", origin, got)
		}
	}
}

// A command that ran when the server stopped has an answer in its next life, once.
func TestUserCommandOverARestart(t *testing.T) {
	w := newWorld(t)
	id := w.begin("")
	if err := w.engine.RunForUser(t.Context(), owner, id, "sleep 60", false); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.start()
	if err := w.engine.RunForUser(t.Context(), owner, id, "true", false); err != nil { // loads it
		t.Fatal(err)
	}
	got := w.commanded(id, 4)
	if got[1].ExitCode != -1 || !strings.Contains(got[1].Output, "server was stopped") || got[2].Command != "true" || got[3].ExitCode != 0 {
		t.Errorf("%+v", got)
	}
	w.stop()
	w.start()
	w.send(id, "hi")
	w.wait(id, conversation.Finished)
	if n := len(w.commands(id)); n != 4 {
		t.Errorf("%d", n)
	}
}

// A client cannot fill a sandbox with commands: some run at a time, and more are refused
// until one has ended.
func TestUserCommandsAreBounded(t *testing.T) {
	w := newWorld(t)
	id := w.begin("")
	for range 16 {
		ok(t, w.engine.RunForUser(t.Context(), owner, id, "while ! test -e go; do sleep 0.05; done", false))
	}
	if err := w.engine.RunForUser(t.Context(), owner, id, "true", false); fault.CodeOf(err) != "too_many_commands" {
		t.Fatalf("%v", err)
	}
	other := w.begin("")
	ok(t, w.engine.RunForUser(t.Context(), owner, other, "true", false))
	w.commanded(other, 2)
	w.stop()
	w.start()
	ok(t, w.engine.RunForUser(t.Context(), owner, id, "true", false))
	w.commanded(id, 34)
}

// What came of a command is stored also in a conversation that has become full while it
// ran: nobody would know it otherwise.
func TestUserCommandInAFullConversation(t *testing.T) {
	for most := int64(3); most < 7; most++ {
		w := newWorldWith(t, func(o *engine.Options) { o.MaxLogEvents = most })
		id := w.begin("")
		for n := 1; ; n++ {
			err := w.engine.RunForUser(t.Context(), owner, id, "true", false)
			if fault.CodeOf(err) == engine.CodeFull {
				break
			}
			ok(t, err)
			w.commanded(id, 2*n)
		}
	}
}

// Who leaves a loop goes on from before it, with or without a run.
func TestLeaveLoop(t *testing.T) {
	for _, again := range []bool{false, true} {
		w := newWorld(t, append(append([]step{call("sh", `{"command":"echo first"}`)}, repeat(4, call("sh", `{"command":"echo same"}`))...), say("other"))...)
		id := w.begin("go")
		w.wait(id, conversation.Stuck)
		if err := w.engine.LeaveLoop(t.Context(), owner, id, again); err != nil {
			t.Fatal(err)
		}
		if !again {
			w.wait(id, conversation.Idle)
			w.send(id, "now")
		}
		w.wait(id, conversation.Finished)
		if read := w.model.lastRequest(); strings.Contains(read, "same") || !strings.Contains(read, "tool: first") || strings.Contains(read, "now") == again {
			t.Errorf("again=%v: the model reads %s", again, read)
		}
		if err := w.engine.LeaveLoop(t.Context(), owner, id, again); fault.CodeOf(err) != engine.CodeNoLoop {
			t.Errorf("%v", err)
		}
	}
}

// A conversation of the legacy API has its prompt before anybody says anything; the
// names of attached files are the last that the model reads of a message.
func TestLegacyOpeningAndFiles(t *testing.T) {
	w := newWorld(t, say("seen"))
	id := w.beginWith(engine.StartRequest{Owner: owner, Origin: conversation.OriginV0})
	if got := w.trace(id); !slices.Equal(got, []string{"prompt"}) {
		t.Errorf("%q", got)
	}
	err := w.engine.Send(t.Context(), owner, id, engine.Message{Parts: []content.Part{content.Text("look")}, Files: []string{"/workspace/a.txt"}, Run: true})
	if err != nil {
		t.Fatal(err)
	}
	w.wait(id, conversation.Finished)
	if read := w.model.lastRequest(); !strings.Contains(read, "- /workspace/a.txt") {
		t.Errorf("the model reads %s", read)
	}
	if got := w.trace(id); strings.Join(got, "|") != "prompt|user: look|status running|agent: seen|status finished" {
		t.Errorf("%q", got)
	}
	if sight, err := w.engine.Sight(t.Context(), owner, id); err != nil || sight != engine.Blind {
		t.Errorf("%s %v", sight, err)
	}
}
