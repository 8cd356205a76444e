package app

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"parley/internal/config"
	"parley/internal/fleet"
	"parley/internal/sandbox"
)

// specs are the templates of this installation, as the fleet has them. A limit that
// a template asks for must hold; one that only the house has is left out, with a
// warning, where the backend cannot enforce it.
func specs(cfg *config.Config, backends []sandbox.Backend, since time.Time, log *slog.Logger) ([]fleet.Spec, error) {
	caps := map[string]sandbox.Caps{}
	for _, b := range backends {
		caps[b.Name()] = b.Caps()
	}
	asked := map[string]sandbox.Limits{}
	for _, s := range cfg.SandboxSpecs {
		asked[s.ID] = s.Limits
	}
	var list []fleet.Spec
	warned := map[string]bool{}
	for _, s := range cfg.Templates(backends[0].Name()) {
		if err := sandbox.CheckLimits(s.Backend, asked[s.ID], caps[s.Backend].Limits); err != nil {
			return nil, fmt.Errorf("sandbox spec %q: %w", s.ID, err)
		}
		var missing []string
		s.Limits, missing = s.Limits.Keep(caps[s.Backend].Limits)
		if len(missing) > 0 && !warned[s.Backend] {
			warned[s.Backend] = true
			log.Warn("limits of sandboxes that this machine cannot enforce", "backend", s.Backend, "limits", strings.Join(missing, ", "))
		}
		list = append(list, fleet.Spec{ID: s.ID, Backend: s.Backend, Image: s.Image, Runtime: s.Runtime, Command: s.Command, Env: s.Env,
			WorkingDir: s.WorkingDir, Limits: s.Limits, Network: *s.Network, Warm: s.Warm, CreatedAt: since.UTC().Truncate(time.Second)})
	}
	return list, nil
}
