package v0

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"parley/internal/api/httpkit"
	"parley/internal/api/v0/projection"
)

// trimmed are the members of observations that trajectories leave out (V0 section
// 8.4): what a browser showed, which is large.
var trimmed = [...]string{"dom_object", "axtree_object", "active_page_index", "last_browser_action", "last_browser_action_error",
	"focused_element_bid", "extra_element_properties", "screenshot", "set_of_marks"}

// trajectoryEvent renders an event for a trajectory, and says whether it is hidden.
func trajectoryEvent(e *projection.Event) (raw json.RawMessage, hidden bool, err error) {
	if raw, err = encode(e); err != nil || isHidden(raw) {
		return nil, err == nil, err
	}
	if e.Observation == "" || !slices.ContainsFunc(trimmed[:], func(name string) bool { return bytes.Contains(raw, []byte(`"`+name+`":`)) }) {
		return raw, false, nil
	}
	extras, err := json.Marshal(e.Extras)
	if err != nil {
		return nil, false, fmt.Errorf("trim event %d: %w", e.ID, err)
	}
	var tree any
	dec := json.NewDecoder(bytes.NewReader(extras))
	dec.UseNumber()
	if err := dec.Decode(&tree); err != nil {
		return nil, false, fmt.Errorf("trim event %d: %w", e.ID, err)
	}
	short := *e
	short.Extras = trim(tree)
	raw, err = encode(&short)
	return raw, false, err
}

// trim takes the members out, at any depth.
func trim(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for _, name := range trimmed {
			delete(x, name)
		}
		for k, e := range x {
			x[k] = trim(e)
		}
	case []any:
		for i, e := range x {
			x[i] = trim(e)
		}
	}
	return v
}

// isHidden reports whether an event is marked as hidden.
func isHidden(raw []byte) bool {
	if !bytes.Contains(raw, []byte(`"hidden":true`)) {
		return false
	}
	var v struct {
		Args, Extras struct {
			Hidden any `json:"hidden"`
		}
	}
	_ = json.Unmarshal(raw, &v) // members of another form hide nothing
	return v.Args.Hidden == true || v.Extras.Hidden == true
}

func trajectoryErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	if p.Status < http.StatusInternalServerError {
		return detailErrors(r, p)
	}
	return p.Status, map[string]any{"trajectory": nil, "error": "Failed to load the trajectory. " + p.Text}
}
