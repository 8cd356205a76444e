package wire

import (
	"strings"

	"parley/internal/account"
	"parley/internal/llm/failure"
	"parley/internal/vault"
)

// Redactor takes secrets out of texts that an endpoint wrote, in all the forms
// that vault.Masker knows, and the piece of one that a text was cut in. It is safe
// for concurrent use.
type Redactor struct {
	masker *vault.Masker
	short  string // a first secret that is too short for a masker
}

// NewRedactor returns a redactor. Values below 8 bytes are left alone, because
// they would garble ordinary words; but for the first, which is the key.
func NewRedactor(secrets ...string) *Redactor {
	r := &Redactor{}
	var long []string
	for i, s := range secrets {
		switch {
		case len(s) >= 8 || i == 0 && len(s) >= 4:
			long = append(long, s)
		case i == 0:
			r.short = s
		}
	}
	r.masker = vault.NewMasker(long...)
	return r
}

// Redact returns text without secrets, bounded as failure.Bound does.
func (r *Redactor) Redact(text string) string {
	const least = 4 // bytes of a key's beginning that tell more than chance
	text = r.masker.Mask(text)
	if whole, cut := strings.CutSuffix(text, failure.CutMark); cut {
		if n := r.masker.Hold(whole); n >= least {
			whole = whole[:len(whole)-n] + vault.Hidden
		}
		text = whole + failure.CutMark
	}
	text = strings.ReplaceAll(text, vault.Hidden, account.Mask)
	if r.short != "" {
		text = strings.ReplaceAll(text, r.short, account.Mask)
	}
	return failure.Bound(text)
}

// Shows reports whether a text holds a secret.
func (r *Redactor) Shows(text string) bool {
	return r.masker.Mask(text) != text || r.short != "" && strings.Contains(text, r.short)
}
