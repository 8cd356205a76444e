package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/internal/tool"
)

const (
	// reactTime is how long a page may take to begin with what a click causes.
	reactTime = 150 * time.Millisecond
	maxFrames = 40 // of one page that are read
	// objectGroup names the references to objects in pages that are let go together.
	objectGroup = "agent"
)

//go:embed page.js
var pageScript string

// errSlow is a step that took too long.
type errSlow struct {
	what  string
	after time.Duration
}

func (e errSlow) Error() string { return fmt.Sprintf("%s within %v.", e.what, e.after) }

// within bounds a step; what says in words what did not happen.
func within(ctx context.Context, limit time.Duration, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, errSlow{what, limit})
}

// about is what a page says of itself.
type about struct {
	URL     string `json:"url"`
	Title   string `json:"title"`
	Type    string `json:"type"`
	Status  int    `json:"status"`
	Visible bool   `json:"visible"`
	Huge    bool   `json:"huge"` // so many elements that details are left out
}

// active returns the tab that calls work on, which can be read.
func (b *browser) active(ctx context.Context) (tab, error) {
	now, ok := b.tabs.current()
	if !ok {
		return b.open(ctx)
	}
	if now.crashed {
		return now, tool.Wrong("The page of this tab crashed. Navigate to load it again, or close the tab.")
	}
	return now, nil
}

// eval runs a function of page.js in the main frame of a tab.
func (b *browser) eval(ctx context.Context, x tab, function string, arg, out any) error {
	return b.evalIn(ctx, x, x.target, function, arg, out)
}

// evalIn runs a function of page.js in a frame and decodes what it returns.
func (b *browser) evalIn(ctx context.Context, x tab, frame, function string, arg, out any) error {
	value, err := b.run(ctx, x, frame, function, arg, true)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(value.Value, out)
}

// world is our own world of a frame: the same one until the frame loads something else.
func (b *browser) world(ctx context.Context, x tab, frame string) (int, error) {
	var world struct {
		ID int `json:"executionContextId"`
	}
	err := b.conn.Call(ctx, x.session, "Page.createIsolatedWorld", map[string]any{"frameId": frame, "worldName": "agent"}, &world)
	return world.ID, err
}

// remote is a value in a page.
type remote struct {
	Subtype string          `json:"subtype"`
	Object  string          `json:"objectId"`
	Value   json.RawMessage `json:"value"`
}

// release lets go of the objects in a tab to which run gave references.
func (b *browser) release(x tab) {
	b.conn.Send(x.session, "Runtime.releaseObjectGroup", map[string]any{"objectGroup": objectGroup})
}

// run runs a function of page.js in our own world of a frame.
func (b *browser) run(ctx context.Context, x tab, frame, function string, arg any, byValue bool) (remote, error) {
	ctx, cancel := within(ctx, b.times.Step, "The page did not respond")
	defer cancel()
	world, err := b.world(ctx, x, frame)
	if err != nil {
		return remote{}, b.unresponsive(x, err)
	}
	var done struct {
		Result    remote `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err = b.conn.Call(ctx, x.session, "Runtime.callFunctionOn", map[string]any{
		"executionContextId":  world,
		"functionDeclaration": "function(name, arg) {\n" + pageScript + "\nreturn lib[name](arg); }",
		"arguments":           []map[string]any{{"value": function}, {"value": arg}},
		"returnByValue":       byValue, "awaitPromise": true, "objectGroup": objectGroup,
	}, &done)
	if err != nil {
		return remote{}, b.unresponsive(x, err)
	}
	if done.Exception != nil {
		return remote{}, fmt.Errorf("%s in the page: %s %s", function, done.Exception.Text, clip(done.Exception.Exception.Description, 500))
	}
	return done.Result, nil
}

// unresponsive stops the script of a page that does not answer, so that one endless
// loop does not cost the tab.
func (b *browser) unresponsive(x tab, err error) error {
	var slow errSlow
	if errors.As(err, &slow) {
		b.conn.Send(x.session, "Runtime.terminateExecution", nil)
		return errSlow{"Its scripts keep the page busy, and were stopped. It did not respond", slow.after}
	}
	return err
}

// frames lists the frames of a tab, the main one first, as many as are read.
func (b *browser) frames(ctx context.Context, x tab) ([]frameInfo, error) {
	ctx, cancel := within(ctx, b.times.Step, "The page did not respond")
	defer cancel()
	var answer struct {
		Tree frameTree `json:"frameTree"`
	}
	if err := b.conn.Call(ctx, x.session, "Page.getFrameTree", nil, &answer); err != nil {
		return nil, b.unresponsive(x, err)
	}
	list := answer.Tree.flat(nil)
	return list[:min(len(list), maxFrames)], nil
}

type frameInfo struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

type frameTree struct {
	Frame    frameInfo   `json:"frame"`
	Children []frameTree `json:"childFrames"`
}

func (f frameTree) flat(list []frameInfo) []frameInfo {
	list = append(list, f.Frame)
	for _, c := range f.Children {
		list = c.flat(list)
	}
	return list
}

// settle waits until what an action caused is done: a page that loads, scripts that
// change it. A page that goes on is left to it.
func (b *browser) settle(ctx context.Context) error {
	now, ok := b.begun(ctx)
	if !ok || now.crashed {
		return context.Cause(ctx)
	}
	if !b.tabs.loaded(ctx, now.target, b.times.Load) && ctx.Err() == nil {
		b.tabs.update(func() { b.tabs.noteLocked("The page is still loading.") })
		return nil
	}
	quiet, cancel := context.WithTimeout(ctx, 2*time.Second)
	_ = b.eval(quiet, now, "quiet", map[string]any{"still": 100, "limit": 1000}, nil)
	cancel()
	return context.Cause(ctx)
}

// begun waits for what an action may cause to begin, and returns the tab that is active
// then. A tab that the page opened gets more time: it starts a page first.
func (b *browser) begun(ctx context.Context) (tab, bool) {
	before, _ := b.tabs.current()
	if b.moves(ctx, before, reactTime) {
		if now, ok := b.tabs.current(); ok && now.target != before.target && !now.loading {
			b.moves(ctx, now, 4*reactTime)
		}
	}
	return b.tabs.current()
}

// moves waits until a tab loads, or another one is active, and reports whether that
// came to be.
func (b *browser) moves(ctx context.Context, before tab, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return b.tabs.wait(ctx, func() bool {
		x := b.tabs.byTargetLocked(b.tabs.active)
		return x == nil || x.loading || x.target != before.target
	}) == nil
}

// refresh asks the browser for the titles of the tabs, which it does not tell when
// they change.
func (b *browser) refresh(ctx context.Context) error {
	var now struct {
		Infos []targetInfo `json:"targetInfos"`
	}
	if err := b.command(ctx, "Target.getTargets", nil, &now); err != nil {
		return err
	}
	b.tabs.update(func() {
		for _, info := range now.Infos {
			b.tabs.learnLocked(info)
		}
	})
	return nil
}

// where says which page the active tab shows, without the help of the page.
func (b *browser) where(ctx context.Context) string {
	if err := b.refresh(ctx); err != nil {
		return ""
	}
	now, ok := b.tabs.current()
	if !ok {
		return "No tab is open."
	}
	all, _ := b.tabs.snapshot()
	return fmt.Sprintf("Tab %s: %s (%s)", label(all, now.target), clip(oneLine(now.title), 150), clip(now.url, 500))
}

// call sends a command to a tab that is answered soon.
func (b *browser) call(ctx context.Context, x tab, method string, params, out any) error {
	ctx, cancel := within(ctx, b.times.Step, "The page did not respond")
	defer cancel()
	return b.unresponsive(x, b.conn.Call(ctx, x.session, method, params, out))
}

// command sends a command to the browser itself.
func (b *browser) command(ctx context.Context, method string, params, out any) error {
	ctx, cancel := within(ctx, b.times.Step, "The browser did not respond")
	defer cancel()
	return b.conn.Call(ctx, "", method, params, out)
}
