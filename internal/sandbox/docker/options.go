package docker

import (
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"parley/internal/fault"
	"parley/internal/lazyre"
	"parley/internal/sandbox"
)

const defaultSocket = "/var/run/docker.sock"

// Options configure the backend.
type Options struct {
	// Host is the engine's socket: a path or unix://path, as in DOCKER_HOST;
	// "" = /var/run/docker.sock.
	Host string
	// Dir holds a directory per box with its record and sockets. The engine must see
	// it under the same path.
	Dir string
	// Exe is this program; "" = /proc/self/exe. It must be linked statically, and
	// the engine must see it under the same path. A box that is started again runs
	// what is there then.
	Exe string
	// InitArgs are the arguments that make Exe call Init with what follows them.
	InitArgs []string
	// DefaultImage is used where a spec names none; "" = such specs are refused.
	DefaultImage string
	// Runtime is used where a spec names none; "" = the engine's default.
	Runtime string
	// Installation tells the boxes of several servers of one engine apart:
	// [a-z0-9][a-z0-9_-]{0,31}; "" = one made of Dir.
	Installation string
	// Hidden are directories of the host that no mount may show, beside Dir.
	Hidden []string
	// Homes are home directories that no mount may show as a whole; directories in
	// them may be mounted.
	Homes []string
	// Network connects a box: tun is its network device, layer 3 without packet
	// information, address 10.0.2.100/24, gateway 10.0.2.2, name server 10.0.2.3.
	// policy is the spec's. It owns tun from the call on, also when it fails. The
	// closer is called when the box dies or the backend closes. nil: boxes have no
	// outbound network.
	Network func(ctx context.Context, tun int, boxID string, policy sandbox.Network) (io.Closer, error)
	// Logger gets what does not fail an operation; nil discards.
	Logger *slog.Logger
}

// waits bound how long the engine is waited for.
type waits struct {
	call   time.Duration // one call
	start  time.Duration // until sandboxd answers
	commit time.Duration // a snapshot
	pull   time.Duration // an image
	erase  time.Duration // removing a box
}

func defaultWaits() waits {
	return waits{call: 15 * time.Second, start: time.Minute, commit: 5 * time.Minute, pull: 15 * time.Minute, erase: 30 * time.Second}
}

var installationForm = lazyre.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

func (o Options) withDefaults() (Options, error) {
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return o, err
	}
	if o.Exe == "" {
		o.Exe = "/proc/self/exe"
	}
	if o.Exe, err = filepath.EvalSymlinks(o.Exe); err != nil {
		return o, err
	}
	if err := checkStatic(o.Exe); err != nil {
		return o, err
	}
	if o.Installation == "" {
		sum := sha256.Sum256([]byte(o.Dir))
		o.Installation = hex.EncodeToString(sum[:4])
	}
	if !installationForm.MatchString(o.Installation) {
		return o, fault.New(fault.Invalid, "sandbox_installation", "The installation's name %q cannot be part of a container's name.", o.Installation)
	}
	if o.DefaultImage != "" {
		if err := checkReference(o.DefaultImage); err != nil {
			return o, err
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// checkStatic refuses a program that needs a dynamic linker: images have none,
// or another one.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fault.New(fault.Unavailable, "sandbox_unavailable", "This program is not linked statically, so it cannot run inside of containers.").
				WithHint("Build it with CGO_ENABLED=0.")
		}
	}
	return nil
}
