package sandboxd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

const patience = 20 * time.Second

func open(t testing.TB, c *sandboxd.Client, id string, argv ...string) tool.TerminalInfo {
	t.Helper()
	info, err := c.OpenTerminal(t.Context(), tool.TerminalRequest{ID: id, Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func typeIn(t testing.TB, c *sandboxd.Client, id, text string) {
	t.Helper()
	if err := c.WriteTerminal(t.Context(), id, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// readUntil returns the output from offset on, which must come to contain text.
func readUntil(t testing.TB, c *sandboxd.Client, id string, offset int64, text string) tool.TerminalOutput {
	t.Helper()
	out, err := c.ReadTerminal(t.Context(), id, tool.TerminalRead{Offset: offset, Wait: patience, Until: text})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out.Data), text) {
		t.Fatalf("%q is not in %.2000q", text, out.Data)
	}
	return out
}

// drain reads to the program's end.
func drain(t testing.TB, c *sandboxd.Client, id string) (data []byte, dropped int64, last tool.TerminalOutput) {
	t.Helper()
	var offset int64
	for {
		out, err := c.ReadTerminal(t.Context(), id, tool.TerminalRead{Offset: offset, Wait: patience})
		if err != nil {
			t.Fatal(err)
		}
		dropped += out.Offset - offset
		data = append(data, out.Data...)
		offset = out.Offset + int64(len(out.Data))
		if out.Exited && offset == out.End {
			return data, dropped, out
		}
	}
}

func TestTerminalIsAShellThatStays(t *testing.T) {
	s, c := serve(t, sandboxd.Options{Env: map[string]string{"PS1": "> "}, Shell: "/bin/sh"})
	info := open(t, c, "main")
	if !info.Created || info.ID != "main" || info.PID == 0 {
		t.Fatalf("%+v", info)
	}
	typeIn(t, c, "main", "cd /usr && export KEEP=kept\n")
	typeIn(t, c, "main", "echo $KEEP-$PWD-$TERM; test -t 0 && echo is-a-tty; stty size\n")
	out := readUntil(t, c, "main", 0, "24 80")
	for _, text := range []string{"kept-/usr-xterm-256color", "is-a-tty"} {
		if !strings.Contains(string(out.Data), text) {
			t.Errorf("%q is not in %q", text, out.Data)
		}
	}
	// The connection is not the terminal.
	c.Close()
	again := connect(t, s.socket)
	info = open(t, again, "main")
	if info.Created || info.End < out.End {
		t.Fatalf("%+v after %+v", info, out)
	}
	typeIn(t, again, "main", "echo still-$KEEP\n")
	readUntil(t, again, "main", info.End, "still-kept")
}

func TestTerminalWaits(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	open(t, c, "t", "cat")
	read := func(req tool.TerminalRead) tool.TerminalOutput {
		t.Helper()
		out, err := c.ReadTerminal(t.Context(), "t", req)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := read(tool.TerminalRead{}); len(out.Data) != 0 || out.Exited || out.Offset != 0 || out.End != 0 {
		t.Fatalf("%+v", out)
	}
	if out := read(tool.TerminalRead{Wait: 30 * time.Millisecond}); len(out.Data) != 0 {
		t.Fatalf("%+v", out)
	}
	typeIn(t, c, "t", "abc\n") // echoed, then repeated by cat
	readUntil(t, c, "t", 0, "abc\r\nabc\r\n")
	start := time.Now()
	out := read(tool.TerminalRead{Wait: 50 * time.Millisecond, Until: "absent"})
	if string(out.Data) != "abc\r\nabc\r\n" || time.Since(start) < 50*time.Millisecond {
		t.Fatalf("%+v after %v", out, time.Since(start))
	}
	if out := read(tool.TerminalRead{Offset: 5, Max: 3, Wait: patience}); string(out.Data) != "abc" || out.Offset != 5 || out.End != 10 {
		t.Fatalf("%+v", out)
	}
	// The end of one read lies in the middle of what the next looks for.
	if out := read(tool.TerminalRead{Offset: 7, Until: "abc\r", Wait: patience}); string(out.Data) != "c\r\n" {
		t.Fatalf("%+v", out)
	}
	_, err := c.ReadTerminal(t.Context(), "t", tool.TerminalRead{Offset: 11})
	wantFault(t, err, fault.Conflict, sandboxd.CodeOffsetAhead)
}

// A match that ends exactly at the offset is an old one.
func TestTerminalUntilIgnoresWhatWasRead(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	open(t, c, "t", "sh", "-c", "printf MARK; read x; printf MARK")
	out := readUntil(t, c, "t", 0, "MARK")
	next, err := c.ReadTerminal(t.Context(), "t", tool.TerminalRead{Offset: out.End, Until: "MARK", Wait: 20 * time.Millisecond})
	if err != nil || len(next.Data) != 0 {
		t.Fatalf("%+v %v", next, err)
	}
	typeIn(t, c, "t", "\n")
	readUntil(t, c, "t", out.End, "MARK")
}

func TestTerminalUntilAcrossPieces(t *testing.T) {
	_, c := serve(t, sandboxd.Options{TerminalBuffer: 4096})
	open(t, c, "t", "bash", "-c", `stty -echo; read -r; i=0; while [ $i -lt 3000 ]; do printf x; i=$((i+1)); done; for p in EN D-O F-T EXT; do printf $p; sleep 0.03; done; read -r`)
	typeIn(t, c, "t", "\n")
	out := readUntil(t, c, "t", 0, "END-OF-TEXT")
	if !bytes.HasSuffix(out.Data, []byte("xEND-OF-TEXT")) {
		t.Fatalf("%q", out.Data)
	}
}

func TestTerminalExit(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	tests := []struct {
		argv []string
		data string
		code int
	}{
		{[]string{"sh", "-c", "printf bye; exit 5"}, "bye", 5},
		{[]string{"sh", "-c", "kill -TERM $$"}, "", 143},
		{[]string{"true"}, "", 0},
		{[]string{"sh", "-c", "sleep 1000 & printf left-behind; exit 1"}, "left-behind", 1},
	}
	for i, test := range tests {
		id := fmt.Sprint(i)
		open(t, c, id, test.argv...)
		data, _, last := drain(t, c, id)
		if string(data) != test.data || last.Code != test.code {
			t.Errorf("%v: %q code %d", test.argv, data, last.Code)
		}
		wantFault(t, c.WriteTerminal(t.Context(), id, []byte("x")), fault.Conflict, sandboxd.CodeTerminalExited)
		wantFault(t, c.SignalTerminal(t.Context(), id, 2), fault.Conflict, sandboxd.CodeTerminalExited)
		if info := open(t, c, id, "cat"); !info.Created || info.End != 0 {
			t.Errorf("an ended terminal was not replaced: %+v", info)
		}
	}
}

func TestTerminalKeepsAllOutputOfAShortProgram(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	for i := range 20 {
		id := fmt.Sprint(i)
		open(t, c, id, "head", "-c", "500000", "/dev/zero")
		data, dropped, _ := drain(t, c, id)
		if len(data) != 500000 || dropped != 0 {
			t.Fatalf("%d bytes, %d dropped", len(data), dropped)
		}
	}
}

func TestTerminalKeepsBinaryOutput(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	want := make([]byte, 200_000)
	for i := range want {
		want[i] = byte(rand.IntN(256))
	}
	if err := c.WriteFile(t.Context(), filepath.Join(s.dir, "blob"), want, tool.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	open(t, c, "t", "sh", "-c", "stty raw; cat blob")
	got, _, _ := drain(t, c, "t")
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes came, %d went, or they differ", len(got), len(want))
	}
}

func TestTerminalDropsTheOldest(t *testing.T) {
	_, c := serve(t, sandboxd.Options{TerminalBuffer: 64 << 10})
	open(t, c, "t", "sh", "-c", "stty -opost; seq 1 100000; printf done; read x")
	total := 0
	for i := 1; i <= 100000; i++ {
		total += len(fmt.Sprintln(i))
	}
	end := int64(total + len("done"))
	eventually(t, "all output, though nobody reads", func() bool { return open(t, c, "t").End == end })
	out, err := c.ReadTerminal(t.Context(), "t", tool.TerminalRead{})
	if err != nil || out.Offset != end-64<<10 || out.End != end || len(out.Data) != 64<<10 {
		t.Fatalf("offset %d end %d of %d, %d bytes, %v", out.Offset, out.End, end, len(out.Data), err)
	}
	if !bytes.HasSuffix(out.Data, []byte("99999\n100000\ndone")) {
		t.Fatalf("%q", out.Data[len(out.Data)-100:])
	}
}

func TestTerminalHasManyReaders(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	open(t, c, "t", "sh", "-c", "stty -opost; printf ready; read x; seq 1 200000; echo 'the end'")
	eventually(t, "the terminal's settings", func() bool { return open(t, c, "t").End == int64(len("ready")) })
	var want strings.Builder
	want.WriteString("ready\n") // and the echo
	for i := 1; i <= 200000; i++ {
		fmt.Fprintln(&want, i)
	}
	want.WriteString("the end\n")
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			var got []byte
			req := tool.TerminalRead{Wait: patience, Max: 10_000 * (i + 1)}
			if i%2 == 1 {
				req.Until = "the end"
			}
			for !bytes.Contains(got, []byte("the end\n")) {
				req.Offset = int64(len(got))
				out, err := c.ReadTerminal(t.Context(), "t", req)
				if err != nil || out.Offset != req.Offset || (len(out.Data) == 0 && out.Exited) {
					t.Errorf("offset %d of %d, exited %v, %v", out.Offset, req.Offset, out.Exited, err)
					return
				}
				got = append(got, out.Data...)
			}
			if string(got) != want.String() {
				t.Errorf("reader %d got something else", i)
			}
		})
	}
	typeIn(t, c, "t", "\n")
	readers.Wait()
}

func TestTerminalSize(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	_, err := c.OpenTerminal(t.Context(), tool.TerminalRequest{ID: "t", Rows: 50, Cols: 132,
		Argv: []string{"bash", "-c", `trap 'stty size' WINCH; stty size; while :; do read -t 0.05; done`}})
	if err != nil {
		t.Fatal(err)
	}
	out := readUntil(t, c, "t", 0, "50 132")
	if err := c.ResizeTerminal(t.Context(), "t", 20, 60); err != nil {
		t.Fatal(err)
	}
	readUntil(t, c, "t", out.End, "20 60")
	wantFault(t, c.ResizeTerminal(t.Context(), "t", 0, 1), fault.Invalid, sandboxd.CodeBadRequest)
}

// The signal goes to the job in the foreground, not to the shell.
func TestTerminalSignal(t *testing.T) {
	_, c := serve(t, sandboxd.Options{Env: map[string]string{"PS1": "> "}})
	open(t, c, "t", "bash", "--norc", "--noprofile", "-i")
	typeIn(t, c, "t", "echo sta''rted; sleep 1000; echo code=$?\n")
	out := readUntil(t, c, "t", 0, "started")
	shell := open(t, c, "t").PID
	awaitSleep := func() {
		t.Helper()
		eventually(t, "sleep in the foreground", func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", shell))
			if err != nil {
				t.Fatal(err)
			}
			foreground := strings.Fields(string(stat))[7]
			name, err := os.ReadFile("/proc/" + foreground + "/comm")
			return err == nil && string(name) == "sleep\n"
		})
	}
	awaitSleep()
	if err := c.SignalTerminal(t.Context(), "t", int(unix.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	readUntil(t, c, "t", out.End, "code=143")
	typeIn(t, c, "t", "sleep 1000 || echo interr''upted; echo aga''in\n")
	awaitSleep()
	typeIn(t, c, "t", "\x03")
	typeIn(t, c, "t", "echo ali''ve\n")
	readUntil(t, c, "t", out.End, "alive")
	for _, bad := range []int{0, -1, 65} {
		wantFault(t, c.SignalTerminal(t.Context(), "t", bad), fault.Invalid, sandboxd.CodeBadRequest)
	}
}

func TestCloseTerminalKillsTheSession(t *testing.T) {
	s, c := serve(t, sandboxd.Options{Env: map[string]string{"PS1": "> "}})
	for _, exitFirst := range []bool{false, true} {
		run(t, c, "rm", "-f", "a", "b", "c")
		open(t, c, "t", "bash", "--norc", "--noprofile", "-i")
		script := "(trap '' HUP TERM; echo $BASHPID > a; exec sleep 1000) & (trap '' HUP; echo $BASHPID > b; sleep 1000 | sleep 1000) & echo $$ > c\n"
		typeIn(t, c, "t", script)
		var pids []int
		for _, file := range []string{"a", "b", "c"} {
			pids = append(pids, readPID(t, filepath.Join(s.dir, file)))
		}
		if exitFirst {
			if err := unix.Kill(pids[2], unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			drain(t, c, "t")
		}
		waiting := make(chan tool.TerminalOutput, 1)
		go func() {
			out, err := c.ReadTerminal(context.Background(), "t", tool.TerminalRead{Until: "never", Wait: patience})
			if err != nil && fault.CodeOf(err) != sandboxd.CodeTerminalNotFound {
				t.Error(err)
			}
			waiting <- out
		}()
		if err := c.CloseTerminal(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if alive(pid) {
				t.Errorf("%d lives (exit first: %v)", pid, exitFirst)
			}
		}
		<-waiting
		if err := c.CloseTerminal(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		_, err := c.ReadTerminal(t.Context(), "t", tool.TerminalRead{})
		wantFault(t, err, fault.NotFound, sandboxd.CodeTerminalNotFound)
		wantFault(t, c.WriteTerminal(t.Context(), "t", []byte("x")), fault.NotFound, sandboxd.CodeTerminalNotFound)
	}
}

func TestTerminalThatDoesNotRead(t *testing.T) {
	_, c := serve(t, sandboxd.Options{InputWait: 200 * time.Millisecond})
	open(t, c, "t", "sh", "-c", "stty raw -echo; echo ready; exec sleep 1000")
	readUntil(t, c, "t", 0, "ready")
	text := bytes.Repeat([]byte("x"), 200_000)
	err := c.WriteTerminal(t.Context(), "t", text)
	wantFault(t, err, fault.Timeout, sandboxd.CodeTerminalBusy)

	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
	if err := c.WriteTerminal(ctx, "t", text); !errors.Is(err, cause) && fault.CodeOf(err) != sandboxd.CodeTerminalBusy {
		t.Fatal(err)
	}
	wantFault(t, c.WriteTerminal(t.Context(), "t", make([]byte, sandboxd.MaxInputBytes+1)), fault.TooLarge, sandboxd.CodeTooLarge)
}

func TestTerminalTakesALongInput(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	open(t, c, "t", "sh", "-c", "stty raw -echo; echo ready; head -c 1000000 > got; echo done")
	readUntil(t, c, "t", 0, "ready")
	want := bytes.Repeat([]byte("0123456789"), 100_000)
	typeIn(t, c, "t", string(want))
	readUntil(t, c, "t", 0, "done")
	got, err := c.ReadFile(t.Context(), filepath.Join(s.dir, "got"), 0)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
}

func TestTerminalLimit(t *testing.T) {
	_, c := serve(t, sandboxd.Options{MaxTerminals: 2})
	open(t, c, "a", "true")
	drain(t, c, "a")
	open(t, c, "b", "cat")
	open(t, c, "c", "cat") // in place of a
	_, err := c.ReadTerminal(t.Context(), "a", tool.TerminalRead{})
	wantFault(t, err, fault.NotFound, sandboxd.CodeTerminalNotFound)
	_, err = c.OpenTerminal(t.Context(), tool.TerminalRequest{ID: "d", Argv: []string{"cat"}})
	wantFault(t, err, fault.TooLarge, sandboxd.CodeTerminalLimit)
	if info := open(t, c, "b", "cat"); info.Created {
		t.Fatal("started twice")
	}
}

func TestTerminalRefusals(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	for _, id := range []string{"", "a/b", "..", "ä", strings.Repeat("x", 129), "a b"} {
		_, err := c.OpenTerminal(t.Context(), tool.TerminalRequest{ID: id})
		wantFault(t, err, fault.Invalid, sandboxd.CodeBadRequest)
	}
	_, err := c.OpenTerminal(t.Context(), tool.TerminalRequest{ID: "t", Argv: []string{"no-such-program"}})
	wantFault(t, err, fault.NotFound, sandboxd.CodeProgramNotFound)
	_, err = c.OpenTerminal(t.Context(), tool.TerminalRequest{ID: "t", Dir: "/no/such"})
	wantFault(t, err, fault.NotFound, sandboxd.CodeDirNotFound)
	_, err = c.ReadTerminal(t.Context(), "t", tool.TerminalRead{Offset: -1})
	wantFault(t, err, fault.Invalid, sandboxd.CodeBadRequest)
	_, err = c.ReadTerminal(t.Context(), "t", tool.TerminalRead{Until: strings.Repeat("x", 5000)})
	wantFault(t, err, fault.Invalid, sandboxd.CodeBadRequest)
}

func TestTerminalsOpenedAtOnceAreOne(t *testing.T) {
	_, c := serve(t, sandboxd.Options{})
	var mu sync.Mutex
	created, pids := 0, map[int]bool{}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			info, err := c.OpenTerminal(t.Context(), tool.TerminalRequest{ID: "t", Argv: []string{"cat"}})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if info.Created {
				created++
			}
			pids[info.PID] = true
		})
	}
	all.Wait()
	if created != 1 || len(pids) != 1 {
		t.Fatalf("%d created, pids %v", created, pids)
	}
}

// TestHold: the program waits for a reader who asks for it, and only as long as he
// reads.
func TestHold(t *testing.T) {
	const size = 2_000_000
	s, c := serve(t, sandboxd.Options{TerminalBuffer: 64 << 10})
	open(t, c, "t", "sh", "-c", fmt.Sprintf("stty raw; head -c %d /dev/zero; printf end", size))
	read := func(offset int64) tool.TerminalOutput {
		t.Helper()
		out, err := c.ReadTerminal(t.Context(), "t", tool.TerminalRead{Offset: offset, Wait: patience, Max: 8 << 10, Hold: true})
		if err != nil {
			t.Fatal(err)
		}
		if out.Offset != offset {
			t.Fatalf("%d bytes were lost at %d", out.Offset-offset, offset)
		}
		return out
	}
	var last tool.TerminalOutput
	at := int64(0)
	for !last.Exited || at < last.End {
		last = read(at)
		at += int64(len(last.Data))
	}
	if at != size+3 || !strings.HasSuffix(string(last.Data), "end") {
		t.Errorf("%d bytes, the last are %q", at, last.Data)
	}

	open(t, c, "u", "sh", "-c", fmt.Sprintf("stty raw; head -c %d /dev/zero; printf end", size))
	if _, err := c.ReadTerminal(t.Context(), "u", tool.TerminalRead{Wait: patience, Max: 1, Hold: true}); err != nil {
		t.Fatal(err)
	}
	_, dropped, last := drain(t, c, "u") // by a reader who does not ask for it
	if last.End != size+3 || !last.Exited {
		t.Errorf("the output ends at %d, %d bytes were dropped", last.End, dropped)
	}

	open(t, c, "v", "sh", "-c", fmt.Sprintf("stty raw; head -c %d /dev/zero; echo >ended", size))
	if _, err := c.ReadTerminal(t.Context(), "v", tool.TerminalRead{Wait: patience, Max: 1, Hold: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of a program whose reader went away", func() bool {
		_, err := os.Stat(filepath.Join(s.dir, "ended"))
		return err == nil
	})
}

// TestCloseWhileHeld: a program that waits for a reader is closed at once.
func TestCloseWhileHeld(t *testing.T) {
	_, c := serve(t, sandboxd.Options{TerminalBuffer: 64 << 10})
	open(t, c, "t", "cat", "/dev/zero")
	for range 3 {
		if _, err := c.ReadTerminal(t.Context(), "t", tool.TerminalRead{Wait: patience, Max: 33 << 10, Hold: true}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := c.CloseTerminal(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("closing took %v", took)
	}
}
