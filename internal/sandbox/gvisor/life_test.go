package gvisor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
	"parley/internal/sandbox/gvisor"
	"parley/internal/sandbox/sandboxtest"
)

// patience bounds every wait.
const patience = time.Minute

// place is a data directory of one test.
type place struct {
	t      *testing.T
	dir    string
	images gvisor.Images
	b      *gvisor.Backend
}

func newPlace(t *testing.T) *place {
	needRunsc(t)
	p := &place{t: t, dir: filepath.Join(t.TempDir(), "boxes")}
	p.reopen()
	t.Cleanup(func() {
		if err := p.b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// reopen is a restart of the server.
func (p *place) reopen() {
	p.t.Helper()
	if p.b != nil {
		if err := p.b.Close(); err != nil {
			p.t.Fatalf("close: %v", err)
		}
	}
	o := options()
	o.Dir, o.Images = p.dir, p.images
	var err error
	if p.b, err = gvisor.New(context.Background(), o); err != nil {
		p.t.Fatalf("new: %v", err)
	}
}

func (p *place) create(spec sandbox.Spec) sandbox.Box {
	p.t.Helper()
	box, err := p.b.Create(context.Background(), spec)
	if err != nil {
		p.t.Fatalf("create: %v", err)
	}
	p.t.Cleanup(func() { p.destroy(box.Handle()) })
	return box
}

func (p *place) destroy(h sandbox.Handle) {
	p.t.Helper()
	if err := p.b.Destroy(context.Background(), h); err != nil {
		p.t.Errorf("destroy: %v", err)
	}
}

func (p *place) sh(box sandbox.Box, script string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := sandboxtest.Exec(ctx, box, "sh", "-c", script)
	if err != nil || out.Code != 0 || out.Err != "" {
		p.t.Fatalf("%s: %+v, %v", script, out, err)
	}
	return strings.TrimSpace(out.Text)
}

// await polls until cond holds.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// traces lists what boxes below a directory have on the host: processes, mounts,
// loop devices. Control groups have names of their own: see groups.
func traces(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"/proc/[0-9]*/cmdline", "/proc/self/mountinfo", "/sys/block/loop*/loop/backing_file"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err == nil && bytes.Contains(data, []byte(dir)) {
				found = append(found, path)
			}
		}
	}
	return found
}

// groups lists the control groups of boxes by a part of their names.
func groups(t *testing.T, part string) []string {
	t.Helper()
	out, err := exec.Command("find", "/sys/fs/cgroup", "-type", "d", "-name", part+"-*").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// TestNothingIsLeft: a box that is destroyed leaves no process, mount, loop device,
// network namespace or control group.
func TestNothingIsLeft(t *testing.T) {
	p := newPlace(t)
	id := fmt.Sprintf("leak-%d", os.Getpid())
	box := p.create(sandbox.Spec{ID: id})
	p.sh(box, "sleep 1000 >/dev/null 2>&1 &")
	if len(groups(t, id)) == 0 {
		t.Log("no control groups here")
	}
	pid, err := sentry(filepath.Join(p.dir, id))
	if err != nil {
		t.Fatal(err)
	}
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		t.Fatal(err)
	}
	if own, _ := os.Readlink("/proc/self/ns/net"); own == ns {
		t.Error("the box has the server's network namespace")
	}
	p.destroy(box.Handle())
	await(t, "nothing of the box is left", func() bool { return len(traces(t, filepath.Join(p.dir, id))) == 0 })
	if left := groups(t, id); len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
	links, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(links, func(path string) bool { at, err := os.Readlink(path); return err == nil && at == ns }) {
		t.Error("the box's network namespace is left")
	}
}

// TestMountsAreNotSeenOutside: what a box stands on is mounted for it alone.
func TestMountsAreNotSeenOutside(t *testing.T) {
	p := newPlace(t)
	p.create(sandbox.Spec{ID: "mounts"})
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), p.dir) {
		t.Errorf("mounts of a box are visible on the host")
	}
}

// TestSentryCrash: the death of gVisor's kernel is the box's, and its files are kept.
func TestSentryCrash(t *testing.T) {
	p := newPlace(t)
	box := p.create(sandbox.Spec{ID: "crash"})
	p.sh(box, "echo kept > file; sync")
	pid, err := sentry(filepath.Join(p.dir, "crash"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-box.Done():
	case <-time.After(patience):
		t.Fatal("the sentry is dead and Done is not closed")
	}
	again, err := p.b.Restart(context.Background(), box.Handle())
	if err != nil {
		t.Fatalf("restart: %v", err)
	}
	if got := p.sh(again, "cat file"); got != "kept" {
		t.Errorf("file: %q", got)
	}
}

// TestLiveSnapshot: a shell that runs has its variables, its children and its open
// files, also deleted ones, in a box made from a snapshot, twice and after a restart
// of the server.
func TestLiveSnapshot(t *testing.T) {
	p := newPlace(t)
	box := p.create(sandbox.Spec{ID: "origin"})
	p.sh(box, `mkfifo in; cat > shell <<'END'
exec 3>gone; rm gone; n=0
while :; do read line < in; eval "$line"; done
END
nohup sh shell >/dev/null 2>&1 &`)
	p.sh(box, `echo 'secret=42; echo $$ > pid' > in; while ! test -s pid; do sleep 0.01; done`)
	snap, err := p.b.Snapshot(context.Background(), box.Handle(), "snap")
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	p.sh(box, `echo 'secret=other' > in`)
	p.reopen()
	for i := range 2 {
		fork := p.create(sandbox.Spec{ID: "fork" + strconv.Itoa(i), From: &snap})
		got := p.sh(fork, `echo 'echo "$secret" $$ > answer' > in; while ! test -s answer; do sleep 0.01; done; cat answer pid`)
		lines := strings.Fields(got)
		if len(lines) != 3 || lines[0] != "42" || lines[1] != lines[2] {
			t.Errorf("fork %d: %q, want 42 from the same process", i, got)
		}
	}
	adopted, err := p.b.Adopt(context.Background(), box.Handle())
	if err != nil {
		t.Fatalf("adopt: %v", err)
	}
	if got := p.sh(adopted, `echo 'echo "$secret" > answer' > in; while ! test -s answer; do sleep 0.01; done; cat answer`); got != "other" {
		t.Errorf("the origin says %q", got)
	}
	if err := p.b.DropSnapshot(context.Background(), snap); err != nil {
		t.Errorf("drop: %v", err)
	}
}

// TestConnectionsSurviveSnapshot: a command that runs meanwhile is not disturbed.
func TestConnectionsSurviveSnapshot(t *testing.T) {
	p := newPlace(t)
	box := p.create(sandbox.Spec{ID: "undisturbed"})
	done := make(chan string, 1)
	go func() { // ends with the command
		out, err := sandboxtest.Exec(context.Background(), box, "sh", "-c", "touch begun; while ! test -e finish; do sleep 0.01; done; echo finished")
		done <- fmt.Sprint(strings.TrimSpace(out.Text), err)
	}()
	p.sh(box, "while ! test -e begun; do sleep 0.01; done")
	snap, err := p.b.Snapshot(context.Background(), box.Handle(), "snap")
	if err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	p.sh(box, "touch finish")
	if got := <-done; got != "finished<nil>" && got != "finished <nil>" {
		t.Errorf("the command: %s", got)
	}
	if err := p.b.DropSnapshot(context.Background(), snap); err != nil {
		t.Errorf("drop: %v", err)
	}
}

// TestPausesLeaveProgramsAlone: what stood still through several pauses and snapshots
// without doing anything in between goes on, and new connections hold at once.
func TestPausesLeaveProgramsAlone(t *testing.T) {
	p := newPlace(t)
	box := p.create(sandbox.Spec{ID: "pauses"})
	p.sh(box, `mkfifo in; cat > shell <<'END'
while :; do read line < in; eval "$line"; done
END
nohup sh shell >/dev/null 2>&1 &`)
	p.sh(box, `echo 'echo $$ > pid' > in; while ! test -s pid; do sleep 0.01; done`)
	for i := range 3 {
		if err := box.Pause(context.Background()); err != nil {
			t.Fatalf("pause: %v", err)
		}
		snap, err := p.b.Snapshot(context.Background(), box.Handle(), "snap"+strconv.Itoa(i))
		if err == nil {
			err = p.b.DropSnapshot(context.Background(), snap)
		}
		if err != nil {
			t.Fatalf("snapshot: %v", err)
		}
		if err := box.Resume(context.Background()); err != nil {
			t.Fatalf("resume: %v", err)
		}
	}
	for range 3 {
		p.sh(box, "true")
	}
	got := p.sh(box, `echo '(echo $$ > answer)' > in; while ! test -s answer; do sleep 0.01; done; cat pid answer`)
	if lines := strings.Fields(got); len(lines) != 2 || lines[0] != lines[1] {
		t.Errorf("%q, want twice the same process", got)
	}
}

// TestBrokenOff: a box whose server died while its tasks were stopped or started is
// what its record says, after its adoption.
func TestBrokenOff(t *testing.T) {
	p := newPlace(t)
	for _, c := range []struct {
		name           string
		paused, stands bool // in the record; in fact
	}{{"stopped for a snapshot", false, true}, {"never stopped", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			box := p.create(sandbox.Spec{ID: strings.ReplaceAll(c.name, " ", "-")})
			if c.stands {
				command(t, p.dir, box.Handle().ID, "pause")
			}
			p.note(box.Handle().ID, map[string]any{"paused": c.paused, "moving": true})
			p.reopen()
			box, err := p.b.Adopt(context.Background(), box.Handle())
			if err != nil {
				t.Fatalf("adopt: %v", err)
			}
			if c.paused {
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				if conn, err := box.Dial(ctx); err == nil {
					_ = conn.Close()
					t.Error("a paused box takes connections")
				}
				if err := box.Resume(context.Background()); err != nil {
					t.Fatalf("resume: %v", err)
				}
			}
			p.sh(box, "true")
		})
	}
}

// note changes the record of a box as a server would that dies right after.
func (p *place) note(id string, change map[string]any) {
	p.t.Helper()
	path, rec := filepath.Join(p.dir, id, "record.json"), map[string]any{}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &rec)
	}
	maps.Copy(rec, change)
	if err == nil {
		data, err = json.Marshal(rec)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// command runs runsc on a box.
func command(t *testing.T, dir, id, name string) {
	t.Helper()
	out, err := exec.Command(runsc, "--root="+filepath.Join(dir, id, "state"), name, "parley-sandbox").CombinedOutput()
	if err != nil {
		t.Fatalf("runsc %s: %v: %s", name, err, out)
	}
}

// TestFullOfProcesses: a box that may start no more processes is still reached.
func TestFullOfProcesses(t *testing.T) {
	p := newPlace(t)
	box := p.create(sandbox.Spec{ID: "full", Limits: sandbox.Limits{Processes: 60}})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := sandboxtest.Exec(ctx, box, "sh", "-c", "for i in $(seq 100); do sleep 1000 >/dev/null 2>&1 & done"); err != nil {
		t.Fatal(err)
	}
	conn, err := box.Dial(ctx)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// TestPausedTakesNoTime: a paused box uses no processor time at all.
func TestPausedTakesNoTime(t *testing.T) {
	p := newPlace(t)
	box := p.create(sandbox.Spec{ID: "paused"})
	p.sh(box, "sh -c 'while :; do :; done' >/dev/null 2>&1 &")
	if err := box.Pause(context.Background()); err != nil {
		t.Fatalf("pause: %v", err)
	}
	before, err := box.Usage(context.Background())
	if err != nil || before.CPU < 0 {
		t.Skipf("processor time is not known here: %v", err)
	}
	timer := time.NewTimer(300 * time.Millisecond)
	<-timer.C
	after, err := box.Usage(context.Background())
	if err != nil || after.CPU != before.CPU {
		t.Errorf("%v of processor time in a paused box, %v", after.CPU-before.CPU, err)
	}
}

// serverArg makes this program a server that is killed in the middle of Create.
const serverArg = "be-server"

func beServer(args []string) {
	b, err := gvisor.New(context.Background(), gvisor.Options{Dir: args[0], Runsc: args[1], Exe: args[2]})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("creating")
	_, err = b.Create(context.Background(), sandbox.Spec{ID: args[3]})
	fmt.Println("created", err)
	os.Exit(0)
}

// TestServerKilledInCreate: what a killed server was making is listed, and removed
// without a trace.
func TestServerKilledInCreate(t *testing.T) {
	p := newPlace(t)
	for i, delay := range []time.Duration{0, 30 * time.Millisecond, 120 * time.Millisecond} {
		id := fmt.Sprintf("killed-%d-%d", os.Getpid(), i)
		cmd := exec.Command("/proc/self/exe", serverArg, p.dir, runsc, daemon, id)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 64)); err != nil { // "creating"
			t.Fatal(err)
		}
		timer := time.NewTimer(delay) // wherever that is: each moment must do
		<-timer.C
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		p.reopen()
		handles, err := p.b.List(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range handles {
			p.destroy(h)
		}
		await(t, "nothing of the box is left", func() bool { return len(traces(t, filepath.Join(p.dir, id))) == 0 })
		if left := groups(t, id); len(left) > 0 {
			t.Errorf("control groups are left: %v", left)
		}
	}
}
