package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"

	"parley/internal/config"
	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/local"
	"parley/internal/sandbox/process"
	"parley/internal/sandbox/usernet"
	"parley/internal/sandboxd"
)

// InitCommand is the hidden command that becomes a sandbox's first process.
const InitCommand = "sandbox-init"

// openBackend makes the configured backend. Running without isolation is never
// chosen by itself.
func openBackend(cfg config.Config, log *slog.Logger) (sandbox.Backend, error) {
	switch cfg.Sandbox {
	case config.SandboxProcess:
		return process.New(process.Options{Dir: filepath.Join(cfg.Data, "sandboxes"), InitArgs: []string{InitCommand, process.Name},
			Env: config.Environ(), Logger: log})
	case config.SandboxDocker:
		return nil, fault.New(fault.Unsupported, "docker_backend", "The docker sandbox backend is not built yet.").
			WithHint("Use --sandbox local.")
	}
	opt := localOptions(cfg)
	opt.Network, opt.Logger = network(cfg, log), log
	b, err := local.New(opt)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "no_isolation", "Sandboxes cannot be isolated on this machine: %s", fault.PublicText(err)).
			WithHint("`parley doctor` says what is missing. --sandbox process runs without any isolation, if you accept that.")
	}
	return b, nil
}

func localOptions(cfg config.Config) local.Options {
	return local.Options{Dir: filepath.Join(cfg.Data, "sandboxes"), InitArgs: []string{InitCommand},
		Path: config.SearchPath(), Hidden: []string{cfg.Data}, Homes: homes()}
}

// homes are the directories that show in a sandbox only if a part of them is
// mounted on purpose.
func homes() []string {
	if home := config.ProcessEnv()["HOME"]; filepath.IsAbs(home) && home != "/" {
		return []string{home}
	}
	return nil
}

// Probe says what local sandboxes hold on this machine.
func Probe(ctx context.Context, cfg config.Config) []sandbox.Guarantee {
	opt := localOptions(cfg)
	opt.Network = network(cfg, slog.New(slog.DiscardHandler))
	return local.Probe(ctx, opt)
}

// network connects sandboxes to the outside through a stack in this process.
func network(cfg config.Config, log *slog.Logger) func(context.Context, int, string) (io.Closer, error) {
	if cfg.SandboxNetwork == sandbox.NetworkNone {
		return nil
	}
	return func(_ context.Context, tun int, id string) (io.Closer, error) {
		return startNetwork(tun, usernet.Config{Logger: log.With("sandbox", id)}), nil
	}
}

// lateNetwork is a sandbox's network that comes up beside its start: packets wait
// in the device meanwhile, and nobody has to wait for the stack to be built.
type lateNetwork struct {
	up    chan struct{}
	stack *usernet.Stack // nil if it did not come up; valid once up is closed
}

func startNetwork(tun int, cfg usernet.Config) *lateNetwork {
	n := &lateNetwork{up: make(chan struct{})}
	go func() {
		defer close(n.up)
		defer func() { _ = unix.Close(tun) }() // the stack works on a duplicate
		var err error
		if n.stack, err = usernet.Start(tun, cfg); err != nil {
			cfg.Logger.Error("the sandbox has no network", "error", err)
		}
	}()
	return n
}

// Close ends the network. It may not be called twice.
func (n *lateNetwork) Close() error {
	<-n.up
	if n.stack == nil {
		return nil
	}
	return n.stack.Close()
}

// SandboxInit is the life of a sandbox's first process; it never returns.
func SandboxInit(args []string) {
	serve := func(ctx context.Context, lis net.Listener, in hostbox.Inside) error {
		return sandboxd.Serve(ctx, lis, sandboxd.Options{WorkingDir: in.WorkingDir, Env: in.Env, PID1: true})
	}
	if len(args) > 0 && args[0] == process.Name {
		process.Init(args[1:], serve)
	}
	local.Init(args, serve)
}
