package v0

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/api/v0/projection"
	"parley/internal/vault"
)

// legacyID is a page id as the reference makes them.
func legacyID(v0, v1 any) string {
	raw, _ := json.Marshal(map[string]any{"v0": v0, "v1": v1})
	return base64.StdEncoding.EncodeToString(raw)
}

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestPageIDsOfOldServersAreOffsets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, b64("0"): 0, b64("20"): 20, legacyID(b64("40"), nil): 40, legacyID(b64("7"), b64("x")): 7,
		strings.TrimRight(b64("20"), "="): 20, b64("10000"): 10000} {
		if cursor, offset, err := parsePage(text); err != nil || cursor != "" || offset != want {
			t.Errorf("%q: %q %d %v", text, cursor, offset, err)
		}
	}
}

func TestBadPageIDsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "%", "null", "-1", b64("-1"), b64("10001"), b64("1.5"), b64("null"), b64("{}"), b64("[]"), b64("{"),
		legacyID(nil, nil), legacyID("!", nil), legacyID(b64("x"), nil), legacyID(7, nil), legacyID(nil, "not a cursor"), b64(`{"v1":"e30","x":1}`),
		b64(`{"v1":"e30"}{}`), strings.Repeat("A", 4000), "\x00", "\u65e5"} {
		if cursor, offset, err := parsePage(text); err == nil {
			t.Errorf("%q: %q %d", text, cursor, offset)
		}
	}
}

func TestPageIDsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		raw, _ := json.Marshal(map[string]string{"i": rapid.String().Draw(rt, "id")})
		cursor := base64.RawURLEncoding.EncodeToString(raw)
		got, offset, err := parsePage(*formatPage(cursor))
		if err != nil || got != cursor || offset != 0 {
			rt.Fatalf("%q: %q %d %v", cursor, got, offset, err)
		}
	})
	if formatPage("") != nil {
		t.Error("a page behind the last one")
	}
}

func FuzzPageID(f *testing.F) {
	for _, text := range []string{"", b64("20"), legacyID(b64("40"), nil), *formatPage("e30"), "x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cursor, offset, err := parsePage(text)
		if err != nil && (cursor != "" || offset != 0) || offset < 0 || offset > maxOffset {
			t.Error(fmt.Sprint(cursor, offset, err))
		}
	})
}

// TestSecretsAreHiddenAsOldClientsKnowIt: legacy API 8.5, everywhere in an event.
func TestSecretsAreHiddenAsOldClientsKnowIt(t *testing.T) {
	t.Parallel()
	content := "key " + vault.Hidden + ", again " + vault.Hidden
	raw, err := encode(&projection.Event{Message: content, Content: &content, Extras: map[string]any{"list": []any{content}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(raw), "<secret_hidden>"); got != 6 || strings.Contains(string(raw), vault.Hidden) {
		t.Errorf("%s", raw)
	}
}
