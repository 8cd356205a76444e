// Command parley is a self-hosted service that runs conversations with a
// software agent, each in a sandbox, and the client commands for it.
//
// This package parses the command line and sets exit codes; it does nothing
// itself.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"parley/internal/app"
	"parley/internal/config"
)

func main() {
	p := &program{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		env: config.Environ(), root: os.Geteuid() == 0, version: buildVersion(),
		probe:  app.Probe,
		probes: app.Probes,
		inside: map[string]func([]string){app.InitCommand: app.SandboxInit},
	}
	p.serve = func(ctx context.Context, cfg config.Config, out io.Writer, log *slog.Logger) error {
		return app.Serve(ctx, cfg, app.Version{Number: p.version.Version, Commit: p.version.Commit}, out, log)
	}
	p.serveAgent = func(ctx context.Context, cfg config.Config, mode app.AgentMode, out io.Writer, log *slog.Logger) error {
		return app.ServeAgent(ctx, cfg, mode, app.Version{Number: p.version.Version, Commit: p.version.Commit}, out, log)
	}
	// Before signals are caught and goroutines started: these commands become a
	// sandbox's first process.
	if p.runInside(os.Args[1:]) {
		return
	}
	ending := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup stays nohup
		ending = append(ending, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ending...)
	code := p.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
