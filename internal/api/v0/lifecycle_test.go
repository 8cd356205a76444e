package v0_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	v0 "parley/internal/api/v0"
	"parley/internal/conversation"
	"parley/internal/store"
)

// listed returns the ids of one page.
func (r *rig) listed(query string) (ids []string, next *string) {
	r.Helper()
	var v struct {
		Results []struct {
			ID string `json:"conversation_id"`
		}
		Next *string `json:"next_page_id"`
	}
	r.decode("GET", "/api/conversations?"+query, "", &v)
	for _, c := range v.Results {
		ids = append(ids, c.ID)
	}
	return ids, v.Next
}

// TestListFiltersBeforePaging is choice 17 of the contract's section 20: pages are
// full, and the page ids of old servers count.
func TestListFiltersBeforePaging(t *testing.T) {
	r := newRig(t)
	var all []string
	for i := range 7 {
		id := string(conversation.NewID())
		kind := ""
		if i%2 == 0 {
			kind, all = `,"repository":"a/b"`, append([]string{id}, all...)
		}
		r.call("POST", "/api/conversations", fmt.Sprintf(`{"conversation_id":%q%s}`, id, kind))
	}
	first, next := r.listed("selected_repository=a/b&limit=3")
	if !slices.Equal(first, all[:3]) || next == nil {
		t.Fatalf("%v, want %v", first, all[:3])
	}
	second, end := r.listed("selected_repository=a/b&limit=3&page_id=" + url.QueryEscape(*next))
	if !slices.Equal(second, all[3:]) || end != nil {
		t.Errorf("%v, want %v", second, all[3:])
	}
	old := func(offset string) string {
		return url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(offset)))
	}
	for offset, want := range map[string][]string{"0": all[:2], "1": all[1:3], "3": all[3:], "4": nil, "9000": nil} {
		if got, _ := r.listed("selected_repository=a/b&limit=2&page_id=" + old(offset)); !slices.Equal(got, want) {
			t.Errorf("offset %s: %v, want %v", offset, got, want)
		}
	}
	for _, bad := range []string{"x", "%00", old("-1"), old("x"), "e30"} {
		r.want("GET", "/api/conversations?page_id="+bad, "", 400, `{"detail":"The page_id is not valid. Send the next_page_id of the page before."}`)
	}
}

func TestListLeavesOutWhatIsTooOld(t *testing.T) {
	r := newRig(t)
	id := r.conversation("hi")
	for age, want := range map[time.Duration]int{0: 1, time.Hour: 1, time.Nanosecond: 0} {
		r.change = func(c *v0.Config) { c.ListAge = age }
		r.restart()
		if got, _ := r.listed(""); len(got) != want {
			t.Errorf("%s: %v", age, got)
		}
	}
	r.want("DELETE", "/api/conversations/"+string(id), "", 200, "true") // it is there all the same
}

// TestOneMoreThanTheBoundStopsTheLeastRecentlyUpdated is section 7.4.
func TestOneMoreThanTheBoundStopsTheLeastRecentlyUpdated(t *testing.T) {
	r := newRig(t)
	r.change = func(c *v0.Config) { c.MaxLive = 2 }
	r.restart()
	a, b := r.conversation("a"), r.conversation("b")
	r.want("PATCH", "/api/conversations/"+string(a), `{"title":"newer"}`, 200, "true")
	foreign := conversation.NewID()
	r.callAs(otherKey, "POST", "/api/conversations", `{"conversation_id":"`+string(foreign)+`"}`)
	r.engine.ready(t, foreign, store.SandboxRunning)
	r.engine.took()
	c := conversation.NewID()
	r.engine.setBox(c, store.SandboxStarting)
	r.call("POST", "/api/conversations", `{"conversation_id":"`+string(c)+`"}`)
	if got := r.engine.took(); !slices.Equal(got, []string{"start", "interrupt", "freeze box-" + string(b)}) {
		t.Errorf("a start: %q", got)
	}
	r.engine.ready(t, c, store.SandboxRunning)
	r.call("POST", "/api/conversations/"+string(b)+"/start", `{}`)
	if got := r.engine.took(); !slices.Equal(got, []string{"resume " + string(b), "interrupt", "freeze box-" + string(a)}) {
		t.Errorf("a start of what was stopped: %q", got)
	}
	for id, want := range map[conversation.ID]string{a: "STOPPED", b: "RUNNING", c: "RUNNING"} {
		var got struct{ Status string }
		r.decode("GET", "/api/conversations/"+string(id), "", &got)
		if got.Status != want {
			t.Errorf("%s is %s, want %s", id, got.Status, want)
		}
	}
	if got := r.engine.view(&conversation.Conversation{SandboxID: "box-" + string(foreign)}); got.SandboxStatus != store.SandboxRunning {
		t.Error("another user's was stopped")
	}
}

// A conversation that was just started counts also before it has a sandbox.
func TestWhatHasNoSandboxYetCounts(t *testing.T) {
	r := newRig(t)
	r.change = func(c *v0.Config) { c.MaxLive = 1 }
	r.restart()
	a := r.conversation("a")
	r.engine.took()
	r.call("POST", "/api/conversations", `{}`)
	if got := r.engine.took(); !slices.Equal(got, []string{"start", "interrupt", "freeze box-" + string(a)}) {
		t.Errorf("%q", got)
	}
}

func TestWithoutABoundNothingIsStopped(t *testing.T) {
	r := newRig(t)
	for range 5 {
		r.conversation("x")
	}
	r.call("POST", "/api/conversations", `{}`)
	if got := r.engine.took(); !slices.Equal(got, []string{"start"}) {
		t.Errorf("%q", got)
	}
}

func TestARenameIsAnUpdate(t *testing.T) {
	r := newRig(t)
	id := string(r.conversation("hi"))
	last := func() string {
		var got struct {
			Last *string `json:"last_updated_at"`
		}
		r.decode("GET", "/api/conversations/"+id, "", &got)
		if got.Last == nil {
			return ""
		}
		return *got.Last
	}
	if got := last(); got != "" {
		t.Errorf("before the first event: %s", got)
	}
	r.call("PATCH", "/api/conversations/"+id, `{"title":"x"}`)
	if got, err := time.Parse(time.RFC3339Nano, last()); err != nil || time.Since(got) > time.Minute {
		t.Errorf("after it: %v %v", got, err)
	}
}

// TestTitleIsTrimmedAfterItsLengthWasChecked: 200 characters with the blanks around.
func TestTitleIsTrimmedAfterItsLengthWasChecked(t *testing.T) {
	r := newRig(t)
	id := string(r.conversation("hi"))
	for body, status := range map[string]int{`{"title":" ` + fmt.Sprintf("%0199d", 0) + `"}`: 200, `{"title":"  ` + fmt.Sprintf("%0199d", 0) + `"}`: 422,
		`{"title":"\u65e5"}`: 200, `{"title":7}`: 422, `{"title":null}`: 422, `[]`: 422, ``: 422, `null`: 422, `{"title":"a","title":"b"}`: 200} {
		if code, answer := r.call("PATCH", "/api/conversations/"+id, body); code != status {
			t.Errorf("%s: %d %s", body, code, answer)
		}
	}
}
