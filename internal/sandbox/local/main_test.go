package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/local"
	"parley/internal/sandbox/sandboxtest"
)

// initArg makes this test binary the first process of a box.
const initArg = "sandbox-init"

// shared holds the data directory of all tests; programs, those that boxes run.
var shared, programs string

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == initArg {
		local.Init(os.Args[2:], serve)
	}
	if len(os.Args) > 2 && os.Args[1] == userArg {
		fmt.Fprintln(os.Stderr, becomeUser(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) > 2 && os.Args[1] == serverArg {
		fmt.Fprintln(os.Stderr, beServer(os.Args[2]))
		os.Exit(1)
	}
	if len(os.Args) > 2 && os.Args[1] == copierArg {
		fmt.Fprintln(os.Stderr, beCopier(os.Args[2]))
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "local-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared, programs = dir, dir+"-programs"
	if err := errors.Join(os.Mkdir(programs, 0o755), os.Chmod(programs, 0o755)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(programs)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// serve is the daemon of boxes under test.
func serve(ctx context.Context, lis net.Listener, in hostbox.Inside) error {
	var env []string
	for name, value := range in.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return sandboxtest.Serve(ctx, lis, env)
}
