package policy

import (
	"parley/internal/conversation"
)

// Stricter is the policy that asks for whatever one of the two asks for, in
// canonical form: what a client is shown where the server sets a floor.
func Stricter(a, b conversation.ConfirmationPolicy) conversation.ConfirmationPolicy {
	a, b = a.Canonical(), b.Canonical()
	if d := strictness(a) - strictness(b); d > 0 {
		return a
	} else if d < 0 {
		return b
	}
	if a.Kind != conversation.ConfirmRisky {
		return a
	}
	if rank(b.Threshold) < rank(a.Threshold) {
		a.Threshold = b.Threshold
	}
	unknown := *a.ConfirmUnknown || *b.ConfirmUnknown
	a.ConfirmUnknown = &unknown
	return a
}

func strictness(p conversation.ConfirmationPolicy) int {
	switch p.Kind {
	case conversation.NeverConfirm:
		return 0
	case conversation.ConfirmRisky:
		return 1
	}
	return 2
}

// rank orders risks; what nobody judged is below all.
func rank(risk string) int {
	switch risk {
	case conversation.RiskLow:
		return 1
	case conversation.RiskMedium:
		return 2
	case conversation.RiskHigh:
		return 3
	}
	return 0
}
