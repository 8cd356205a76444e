package api_test

import (
	"net/url"
	"testing"

	"parley/internal/conversation"
)

// V1 0.3: order, doubles and holes stay, also where an answer is written piece by piece.
func TestBatchOfEvents(t *testing.T) {
	w := newWorld(t)
	id, _ := w.begin(map[string]any{"initial_message": userSays("hi")})
	w.waitFor(id, conversation.Finished)
	var ids, want []string
	for _, e := range w.events(id) {
		ids = append(ids, e.ID, "none", e.ID)
		want = append(want, e.ID, "", e.ID)
	}
	for _, n := range []int{1, 3, 4, 5, len(ids)} {
		got := w.call(200, "GET", "/api/v1/conversation/"+id+"/events?"+url.Values{"id": ids[:n]}.Encode(), nil).list()
		if len(got) != n {
			t.Fatalf("%d of %d", len(got), n)
		}
		for i, e := range got {
			if want[i] == "" && e != nil || want[i] != "" && walk(t, e, "id") != want[i] {
				t.Errorf("%d: %v, want %s", i, e, want[i])
			}
		}
	}
}
