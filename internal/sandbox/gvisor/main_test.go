package gvisor_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"parley/internal/netpolicy"
	"parley/internal/sandbox"
	"parley/internal/sandbox/gvisor"
	"parley/internal/sandbox/sandboxtest"
	"parley/internal/sandbox/usernet"
)

// Found by TestMain.
var (
	shared string // the data directory of all tests
	runsc  string // "" = none
	daemon string // the static program of boxes
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == serverArg {
		beServer(os.Args[2:])
	}
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(shared); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

func setUp() error {
	var err error
	if shared, err = os.MkdirTemp("", "gvisor-test-"); err != nil {
		return err
	}
	if runsc = os.Getenv("PARLEY_TEST_RUNSC"); runsc == "" {
		if runsc, err = exec.LookPath("runsc"); err != nil {
			runsc = ""
		}
	}
	return nil
}

// build builds the daemon of boxes, once.
var build = sync.OnceValue(func() error {
	daemon = filepath.Join(shared, "boxd")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", daemon, "./testdata/boxd")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the daemon: %w\n%s", err, out)
	}
	return nil
})

// needRunsc skips where there is no runsc, unless the run demands it.
func needRunsc(t testing.TB) {
	t.Helper()
	missing := ""
	switch {
	case os.Geteuid() != 0:
		missing = "the backend needs root"
	case runsc == "":
		missing = "no runsc: set PARLEY_TEST_RUNSC or put it on PATH"
	}
	if missing == "" {
		if err := build(); err != nil {
			t.Fatal(err)
		}
		return
	}
	if slices.Contains(strings.Split(os.Getenv("PARLEY_TEST_REQUIRE"), ","), "gvisor") {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// network is what a server connects boxes to.
func network(_ context.Context, tap int, _ string, n sandbox.Network) (io.Closer, error) {
	defer func() { _ = unix.Close(tap) }() // the stack has its own
	policy, err := netpolicy.Compile(n)
	if err != nil {
		return nil, err
	}
	return usernet.Start(tap, usernet.Config{Policy: policy, Ethernet: true})
}

func options() gvisor.Options {
	return gvisor.Options{Dir: filepath.Join(shared, "boxes"), Runsc: runsc, Exe: daemon, Path: os.Getenv("PATH"), Network: network}
}

func open(t testing.TB) *gvisor.Backend { return openWith(t, options()) }

func openWith(t testing.TB, o gvisor.Options) *gvisor.Backend {
	t.Helper()
	b, err := gvisor.New(context.Background(), o)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	return b
}

func TestConformance(t *testing.T) {
	needRunsc(t)
	o, suite := options(), sandboxtest.Options{Remove: remove, Patience: time.Minute}
	if os.Getenv("PARLEY_TEST_ROOTFS") != "" {
		o.Images, suite.Image = images{"debian": {Rootfs: debian(t), Digest: "sha256:debian"}}, "debian"
	}
	sandboxtest.Run(t, func(t *testing.T) sandbox.Backend { return openWith(t, o) }, suite)
}
