package docker

import (
	"context"
	"time"

	"parley/internal/sandbox"
)

// Installation is the name that a backend's labels have.
func Installation(b *Backend) string { return b.options.Installation }

// Container names the container of a box.
func Container(b *Backend, id string) string { return b.container(id) }

// Hurried opens a backend that waits for no call of the engine longer than call.
func Hurried(ctx context.Context, o Options, call time.Duration) (*Backend, error) {
	return open(ctx, o, waits{call: call, start: 5 * call, commit: 5 * call, pull: 2 * call, erase: 2 * call})
}

// WithoutGroups makes a box's figures come from the engine.
func WithoutGroups(box sandbox.Box) { box.(*Box).meter.group = nil }
