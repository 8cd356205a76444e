package doctor

import (
	"context"
	"strings"

	"parley/internal/fault"
	"parley/internal/sandbox"
)

// Tier is a sandbox backend that needs more than this machine may have.
type Tier struct {
	Name   string
	Needed bool // a template of the configuration is made by it
	// Try makes the backend ready as the server does, and says what holds.
	Try func(ctx context.Context) ([]sandbox.Guarantee, error)
}

// tiers tries the backends beside the local one.
func (d *doctor) tiers(ctx context.Context) []Finding {
	var found []Finding
	for _, t := range d.Tiers {
		found = append(found, d.tier(ctx, t))
	}
	return found
}

func (d *doctor) tier(ctx context.Context, t Tier) Finding {
	f := Finding{Check: t.Name, Level: OK}
	list, err := t.Try(ctx)
	if err != nil {
		f.Level, f.Found, f.Follows = Skipped, fault.PublicText(err), "sandboxes of this kind cannot be had here; none is configured"
		if t.Needed {
			f.Level, f.Follows = Missing, "the server does not start: a template of the configuration needs it"
		}
		return f
	}
	var holds, lacks []string
	for _, g := range list {
		if g.Holds {
			holds = append(holds, g.Name)
		} else {
			lacks = append(lacks, g.Name+" ("+g.Detail+")")
		}
	}
	f.Found = "can be used; holds: " + strings.Join(holds, ", ")
	if len(lacks) > 0 {
		f.Follows = "does not hold: " + strings.Join(lacks, "; ")
	}
	return f
}
