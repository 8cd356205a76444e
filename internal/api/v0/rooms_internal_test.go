package v0

import (
	"testing"
	"time"
)

// TestLooksOfManyRoomsAreBounded: however many rooms there are, together they look a
// bounded number of times in a second; a few of them look as often as is useful.
func TestLooksOfManyRoomsAreBounded(t *testing.T) {
	for _, c := range []struct {
		status string
		rooms  int
		want   time.Duration
	}{
		{statusRunning, 1, time.Second}, {statusRunning, 200, time.Second}, {statusRunning, 1000, 4 * time.Second},
		{statusStarting, 1, 200 * time.Millisecond}, {statusStopped, 10, 200 * time.Millisecond}, {statusStarting, 1000, 4 * time.Second},
	} {
		if got := lookPause(c.status, c.rooms); got != c.want {
			t.Errorf("%s, %d rooms: %v", c.status, c.rooms, got)
		}
	}
}
