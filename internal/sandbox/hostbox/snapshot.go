package hostbox

import (
	"context"

	"parley/internal/sandbox"
)

// Snapshot keeps what a box is now.
func (b *Backend) Snapshot(context.Context, sandbox.Handle, string) (sandbox.Snapshot, error) {
	return sandbox.Snapshot{}, sandbox.Unsupported(b.driver.Name(), "take snapshots")
}

// DropSnapshot removes a snapshot.
func (b *Backend) DropSnapshot(context.Context, sandbox.Snapshot) error {
	return sandbox.Unsupported(b.driver.Name(), "take snapshots")
}

// Snapshots lists all snapshots.
func (b *Backend) Snapshots(context.Context) ([]sandbox.Snapshot, error) { return nil, nil }
