package sandbox

import "parley/internal/fault"

// Unsupported is the error of what a backend cannot do. what is a verb phrase:
// "freeze its boxes".
func Unsupported(backend, what string) *fault.Error {
	return fault.New(fault.Unsupported, CodeUnsupported, "The %s sandbox backend cannot %s.", backend, what)
}
