package app

import (
	"time"

	"parley/internal/fleet"
	"parley/internal/sandbox"
)

// specs are the templates of this installation.
func (a *App) specs() []fleet.Spec {
	return []fleet.Spec{{ID: a.backend.Name(), Backend: a.backend.Name(), WorkingDir: sandbox.WorkingDir, Limits: a.cfg.Limits(),
		Network: sandbox.Network{Mode: a.cfg.SandboxNetwork}, CreatedAt: a.started.UTC().Truncate(time.Second)}}
}
