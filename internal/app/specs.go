package app

import (
	"time"

	"parley/internal/config"
	"parley/internal/fleet"
)

// specs are the templates of this installation, as the fleet has them.
func specs(cfg *config.Config, backend string, since time.Time) []fleet.Spec {
	var list []fleet.Spec
	for _, s := range cfg.Templates(backend) {
		list = append(list, fleet.Spec{ID: s.ID, Backend: s.Backend, Image: s.Image, Runtime: s.Runtime, Command: s.Command, Env: s.Env,
			WorkingDir: s.WorkingDir, Limits: s.Limits, Network: *s.Network, Warm: s.Warm, CreatedAt: since.UTC().Truncate(time.Second)})
	}
	return list
}
