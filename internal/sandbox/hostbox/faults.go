package hostbox

import (
	"errors"

	"parley/internal/fault"
)

// BadID is the fault of an id that ValidID refuses.
func BadID() error {
	return fault.New(fault.Invalid, "sandbox_id", "A sandbox id has 1 to 64 letters, digits, - or _.")
}

// Gone is the fault of a box whose processes are dead; err, which may be nil, says
// how that was found out.
func Gone(err error) error {
	return fault.Wrap(err, fault.Gone, "sandbox_gone", "The sandbox's processes are dead.").
		WithHint("Its files are kept; it can be started again.")
}

// AsFault classifies an error that is not a fault yet.
func AsFault(err error, public string) error {
	var f *fault.Error
	if err == nil || errors.As(err, &f) {
		return err
	}
	kind := fault.KindOf(err)
	if kind == fault.Internal {
		kind = fault.Unavailable
	}
	return fault.Wrap(err, kind, "sandbox_failed", "%s", public)
}
