// Package netpolicy reads network policies of boxes (sandbox.Network) and decides
// what a box may reach.
package netpolicy

import (
	"parley/internal/fault"
	"parley/internal/sandbox"
)

// Check validates a policy. Errors are Invalid.
func Check(n sandbox.Network) error {
	switch n.Mode {
	case "", sandbox.NetworkOpen, sandbox.NetworkAllow, sandbox.NetworkNone:
	default:
		return invalid("The network mode is not known.")
	}
	if n.Within != nil {
		return Check(*n.Within)
	}
	return nil
}

func invalid(text string) error {
	err := fault.New(fault.Invalid, "sandbox_spec", "%s", text)
	err.Fields = []fault.Field{{Loc: []any{"network"}, Type: "value_error", Msg: text}}
	return err
}
