package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/internal/tool"
	"parley/internal/tool/browser/cdp"
)

const (
	maxTabs  = 30 // a page that opens more finds them closed
	maxNotes = 20 // that one observation tells
)

// tab is a page that can be looked at.
type tab struct {
	target  string // the browser's id of it; its main frame has the same
	session string
	url     string
	title   string
	loading bool
	crashed bool
}

// tabs are what a connection knows of its browser: pages, and what happened since
// somebody looked. Events change it while calls read it.
type tabs struct {
	mu        sync.Mutex
	list      []*tab // in the order of their opening
	active    string // target
	notes     []string
	lost      int           // notes that did not fit
	changed   chan struct{} // closed and replaced with every change
	downloads map[string]*download
	record    *recording // nil = none
}

func newTabs() *tabs {
	return &tabs{changed: make(chan struct{}), downloads: map[string]*download{}}
}

// wait returns when ok holds, or with the context's cause. ok runs under the lock.
func (t *tabs) wait(ctx context.Context, ok func() bool) error {
	for {
		t.mu.Lock()
		done, changed := ok(), t.changed
		t.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// update changes something under the lock and wakes who waits.
func (t *tabs) update(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
	close(t.changed)
	t.changed = make(chan struct{})
}

// noteLocked keeps something that the model should hear of with the next observation.
func (t *tabs) noteLocked(format string, args ...any) {
	if len(t.notes) >= maxNotes {
		t.lost++
		return
	}
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// takeNotes returns what happened since the last call.
func (t *tabs) takeNotes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	notes := t.notes
	if t.lost > 0 {
		notes = append(notes, fmt.Sprintf("%d more things happened.", t.lost))
	}
	t.notes, t.lost = nil, 0
	return notes
}

func (t *tabs) byTargetLocked(target string) *tab {
	i := slices.IndexFunc(t.list, func(x *tab) bool { return x.target == target })
	if i < 0 {
		return nil
	}
	return t.list[i]
}

func (t *tabs) bySessionLocked(session string) *tab {
	i := slices.IndexFunc(t.list, func(x *tab) bool { return x.session == session })
	if i < 0 {
		return nil
	}
	return t.list[i]
}

// current returns a copy of the active tab; ok is false if there is none.
func (t *tabs) current() (now tab, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.byTargetLocked(t.active); found != nil {
		return *found, true
	}
	return tab{}, false
}

// snapshot returns copies of all tabs and the target of the active one.
func (t *tabs) snapshot() (all []tab, active string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.list {
		all = append(all, *x)
	}
	return all, t.active
}

// find returns the tab that a model names by the end of its id.
func (t *tabs) find(id string) (tab, error) {
	all, _ := t.snapshot()
	want := strings.ToUpper(strings.TrimSpace(id))
	var found []tab
	for _, x := range all {
		if want != "" && strings.HasSuffix(x.target, want) {
			found = append(found, x)
		}
	}
	if len(found) != 1 {
		return tab{}, tool.Wrong("There is no tab %q. The tabs are:\n%s", id, t.text())
	}
	return found[0], nil
}

// label is what a model calls a tab: the shortest end of its id, of four letters at
// least, that no other tab has.
func label(all []tab, target string) string {
	for n := 4; n < len(target); n++ {
		end := target[len(target)-n:]
		if !slices.ContainsFunc(all, func(x tab) bool { return x.target != target && strings.HasSuffix(x.target, end) }) {
			return end
		}
	}
	return target
}

// text lists the tabs.
func (t *tabs) text() string {
	all, active := t.snapshot()
	var b strings.Builder
	for _, x := range all {
		fmt.Fprintf(&b, "%s  %s  %s", label(all, x.target), clip(oneLine(x.title), 100), clip(x.url, 200))
		if x.target == active {
			b.WriteString("  (active)")
		}
		if x.crashed {
			b.WriteString("  (crashed)")
		}
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return "(none)"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// sender is what handlers need of a connection.
type sender interface {
	Send(session, method string, params any)
	Context() context.Context
}

var _ sender = (*cdp.Conn)(nil)

// handlers are what happens on the browser's events, by their method.
var handlers = map[string]func(*tabs, sender, cdp.Event){
	"Target.attachedToTarget":      (*tabs).attached,
	"Target.detachedFromTarget":    (*tabs).detached,
	"Target.targetInfoChanged":     (*tabs).infoChanged,
	"Target.targetCrashed":         (*tabs).crashed,
	"Inspector.targetCrashed":      (*tabs).crashed,
	"Page.frameStartedLoading":     (*tabs).loading,
	"Page.frameStoppedLoading":     (*tabs).loading,
	"Page.javascriptDialogOpening": (*tabs).dialog,
	"Page.screencastFrame":         (*tabs).frame,
	"Fetch.requestPaused":          (*tabs).fulfil,
	"Browser.downloadWillBegin":    (*tabs).downloadBegins,
	"Browser.downloadProgress":     (*tabs).downloadProgress,
}

// handle takes an event. What it cannot read it leaves alone.
func (t *tabs) handle(conn sender, e cdp.Event) {
	if h := handlers[e.Method]; h != nil {
		h(t, conn, e)
	}
}

type targetInfo struct {
	Target string `json:"targetId"`
	Type   string `json:"type"`
	Title  string `json:"title"`
	URL    string `json:"url"`
	Opener string `json:"openerId"`
}

// attached takes a page in: one that was there, or a new one. It waits for us, so
// that no dialog of its first script comes before we listen.
func (t *tabs) attached(conn sender, e cdp.Event) {
	var p struct {
		Session string     `json:"sessionId"`
		Info    targetInfo `json:"targetInfo"`
	}
	if json.Unmarshal(e.Params, &p) != nil || p.Session == "" {
		return
	}
	conn.Send(p.Session, "Page.enable", nil)
	conn.Send(p.Session, "Inspector.enable", nil)
	conn.Send(p.Session, "Runtime.runIfWaitingForDebugger", nil)
	if p.Info.Type != "page" {
		return
	}
	t.update(func() {
		if len(t.list) >= maxTabs {
			conn.Send("", "Target.closeTarget", map[string]any{"targetId": p.Info.Target})
			t.noteLocked("A page wanted to open one more tab than the %d that are allowed.", maxTabs)
			return
		}
		if t.record != nil {
			conn.Send(p.Session, "Page.startScreencast", screencast)
		}
		t.list = append(t.list, &tab{target: p.Info.Target, session: p.Session, url: p.Info.URL, title: p.Info.Title})
		switch {
		case p.Info.Opener != "" && t.byTargetLocked(p.Info.Opener) != nil:
			t.active = p.Info.Target
			t.noteLocked("The page opened a new tab, which is the active one now.")
		case t.active == "":
			t.active = p.Info.Target
		}
	})
}

func (t *tabs) detached(_ sender, e cdp.Event) {
	var p struct {
		Session string `json:"sessionId"`
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	t.update(func() {
		gone := t.bySessionLocked(p.Session)
		if gone == nil {
			return
		}
		t.list = slices.DeleteFunc(t.list, func(x *tab) bool { return x == gone })
		if t.active != gone.target {
			return
		}
		t.active = ""
		if len(t.list) > 0 {
			t.active = t.list[len(t.list)-1].target
			t.noteLocked("The tab was closed; another one is active now.")
		}
	})
}

func (t *tabs) infoChanged(_ sender, e cdp.Event) {
	var p struct {
		Info targetInfo `json:"targetInfo"`
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	t.update(func() { t.learnLocked(p.Info) })
}

// learnLocked takes over what the browser says of a page.
func (t *tabs) learnLocked(info targetInfo) {
	if x := t.byTargetLocked(info.Target); x != nil {
		x.url, x.title = info.URL, info.Title
	}
}

func (t *tabs) crashed(_ sender, e cdp.Event) {
	var p struct {
		Target string `json:"targetId"`
	}
	if len(e.Params) > 0 && json.Unmarshal(e.Params, &p) != nil {
		return
	}
	t.update(func() {
		x := t.byTargetLocked(p.Target)
		if p.Target == "" {
			x = t.bySessionLocked(e.Session)
		}
		if x != nil && !x.crashed {
			x.crashed, x.loading = true, false
			t.noteLocked("The page of tab %s crashed.", x.target[max(0, len(x.target)-4):])
		}
	})
}

func (t *tabs) loading(_ sender, e cdp.Event) {
	var p struct {
		Frame string `json:"frameId"`
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	t.update(func() {
		if x := t.byTargetLocked(p.Frame); x != nil { // frames below the main one do not count
			x.loading = e.Method == "Page.frameStartedLoading"
		}
	})
}

// dialog answers a dialog as if it was accepted: while one is open, the page stands
// still.
func (t *tabs) dialog(conn sender, e cdp.Event) {
	var p struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Default string `json:"defaultPrompt"`
	}
	_ = json.Unmarshal(e.Params, &p) // it has to be answered anyway
	conn.Send(e.Session, "Page.handleJavaScriptDialog", map[string]any{"accept": true, "promptText": p.Default})
	t.update(func() {
		what := fmt.Sprintf("The page showed a dialog (%s): %q. It was accepted.", p.Type, clip(oneLine(p.Message), 500))
		switch p.Type {
		case "alert":
			what = fmt.Sprintf("The page showed an alert: %q.", clip(oneLine(p.Message), 500))
		case "prompt":
			what = fmt.Sprintf("The page asked (prompt): %q. The answer was its default, %q.", clip(oneLine(p.Message), 500), clip(p.Default, 100))
		case "beforeunload":
			what = "The page asked whether to leave it; it was left."
		}
		t.noteLocked("%s", what)
	})
}

// loaded waits until a tab has stopped loading, but not longer than limit, and
// reports whether it has.
func (t *tabs) loaded(ctx context.Context, target string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return t.wait(ctx, func() bool {
		x := t.byTargetLocked(target)
		return x == nil || x.crashed || !x.loading
	}) == nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// clip cuts a text to most characters.
func clip(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return string(r[:most-3]) + "..."
}
