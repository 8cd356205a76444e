package bash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"parley/internal/bash"
	"parley/internal/fault"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/tool"
	"parley/internal/tool/tooltest"
	"parley/internal/vault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const box = "sb-1"

type rig struct {
	testing.TB
	store *sqlstore.Store
	box   *tooltest.Box
	s     *bash.Service
	opt   bash.Options
}

func newRig(t testing.TB, change func(*bash.Options)) *rig {
	t.Helper()
	r := &rig{TB: t, box: tooltest.New(t)}
	dir := t.TempDir()
	keys, err := vault.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if r.store, err = sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "x.db"), Sealer: keys}); err != nil {
		t.Fatal(err)
	}
	r.opt = bash.Options{Store: r.store.Commands(), Pause: 5 * time.Millisecond,
		Hands: func(context.Context, string, string) (tool.Hands, error) { return r.box.Env.Hands, nil }}
	if change != nil {
		change(&r.opt)
	}
	r.open()
	t.Cleanup(func() {
		r.s.Close()
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) open() {
	r.Helper()
	var err error
	if r.s, err = bash.New(r.Context(), r.opt); err != nil {
		r.Fatal(err)
	}
}

// event is either kind.
type event struct {
	Kind      string
	ID        string
	Timestamp string
	Command   *string
	Cwd       *string
	Timeout   int
	CommandID string `json:"command_id"`
	Order     int
	ExitCode  *int `json:"exit_code"`
	Stdout    *string
	Stderr    *string
}

func decode(t testing.TB, raw []byte) (e event) {
	t.Helper()
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return e
}

func (r *rig) start(command string) event {
	r.Helper()
	raw, err := r.s.Start(r.Context(), "u", box, bash.Request{Command: command})
	if err != nil {
		r.Fatal(err)
	}
	return decode(r, raw)
}

func (r *rig) execute(req bash.Request) event {
	r.Helper()
	raw, err := r.s.Execute(r.Context(), "u", box, req)
	if err != nil {
		r.Fatal(err)
	}
	return decode(r, raw)
}

func (r *rig) outputs(command string) (all []event) {
	r.Helper()
	next := ""
	for {
		found, n, err := r.s.Search(r.Context(), store.CommandQuery{SandboxID: box, CommandID: command, First: next})
		if err != nil {
			r.Fatal(err)
		}
		for _, e := range found {
			all = append(all, decode(r, e.Raw))
		}
		if next = n; next == "" {
			return all
		}
	}
}

func (r *rig) eventually(what string, ok func() bool) {
	r.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("waited in vain for %s", what)
		}
	}
}

// finished waits for a command's end and checks what holds for every command: outputs
// are numbered from 0, and the last one, and no other, has an exit code.
func (r *rig) finished(command string) (stdout, stderr string, code int) {
	r.Helper()
	var all []event
	r.eventually("the last output", func() bool {
		all = r.outputs(command)
		return len(all) > 0 && all[len(all)-1].ExitCode != nil
	})
	for i, e := range all {
		if e.Order != i || e.CommandID != command || e.Kind != "BashOutput" || len(e.ID) != 32 || (e.ExitCode != nil) != (i == len(all)-1) {
			r.Errorf("output %d: %+v", i, e)
		}
		stdout, stderr = stdout+text(e.Stdout), stderr+text(e.Stderr)
	}
	return stdout, stderr, *all[len(all)-1].ExitCode
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestCommandsAndTheirOutput(t *testing.T) {
	r := newRig(t, nil)
	c := r.start("echo out; echo err >&2; exit 3")
	if c.Kind != "BashCommand" || len(c.ID) != 32 || c.Timeout != 300 || c.Cwd != nil || *c.Command != "echo out; echo err >&2; exit 3" || !strings.HasSuffix(c.Timestamp, "Z") {
		t.Errorf("%+v", c)
	}
	if out, errs, code := r.finished(c.ID); out != "out\n" || errs != "err\n" || code != 3 {
		t.Errorf("%q %q %d", out, errs, code)
	}
	if e := r.execute(bash.Request{Command: "printf '\\377a\\303'"}); text(e.Stdout) != "\ufffda\ufffd" || e.Stderr != nil || *e.ExitCode != 0 || e.Order != 0 {
		t.Errorf("%+v", e)
	}
	if e := r.execute(bash.Request{Command: "echo $AI_AGENT.$SESSION_API_KEY; pwd"}); text(e.Stdout) != "openhands.\n"+r.box.Dir+"\n" {
		t.Errorf("%q", text(e.Stdout))
	}
	dir := "/"
	if e := r.execute(bash.Request{Command: "pwd", Cwd: &dir}); text(e.Stdout) != "/\n" {
		t.Errorf("%q", text(e.Stdout))
	}
	dir = "/no/such/directory"
	if e := r.execute(bash.Request{Command: "pwd", Cwd: &dir}); *e.ExitCode != -1 || !strings.Contains(text(e.Stderr), "/no/such/directory") {
		t.Errorf("%+v", e)
	}
	if e := r.execute(bash.Request{Command: "cd /; X=1; exit"}); *e.ExitCode != 0 || e.Stdout != nil {
		t.Errorf("%+v", e)
	}
	if e := r.execute(bash.Request{Command: "echo \"$X\"; pwd"}); text(e.Stdout) != "\n"+r.box.Dir+"\n" {
		t.Errorf("a command sees what another left: %q", text(e.Stdout))
	}
}

func TestTimeOut(t *testing.T) {
	r := newRig(t, nil)
	e := r.execute(bash.Request{Command: "echo before; sleep 60", Timeout: 1})
	if *e.ExitCode != -1 || text(e.Stdout) != "before\n" {
		t.Errorf("%+v", e)
	}
}

func TestOutputIsShownWhileTheCommandRuns(t *testing.T) {
	r := newRig(t, nil)
	c := r.start("echo first; until [ -e gate ]; do sleep 0.01; done; echo second")
	r.eventually("the first line", func() bool {
		all := r.outputs(c.ID)
		return len(all) == 1 && text(all[0].Stdout) == "first\n" && all[0].ExitCode == nil
	})
	r.execute(bash.Request{Command: "touch gate"})
	if out, _, code := r.finished(c.ID); out != "first\nsecond\n" || code != 0 {
		t.Errorf("%q %d", out, code)
	}
}

// TestLargeOutputComesInPieces: no piece is over the bound, no character is parted,
// and nothing is lost. A client that waits for the end gets one piece if it fits.
func TestLargeOutputComesInPieces(t *testing.T) {
	r := newRig(t, nil)
	const lines = 300_000
	script := fmt.Sprintf("i=0; yes '\u00e4\u20ac\U0001f600' | head -n %d", lines)
	c := r.start(script)
	out, _, code := r.finished(c.ID)
	if want := strings.Repeat("\u00e4\u20ac\U0001f600\n", lines); out != want || code != 0 {
		t.Errorf("%d bytes, want %d, code %d", len(out), len(want), code)
	}
	e := r.execute(bash.Request{Command: script})
	if e.Order < 2 || text(e.Stdout) == "" {
		t.Errorf("order %d", e.Order)
	}
	for _, e := range r.outputs(e.CommandID) {
		if n := utf8.RuneCountInString(text(e.Stdout)); n > 1_048_576 || strings.Contains(text(e.Stdout), "\ufffd") {
			t.Errorf("a piece of %d characters", n)
		}
	}
	if e := r.execute(bash.Request{Command: "for i in 1 2 3 4 5 6; do echo $i; sleep 0.02; done"}); text(e.Stdout) != "1\n2\n3\n4\n5\n6\n" || e.Order != 0 {
		t.Errorf("the only piece of a command that is waited for: %+v", e)
	}
}

func TestEventsAreBounded(t *testing.T) {
	r := newRig(t, func(o *bash.Options) { o.Events, o.Bytes = 40, 1<<20 })
	for range 60 {
		r.execute(bash.Request{Command: "true"})
	}
	found, _, err := r.s.Search(t.Context(), store.CommandQuery{SandboxID: box})
	if err != nil || len(found) < 40 || len(found) > 50 {
		t.Errorf("%d events are kept, %v", len(found), err)
	}
	c := r.start("head -c 5000000 /dev/zero | tr '\\0' x")
	r.eventually("its end", func() bool { return !r.s.Busy(box) })
	total := 0
	if found, _, err = r.s.Search(t.Context(), store.CommandQuery{SandboxID: box}); err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		total += len(e.Raw)
	}
	if last := decode(t, found[len(found)-1].Raw); total > 3<<20 || last.CommandID != c.ID || last.ExitCode == nil {
		t.Errorf("%d bytes are kept, the last is %.200s", total, found[len(found)-1].Raw)
	}
}

func TestStoppedServersAnswer(t *testing.T) {
	r := newRig(t, nil)
	c := r.start("echo alive; sleep 60")
	r.eventually("output", func() bool { return len(r.outputs(c.ID)) > 0 })
	r.s.Close()
	if out, errs, code := r.finished(c.ID); out != "alive\n" || !strings.Contains(errs, "server was stopped") || code != -1 {
		t.Errorf("stopped: %q %q %d", out, errs, code)
	}
	if _, err := r.s.Start(t.Context(), "u", box, bash.Request{Command: "true"}); fault.CodeOf(err) != "draining" {
		t.Errorf("%v", err)
	}
	// What a killed server leaves.
	for _, e := range []store.CommandEvent{
		{SandboxID: box, ID: "killed", Kind: bash.KindCommand, Piece: -1, Open: true, Time: time.Now(), Raw: []byte(`{}`)},
		{SandboxID: box, ID: "piece", CommandID: "killed", Kind: bash.KindOutput, Piece: 0, Time: time.Now(),
			Raw: []byte(`{"kind":"BashOutput","id":"0123456789abcdef0123456789abcdef","command_id":"killed","order":0,"stdout":"so far\n"}`)},
	} {
		if _, err := r.store.Commands().Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second start has nothing to answer
		r.open()
		if out, errs, code := r.finished("killed"); out != "so far\n" || !strings.Contains(errs, "server was stopped") || code != -1 {
			t.Errorf("killed: %q %q %d", out, errs, code)
		}
		r.s.Close()
	}
}

func TestDeletedSandboxesLeaveNothing(t *testing.T) {
	r := newRig(t, nil)
	c := r.start("echo x; sleep 0.3; echo y")
	r.eventually("output", func() bool { return len(r.outputs(c.ID)) > 0 })
	if err := r.s.Forget(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	r.eventually("its end", func() bool { return !r.s.Busy(box) })
	r.s.Close()
	if found, _, err := r.s.Search(t.Context(), store.CommandQuery{SandboxID: box}); err != nil || len(found) != 0 {
		t.Errorf("%d events are left, %v", len(found), err)
	}
}

func TestTooManyCommands(t *testing.T) {
	r := newRig(t, nil)
	for range 32 {
		r.start("sleep 60")
	}
	_, err := r.s.Start(t.Context(), "u", box, bash.Request{Command: "true"})
	if !fault.Is(err, fault.RateLimited) {
		t.Errorf("%v", err)
	}
	if !r.s.Busy(box) || r.s.Busy("other") {
		t.Error("who is busy?")
	}
}

func TestWhoLeavesDoesNotEndTheCommand(t *testing.T) {
	r := newRig(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := r.s.Execute(ctx, "u", box, bash.Request{Command: "until [ -e gate ]; do sleep 0.01; done; echo end"})
		failed <- err
	}()
	r.eventually("the command", func() bool { return r.s.Busy(box) })
	leave()
	if err := <-failed; err == nil {
		t.Error("no error for who left")
	}
	r.execute(bash.Request{Command: "touch gate"})
	r.eventually("its end", func() bool { return !r.s.Busy(box) })
	found, _, err := r.s.Search(t.Context(), store.CommandQuery{SandboxID: box, Kind: bash.KindCommand})
	if err != nil {
		t.Fatal(err)
	}
	if out, _, code := r.finished(decode(t, found[0].Raw).ID); out != "end\n" || code != 0 {
		t.Errorf("%q %d", out, code)
	}
}

func TestFollowersSeeEverythingOnce(t *testing.T) {
	r := newRig(t, nil)
	old := r.start("echo old")
	r.finished(old.ID)
	all, err := r.s.Follow(t.Context(), box, true)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	fresh, err := r.s.Follow(t.Context(), box, false)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	c := r.start("echo new")
	r.finished(c.ID)
	for name, test := range map[string]struct {
		f     *bash.Follower
		first string
	}{"all": {all, old.ID}, "from now on": {fresh, c.ID}} {
		seen := map[string]bool{}
		var first, last event
		for last.ExitCode == nil || last.CommandID != c.ID {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			item, err := test.f.Next(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range item.Events {
				last = decode(t, e.Raw)
				if first.ID == "" {
					first = last
				}
				if seen[last.ID] {
					t.Errorf("%s: %s comes twice", name, last.ID)
				}
				seen[last.ID] = true
			}
		}
		if first.ID != test.first {
			t.Errorf("%s: begins with %+v", name, first)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fresh.Next(ctx); err == nil {
		t.Error("Next outlives its context")
	}
}
