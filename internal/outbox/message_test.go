package outbox

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"parley/internal/fault"
)

// A published example of the Standard Webhooks specification's implementations.
func TestSignaturesAreThoseOfTheSpecification(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("plJ3nmyCDGBKInavdOK15jsl")
	if err != nil {
		t.Fatal(err)
	}
	got := sign(key, "msg_loFOjxBNrRLzqYUf", time.Unix(1731705121, 0), []byte(`{"event_type":"ping","data":{"success":true}}`))
	if want := "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSecrets(t *testing.T) {
	for i, bad := range []string{"", "whsec_", "whsec_AAAA", "whsec_" + strings.Repeat("A", 100), strings.Repeat("A", 44), "whsec_" + strings.Repeat("?", 44)} {
		if _, err := keyOf(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%d: %v", i, err)
		} else if bad != "" && strings.Contains(err.Error(), strings.TrimPrefix(bad, secretPrefix)+"x") {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	a, b := newSecret(), newSecret()
	if key, err := keyOf(a.Reveal()); err != nil || len(key) != 32 || a.Reveal() == b.Reveal() {
		t.Errorf("made ones: %v", err)
	}
}

func TestURLs(t *testing.T) {
	for text, ok := range map[string]bool{"https://example.com/x?y=z": true, "http://10.0.0.1:8080": true, "https://[::1]/": true,
		"": false, "example.com": false, "ftp://example.com": false, "https://": false, "https://u:p@example.com": false,
		"https://example.com/#x": false, "https://exa mple.com": false, "file:///etc/passwd": false, "https:///x": false} {
		if err := checkURL(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzSecret(f *testing.F) {
	f.Add("whsec_plJ3nmyCDGBKInavdOK15jslplJ3nmyCDGBKInav")
	f.Fuzz(func(t *testing.T, text string) {
		key, err := keyOf(text)
		if (err == nil) != (len(key) >= 24 && len(key) <= 64) {
			t.Errorf("%d bytes, %v", len(key), err)
		}
	})
}
