package v0

import (
	"encoding/json"
	"testing"

	"parley/internal/api/v0/projection"
)

func TestTrajectoriesLeaveOutWhatABrowserShowed(t *testing.T) {
	t.Parallel()
	text := "kept: \"screenshot\":"
	e := &projection.Event{ID: 3, Observation: "browse", Content: &text, Extras: map[string]any{"url": "u", "screenshot": "png", "set_of_marks": "x",
		"n": json.Number("12345678901234567890"), "list": []any{map[string]any{"dom_object": 1, "axtree_object": 2, "more": map[string]any{"active_page_index": 0, "kept": 1}}}}}
	raw, hidden, err := trajectoryEvent(e)
	if err != nil || hidden {
		t.Fatal(err)
	}
	var got struct{ Extras json.RawMessage }
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if want := `{"list":[{"more":{"kept":1}}],"n":12345678901234567890,"url":"u"}`; string(got.Extras) != want {
		t.Errorf("%s", got.Extras)
	}
	if e.Extras.(map[string]any)["screenshot"] != "png" {
		t.Error("the event itself was changed")
	}
}

func TestTrajectoriesKeepTheArgumentsOfActions(t *testing.T) {
	t.Parallel()
	e := &projection.Event{Action: "run", Args: map[string]any{"screenshot": "text", "hidden": false}}
	if raw, hidden, err := trajectoryEvent(e); err != nil || hidden || string(raw) != `{"id":0,"timestamp":"","source":"","message":"","action":"run","args":{"hidden":false,"screenshot":"text"}}` {
		t.Errorf("%s %v %v", raw, hidden, err)
	}
}

func TestHiddenEventsAreLeftOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event projection.Event
		want  bool
	}{
		"an action":                    {projection.Event{Action: "run", Args: map[string]any{"hidden": true}}, true},
		"an observation":               {projection.Event{Observation: "run", Extras: map[string]any{"hidden": true}}, true},
		"one that says so in its text": {projection.Event{Message: `"hidden":true`, Action: "message", Args: map[string]any{"content": `{"hidden":true}`}}, false},
		"a member further down":        {projection.Event{Observation: "mcp", Extras: map[string]any{"arguments": map[string]any{"hidden": true}}}, false},
		"another type":                 {projection.Event{Observation: "mcp", Extras: []any{map[string]any{"hidden": true}}}, false},
	} {
		if _, hidden, err := trajectoryEvent(&c.event); err != nil || hidden != c.want {
			t.Errorf("%s: hidden %v, %v", name, hidden, err)
		}
	}
}
