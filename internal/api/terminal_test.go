package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// terminalClient is a client of a terminal's socket.
type terminalClient struct {
	testing.TB
	conn  *websocket.Conn
	shown bytes.Buffer
	notes []map[string]any // not looked at yet
}

func (w *world) terminalPath(id, query string) string {
	return "/api/v1/sandboxes/" + id + "/terminal?" + query
}

// terminal opens a terminal as the first user.
func (w *world) terminal(id, query string) *terminalClient {
	w.Helper()
	return w.terminalAs(userKey, id, query)
}

// terminalAs opens a terminal, with the key in the first frame as browsers do.
func (w *world) terminalAs(key, id, query string) *terminalClient {
	w.Helper()
	conn, _, err := w.dialWith(w.terminalPath(id, query), nil)
	check(w.TB, err)
	c := &terminalClient{TB: w.TB, conn: conn}
	c.say(map[string]any{"type": "auth", "session_api_key": key})
	return c
}

func (c *terminalClient) say(v any) {
	c.Helper()
	raw, err := json.Marshal(v)
	check(c.TB, err)
	check(c.TB, c.conn.Write(c.Context(), websocket.MessageText, raw))
}

func (c *terminalClient) types(text string) {
	c.Helper()
	check(c.TB, c.conn.Write(c.Context(), websocket.MessageBinary, []byte(text)))
}

// next reads a frame; the error is the socket's.
func (c *terminalClient) next() error {
	ctx, cancel := context.WithTimeout(c.Context(), 20*time.Second)
	defer cancel()
	kind, frame, err := c.conn.Read(ctx)
	if err != nil {
		return err
	}
	if kind == websocket.MessageBinary {
		c.shown.Write(frame)
		return nil
	}
	var note map[string]any
	check(c.TB, json.Unmarshal(frame, &note))
	c.notes = append(c.notes, note)
	return nil
}

// shows reads until the terminal shows a text.
func (c *terminalClient) shows(text string) {
	c.Helper()
	for !strings.Contains(c.shown.String(), text) {
		if err := c.next(); err != nil {
			c.Fatalf("%q does not come: %v\n%.2000s", text, err, c.shown.String())
		}
	}
}

// note reads until the server says something of a type.
func (c *terminalClient) note(kind string) map[string]any {
	c.Helper()
	for {
		for i, note := range c.notes {
			if note["type"] == kind {
				c.notes = c.notes[i+1:]
				return note
			}
		}
		if err := c.next(); err != nil {
			c.Fatalf("no %q comes: %v, %v\n%.2000s", kind, err, c.notes, c.shown.String())
		}
	}
}

// closes reads to the end, which must have a code and a reason.
func (c *terminalClient) closes(code websocket.StatusCode, reason string) {
	c.Helper()
	for {
		err := c.next()
		if err == nil {
			continue
		}
		var end websocket.CloseError
		if !errors.As(err, &end) || end.Code != code || end.Reason != reason {
			c.Fatalf("closed with %v, not %d %q", err, code, reason)
		}
		return
	}
}

func TestTerminalShell(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	c := w.terminal(s.ID, "rows=31&cols=99")
	c.note("ready")
	c.types("stty size; pwd -P; echo \"<$(test -t 0 && echo tty)>\"\n")
	c.shows("31 99\r\n")
	here, err := filepath.EvalSymlinks(s.WorkingDir)
	check(t, err)
	c.shows(here + "\r\n")
	c.shows("<tty>")

	c.say(map[string]any{"type": "resize", "rows": 40, "cols": 123})
	c.say(map[string]any{"type": "auth", "session_api_key": "again"}) // is ignored
	c.types("stty size\n")
	c.shows("40 123\r\n")

	c.types("PS1='next> '; sh -c 'echo be\"\"gun; exec sleep 1000'\n")
	c.shows("begun") // by who is in the foreground: before that the key would be the shell's
	c.shown.Reset()
	c.types("\x03")
	c.shows("next> ") // a shell may drop what is typed before it asks again
	c.types("echo af''ter $?\n")
	c.shows("after 130")

	c.types("exit 5\n")
	if exit := c.note("exit"); exit["exit_code"] != 5.0 {
		t.Fatalf("%v", exit)
	}
	c.closes(websocket.StatusNormalClosure, "exit")
}

func TestTerminalBeginsWhereItIsTold(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	dir := filepath.Join(s.WorkingDir, "sub")
	check(t, os.Mkdir(dir, 0o755))
	c := w.terminal(s.ID, "dir="+dir)
	c.types("basename \"$PWD\"\n")
	c.shows("sub\r\n")
	gone := w.terminal(s.ID, "dir=/no/such/directory")
	gone.types("echo \"in $PWD\"\n")
	gone.shows("in " + s.WorkingDir)
	w.call(422, "GET", w.terminalPath(s.ID, "dir=relative"), nil)
}

func TestTerminalsSideBySide(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	one, two := w.terminal(s.ID, ""), w.terminal(s.ID, "")
	one.types("NAME=first; echo \"<$NAME>\"\n")
	one.shows("<first>\r\n")
	two.types("echo \"<$NAME>\"\n")
	two.shows("<>\r\n")
	check(t, one.conn.Close(websocket.StatusNormalClosure, ""))
	two.types("echo st''ill\n")
	two.shows("still")
}

// TestTerminalLimit: the world allows three; one that was closed makes room.
func TestTerminalLimit(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	first := w.terminal(s.ID, "")
	first.note("ready")
	for range 2 {
		w.terminal(s.ID, "").note("ready")
	}
	over := w.terminal(s.ID, "")
	if e := over.note("error"); e["code"] != "too_many_terminals" || e["fatal"] != true {
		t.Fatalf("%v", e)
	}
	over.closes(4029, "too_many_terminals")
	w.terminal(w.sandbox().ID, "").note("ready") // another sandbox has its own
	check(t, first.conn.Close(websocket.StatusNormalClosure, ""))
	w.eventually("room", func() bool {
		c := w.terminal(s.ID, "")
		check(t, c.next())
		return c.notes[0]["type"] == "ready"
	})
}

func TestTerminalIsTheOwners(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.v1.AuthWait = 200 * time.Millisecond })
	s := w.sandbox()
	for name, id := range map[string]string{"another user's": s.ID, "none": "sb-nothing"} {
		key := otherKey
		if id != s.ID {
			key = userKey
		}
		c := w.terminalAs(key, id, "")
		if e := c.note("error"); e["code"] != "sandbox_missing" || e["fatal"] != true {
			t.Errorf("%s: %v", name, e)
		}
		c.closes(4004, "sandbox_missing")
	}
	for name, key := range map[string]string{"the sandbox's own key": s.SessionKey.Reveal(), "a wrong key": "nobody's", "no key": ""} {
		c := w.terminalAs(key, s.ID, "")
		c.closes(4001, "Authentication failed")
		if key == "" {
			continue
		}
		for _, opt := range []*websocket.DialOptions{{HTTPHeader: http.Header{"X-Session-Api-Key": {key}}}, nil} {
			query := ""
			if opt == nil {
				query = "session_api_key=" + key
			}
			if _, resp, err := w.dialWith(w.terminalPath(s.ID, query), opt); err == nil || resp.StatusCode != 401 {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	silent, _, err := w.dialWith(w.terminalPath(s.ID, ""), nil)
	check(t, err)
	(&terminalClient{TB: t, conn: silent}).closes(4001, "Authentication failed")
	for _, where := range []string{"header", "query"} {
		opt, query := &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + userKey}}}, ""
		if where == "query" {
			opt, query = nil, "session_api_key="+userKey
		}
		conn, _, err := w.dialWith(w.terminalPath(s.ID, query), opt)
		check(t, err)
		(&terminalClient{TB: t, conn: conn}).note("ready")
		check(t, conn.Close(websocket.StatusNormalClosure, ""))
	}
}

func TestTerminalRefusesForeignPages(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	h := http.Header{"Origin": {"https://evil.example"}, "X-Session-Api-Key": {userKey}}
	if _, resp, err := w.dialWith(w.terminalPath(s.ID, ""), &websocket.DialOptions{HTTPHeader: h}); err == nil || resp.StatusCode != 403 {
		t.Fatalf("%v", err)
	}
	w.call(426, "GET", w.terminalPath(s.ID, ""), nil)
	for _, query := range []string{"rows=0", "rows=501", "cols=1001", "cols=x", "window=-1"} {
		w.call(422, "GET", w.terminalPath(s.ID, query), nil)
	}
}

// TestTerminalOfAPausedSandbox: none begins in one; one that is open waits.
func TestTerminalOfAPausedSandbox(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	c := w.terminal(s.ID, "")
	c.note("ready")
	w.call(200, "POST", "/api/v1/sandboxes/"+s.ID+"/pause", nil)
	c.note("paused")
	c.types("echo dropped\n")
	if e := c.note("error"); e["code"] != "sandbox_paused" || e["fatal"] != nil {
		t.Fatalf("%v", e)
	}
	other := w.terminal(s.ID, "")
	if e := other.note("error"); e["code"] != "sandbox_paused" || e["fatal"] != true {
		t.Fatalf("%v", e)
	}
	other.closes(4009, "sandbox_paused")
	w.call(200, "POST", "/api/v1/sandboxes/"+s.ID+"/resume", nil)
	c.note("resumed")
	c.types("echo ag''ain\n")
	c.shows("again")
	if strings.Contains(c.shown.String(), "dropped") {
		t.Fatal("what was typed during the pause was kept")
	}
}

func TestTerminalEndsWithItsSandbox(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	c := w.terminal(s.ID, "")
	c.note("ready")
	w.call(200, "DELETE", "/api/v1/sandboxes/"+s.ID, nil)
	if e := c.note("error"); e["code"] != "sandbox_gone" || e["fatal"] != true {
		t.Fatalf("%v", e)
	}
	c.closes(websocket.StatusTryAgainLater, "sandbox_gone")
}

// TestTerminalCloseEndsAll: the shell, what runs in it, and what ignores the hang-up.
func TestTerminalCloseEndsAll(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	c := w.terminal(s.ID, "")
	c.types("(trap '' HUP TERM; exec sleep 1000) & echo \"pids $$ $! en\"d; sleep 1000\n")
	c.shows(" end\r\n")
	text := c.shown.String()
	var shell, child int
	_, err := fmt.Sscanf(text[strings.LastIndex(text, "pids "):], "pids %d %d", &shell, &child)
	check(t, err)
	check(t, c.conn.CloseNow())
	for _, pid := range []int{shell, child} {
		w.eventually("the end of "+strconv.Itoa(pid), func() bool { return syscall.Kill(pid, 0) != nil || isZombie(pid) })
	}
}

func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// TestTerminalFlood: who does not read, or does not say that it has, stops the program,
// and nothing is lost when it goes on.
func TestTerminalFlood(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	const lines = 12000 // of a KiB
	flood := fmt.Sprintf("p=$(head -c 1000 /dev/zero | tr '\\0' x); i=0; while [ $i -lt %d ]; do echo \"$p $i\"; i=$((i+1)); [ $((i%%50)) = 0 ] && echo $i > progress; done; exit\n", lines)
	progress := func() int {
		text, _ := os.ReadFile(filepath.Join(s.WorkingDir, "progress"))
		n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return n
	}
	standstill := func() int {
		last, since := 0, time.Now()
		w.eventually("a standstill", func() bool {
			if n := progress(); n > last {
				last, since = n, time.Now()
			}
			return last > 0 && time.Since(since) > 300*time.Millisecond
		})
		return last
	}
	c := w.terminal(s.ID, "window=65536")
	c.note("ready")
	c.types(flood)
	c.shows("xxx 5") // some were read; the server waits for acks
	if n := standstill(); n > 1000 {
		t.Fatalf("%d lines were written, and 64 KiB may be", n)
	}
	acked := 0
	for {
		if n := c.shown.Len() - acked; n > 16<<10 {
			c.say(map[string]any{"type": "ack", "bytes": n})
			acked += n
		}
		if err := c.next(); err != nil {
			break
		}
	}
	if text := c.shown.String(); strings.Count(text, "xxx ") < lines || !strings.Contains(text, fmt.Sprintf("xxx %d\r\n", lines-1)) {
		t.Fatalf("%d lines came", strings.Count(text, "xxx "))
	}
}

func TestTerminalWithoutReader(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	c := w.terminal(s.ID, "")
	c.note("ready")
	c.types("i=0; p=$(head -c 100000 /dev/zero | tr '\\0' x); while :; do echo $p; i=$((i+1)); echo $i > progress; done\n")
	last, since := "", time.Now()
	w.eventually("a standstill", func() bool {
		text, _ := os.ReadFile(filepath.Join(s.WorkingDir, "progress"))
		if string(text) != last {
			last, since = string(text), time.Now()
		}
		return last != "" && time.Since(since) > 500*time.Millisecond
	})
	if n, _ := strconv.Atoi(strings.TrimSpace(last)); n > 200 {
		t.Fatalf("%d x 100 kB were written and nobody read", n)
	}
	c.shows(strings.Repeat("x", 50_000)) // it is still there
}

// TestTerminalWrongFrames are told, and the terminal goes on.
func TestTerminalWrongFrames(t *testing.T) {
	w := newWorld(t)
	c := w.terminal(w.sandbox().ID, "")
	c.note("ready")
	for _, frame := range []string{"no json", `{"type":"dance"}`, `{"type":"resize","rows":0,"cols":5}`, `{"type":"resize","rows":5,"cols":100000}`,
		`{"type":"ack","bytes":-1}`, `{"type":"ack","bytes":1}`, `[]`, `{"type":"resize","rows":"x"}`} {
		check(t, c.conn.Write(t.Context(), websocket.MessageText, []byte(frame)))
		if e := c.note("error"); e["code"] != "bad_control" || e["fatal"] != nil {
			t.Errorf("%s: %v", frame, e)
		}
	}
	c.types("echo go''es on\n")
	c.shows("goes on")
	_ = c.conn.Write(t.Context(), websocket.MessageBinary, bytes.Repeat([]byte("x"), 70_000))
	var end websocket.CloseError
	for {
		if err := c.next(); err != nil {
			if !errors.As(err, &end) || end.Code != websocket.StatusMessageTooBig {
				t.Fatal(err)
			}
			return
		}
	}
}

// TestTerminalDeafProgram: what a program does not read is dropped in the end, and said.
func TestTerminalDeafProgram(t *testing.T) {
	w := newWorld(t)
	c := w.terminal(w.sandbox().ID, "")
	c.types("stty raw -echo; echo de''af; exec sleep 1000\n")
	c.shows("deaf")
	for range 40 {
		c.types(strings.Repeat("x", 60_000))
	}
	if e := c.note("error"); e["code"] != "terminal_busy" {
		t.Fatalf("%v", e)
	}
}

func TestTerminalEndsWhenTheServerStops(t *testing.T) {
	w := newWorld(t)
	c := w.terminal(w.sandbox().ID, "")
	c.note("ready")
	done := make(chan error, 1)
	go func() { done <- w.streams.Drain(context.Background()) }()
	c.closes(websocket.StatusGoingAway, "stopping")
	check(t, <-done)
}

func TestTerminalNotBuilt(t *testing.T) {
	w := newWorldWith(t, func(c *config) { c.v1.Terminals = nil })
	w.call(501, "GET", w.terminalPath(w.sandbox().ID, ""), nil)
}

func TestTerminalEndsWithItsKey(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	made := w.call(200, "POST", keysPath, map[string]any{"name": "lent"})
	lent, mine := w.terminalAs(made.text("key"), s.ID, ""), w.terminal(s.ID, "")
	lent.note("ready")
	mine.note("ready")
	w.call(200, "DELETE", keysPath+"/"+fmt.Sprint(made.at("id")), nil)
	lent.closes(4001, "The key is not valid any more")
	mine.types("echo \"<$((20+3))>\"\n")
	mine.shows("<23>\r\n")
}
