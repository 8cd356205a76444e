package api_test

import (
	"path"
	"testing"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/store"
)

func (w *world) strategy(name string) {
	w.Helper()
	w.call(200, "POST", "/api/v1/settings", map[string]any{"sandbox_grouping_strategy": name})
}

// born starts a conversation and returns its id, its sandbox and its directory.
func (w *world) born(body map[string]any) (id, box, dir string) {
	w.Helper()
	id, a := w.begin(body)
	return id, a.text("sandbox_id"), a.text("workspace", "working_dir")
}

func TestGroupingChoosesTheSandbox(t *testing.T) {
	w := newWorld(t)
	none := map[string]any{}
	_, first, _ := w.born(none)
	old, second, _ := w.born(none)
	if first == second {
		t.Fatal("without a strategy two conversations share a sandbox")
	}
	// The first sandbox rests: its conversation was changed before the second's.
	w.call(200, "PATCH", "/api/v1/app-conversations/"+old, map[string]any{"title": "used"})
	w.strategy("LEAST_RECENTLY_USED")
	_, box, _ := w.born(none)
	if box != first {
		t.Errorf("LEAST_RECENTLY_USED: %s, not %s", box, first)
	}
	w.strategy("FEWEST_CONVERSATIONS")
	if _, box, _ = w.born(none); box != second {
		t.Errorf("FEWEST_CONVERSATIONS: %s, not %s", box, second)
	}
	w.strategy("GROUP_BY_NEWEST")
	if _, box, _ = w.born(none); box != second {
		t.Errorf("GROUP_BY_NEWEST: %s, not %s", box, second)
	}
	w.strategy("ADD_TO_ANY")
	if _, box, _ = w.born(none); box != first && box != second {
		t.Errorf("ADD_TO_ANY: %s", box)
	}
	w.strategy("GROUP_BY_NEWEST")
	w.call(200, "POST", "/api/v1/sandboxes/"+second+"/pause", nil)
	w.eventually("the pause", func() bool {
		return w.call(200, "GET", "/api/v1/sandboxes?id="+second, nil).text(0, "status") == "PAUSED"
	})
	if _, box, _ = w.born(none); box != first {
		t.Errorf("beside a paused sandbox: %s, not %s", box, first)
	}
	if _, box, _ = w.born(map[string]any{"sandbox_id": second}); box != second {
		t.Errorf("a named sandbox lost to the strategy: %s", box)
	}
	w.strategy("NO_GROUPING")
	if _, box, _ = w.born(none); box == first || box == second {
		t.Error("NO_GROUPING shares a sandbox")
	}
}

func TestGroupedConversationsHaveTheirOwnDirectories(t *testing.T) {
	w := newWorld(t)
	w.strategy("ADD_TO_ANY")
	seen, box := map[string]bool{}, ""
	for i := range 3 {
		id, b, dir := w.born(map[string]any{})
		if box = b; i > 0 && b != box {
			t.Errorf("conversation %d is in %s", i, b)
		}
		if path.Base(dir) != id || seen[dir] {
			t.Errorf("conversation %d works in %s", i, dir)
		}
		seen[dir] = true
	}
	for dir := range seen {
		for other := range seen {
			if dir != other && path.Dir(dir) != path.Dir(other) {
				t.Errorf("%s is not beside %s", dir, other)
			}
		}
	}
}

// A full sandbox, and one that is not what the conversation would get, is not joined.
func TestGroupingLeavesSandboxesThatDoNotFit(t *testing.T) {
	w := newWorld(t)
	w.strategy("ADD_TO_ANY")
	_, box, _ := w.born(map[string]any{})
	w.call(200, "POST", "/api/v1/settings", map[string]any{"remote_runtime_resource_factor": 2})
	_, big, _ := w.born(map[string]any{})
	if big == box {
		t.Error("a sandbox with other limits was joined")
	}
	for range 19 {
		check(t, w.store.Conversations().Create(t.Context(), &conversation.Conversation{ID: conversation.NewID(), Owner: account.FirstUserID, SandboxID: big}))
	}
	if _, next, _ := w.born(map[string]any{}); next == box || next == big {
		t.Errorf("joined %s", next)
	}
	if n, err := w.store.Conversations().Count(t.Context(), store.ConversationQuery{SandboxID: box}); err != nil || n != 1 {
		t.Errorf("%d conversations, %v", n, err)
	}
	// Another user's sandboxes are none of this one's.
	a := w.as(otherKey, "POST", "/api/v1/settings", map[string]any{"sandbox_grouping_strategy": "ADD_TO_ANY"}).is(200)
	task := w.as(otherKey, "POST", "/api/v1/app-conversations", map[string]any{}).is(200).text("id")
	w.eventually("READY", func() bool {
		a = w.as(otherKey, "GET", "/api/v1/app-conversations/start-tasks?ids="+task, nil).is(200)
		return a.text(0, "status") == "READY"
	})
	if got := a.text(0, "sandbox_id"); got == box || got == big {
		t.Error("another user's sandbox was joined")
	}
}

func TestACPModelCannotBeSwitched(t *testing.T) {
	w := newWorld(t)
	id, _ := w.begin(map[string]any{})
	path := "/api/v1/app-conversations/" + id + "/switch_acp_model"
	if a := w.call(400, "POST", path, map[string]any{"model": "x"}); a.text("code") != "not_acp" {
		t.Errorf("%s", a.body)
	}
	w.call(422, "POST", path, map[string]any{"model": ""})
	w.as(otherKey, "POST", path, map[string]any{"model": "x"}).is(404)
}

func TestTraceMetadataIsChecked(t *testing.T) {
	w := newWorld(t)
	w.call(200, "POST", "/api/v1/app-conversations", map[string]any{"observability_metadata": map[string]any{"a": 1, "b": []any{"x", "y"}, "c": true}})
	for _, bad := range []any{map[string]any{"a": map[string]any{}}, map[string]any{"a": []any{"x", 1}}, map[string]any{"a": nil}} {
		w.call(422, "POST", "/api/v1/app-conversations", map[string]any{"observability_metadata": bad})
	}
}
