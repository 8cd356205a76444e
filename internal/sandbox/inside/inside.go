// Package inside is what runs in a sandbox: the first process of every backend's
// boxes, and the daemon that it becomes. It stands apart so that it can be a small
// program of its own, which starts in a few milliseconds; the whole server can do
// the same, slower.
package inside

import (
	"context"
	"net"

	"parley/internal/sandbox/docker"
	"parley/internal/sandbox/gvisor"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/local"
	"parley/internal/sandbox/process"
	"parley/internal/sandboxd"
)

// Command is the first argument of a program that is started to become a box's
// first process.
const Command = "sandbox-init"

// Init is the life of a box's first process; args are what follows Command on the
// command line. It must be called from the main goroutine before anything else is
// started, and never returns.
func Init(args []string) {
	serve := func(ctx context.Context, lis net.Listener, in hostbox.Inside) error {
		return sandboxd.Serve(ctx, lis, sandboxd.Options{WorkingDir: in.WorkingDir, Env: in.Env, PID1: true})
	}
	backend := ""
	if len(args) > 0 {
		backend = args[0]
	}
	switch backend {
	case process.Name:
		process.Init(args[1:], serve)
	case docker.Name:
		docker.Init(args[1:], serve)
	case gvisor.Name:
		gvisor.Init(args[1:], serve)
	}
	local.Init(args, serve)
}
