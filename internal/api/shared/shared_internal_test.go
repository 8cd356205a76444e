package shared

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
)

func TestEachClientHasItsOwnLimit(t *testing.T) {
	var l limiter
	now := time.Unix(1e9, 0)
	for i := range burst {
		if err := l.take("a", now); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if err := l.take("a", now); !fault.Is(err, fault.RateLimited) {
		t.Fatalf("beyond the burst: %v", err)
	}
	if err := l.take("b", now); err != nil {
		t.Errorf("another client: %v", err)
	}
	now = now.Add(time.Second)
	for i := range perSecond {
		if err := l.take("a", now); err != nil {
			t.Errorf("a second later, request %d: %v", i, err)
		}
	}
	if err := l.take("a", now); err == nil {
		t.Error("more than a second's worth")
	}
}

func TestAClientHasFewRequestsAtATime(t *testing.T) {
	var l limiter
	var leaves []func()
	for range maxBusy {
		leave, err := l.enter("a")
		if err != nil {
			t.Fatal(err)
		}
		leaves = append(leaves, leave)
	}
	if _, err := l.enter("a"); !fault.Is(err, fault.RateLimited) {
		t.Errorf("one more: %v", err)
	}
	if leave, err := l.enter("b"); err != nil {
		t.Errorf("another client: %v", err)
	} else {
		leave()
	}
	for _, leave := range leaves {
		leave()
	}
	if _, err := l.enter("a"); err != nil || len(l.busy) != 1 {
		t.Errorf("when all have left: %v, %v", err, l.busy)
	}
}

func TestManyClientsTakeBoundedMemory(t *testing.T) {
	var l limiter
	now := time.Unix(1e9, 0)
	for i := range maxClients + 5000 {
		_ = l.take(fmt.Sprint(i), now)
	}
	if len(l.clients) > maxClients+1 {
		t.Errorf("%d clients are remembered", len(l.clients))
	}
	now = now.Add(time.Minute)
	if err := l.take("new", now); err != nil || len(l.clients) > 2 {
		t.Errorf("after a rest: %v, %d clients", err, len(l.clients))
	}
}

func TestRepositoriesWithoutCredentials(t *testing.T) {
	for in, want := range map[string]string{"o/r": "o/r", "https://x:y@h/o/r": "https://h/o/r", "https://token@h/o/r": "https://h/o/r",
		"/home/me/r": "", "file:///home/me/r": "", "": "", "%zz": ""} {
		if got := repository(in); got != want {
			t.Errorf("%q became %q, not %q", in, got, want)
		}
	}
}

// Whatever an event holds, what is to be hidden is in no part of its view.
func FuzzViewHidesEverywhere(f *testing.F) {
	f.Add(`{"id":"x","a":["hush",{"hush":{"b":"a hush b"}}],"thinking_blocks":["z"],"n":1e400}`)
	f.Add(`{"extended_content":[{"text":"\u0068ush"}]}`)
	f.Add(`"hu\u0073h"`)
	f.Fuzz(func(t *testing.T, raw string) {
		redact := func(s string) string { return strings.ReplaceAll(s, "hush", "***") }
		e := &conversation.Event{Kind: conversation.KindMessage, Raw: json.RawMessage(raw)}
		out, err := view(e, redact)
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%s became %s", raw, out)
		}
		var v any
		if json.Unmarshal(out, &v) == nil && strings.Contains(fmt.Sprint(v), "hush") {
			t.Fatalf("%s became %s", raw, out)
		}
	})
}
