package docker_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"golang.org/x/sys/unix"

	"parley/internal/netpolicy"
	"parley/internal/sandbox"
	"parley/internal/sandbox/docker"
	"parley/internal/sandbox/sandboxtest"
	"parley/internal/sandbox/usernet"
)

// outward connects boxes to the outside as the server does.
func outward(_ context.Context, tun int, _ string, policy sandbox.Network) (io.Closer, error) {
	defer func() { _ = unix.Close(tun) }() // the stack works on a duplicate
	compiled, err := netpolicy.Compile(policy)
	if err != nil {
		return nil, err
	}
	return usernet.Start(tun, usernet.Config{Policy: compiled})
}

func TestConformance(t *testing.T) {
	p := realPlace(t)
	p.options.Network = outward
	sandboxtest.Run(t, func(t *testing.T) sandbox.Backend { return p.open() }, p.suite())
}

// TestHostile runs the list of escapes.
func TestHostile(t *testing.T) {
	p := realPlace(t)
	p.options.Network = outward
	sandboxtest.Hostile(t, func(t *testing.T) sandbox.Backend { return p.open() },
		sandboxtest.HostileOptions{Options: p.suite(), DataDir: p.options.Dir})
}

// suite are the options of the suites.
func (p *place) suite() sandboxtest.Options {
	return sandboxtest.Options{
		Image:      p.image,
		SplitLinks: "the engine mounts its layers without an index of links",
		Remove: func(_ context.Context, box sandbox.Box) error {
			b := p.open()
			defer func() { _ = b.Close() }()
			code, body := p.ask(http.MethodDelete, "/containers/"+docker.Container(b, box.Handle().ID)+"?force=1&v=1", "")
			if code != http.StatusNoContent {
				return fmt.Errorf("%d %s", code, body)
			}
			return nil
		},
	}
}
