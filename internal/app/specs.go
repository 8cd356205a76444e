package app

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"parley/internal/config"
	"parley/internal/fault"
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
		missing := without(&s.Limits, caps[s.Backend].Limits)
		own := asked[s.ID]
		for _, name := range missing {
			if limitOf(&own, name) {
				return nil, fault.New(fault.Invalid, "sandbox_limit", "The sandbox spec %q asks for a limit of %s, which the %s backend cannot enforce on this machine.",
					s.ID, name, s.Backend).WithHint("`parley doctor` says why. Leave the limit out, or choose another backend.")
			}
		}
		if len(missing) > 0 && !warned[s.Backend] {
			warned[s.Backend] = true
			log.Warn("limits of sandboxes that this machine cannot enforce", "backend", s.Backend, "limits", strings.Join(missing, ", "))
		}
		list = append(list, fleet.Spec{ID: s.ID, Backend: s.Backend, Image: s.Image, Runtime: s.Runtime, Command: s.Command, Env: s.Env,
			WorkingDir: s.WorkingDir, Limits: s.Limits, Network: *s.Network, Warm: s.Warm, CreatedAt: since.UTC().Truncate(time.Second)})
	}
	return list, nil
}

// unset removes a limit and reports whether it was set.
func unset[T int64 | uint64 | float64](p *T) bool {
	set := *p != 0
	*p = 0
	return set
}

// limitOf removes one limit by name and reports whether it was set.
func limitOf(l *sandbox.Limits, name string) bool {
	switch name {
	case sandbox.LimitCPU:
		return unset(&l.CPUs)
	case sandbox.LimitMemory:
		return unset(&l.MemoryBytes)
	case sandbox.LimitProcesses:
		return unset(&l.Processes)
	case sandbox.LimitOpenFiles:
		return unset(&l.OpenFiles)
	case sandbox.LimitDisk:
		return unset(&l.DiskBytes)
	case sandbox.LimitInodes:
		return unset(&l.Inodes)
	}
	panic(fmt.Sprintf("no limit %q", name))
}

// without removes the limits that are not enforced and returns their names.
func without(l *sandbox.Limits, enforced []string) []string {
	var missing []string
	for _, name := range []string{sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitProcesses, sandbox.LimitOpenFiles, sandbox.LimitDisk, sandbox.LimitInodes} {
		if !slices.Contains(enforced, name) && limitOf(l, name) {
			missing = append(missing, name)
		}
	}
	return missing
}
