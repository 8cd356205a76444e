package vault_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/vault"
)

// inPieces masks a text that arrives in pieces, and returns what was shown after
// each of them, the rest included.
func inPieces(m *vault.Masker, pieces []string) (shown []string) {
	pending := ""
	for _, p := range pieces {
		pending += p
		n := len(pending) - m.Hold(pending)
		shown = append(shown, m.Mask(pending[:n]))
		pending = pending[n:]
	}
	return append(shown, m.Mask(pending))
}

// same compares what was shown with what should be. Of a base64 form the one
// character before it may show.
func same(shown, want string) bool {
	a, b := strings.Split(shown, vault.Hidden), strings.Split(want, vault.Hidden)
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && (i == len(a)-1 || len(a[i]) != len(b[i])+1 || !strings.HasPrefix(a[i], b[i])) {
			return false
		}
	}
	return true
}

func TestHoldAtEverySplit(t *testing.T) {
	const secret = "sk-s3cr3t-Value/+\u00e4\"x"
	m := vault.NewMasker(secret, "other-secret")
	wrapped := base64.StdEncoding.EncodeToString([]byte("xx" + secret + "yyy"))
	for _, text := range []string{
		"the key is " + secret + ".", secret, secret + secret, "s" + secret, "sk-s3" + secret, "other-" + secret + "other-secret",
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)) + "==A", wrapped, "A" + wrapped + "=B",
		url.QueryEscape(secret), `{"k":"sk-s3cr3t-Value\/+\u00e4\"x"}`, "sk-s3c\nr3t-Value/+\u00e4\r\n\"x\n.", "no secret, sk-s3cr3t only", "\n\n\n", "\u00e4\u00f6", "",
	} {
		want := m.Mask(text)
		for i := range len(text) + 1 {
			for j := i; j <= len(text); j++ {
				shown := inPieces(m, []string{text[:i], text[i:j], text[j:]})
				if got := strings.Join(shown, ""); !same(got, want) {
					t.Fatalf("%q split at %d and %d: %q, want %q", text, i, j, got, want)
				}
			}
		}
		if got := strings.Join(inPieces(m, strings.Split(text, "")), ""); !same(got, want) {
			t.Errorf("%q in single characters: %q, want %q", text, got, want)
		}
	}
}

func TestHoldIsShort(t *testing.T) {
	m := vault.NewMasker("sk-secret-0123456789", strings.Repeat("long", 500))
	for text, want := range map[string]int{"an ordinary sentence.": 0, "sk-secre": 8, "xsk": 2, "sk-secret-0123456789": 0, "": 0, "x sk-secret-012345678": 19} {
		if got := m.Hold(text); got != want {
			t.Errorf("%q: %d bytes are held, want %d", text, got, want)
		}
	}
	if got := m.Hold("sk-" + strings.Repeat("\n", 100_000)); got > 10_000 {
		t.Errorf("%d bytes are held", got)
	}
	if got := (*vault.Masker)(nil).Hold("x") + vault.NewMasker().Hold("x"); got != 0 {
		t.Errorf("%d bytes are held without a secret", got)
	}
}

func TestHoldProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secrets := rapid.SliceOfN(rapid.StringMatching(`[ab/+\n]{4,9}`), 1, 3).Draw(t, "secrets")
		m := vault.NewMasker(secrets...)
		parts := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(secrets), rapid.StringMatching(`[ab/+=\n c]{0,5}`), rapid.Map(rapid.SampledFrom(secrets),
			func(s string) string { return base64.StdEncoding.EncodeToString([]byte("b" + s)) }))).Draw(t, "parts")
		text := strings.Join(parts, "")
		var pieces []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		shown := strings.Join(inPieces(m, pieces), "")
		if want := m.Mask(text); !same(shown, want) {
			t.Fatalf("%q of %q: %q, want %q", pieces, secrets, shown, want)
		}
	})
}

func BenchmarkHold(b *testing.B) {
	var secrets []string
	for i := range 50 {
		secrets = append(secrets, "sk-secret-"+strings.Repeat(string(rune('a'+i%26)), 40+i))
	}
	m := vault.NewMasker(secrets...)
	for b.Loop() {
		m.Hold("some words of an answer and ask")
	}
}

// FuzzHold: a secret in any of its forms that arrives in pieces shows no more than one
// that arrives whole.
func FuzzHold(f *testing.F) {
	f.Add("secret-value", "before ", " after", []byte{3, 9, 1})
	f.Add("a/+b\n\"c", "x", "=", []byte{1, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, value, before, after string, cuts []byte) {
		if len(value) > 200 || len(before)+len(after) > 1000 || strings.ContainsAny(value, "<>") {
			return
		}
		m := vault.NewMasker(value)
		for _, form := range []string{value, url.QueryEscape(value), url.PathEscape(value), jsonOf(value), base64.StdEncoding.EncodeToString([]byte("x" + value))} {
			text := before + form + after
			var pieces []string
			rest := text
			for _, c := range cuts {
				n := min(int(c), len(rest))
				pieces, rest = append(pieces, rest[:n]), rest[n:]
			}
			if got, want := strings.Join(inPieces(m, append(pieces, rest)), ""), m.Mask(text); !same(got, want) {
				t.Fatalf("%q in %q: %q, want %q", value, pieces, got, want)
			}
		}
	})
}
