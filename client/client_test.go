package parley_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	parley "parley/client"
	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	parleytest.Cleanup()
	os.Exit(code)
}

// serve starts the real binary with a model that runs what users say after "run",
// hangs on "wait", and answers otherwise.
func serve(t *testing.T) *parleytest.Server {
	t.Helper()
	model := openaitest.New(t)
	model.Handle(func(req *openaitest.Request) openaitest.Reply {
		last := req.Messages[len(req.Messages)-1]
		said := strings.Split(strings.TrimSpace(req.LastUser()), "\n")
		verb, rest, _ := strings.Cut(said[len(said)-1], " ")
		switch {
		case last.Role == "tool":
			return openaitest.Text("It is done.")
		case verb == "run":
			return openaitest.Tool("terminal", map[string]any{"command": rest, "security_risk": "LOW"})
		case verb == "wait":
			return openaitest.Reply{Hang: true}
		}
		return openaitest.Text("You said: " + req.LastUser())
	})
	server := parleytest.Start(t, parleytest.Options{})
	server.UseModel(model.URL()+"/v1", nil)
	return server
}

// until follows a conversation to a status, and returns the stored events after the
// one numbered after.
func until(t *testing.T, c *parley.Client, id string, after int64, want parley.Status) []parley.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stored []parley.Event
	for event, err := range c.Events(ctx, id, after) {
		if err != nil {
			t.Fatalf("waiting for %s: %v", want, err)
		}
		if event.Seq == parley.LiveOnly {
			continue
		}
		stored = append(stored, event)
		if status, ok := event.Status(); ok && status == want {
			return stored
		}
	}
	t.Fatalf("the stream ended before %s", want)
	return nil
}

func last(events []parley.Event) int64 { return events[len(events)-1].Seq }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheExampleRunsAgainstARealServer(t *testing.T) {
	server := serve(t)
	t.Setenv("PARLEY_URL", server.URL)
	t.Setenv("PARLEY_API_KEY", parleytest.Key)
	read, write, err := os.Pipe()
	check(t, err)
	stdout := os.Stdout
	os.Stdout = write
	Example()
	os.Stdout = stdout
	check(t, write.Close())
	printed, err := io.ReadAll(read)
	check(t, err)
	want := "message: run echo hello\nmessage: It is done.\nstatus: finished\nconversation: true\n"
	if string(printed) != want {
		t.Errorf("printed %q, want %q", printed, want)
	}
}

func TestASessionAcrossACrashOfTheServer(t *testing.T) {
	server := serve(t)
	c := parley.New(server.URL+"/", parleytest.Key)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	conversation, err := c.Start(ctx, parley.StartRequest{Message: "hello", Title: "A session"})
	check(t, err)
	if conversation.Title != "A session" || conversation.SandboxStatus != "RUNNING" {
		t.Errorf("%+v", conversation)
	}
	id := conversation.ID
	all := until(t, c, id, parley.FromStart, parley.Finished)

	check(t, c.ConfirmEverything(ctx, id, true))
	check(t, c.Send(ctx, id, "run echo first"))
	all = append(all, until(t, c, id, last(all), parley.WaitingForConfirmation)...)
	check(t, c.Confirm(ctx, id, false, "not this one"))
	all = append(all, until(t, c, id, last(all), parley.Idle)...)
	if !slices.ContainsFunc(all, func(e parley.Event) bool { return strings.Contains(string(e.Data), "not this one") }) {
		t.Error("the reason of the rejection is not in the log")
	}
	check(t, c.ConfirmEverything(ctx, id, false))

	check(t, c.Send(ctx, id, "wait"))
	all = append(all, until(t, c, id, last(all), parley.Running)...)
	check(t, c.Interrupt(ctx, id))
	all = append(all, until(t, c, id, last(all), parley.Paused)...)

	// One stream, over the death of the server it is connected to.
	check(t, c.Send(ctx, id, "wait"))
	crashed := false
	for event, err := range c.Events(ctx, id, last(all)) {
		check(t, err)
		if !crashed {
			crashed = true
			server.Kill()
			server.Again()
			check(t, c.Interrupt(ctx, id)) // the run went on
		}
		if event.Seq != parley.LiveOnly {
			all = append(all, event)
		}
		if status, _ := event.Status(); status == parley.Paused {
			check(t, c.Send(ctx, id, "you are back"))
		}
		if status, _ := event.Status(); status == parley.Finished {
			break
		}
	}
	for i, event := range all {
		if event.Seq != int64(i) {
			t.Fatalf("event %d has the number %d: one is missing or double", i, event.Seq)
		}
	}
	again := until(t, c, id, parley.FromStart, parley.Finished)
	if again[0].Seq != 0 || string(again[0].Data) != string(all[0].Data) {
		t.Error("the log reads otherwise a second time")
	}
	check(t, c.Delete(ctx, id))
	if _, err := c.Conversation(ctx, id); !parley.IsNotFound(err) {
		t.Errorf("after deletion: %v", err)
	}
	for event, err := range c.Events(ctx, id, parley.FromStart) {
		if !parley.IsNotFound(err) {
			t.Errorf("the stream of a conversation that is gone: %v %v", event, err)
		}
	}
}

func TestFilesGoInAndOut(t *testing.T) {
	server := serve(t)
	c := parley.New(server.URL, parleytest.Key)
	conversation, err := c.Start(t.Context(), parley.StartRequest{})
	check(t, err)
	const name = "/workspace/project/deep/a file.txt"
	err = c.WriteFile(t.Context(), conversation.ID, name, []byte("some\x00bytes\n"))
	check(t, err)
	got, err := c.ReadFile(t.Context(), conversation.ID, name)
	check(t, err)
	if string(got) != "some\x00bytes\n" {
		t.Errorf("%q came back", got)
	}
	if _, err := c.ReadFile(t.Context(), conversation.ID, "/workspace/project/none"); !parley.IsNotFound(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestTheServersWordReachesTheCaller(t *testing.T) {
	server := serve(t)
	_, err := parley.New(server.URL, "wrong").Conversation(t.Context(), "x")
	var refused *parley.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
		t.Errorf("a wrong key: %v", err)
	}
	_, err = parley.New(server.URL, parleytest.Key).Start(t.Context(), parley.StartRequest{SandboxID: "none"})
	if err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("an unknown sandbox: %v", err)
	}
	if _, err := parley.New("http://127.0.0.1:1", "").Conversation(t.Context(), "x"); err == nil || parley.IsNotFound(err) {
		t.Errorf("no server: %v", err)
	}
}
