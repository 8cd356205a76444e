package app

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"parley/internal/config"
	"parley/internal/sandbox"
	"parley/internal/sandbox/local"
)

// Probe says what local sandboxes hold on this machine.
func Probe(ctx context.Context, cfg config.Config) []sandbox.Guarantee {
	opt := localOptions(cfg)
	opt.Network, opt.Images = network(slog.New(slog.DiscardHandler), nil, false), localImages{}
	return local.Probe(ctx, opt)
}

// Probes try further backends, in a directory of their own: that of a server that
// runs is not touched. Nothing is left behind.
func Probes(cfg config.Config) map[string]func(context.Context) ([]sandbox.Guarantee, error) {
	try := func(name string) func(context.Context) ([]sandbox.Guarantee, error) {
		return func(ctx context.Context) ([]sandbox.Guarantee, error) {
			dir, err := os.MkdirTemp("", "parley-doctor-")
			if err != nil {
				return nil, err
			}
			defer func() { _ = os.RemoveAll(dir) }()
			apart := cfg
			apart.Data = dir
			b, err := newBuilder(apart, slog.New(slog.DiscardHandler), nil)
			if err != nil {
				return nil, err
			}
			list, err := tried(b.open(ctx, name))
			return list, errors.Join(err, b.close())
		}
	}
	return map[string]func(context.Context) ([]sandbox.Guarantee, error){
		config.SandboxDocker: try(config.SandboxDocker), config.SandboxGVisor: try(config.SandboxGVisor)}
}

// tried closes a backend after a look at what it holds.
func tried(b sandbox.Backend, err error) ([]sandbox.Guarantee, error) {
	if err != nil {
		return nil, err
	}
	list := b.Caps().Guarantees
	return list, b.Close()
}
