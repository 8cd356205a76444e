package oauth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func FuzzDecodeTokens(f *testing.F) {
	for _, s := range []string{`{"access_token":"a","token_type":"Bearer","expires_in":3600}`, `{"access_token":"a","token_type":"bearer","expires_in":"60","scope":["x"]}`,
		`{"error":"invalid_grant"}`, `{"access_token":"a b","token_type":"bearer"}`, `{"access_token":"a","token_type":"bearer","expires_in":1e400}`, `null`} {
		f.Add(200, []byte(s))
		f.Add(400, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, raw []byte) {
		got, err := decodeTokens(status, raw)
		if err != nil {
			if got != (tokens{}) || len(err.Error()) > 100 {
				t.Errorf("%+v with %v", got, err)
			}
			return
		}
		if status != 200 || got.access == "" || strings.ContainsAny(got.access, "\r\n\x00 ") || got.seconds < 0 {
			t.Errorf("%d: %+v", status, got)
		}
		var c credential
		c.take(got, time.Unix(1_000_000, 0))
		if c.RenewAt != 0 && c.RenewAt < 1_000_000 {
			t.Errorf("to be renewed at %d", c.RenewAt)
		}
		stored, err := json.Marshal(c)
		if err != nil || decodeCredential(stored).Access == "" {
			t.Errorf("cannot be stored: %v", err)
		}
	})
}

func FuzzDecodeCredential(f *testing.F) {
	for _, s := range []string{`{"client_id":"c","access_token":"a","renew_at":5}`, `{"renew_at":"x"}`, `[]`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := decodeCredential(raw)
		c.drop()
		if c.Access != "" || c.Refresh != "" {
			t.Error("tokens stay")
		}
	})
}

func FuzzChallenge(f *testing.F) {
	for _, s := range []string{`Bearer resource_metadata="https://x", scope="a b"`, `Basic realm="x", Bearer error=invalid_token`, `"`, `Bearer a="\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, scope := range validScopes(splitScopes(bearer(http.Header{"Www-Authenticate": {text}})["scope"])) {
			if strings.ContainsAny(scope, " \"\\\r\n") {
				t.Errorf("%q is no scope", scope)
			}
		}
	})
}

// What covers a server is the server or above it, at the same place.
func TestCovers(t *testing.T) {
	server, _ := url.Parse("https://a.example/x/mcp?k=1")
	for resource, want := range map[string]bool{"https://a.example/x/mcp": true, "https://a.example/x/mcp?k=1": true, "https://A.example:443/x/mcp/": true,
		"https://a.example/x": true, "https://a.example/": true, "https://a.example": true, "https://a.example/x/mcp?k=2": false, "https://a.example/x/m": false,
		"https://a.example/x/mcp/y": false, "https://a.example/x/mcp#f": false, "http://a.example/x/mcp": false, "https://a.example:8443/x/mcp": false,
		"https://u@a.example/x/mcp": false, "https://b.example/x/mcp": false, "https://a.example.evil.example/x/mcp": false, "": false, "/x/mcp": false,
		"https://a.example/x/../x/mcp": false, "::": false} {
		if got := covers(resource, server); got != want {
			t.Errorf("%q: %v", resource, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.StringMatching(`https?://[a.]{1,3}(:443)?(/[xm]{0,2}){0,3}`).Draw(t, "resource")
		s := rapid.StringMatching(`https://[a.]{1,3}(/[xm]{1,2}){0,3}`).Draw(t, "server")
		u, err := url.Parse(s)
		if err == nil && covers(r, u) && !strings.HasPrefix(strings.Replace(s, ":443", "", 1)+"/", strings.TrimSuffix(strings.Replace(r, ":443", "", 1), "/")) {
			t.Fatalf("%s covers %s", r, s)
		}
	})
}
