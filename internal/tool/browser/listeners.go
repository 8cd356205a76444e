package browser

import (
	"context"
	"slices"
)

// maxListeners is how many elements of a page are looked up that listen to clicks.
const maxListeners = 150

// clickEvents are the events that make an element one to click.
var clickEvents = []string{"click", "mousedown", "mouseup", "pointerdown", "pointerup"}

// markListeners tells page.js which elements of a frame listen to clicks, which only
// the debugger knows. alone says that the tab has no other frame: then shadow roots
// are looked into. Else the nodes of other frames would come with them, and to resolve
// those in this frame's world crashes the page.
func (b *browser) markListeners(ctx context.Context, x tab, frame string, alone bool) error {
	document, err := b.run(ctx, x, frame, "document", nil, false)
	if err != nil {
		return err
	}
	defer b.release(x)
	var all struct {
		Listeners []listener `json:"listeners"`
	}
	err = b.call(ctx, x, "DOMDebugger.getEventListeners", map[string]any{"objectId": document.Object, "depth": -1, "pierce": alone}, &all)
	if err != nil {
		return err
	}
	world, err := b.world(ctx, x, frame)
	if err != nil {
		return err
	}
	for _, id := range clickable(all.Listeners) {
		if err := b.mark(ctx, x, world, id); err != nil && (ctx.Err() != nil || lost(err)) {
			return err
		} // else it is gone
	}
	return nil
}

func (b *browser) mark(ctx context.Context, x tab, world, node int) error {
	var found struct {
		Object remote `json:"object"`
	}
	params := map[string]any{"backendNodeId": node, "executionContextId": world, "objectGroup": objectGroup}
	if err := b.call(ctx, x, "DOM.resolveNode", params, &found); err != nil {
		return err
	}
	return b.call(ctx, x, "Runtime.callFunctionOn", map[string]any{
		"objectId": found.Object.Object, "functionDeclaration": "function() { globalThis.agentPage?.mark(this) }",
	}, nil)
}

// listener is one that a page has.
type listener struct {
	Type string `json:"type"`
	Node int    `json:"backendNodeId"`
}

// clickable are the nodes that listen to clicks, each once, as many as are looked up.
func clickable(all []listener) []int {
	var nodes []int
	for _, l := range all {
		if l.Node == 0 || !slices.Contains(clickEvents, l.Type) || len(nodes) > 0 && nodes[len(nodes)-1] == l.Node {
			continue
		}
		if nodes = append(nodes, l.Node); len(nodes) == maxListeners {
			break
		}
	}
	return nodes
}
