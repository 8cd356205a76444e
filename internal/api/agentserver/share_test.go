package agentserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/internal/api/eventwire"
	"parley/internal/conversation"
)

// Followers share a rendering, and nobody gets one from before the call.
func TestStatesAreSharedButNeverOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := newSharing(), stateKey{id: "c"}
		var version, renders atomic.Int64
		render := func(context.Context) ([]byte, error) {
			renders.Add(1)
			v := version.Load()
			time.Sleep(time.Second)
			return fmt.Append(nil, v), nil
		}
		var all sync.WaitGroup
		for i := range 1000 {
			if i%100 == 0 {
				time.Sleep(100 * time.Millisecond)
				version.Add(1)
			}
			want := version.Load()
			all.Go(func() {
				frame, err := s.state(t.Context(), key, render)
				var got int64
				if _, scanErr := fmt.Sscan(string(frame), &got); err != nil || scanErr != nil || got < want {
					t.Errorf("version %d, want %d: %v", got, want, err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if n := renders.Load(); n > 3 {
			t.Errorf("%d renderings", n)
		}
		if len(s.states) != 0 {
			t.Errorf("%d are kept", len(s.states))
		}
	})
}

func TestAFailedStateIsToldToAll(t *testing.T) {
	s, bad := newSharing(), errors.New("no")
	for range 2 {
		if _, err := s.state(t.Context(), stateKey{}, func(context.Context) ([]byte, error) { return nil, bad }); !errors.Is(err, bad) {
			t.Error(err)
		}
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = s.state(t.Context(), stateKey{}, func(context.Context) ([]byte, error) { panic("x") })
	}()
	if frame, err := s.state(t.Context(), stateKey{}, func(context.Context) ([]byte, error) { return []byte("y"), nil }); err != nil || string(frame) != "y" {
		t.Errorf("after a panic: %s, %v", frame, err)
	}
	// Who leaves does not take the others' state along.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if frame, _ := s.state(ctx, stateKey{}, func(ctx context.Context) ([]byte, error) { return []byte("z"), ctx.Err() }); frame != nil && string(frame) != "z" {
		t.Errorf("%s", frame)
	}
}

func TestEventsWithoutNullsAreSharedWithinBounds(t *testing.T) {
	s := newSharing()
	for i := range 1000 {
		raw := `{"a":null,"n":` + fmt.Sprint(i) + `}`
		e := &conversation.Event{Seq: int64(i / 2), ID: fmt.Sprint(i), Raw: []byte(raw)} // two of each seq
		for range 2 {
			got, err := s.withoutNulls("c", e)
			want, wantErr := eventwire.WithoutNulls(e.Raw)
			if err != nil || wantErr != nil || string(got) != string(want) {
				t.Fatalf("%s, want %s; %v", got, want, err)
			}
		}
	}
	if len(s.events) != maxShared || len(s.order) != maxShared {
		t.Errorf("%d and %d are kept", len(s.events), len(s.order))
	}
	long := &conversation.Event{Seq: 5000, ID: "long", Raw: []byte(`{"a":null,"b":"` + strings.Repeat("x", maxSharedBytes) + `"}`)}
	if _, err := s.withoutNulls("c", long); err != nil || len(s.events) != maxShared {
		t.Errorf("%d, %v", len(s.events), err)
	}
	if _, ok := s.events[eventKey{"c", 5000, "long"}]; ok {
		t.Error("a long one is kept")
	}
}
