package httpkit

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestRateIsThatOfTheReference: 10 pass, 10 wait for a second, the others are refused
// and count as well.
func TestRateIsThatOfTheReference(t *testing.T) {
	t.Parallel()
	l := NewRateLimit(10)
	now := time.Now()
	for i := range 40 {
		want := pass
		if i >= 10 {
			want = delay
		}
		if i >= 20 {
			want = refuse
		}
		if got := l.take("192.0.2.1", now.Add(time.Duration(i)*10*time.Millisecond)); got != want {
			t.Errorf("request %d: %v", i+1, got)
		}
	}
	if got := l.take("192.0.2.2", now); got != pass {
		t.Errorf("another client: %v", got)
	}
	if got := l.take("192.0.2.1", now.Add(1200*time.Millisecond)); got != delay {
		t.Errorf("the refused ones do not count: %v", got)
	}
	if got := l.take("192.0.2.1", now.Add(5*time.Second)); got != pass {
		t.Errorf("after a rest: %v", got)
	}
}

// TestRateCountsAsIfAllWereKept compares with a list of all requests.
func TestRateCountsAsIfAllWereKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		l := NewRateLimit(limit)
		now := time.Unix(1000, 0)
		var all []time.Time
		for range rapid.IntRange(1, 60).Draw(rt, "requests") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(rt, "ms")) * time.Millisecond)
			all = append(all, now)
			n := 0
			for _, at := range all {
				if now.Sub(at) < time.Second {
					n++
				}
			}
			want := pass
			if n > limit {
				want = delay
			}
			if n > 2*limit {
				want = refuse
			}
			if got := l.take("192.0.2.1", now); got != want {
				rt.Fatalf("%d requests with a limit of %d: %v", n, limit, got)
			}
		}
	})
}

func TestRateTellsClientsApartByWhatACustomerHas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{{"192.0.2.1", "192.0.2.2", false}, {"2001:db8::1", "2001:db8::ffff:1", true}, {"2001:db8::1", "2001:db8:0:1::1", false},
		{"::ffff:192.0.2.1", "192.0.2.1", true}, {"fe80::1%eth0", "fe80::1%eth1", true}, {"", "garbage", true}} {
		if got := rateKey(c.a) == rateKey(c.b); got != c.same {
			t.Errorf("%s and %s: the same %v", c.a, c.b, got)
		}
	}
}

func TestRateMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l := NewRateLimit(1)
	now := time.Now()
	for i := range rateClients + 1000 {
		l.take(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), now)
	}
	if len(l.clients) > rateClients+1 {
		t.Errorf("%d clients", len(l.clients))
	}
	if got := l.take("198.51.100.1", now); got != refuse {
		t.Errorf("those beyond the bound are not one: %v", got)
	}
	if l.take("192.0.2.1", now.Add(2*time.Second)); len(l.clients) != 1 {
		t.Errorf("%d clients after a rest", len(l.clients))
	}
}

func TestRateAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewRateLimit(1)
		try := func(ctx context.Context, path string, header http.Header) (bool, *httptest.ResponseRecorder) {
			r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
			r.Header = header
			w := httptest.NewRecorder()
			return l.admitRate(w, r, "192.0.2.1"), w
		}
		for _, wait := range []time.Duration{0, time.Second} {
			began := time.Now()
			if on, _ := try(t.Context(), "/x", http.Header{}); !on || time.Since(began) != wait {
				t.Errorf("goes on %v after %v, want %v", on, time.Since(began), wait)
			}
		}
		time.Sleep(5 * time.Second)
		try(t.Context(), "/x", http.Header{})
		gone, leave := context.WithCancel(t.Context())
		leave()
		if on, _ := try(gone, "/x", http.Header{}); on {
			t.Error("one that left goes on")
		}
		on, w := try(t.Context(), "/x", http.Header{})
		if on || w.Code != 429 || strings.TrimSpace(w.Body.String()) != `{"message":"Too many requests"}` || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%v %d %s %v", on, w.Code, w.Body, w.Header())
		}
		for path, header := range map[string]http.Header{"/socket.io/": {}, "/x": {"Upgrade": {"websocket"}}} {
			if on, _ := try(t.Context(), path, header); !on {
				t.Errorf("%s counts", path)
			}
		}
		if on := (*RateLimit)(nil).admitRate(nil, nil, ""); !on {
			t.Error("no limit limits")
		}
	})
}
