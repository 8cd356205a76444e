package browser_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/local"
	"parley/internal/sandboxd"
	"parley/internal/tool"
	"parley/internal/tool/browser"
)

// initArg makes this test binary the first process of a box.
const initArg = "sandbox-init"

const ordinaryUser = 64739

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == initArg {
		local.Init(os.Args[2:], func(ctx context.Context, lis net.Listener, in hostbox.Inside) error {
			return sandboxd.Serve(ctx, lis, sandboxd.Options{WorkingDir: in.WorkingDir, Env: in.Env, PID1: true})
		})
	}
	goleak.VerifyTestMain(m)
}

// TestLocalSandbox is the whole way: a box with a file system, processes and a network
// of its own, and a browser in it that looks at a server in it.
func TestLocalSandbox(t *testing.T) {
	needChromium(t)
	dir := os.Getenv("BROWSER_TEST_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	b, err := local.New(local.Options{Dir: filepath.Join(dir, "boxes"), InitArgs: []string{initArg}, Path: os.Getenv("PATH")})
	if err != nil {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	defer func() { _ = b.Close() }()
	box, err := b.Create(t.Context(), sandbox.Spec{ID: "browsing", Network: sandbox.Network{Mode: sandbox.NetworkNone}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Destroy(context.Background(), box.Handle()); err != nil {
			t.Error(err)
		}
	}()
	client := sandboxd.NewClient(box.Dial)
	defer client.Close()
	write := func(name, text string) {
		if err := client.WriteFile(t.Context(), name, []byte(text), tool.WriteOptions{Parents: true}); err != nil {
			t.Fatal(err)
		}
	}
	write(sandbox.WorkingDir+"/site/index.html", `<title>Inside</title><a href="data.bin" download>Take it</a><button onclick="document.title='Pressed'">Press</button>`)
	write(sandbox.WorkingDir+"/site/data.bin", "some bytes")
	_, err = client.OpenTerminal(t.Context(), tool.TerminalRequest{ID: "server", Rows: 24, Cols: 80,
		Argv: []string{"python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", sandbox.WorkingDir + "/site", "8123"}})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := client.ReadTerminal(t.Context(), "server", tool.TerminalRead{Until: "Serving", Wait: 20e9}); err != nil || out.Exited {
		t.Skipf("no Python in the sandbox: %s %v", out.Data, err)
	}
	browsers := browser.New(browser.Times{})
	defer browsers.Close()
	env := &tool.Env{ConversationID: "local", WorkingDir: sandbox.WorkingDir, Hands: client}
	bench := inBox(t, browsers, env)
	bench.has(bench.ok("navigate", args{"url": "localhost:8123"}), "Inside")
	bench.has(bench.click("Press"), "Pressed")
	bench.hears(bench.click("Take it"), "The download is complete")
	if data, err := client.ReadFile(t.Context(), sandbox.WorkingDir+"/downloads/data.bin", 0); err != nil || string(data) != "some bytes" {
		t.Errorf("downloaded %q, %v", data, err)
	}
	bench.has(bench.ok("navigate", args{"url": sandbox.WorkingDir + "/site/index.html"}), "Inside", "file:///")
	var shot struct {
		Data string `json:"screenshot_data"`
	}
	bench.OK(bench.tools["get_state"], args{"include_screenshot": true}, &shot)
	if len(shot.Data) < 1000 {
		t.Errorf("the screenshot has %d bytes", len(shot.Data))
	}
}

// TestLocalSandboxAsOrdinaryUser does the same without any right.
func TestLocalSandboxAsOrdinaryUser(t *testing.T) {
	needChromium(t)
	if os.Geteuid() != 0 {
		t.Skip("this test runs as an ordinary user already")
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, ordinaryUser, ordinaryUser); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "test")
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, data, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestLocalSandbox$", "-test.v", "-test.timeout=5m")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir, "BROWSER_TEST_DIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinaryUser, Gid: ordinaryUser}}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(fmt.Errorf("as an ordinary user: %w", err))
	}
}
