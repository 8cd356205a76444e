package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"

	"parley/internal/fault"
	"parley/internal/netpolicy"
	"parley/internal/sandbox"
	"parley/internal/store"
)

// Bounds of Changes.Factor.
const (
	minFactor = 0.1
	maxFactor = 16
)

// Specs lists the templates. The first is the default.
func (f *Fleet) Specs() []Spec { return f.specs }

// spec finds a template; "" is the default.
func (f *Fleet) spec(id string) (Spec, error) {
	for _, s := range f.specs {
		if id == "" || s.ID == id {
			return s, nil
		}
	}
	return Spec{}, fault.New(fault.NotFound, "sandbox_spec_not_found", "Sandbox spec not found: %s", id).
		WithHint("GET /api/v1/sandbox-specs/search lists what there is.")
}

// backend finds a backend by name.
func (f *Fleet) backend(name string) (sandbox.Backend, error) {
	if b := f.backends[name]; b != nil {
		return b, nil
	}
	return nil, fault.New(fault.Unavailable, "sandbox_backend", "This server has no sandbox backend %q any more.", name).
		WithHint("Configure it again.")
}

// backendOf finds the backend of a record.
func (f *Fleet) backendOf(s *store.Sandbox) (sandbox.Backend, error) { return f.backend(s.Backend) }

// Caps say what the default backend guarantees.
func (f *Fleet) Caps() sandbox.Caps { return f.backends[f.specs[0].Backend].Caps() }

// CapsOf says what the backend of a sandbox guarantees.
func (f *Fleet) CapsOf(s *store.Sandbox) (sandbox.Caps, error) {
	b, err := f.backendOf(s)
	if err != nil {
		return sandbox.Caps{}, err
	}
	return b.Caps(), nil
}

// Check refuses a request that Start would refuse: a spec that is not there, or
// changes that its backend cannot make.
func (f *Fleet) Check(req StartRequest) error {
	spec, err := f.spec(req.SpecID)
	if err != nil {
		return err
	}
	b, err := f.backend(spec.Backend)
	if err != nil {
		return err
	}
	if req.Network != nil {
		if err := netpolicy.Check(*req.Network); err != nil {
			return err
		}
	}
	caps := b.Caps()
	switch {
	case req.Image != "" && !caps.Images:
		return sandbox.Unsupported(b.Name(), "run container images").
			WithHint("Leave the image out, or choose a sandbox spec whose backend runs images.")
	case req.Network != nil && req.Network.Mode != sandbox.NetworkOpen && !caps.NetworkPolicy:
		return sandbox.Unsupported(b.Name(), "restrict the network")
	case req.HostDir != "" && !caps.Mounts:
		return sandbox.Unsupported(b.Name(), "mount a directory of this machine")
	case req.Factor != 0 && (req.Factor < minFactor || req.Factor > maxFactor || math.IsNaN(req.Factor)):
		return fault.New(fault.Invalid, "sandbox_factor", "The resource factor %v is not between %v and %v.", req.Factor, minFactor, maxFactor)
	}
	return nil
}

// boxSpec is what the backend is to make of a record.
func (f *Fleet) boxSpec(s *store.Sandbox) (sandbox.Spec, wanted, error) {
	var w wanted
	if len(s.Wanted) > 0 {
		if err := json.Unmarshal(s.Wanted, &w); err != nil {
			return sandbox.Spec{}, w, fault.Wrap(err, fault.Internal, "bad_wanted", "The record of the sandbox is damaged.")
		}
	}
	spec, err := f.spec(s.SpecID)
	if err != nil {
		return sandbox.Spec{}, w, err
	}
	box := spec.box(s.ID)
	box.WorkingDir = s.WorkingDir
	if w.Image != "" {
		box.Image = w.Image
	}
	if w.Factor != 0 {
		box.Limits = box.Limits.Scale(w.Factor)
	}
	if w.Network != nil {
		within := box.Network
		box.Network = *w.Network
		box.Network.Within = &within
	}
	if s.HostDir != "" {
		box.Mounts = []sandbox.Mount{{Source: s.HostDir, Target: s.WorkingDir}}
	}
	box.From = w.From
	return box, w, nil
}

// box is the spec of a box with nothing changed.
func (s Spec) box(id string) sandbox.Spec {
	return sandbox.Spec{ID: id, Image: s.Image, Runtime: s.Runtime, WorkingDir: s.WorkingDir, Env: maps.Clone(s.Env),
		Limits: s.Limits, Network: s.Network}
}

// checkSpecs refuses a list of templates that no fleet can serve.
func checkSpecs(specs []Spec, backends map[string]sandbox.Backend) error {
	seen := map[string]bool{}
	for _, s := range specs {
		b := backends[s.Backend]
		switch {
		case s.ID == "" || seen[s.ID]:
			return fmt.Errorf("sandbox spec %q: the id is missing or used twice", s.ID)
		case b == nil:
			return fmt.Errorf("sandbox spec %q: there is no backend %q", s.ID, s.Backend)
		case s.Image != "" && !b.Caps().Images:
			return fmt.Errorf("sandbox spec %q: the %s backend runs no container images", s.ID, s.Backend)
		case s.Network.Mode != "" && s.Network.Mode != sandbox.NetworkOpen && !b.Caps().NetworkPolicy:
			return fmt.Errorf("sandbox spec %q: the %s backend cannot restrict the network", s.ID, s.Backend)
		}
		seen[s.ID] = true
	}
	if len(specs) == 0 {
		return fmt.Errorf("there is no sandbox spec")
	}
	return nil
}
