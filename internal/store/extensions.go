package store

// Bounds of what Extensions keeps.
const (
	// MaxBundles is the size of a conversation's bundles, in bytes as they are
	// encoded. Above it SaveBundles is TooLarge (CodeBundlesTooLarge).
	MaxBundles = 16 << 20
	// MaxDecisions is what an owner may have decided. Decide removes the oldest other
	// decision beyond it: the user is asked again.
	MaxDecisions = 1000
	// MaxUserSkills is the number of an owner's skills. A new one beyond it is TooLarge
	// (CodeTooManySkills).
	MaxUserSkills = 1000
)

// Fault codes of Extensions.
const (
	CodeBundlesTooLarge = "bundles_too_large"
	CodeTooManySkills   = "too_many_skills"
)
