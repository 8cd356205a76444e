package app

import (
	"context"

	"parley/internal/console"
	"parley/internal/tool"
)

// newConsoles makes what gives users terminals in their sandboxes.
func (a *App) newConsoles() *console.Service {
	return console.New(console.Options{Reach: func(ctx context.Context, owner, sandboxID string, use bool) (tool.Hands, error) {
		return a.fleet.Reach(ctx, owner, sandboxID, use)
	}})
}

// sandboxChanged tells who follows sandboxes that one was paused, resumed or removed.
func (a *App) sandboxChanged(id string) {
	a.engine.SandboxChanged(id)
	a.consoles.Changed(id)
}
