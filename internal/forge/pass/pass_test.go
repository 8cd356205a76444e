package pass_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/forge/pass"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func key(b byte) []byte { return []byte(strings.Repeat(string(rune(b)), 32)) }

func issue(t testing.TB, s *pass.Signer) string {
	t.Helper()
	token, expires, err := s.Issue("user-1", "github", now)
	if err != nil || !expires.Equal(now.Add(14*24*time.Hour)) {
		t.Fatal(token, expires, err)
	}
	return token
}

func decode(t *testing.T, part string) map[string]any {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(part)
	var m map[string]any
	if err != nil || json.Unmarshal(raw, &m) != nil {
		t.Fatal(part, err)
	}
	return m
}

func TestATokenSaysWhatTheContractNames(t *testing.T) {
	parts := strings.Split(issue(t, pass.New(key('a'))), ".")
	head, claims := decode(t, parts[0]), decode(t, parts[1])
	if head["alg"] != "HS256" || head["kid"] == "" || head["kid"] == nil {
		t.Errorf("%v", head)
	}
	if claims["user_id"] != "user-1" || claims["provider_type"] != "github" || claims["iat"] != float64(now.Unix()) ||
		claims["exp"] != float64(now.Add(14*24*time.Hour).Unix()) {
		t.Errorf("%v", claims)
	}
}

func TestATokenIsGoodForFourteenDays(t *testing.T) {
	s := pass.New(key('a'))
	token := issue(t, s)
	for after, good := range map[time.Duration]bool{0: true, 14*24*time.Hour - time.Second: true, 14 * 24 * time.Hour: false, -time.Hour: false} {
		c, err := s.Verify(token, now.Add(after))
		if (err == nil) != good || good && (c.UserID != "user-1" || c.Provider != "github") {
			t.Errorf("after %v: %+v, %v", after, c, err)
		}
		if err != nil && !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("after %v: %v", after, err)
		}
	}
}

func TestWhatWeDidNotSignIsRefused(t *testing.T) {
	s := pass.New(key('a'))
	good := strings.Split(issue(t, s), ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	other := base64.RawURLEncoding.EncodeToString([]byte(`{"user_id":"user-2","provider_type":"github","iat":0,"exp":99999999999}`))
	for name, token := range map[string]string{"nothing": "", "dots": "..", "no signature": good[0] + "." + good[1] + ".", "unsigned": none + "." + good[1] + ".",
		"other claims": good[0] + "." + other + "." + good[2], "another key": issue(t, pass.New(key('b'))), "padding": strings.Join(good, ".") + "=",
		"more parts": strings.Join(good, ".") + ".x", "long": strings.Repeat("a", 1<<20)} {
		if _, err := s.Verify(token, now); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No other text than the token itself is good, whatever is changed in it.
func FuzzVerify(f *testing.F) {
	s := pass.New(key('a'))
	token := issue(f, s)
	f.Add(token)
	f.Add(strings.ReplaceAll(token, ".", ""))
	f.Add(token[:len(token)-1])
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := s.Verify(text, now); err == nil && text != token {
			t.Fatalf("%q is taken as %+v", text, c)
		}
	})
}
