package process_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/process"
	"parley/internal/sandbox/sandboxtest"
)

const (
	initArg = "sandbox-init" // makes this test binary the first process of a box
	runArg  = "-test.run=^TestConformance$"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == initArg {
		process.Init(os.Args[2:], serve)
	}
	goleak.VerifyTestMain(m)
}

func serve(ctx context.Context, lis net.Listener, in hostbox.Inside) error {
	var env []string
	for name, value := range in.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return sandboxtest.Serve(ctx, lis, env)
}

func options(dir string) process.Options {
	return process.Options{Dir: dir, InitArgs: []string{initArg}, Env: append(os.Environ(), "AWS_SECRET_ACCESS_KEY=swordfish")}
}

func newBackend(t *testing.T, dir string) *process.Backend {
	t.Helper()
	b, err := process.New(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConformance(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "boxes")
	sandboxtest.Run(t, func(t *testing.T) sandbox.Backend { return newBackend(t, dir) }, sandboxtest.Options{
		Remove: func(ctx context.Context, box sandbox.Box) error {
			if err := sandboxtest.Crash(ctx, box); err != nil {
				return err
			}
			return os.RemoveAll(filepath.Join(dir, box.Handle().ID))
		}})
}

// TestConformanceWithoutGroups runs the suite as a user who may not use control
// groups: pause and kill then work by signals.
func TestConformanceWithoutGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: the suite has run without control groups already")
	}
	const user = 64739
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, user, user); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "test")
	if err := os.WriteFile(exe, data, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, runArg, "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestSaysThatNothingIsIsolated(t *testing.T) {
	b := newBackend(t, filepath.Join(t.TempDir(), "boxes"))
	defer func() { _ = b.Close() }()
	caps := b.Caps()
	if caps.Isolated {
		t.Error("the backend claims to isolate")
	}
	i := slices.IndexFunc(caps.Guarantees, func(g sandbox.Guarantee) bool { return g.Name == "isolation" })
	if i < 0 || caps.Guarantees[i].Holds || caps.Guarantees[i].Detail == "" {
		t.Errorf("guarantees %+v", caps.Guarantees)
	}
	_, err := b.Create(context.Background(), sandbox.Spec{ID: "a", Network: sandbox.Network{Mode: sandbox.NetworkNone}})
	if !fault.Is(err, fault.Unsupported) {
		t.Errorf("network none: %v, want Unsupported", err)
	}
}

func TestWorkingDirMount(t *testing.T) {
	b := newBackend(t, filepath.Join(t.TempDir(), "boxes"))
	defer func() { _ = b.Close() }()
	project := t.TempDir()
	box, err := b.Create(context.Background(), sandbox.Spec{ID: "a",
		Mounts: []sandbox.Mount{{Source: project, Target: sandbox.WorkingDir}}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := sandboxtest.Exec(context.Background(), box, "sh", "-c", "pwd -P; echo x > made; env")
	if err != nil {
		t.Fatal(err)
	}
	if dir := box.(interface{ WorkingDir() string }).WorkingDir(); dir != project || !strings.HasPrefix(out.Text, project+"\n") {
		t.Errorf("working directory %q, inside: %s", dir, out.Text)
	}
	if strings.Contains(out.Text, "swordfish") {
		t.Error("a secret of the server's environment is visible")
	}
	if err := b.Destroy(context.Background(), box.Handle()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(project, "made")); err != nil {
		t.Errorf("the project was removed with the box: %v", err)
	}
}

// TestLeavesNoProcess starts programs that detach themselves, kills the first
// process behind the backend's back, and looks that Destroy still finds them.
func TestLeavesNoProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "boxes")
	b := newBackend(t, dir)
	defer func() { _ = b.Close() }()
	ctx := context.Background()
	box, err := b.Create(ctx, sandbox.Spec{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	script := "setsid nohup sleep 3600 >/dev/null 2>&1 & (setsid sleep 3601 >/dev/null 2>&1 &) ; echo ok"
	if out, err := sandboxtest.Exec(ctx, box, "sh", "-c", script); err != nil || out.Code != 0 {
		t.Fatalf("%+v %v", out, err)
	}
	if err := sandboxtest.Crash(ctx, box); err != nil {
		t.Fatal(err)
	}
	<-box.Done()
	if err := b.Destroy(ctx, box.Handle()); err != nil {
		t.Fatal(err)
	}
	if left := withEnv(t, filepath.Join(dir, "a")); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// TestLeavesOtherBackendsAlone has a box of another backend in its directory, as
// after a change of the configuration.
func TestLeavesOtherBackendsAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "boxes")
	b := newBackend(t, dir)
	defer func() { _ = b.Close() }()
	other := filepath.Join(dir, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "spec.json"), []byte(`{"backend":"local","spec":{"ID":"other"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if handles, err := b.List(context.Background()); err != nil || len(handles) != 0 {
		t.Errorf("list: %v, %v", handles, err)
	}
	if err := b.Destroy(context.Background(), sandbox.Handle{Backend: b.Name(), ID: "other", Version: 1}); err != nil {
		t.Errorf("destroy: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("the other backend's box: %v", err)
	}
	if _, err := b.Create(context.Background(), sandbox.Spec{ID: "other"}); !fault.Is(err, fault.Conflict) {
		t.Errorf("create: %v, want Conflict", err)
	}
}

// withEnv lists live processes whose environment names the box.
func withEnv(t *testing.T, label string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, path := range paths {
		env, _ := os.ReadFile(path + "/environ")
		if strings.Contains(string(env), label) {
			cmdline, _ := os.ReadFile(path + "/cmdline")
			left = append(left, fmt.Sprintf("%s %q", path, cmdline))
		}
	}
	return left
}
