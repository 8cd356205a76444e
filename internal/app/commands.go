package app

import (
	"context"
	"time"

	"parley/internal/bash"
	"parley/internal/tool"
)

// openCommands makes what runs clients' commands in sandboxes.
func (a *App) openCommands(ctx context.Context) (err error) {
	a.commands, err = bash.New(ctx, bash.Options{Store: a.store.Commands(), Logger: a.log,
		Hands: func(ctx context.Context, owner, sandboxID string) (tool.Hands, error) {
			return a.fleet.Ensure(ctx, owner, sandboxID, true)
		}})
	return err
}

// forgetSandbox removes what was kept of a deleted sandbox.
func (a *App) forgetSandbox(sandboxID string) {
	a.forgetNetwork(sandboxID)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := a.commands.Forget(ctx, sandboxID); err != nil {
		a.log.Warn("events of a deleted sandbox's commands stay", "sandbox", sandboxID, "error", err)
	}
}
