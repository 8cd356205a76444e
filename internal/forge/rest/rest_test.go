package rest

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"parley/internal/fault"
)

func TestWhichAddressesAreConnectedTo(t *testing.T) {
	for _, c := range []struct {
		host, addr  string
		public, own bool
	}{
		{"github.com", "140.82.121.4", true, true},
		{"git.example.com", "10.1.2.3", false, true},
		{"git.example.com", "fd00::5", false, true},
		{"git.example.com", "100.64.1.1", false, true},
		{"git.example.com", "127.0.0.1", false, false}, // a name that leads here
		{"127.0.0.1", "127.0.0.1", false, true},
		{"localhost", "::1", false, true},
		{"git.example.com", "169.254.169.254", false, false},
		{"169.254.169.254", "169.254.169.254", false, false},
		{"git.example.com", "fd00:ec2::254", false, false},
		{"git.example.com", "168.63.129.16", false, false},
		{"git.example.com", "64:ff9b::7f00:1", false, false},
		{"git.example.com", "0.0.0.0", false, false},
		{"git.example.com", "224.0.0.1", false, false},
	} {
		for own, want := range map[bool]bool{false: c.public, true: c.own} {
			err := (&dialer{own: own}).check(c.host, netip.MustParseAddr(c.addr), isLoopback(c.host))
			if (err == nil) != want || err != nil && !fault.Is(err, fault.Forbidden) {
				t.Errorf("%s at %s, own=%v: %v", c.host, c.addr, own, err)
			}
		}
	}
}

func TestAPublicClientConnectsToNothingHere(t *testing.T) {
	client := NewHTTP(false)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	if fault.CodeOf(err) != CodeAddress {
		t.Errorf("%v", err)
	}
}

func TestTheNextPageIsTakenFromTheLink(t *testing.T) {
	for link, want := range map[string]string{
		`<https://api.example.com/x?page=2&per_page=5>; rel="next", <https://api.example.com/x?page=9>; rel="last"`: "2",
		`<https://api.example.com/x?page=1>; rel="prev", <https://other.example.com/?page=3>; REL=next`:             "3",
		`<https://api.example.com/x?page=9>; rel="last"`:                                                            "",
		`<x?cursor=1>; rel="next"`: "",
		`garbage; rel="next"`:      "",
		``:                         "",
	} {
		if got := NextPage(http.Header{"Link": {link}}, "page"); got != want {
			t.Errorf("%q: %q, want %q", link, got, want)
		}
	}
}

func TestHowLongToWait(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "-5": 0, "": 0, "soon": 0, "1800000030": 30 * time.Second,
		"1700000000": 0, now.Add(time.Minute).UTC().Format(http.TimeFormat): time.Minute, "99999999999999999999": 0} {
		if got := waitOf(text, now); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add(`<https://a/?page=2>; rel="next"`, "17")
	f.Add(`<>;;,<`, "Sun, 06 Nov 1994 08:49:37 GMT")
	f.Fuzz(func(t *testing.T, link, after string) {
		NextPage(http.Header{"Link": {link}}, "page")
		r := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {after}}}
		if wait, limited := rateLimit(r, time.Now()); !limited || wait < 0 || wait > maxWait {
			t.Fatalf("%q: %v, %v", after, wait, limited)
		}
	})
}
