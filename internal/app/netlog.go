package app

import (
	"context"
	"time"

	"parley/internal/sandbox"
)

// recorder writes what a box connects to into the log of the sandbox that it
// belongs to by then.
func (a *App) recorder(boxID string) func(sandbox.Connection) {
	return func(c sandbox.Connection) { a.network.Recorder(a.fleet.SandboxOf(boxID))(c) }
}

// forgetNetwork removes the network log of a deleted sandbox.
func (a *App) forgetNetwork(sandboxID string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := a.network.Forget(ctx, sandboxID); err != nil {
		a.log.Warn("the network log of a deleted sandbox stays", "sandbox", sandboxID, "error", err)
	}
}
