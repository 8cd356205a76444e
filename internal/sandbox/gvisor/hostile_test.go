package gvisor_test

import (
	"path/filepath"
	"testing"
	"time"

	"parley/internal/sandbox"
	"parley/internal/sandbox/sandboxtest"
)

func TestHostile(t *testing.T) {
	needRunsc(t)
	sandboxtest.Hostile(t, func(t *testing.T) sandbox.Backend { return open(t) }, sandboxtest.HostileOptions{
		Options: sandboxtest.Options{Remove: remove, Patience: time.Minute},
		DataDir: filepath.Join(shared, "boxes"),
	})
}
