package storetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

const crashLogs = 6

// AppendForever is the body of a process that gets killed: it appends to
// several logs at once and writes a line "log seq" to out for every append that
// the store acknowledged. It returns only on an error.
func AppendForever(ctx context.Context, s store.Store, out io.Writer) error {
	failed := make(chan error, crashLogs)
	var mu sync.Mutex
	for i := range crashLogs {
		go func() {
			failed <- appendTo(ctx, s, crashLog(i), func(seq int64) error {
				mu.Lock()
				defer mu.Unlock()
				_, err := fmt.Fprintf(out, "%d %d\n", i, seq)
				return err
			})
		}()
	}
	return <-failed
}

func crashLog(i int) conversation.ID { return conversation.ID(fmt.Sprint("log-", i)) }

func appendTo(ctx context.Context, s store.Store, id conversation.ID, acknowledge func(seq int64) error) error {
	err := s.Conversations().Create(ctx, &conversation.Conversation{ID: id})
	if err != nil && fault.CodeOf(err) != store.CodeExists {
		return err
	}
	c, err := s.Conversations().Get(ctx, "", id)
	if err != nil {
		return err
	}
	for head := c.Summary.Head; ; head += 2 {
		now := time.Now()
		pair := []conversation.Event{plain(fmt.Sprint(head), "A", "s", now), plain(fmt.Sprint(head+1), "A", "s", now)}
		err := s.Events().Append(ctx, store.Append{Conversation: id, ExpectHead: head, Events: pair, Now: now})
		if err != nil {
			return err
		}
		if err := acknowledge(head + 1); err != nil {
			return err
		}
	}
}

// KillAndCheck kills a process that runs AppendForever on the store of a
// directory, several times in a row, and looks after each kill whether
// everything it acknowledged is there. child makes the command; its standard
// output is the acknowledgements.
func KillAndCheck(t *testing.T, child func() *exec.Cmd, open func() store.Store) {
	killRounds(t, child, open, func(s store.Store, acknowledged map[int]int64) {
		checkSurvivors(t, s, acknowledged)
	})
}

func killRounds(t *testing.T, child func() *exec.Cmd, open func() store.Store, check func(store.Store, map[int]int64)) {
	for round := range 4 {
		acknowledged := runAndKill(t, child(), 150*(round+1))
		s := open()
		check(s, acknowledged)
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// runAndKill returns the last number that was acknowledged of each log.
func runAndKill(t *testing.T, cmd *exec.Cmd, after int) map[int]int64 {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[int]int64{}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ { // also what was in the pipe when the process died
		var log int
		var seq int64
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &log, &seq); err != nil {
			continue // a line cut by the kill
		}
		acknowledged[log] = seq
		if n == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	if len(acknowledged) == 0 {
		t.Fatal("the process acknowledged nothing")
	}
	return acknowledged
}

func checkSurvivors(t *testing.T, s store.Store, acknowledged map[int]int64) {
	t.Helper()
	for log, seq := range acknowledged {
		events, err := s.Events().Read(t.Context(), crashLog(log), -1, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(events)) <= seq || len(events)%2 != 0 {
			t.Errorf("log %d: seq %d was acknowledged, %d events are there", log, seq, len(events))
		}
		for i, e := range events {
			if e.Seq != int64(i) || e.ID != fmt.Sprint(i) {
				t.Fatalf("log %d: event %d is %q with seq %d", log, i, e.ID, e.Seq)
			}
		}
		c, err := s.Conversations().Get(t.Context(), "", crashLog(log))
		if err != nil || c.Summary.Head != int64(len(events)) {
			t.Errorf("log %d: head %d, %d events (%v)", log, c.Summary.Head, len(events), err)
		}
	}
}
