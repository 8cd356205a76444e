package local_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/local"
	"parley/internal/sandbox/sandboxtest"
)

// withDisks returns a backend whose boxes have disk images, or skips where this
// machine has none.
func withDisks(t testing.TB) *local.Backend {
	t.Helper()
	b := newBackend(t)
	if slices.Contains(b.Caps().Limits, sandbox.LimitDisk) {
		return b
	}
	if strings.Contains(","+os.Getenv("PARLEY_TEST_REQUIRE")+",", ",diskimage,") && os.Geteuid() == 0 {
		t.Fatalf("no disk images: %+v", b.Caps().Guarantees)
	}
	_ = b.Close()
	t.Skip("no disk images: they need root, loop devices and mkfs.ext4")
	return nil
}

// loops counts the loop devices of boxes that the tests make.
func loops(t testing.TB) int {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(data), shared) {
			n++
		}
	}
	return n
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not so after 20 s", what)
		}
	}
}

// TestFillersHarmNobodyElse: a full disk and too many files are the box's own
// trouble.
func TestFillersHarmNobodyElse(t *testing.T) {
	b := withDisks(t)
	filler := create(t, b, sandbox.Spec{ID: "filler", Limits: sandbox.Limits{DiskBytes: 64 << 20, Inodes: 3000}})
	neighbour := create(t, withDisks(t), sandbox.Spec{ID: "neighbour"})
	before := hostFree(t)
	for _, script := range []string{
		"head -c 200000000 /dev/zero > big", "head -c 200000000 /dev/zero > /usr/big", "head -c 200000000 /dev/zero > $HOME/big",
		"mkdir many; i=0; while [ $i -lt 8000 ]; do : > many/$i || exit 1; i=$((i+1)); done",
	} {
		out := run(t, filler, script)
		if out.Code == 0 || !strings.Contains(out.Text, "No space left") {
			t.Errorf("%s: %+v", script, out)
		}
		u, err := filler.Usage(context.Background())
		if err != nil || !u.DiskFull || u.DiskBytes > 64<<20 || u.Inodes < 30 {
			t.Errorf("%s: usage %+v, %v", script, u, err)
		}
		sh(t, neighbour, "head -c 5000000 /dev/zero > file && sync file && rm file")
		sh(t, filler, "rm -rf big /usr/big $HOME/big many")
	}
	if taken := before - hostFree(t); taken > 512<<20 {
		t.Errorf("the host's disk lost %d MiB", taken>>20)
	}
}

func hostFree(t *testing.T) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(shared, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

// TestNoDeviceIsLeft: when a box is gone so is its loop device, whether it is
// destroyed, killed, or never came up.
func TestNoDeviceIsLeft(t *testing.T) {
	b := withDisks(t)
	defer func() { _ = b.Close() }()
	ctx := context.Background()
	for i := range 3 {
		box, err := b.Create(ctx, sandbox.Spec{ID: fmt.Sprint("gone", i)})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Destroy(ctx, box.Handle()); err != nil {
			t.Fatal(err)
		}
	}
	late, cancel := context.WithTimeout(ctx, 8*time.Millisecond) // somewhere in the middle
	defer cancel()
	if box, err := b.Create(late, sandbox.Spec{ID: "late"}); err == nil {
		_ = b.Destroy(ctx, box.Handle())
	}
	await(t, "no loop device is left", func() bool { return loops(t) == 0 })
}

// TestSnapshotsWithoutDisks: boxes in directories, as ordinary users have them and
// former servers made them, are copied, too, and go on as what they are.
func TestSnapshotsWithoutDisks(t *testing.T) {
	ctx := context.Background()
	plain, err := local.New(local.WithoutDisks(options(t)))
	if err != nil {
		t.Fatal(err)
	}
	box := create(t, plain, sandbox.Spec{ID: "plain"})
	sh(t, box, `echo one > file; ln file twin; rm -rf /usr/share/doc; mkdir /usr/local/mine; echo home > $HOME/h; mkdir closed; chmod 0 closed`)
	snap, err := plain.Snapshot(ctx, box.Handle(), "plain-copy")
	if err != nil {
		t.Fatal(err)
	}
	b := newBackend(t) // which makes new boxes on images, where it can
	t.Cleanup(func() { _ = b.DropSnapshot(ctx, snap); _ = b.Close() })
	again, err := b.Adopt(ctx, box.Handle())
	if err != nil {
		t.Fatalf("adopt of a box in directories: %v", err)
	}
	sh(t, again, "cat file")
	fork, err := b.Create(ctx, sandbox.Spec{ID: "plain-fork", From: &snap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Destroy(ctx, fork.Handle()) })
	const show = "cat file $HOME/h; test -e /usr/share/doc || echo none; test -d /usr/local/mine && stat -c '%h %a' twin closed"
	if got := sh(t, fork, show); got != "one\nhome\nnone\n2 644\n2 0" {
		t.Errorf("fork: %q", got)
	}
	sh(t, fork, "echo more >> file")
	if got := sh(t, box, "cat file"); got != "one" {
		t.Errorf("source: %q", got)
	}
	await(t, "the files are measured", func() bool {
		u, err := fork.Usage(ctx)
		return err == nil && u.DiskBytes > 0 && u.Inodes > 0
	})
}

// oldRecord is what a former version of the server wrote about a box.
const oldRecord = `{"backend":"local","spec":{"ID":"old","Image":"","WorkingDir":"/workspace/project","Env":null,"Mounts":null,` +
	`"Limits":{"MemoryBytes":0,"Processes":0,"OpenFiles":0},"Network":""}}`

// TestBoxOfAFormerServer starts a box that a server made which knew no images.
func TestBoxOfAFormerServer(t *testing.T) {
	o := options(t)
	dir := filepath.Join(o.Dir, "old")
	plain, err := local.New(local.WithoutDisks(o))
	if err != nil {
		t.Fatal(err)
	}
	box, err := plain.Create(context.Background(), sandbox.Spec{ID: "old"})
	if err != nil {
		t.Fatal(err)
	}
	sh(t, box, "echo kept > file")
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/spec.json", []byte(oldRecord), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBackend(t)
	defer func() { _ = b.Close() }()
	adopted, err := b.Adopt(context.Background(), box.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, adopted, "cat file"); got != "kept" {
		t.Errorf("%q", got)
	}
	if err := b.Destroy(context.Background(), box.Handle()); err != nil {
		t.Fatal(err)
	}
}

// TestMountedDirectoryIsNotInSnapshots: what belongs to the host stays there.
func TestMountedDirectoryIsNotInSnapshots(t *testing.T) {
	b := newBackend(t)
	project := t.TempDir()
	box, err := b.Create(context.Background(), sandbox.Spec{ID: "mounted", Mounts: []sandbox.Mount{{Source: project, Target: sandbox.WorkingDir}}})
	if fault.Is(err, fault.Unsupported) {
		_ = b.Close()
		t.Skip("directories of the host cannot be mounted here")
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	t.Cleanup(func() { _ = b.Destroy(ctx, box.Handle()); _ = b.Close() })
	sh(t, box, "echo theirs > file; echo home > $HOME/h")
	snap, err := b.Snapshot(ctx, box.Handle(), "mounted-copy")
	if err != nil {
		t.Fatal(err)
	}
	fork, err := b.Create(ctx, sandbox.Spec{ID: "mounted-fork", From: &snap})
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, fork, "ls; cat $HOME/h"); got != "home" {
		t.Errorf("fork: %q", got)
	}
	if err := errors.Join(b.Destroy(ctx, fork.Handle()), b.DropSnapshot(ctx, snap)); err != nil {
		t.Error(err)
	}
}

// copierArg makes this test binary a server that makes snapshots and boxes from
// them until it is killed.
const copierArg = "be-a-copier"

func beCopier(dir string) error {
	b, err := local.New(local.Options{Dir: dir, InitArgs: []string{initArg}, Path: os.Getenv("PATH")})
	if err != nil {
		return err
	}
	ctx := context.Background()
	box, err := b.Create(ctx, sandbox.Spec{ID: "copied"})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for i := 0; ; i++ {
		snap, err := b.Snapshot(ctx, box.Handle(), fmt.Sprint("copy", i))
		if err != nil {
			return err
		}
		fork, err := b.Create(ctx, sandbox.Spec{ID: fmt.Sprint("fork", i), From: &snap})
		if err != nil {
			return err
		}
		if err := errors.Join(b.Destroy(ctx, fork.Handle()), b.DropSnapshot(ctx, snap)); err != nil {
			return err
		}
	}
}

// TestKilledWhileCopying kills servers at many points of copying; the next one
// finds the box at work and can remove the rest.
func TestKilledWhileCopying(t *testing.T) {
	dir := filepath.Join(shared, "killed")
	for i := range 8 {
		killCopier(t, dir, time.Duration(5+17*i)*time.Millisecond)
		b, err := local.New(local.Options{Dir: dir, InitArgs: []string{initArg}, Path: os.Getenv("PATH")})
		if err != nil {
			t.Fatal(err)
		}
		sweepCopies(t, b, dir)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "no loop device is left", func() bool { return loops(t) == 0 })
}

func killCopier(t *testing.T, dir string, after time.Duration) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", copierArg, dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, rerr := bufio.NewReader(out).ReadString('\n')
	<-time.After(after) // wherever that is: every point must be safe
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
	if line != "ready\n" {
		t.Fatalf("the server said %q, %v", line, rerr)
	}
}

func sweepCopies(t *testing.T, b *local.Backend, dir string) {
	t.Helper()
	ctx := context.Background()
	handles, err := b.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range handles {
		if h.ID == "copied" {
			box, err := b.Adopt(ctx, h)
			if err != nil {
				t.Fatalf("adopt: %v", err)
			}
			sh(t, box, "echo works > file; sync file")
		}
		if err := b.Destroy(ctx, h); err != nil {
			t.Errorf("destroy %s: %v", h.ID, err)
		}
	}
	snaps, err := b.Snapshots(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range snaps {
		if err := b.DropSnapshot(ctx, s); err != nil {
			t.Errorf("drop %s: %v", s.ID, err)
		}
	}
	left, err := os.ReadDir(filepath.Join(dir, ".snapshots"))
	if len(left) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v, %v", left, err)
	}
	boxes, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range boxes {
		if !strings.HasPrefix(e.Name(), ".") {
			t.Errorf("left: %s", e.Name())
		}
	}
}

// TestRestartKeepsTheDisk kills the first process in the middle of writing and
// starts the box again, several times: one image is never attached twice.
func TestRestartKeepsTheDisk(t *testing.T) {
	b := withDisks(t)
	box := create(t, b, sandbox.Spec{ID: "again"})
	for i := range 5 {
		sh(t, box, fmt.Sprintf("echo %d >> lives; sync lives; nohup sh -c 'while :; do echo x >> noise; done' >/dev/null 2>&1 &", i))
		killFirstProcess(t, "again")
		<-box.Done()
		next, err := b.Restart(context.Background(), box.Handle())
		if err != nil {
			t.Fatalf("restart %d: %v", i, err)
		}
		box = next
		if got := sh(t, box, "wc -l < lives"); got != fmt.Sprint(i+1) {
			t.Errorf("life %d: %q lines", i, got)
		}
	}
}

func killFirstProcess(t *testing.T, id string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(shared, "boxes", id, "state.json"))
	if err != nil {
		t.Fatal(err)
	}
	var st struct {
		Process struct {
			PID int `json:"pid"`
		} `json:"process"`
	}
	if err := json.Unmarshal(data, &st); err != nil || st.Process.PID <= 1 {
		t.Fatalf("%s: %v", data, err)
	}
	if err := unix.Kill(st.Process.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkDiskCost starts boxes with and without disk images in turn.
func BenchmarkDiskCost(b *testing.B) {
	with := withDisks(b)
	defer func() { _ = with.Close() }()
	o := options(b)
	o.Dir = filepath.Join(b.TempDir(), "plain")
	without, err := local.New(local.WithoutDisks(o))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = without.Close() }()
	times := map[*local.Backend][2][]time.Duration{}
	once := func(backend *local.Backend, id string) {
		start := time.Now()
		box, err := backend.Create(context.Background(), sandbox.Spec{ID: id})
		if err != nil {
			b.Fatal(err)
		}
		created := time.Now()
		if err := backend.Destroy(context.Background(), box.Handle()); err != nil {
			b.Fatal(err)
		}
		t := times[backend]
		times[backend] = [2][]time.Duration{append(t[0], created.Sub(start)), append(t[1], time.Since(created))}
	}
	once(with, "warm-up")
	once(without, "warm-up")
	clear(times)
	for i := 0; b.Loop(); i++ {
		once(with, fmt.Sprint("w", i))
		once(without, fmt.Sprint("o", i))
	}
	report(b, "image-create", times[with][0])
	report(b, "plain-create", times[without][0])
	report(b, "image-destroy", times[with][1])
	report(b, "plain-destroy", times[without][1])
}

// fork measures a snapshot, and a box that is made from it.
func fork(b *testing.B, script string) {
	backend := newBackend(b)
	ctx := context.Background()
	box, err := backend.Create(ctx, sandbox.Spec{ID: "source"})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = backend.Destroy(ctx, box.Handle()); _ = backend.Close() }()
	if out, err := sandboxtest.Exec(ctx, box, "sh", "-c", script); err != nil || out.Code != 0 {
		b.Fatal(out, err)
	}
	var copies, forks []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		snap, err := backend.Snapshot(ctx, box.Handle(), fmt.Sprint("s", i))
		if err != nil {
			b.Fatal(err)
		}
		copied := time.Now()
		f, err := backend.Create(ctx, sandbox.Spec{ID: fmt.Sprint("f", i), From: &snap})
		if err != nil {
			b.Fatal(err)
		}
		copies, forks = append(copies, copied.Sub(start)), append(forks, time.Since(start))
		if err := errors.Join(backend.Destroy(ctx, f.Handle()), backend.DropSnapshot(ctx, snap)); err != nil {
			b.Fatal(err)
		}
	}
	report(b, "snapshot", copies)
	report(b, "snapshot+box", forks)
}

func BenchmarkFork50k(b *testing.B) {
	fork(b, `for d in $(seq 50); do mkdir d$d; (cd d$d; seq -f f%.0f 1000 | xargs touch; for f in *; do echo $d > $f; done); done; sync`)
}

func BenchmarkSnapshotSmall(b *testing.B) { fork(b, "echo small > file; sync") }
