package account

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"log/slog"
)

// Mask is what every output shows in place of a secret.
const Mask = "**********"

// Secret is a value that must not be shown: formatting, logging and JSON
// encoding mask it. Reveal is the only way to the value. Decoding the mask
// yields the empty secret, so that a client that sends back what it was shown
// never stores asterisks.
type Secret struct{ value string }

// NewSecret wraps a value.
func NewSecret(v string) Secret { return Secret{v} }

// Reveal returns the value. Callers hand it to a provider or the vault, never to an output.
func (s Secret) Reveal() string { return s.value }

// IsSet reports whether the secret is not empty.
func (s Secret) IsSet() bool { return s.value != "" }

// Equal compares in constant time.
func (s Secret) Equal(v string) bool {
	return subtle.ConstantTimeCompare([]byte(s.value), []byte(v)) == 1
}

// String masks.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return Mask
}

// Format masks under every verb, %#v included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue masks.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalJSON masks; an empty secret is null.
func (s Secret) MarshalJSON() ([]byte, error) {
	if s.value == "" {
		return []byte("null"), nil
	}
	return json.Marshal(Mask)
}

// UnmarshalJSON reads a string; null and the mask yield the empty secret.
func (s *Secret) UnmarshalJSON(b []byte) error {
	var v *string
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	s.value = ""
	if v != nil && *v != Mask {
		s.value = *v
	}
	return nil
}

// Sealable is a value with secrets in it. EachSecret calls f for every secret,
// set or not, with a path that is unique and stable within the value.
type Sealable interface {
	EachSecret(f func(path string, s *Secret))
}

type private struct {
	Doc     json.RawMessage   `json:"doc"`
	Secrets map[string]string `json:"secrets,omitempty"`
}

// EncodePrivate encodes v with its secrets in clear. The result must only go to
// the vault.
func EncodePrivate(v Sealable) ([]byte, error) {
	doc, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	p := private{Doc: doc, Secrets: map[string]string{}}
	v.EachSecret(func(path string, s *Secret) {
		if s.IsSet() {
			p.Secrets[path] = s.value
		}
	})
	return json.Marshal(p)
}

// DecodePrivate reads what EncodePrivate wrote.
func DecodePrivate(data []byte, v Sealable) error {
	var p private
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if err := json.Unmarshal(p.Doc, v); err != nil {
		return fmt.Errorf("decode document: %w", err)
	}
	v.EachSecret(func(path string, s *Secret) { s.value = p.Secrets[path] })
	return nil
}
