package app

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"golang.org/x/sys/unix"

	"parley/internal/netpolicy"
	"parley/internal/sandbox"
	"parley/internal/sandbox/usernet"
)

// network connects sandboxes to the outside through a stack in this process, each
// by its policy. record returns what is told of a sandbox's connections; nil =
// nobody is told. ethernet says that the device is a TAP.
func network(log *slog.Logger, record func(boxID string) func(sandbox.Connection), ethernet bool) connect {
	return func(_ context.Context, tun int, id string, policy sandbox.Network) (io.Closer, error) {
		c := usernet.Config{Logger: log.With("sandbox", id), Ethernet: ethernet}
		var err error
		if c.Policy, err = netpolicy.Compile(policy); err != nil {
			return nil, errors.Join(err, unix.Close(tun))
		}
		if record != nil {
			c.Record = record(id)
		}
		return startNetwork(tun, c), nil
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
