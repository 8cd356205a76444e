package fleet

import (
	"bytes"

	"parley/internal/store"
)

// Matches reports whether a sandbox is what a request would make: from the same spec
// with the same changes, without a directory of the machine.
func (f *Fleet) Matches(s *store.Sandbox, req StartRequest) bool {
	spec, err := f.spec(req.SpecID)
	return err == nil && s.SpecID == spec.ID && s.HostDir == "" && req.HostDir == "" &&
		bytes.Equal(s.Wanted, wanted{Changes: req.Changes}.encode())
}
