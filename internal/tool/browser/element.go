package browser

import (
	"context"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"parley/internal/tool"
)

const (
	maxText = 1 << 20 // bytes typed into a field
	maxKeys = 100     // characters typed key by key; longer texts are pasted
)

// ClickAction is the input of browser_click.
type ClickAction struct {
	Index  int  `json:"index" min:"0" desc:"Number of the element, from browser_get_state."`
	NewTab bool `json:"new_tab" default:"false" desc:"true: open the link in a new tab, which becomes the active one."`
}

// TypeAction is the input of browser_type.
type TypeAction struct {
	Index int    `json:"index" min:"0" desc:"Number of the field, from browser_get_state."`
	Text  string `json:"text" desc:"What the field should hold instead of what it holds now. In a field of one line, a line break at the end presses Enter."`
}

// element is a numbered element that is still there.
type element struct {
	tab    tab
	frame  string
	id     int
	Text   string `json:"text"` // role and name
	Tag    string `json:"tag"`
	Type   string `json:"type"` // of an input
	Href   string `json:"href"`
	Off    bool   `json:"disabled"`
	Locked bool   `json:"readOnly"`
	Free   bool   `json:"editable"` // contenteditable
	Many   bool   `json:"multiple"`
}

// element finds an element by its number.
func (b *browser) element(ctx context.Context, id int) (element, error) {
	x, err := b.active(ctx)
	if err != nil {
		return element{}, err
	}
	gone := tool.Wrong("There is no element [%d] in the page (any more). Call browser_get_state for the current numbers.", id)
	at, ok := b.owners[id]
	if !ok || at.target != x.target {
		return element{}, gone
	}
	found := &element{tab: x, frame: at.frame, id: id}
	if err := b.inFrame(ctx, x, at.frame, "probe", found.arg(), &found); err != nil {
		return element{}, err
	}
	if found == nil {
		return element{}, gone
	}
	return *found, nil
}

// inFrame is evalIn in a frame that may be gone, with all that was in it.
func (b *browser) inFrame(ctx context.Context, x tab, frame, function string, arg, out any) error {
	err := b.evalIn(ctx, x, frame, function, arg, out)
	if err == nil || frame == x.target {
		return err
	}
	frames, ferr := b.frames(ctx, x)
	if ferr != nil {
		return ferr
	}
	for _, f := range frames {
		if f.ID == frame {
			return err
		}
	}
	return tool.Wrong("The frame of this element is gone. Call browser_get_state for the current numbers.")
}

func (e element) arg() map[string]any { return map[string]any{"id": e.id} }

// String is how replies name the element.
func (e element) String() string { return fmt.Sprintf("[%d] %s", e.id, e.Text) }

// with runs a function of page.js on the element. A result of nil: it is gone.
func (b *browser) with(ctx context.Context, e element, function, text string, out any) error {
	return b.evalIn(ctx, e.tab, e.frame, function, map[string]any{"id": e.id, "text": text}, out)
}

func click(ctx context.Context, b *browser, in ClickAction) (reply, error) {
	e, err := b.element(ctx, in.Index)
	if err != nil {
		return reply{}, err
	}
	switch {
	case in.NewTab && e.Href != "":
		x, err := b.target(ctx, true)
		if err != nil {
			return reply{}, err
		}
		return b.load(ctx, x, e.Href)
	case e.Tag == "select":
		return reply{}, tool.Wrong("%s is a list to choose from. Use browser_type with the option's text.", e)
	case e.Type == "file":
		return reply{}, tool.Wrong("%s takes a file. Use browser_type with the absolute path of the file in the sandbox.", e)
	case e.Off:
		return reply{}, tool.Wrong("%s is disabled.", e)
	}
	if err := b.press(ctx, e); err != nil {
		return reply{}, err
	}
	if err := b.settle(ctx); err != nil {
		return reply{}, err
	}
	return reply{text: fmt.Sprintf("Clicked %s. %s", e, b.where(ctx))}, nil
}

// press clicks with the mouse where the element can be hit.
func (b *browser) press(ctx context.Context, e element) error {
	x, y, err := b.aim(ctx, e)
	if err != nil {
		return err
	}
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		params := map[string]any{"type": kind, "x": x, "y": y}
		if kind != "mouseMoved" {
			params["button"], params["clickCount"] = "left", 1
		}
		if kind == "mouseReleased" {
			// It is answered when the page has dealt with it, which may take a dialog
			// and a navigation; settle waits for what it brings.
			b.conn.Send(e.tab.session, "Input.dispatchMouseEvent", params)
			continue
		}
		if err := b.call(ctx, e.tab, "Input.dispatchMouseEvent", params, nil); err != nil {
			return err
		}
	}
	return nil
}

// aim scrolls the element into view and returns a point of the tab at which it is on top.
func (b *browser) aim(ctx context.Context, e element) (x, y float64, err error) {
	object, err := b.run(ctx, e.tab, e.frame, "pick", e.arg(), false)
	if err != nil {
		return 0, 0, err
	}
	if object.Object == "" {
		return 0, 0, tool.Wrong("%s is gone. Call browser_get_state for the current numbers.", e)
	}
	defer b.release(e.tab)
	it := map[string]any{"objectId": object.Object}
	hidden := tool.Wrong("%s is not visible, so that it cannot be clicked.", e)
	if b.call(ctx, e.tab, "DOM.scrollIntoViewIfNeeded", it, nil) != nil && ctx.Err() == nil {
		return 0, 0, hidden
	}
	var boxes struct {
		Quads [][]float64 `json:"quads"`
	}
	if err := b.call(ctx, e.tab, "DOM.getContentQuads", it, &boxes); ctx.Err() != nil {
		return 0, 0, context.Cause(ctx)
	} else if err != nil || len(boxes.Quads) == 0 || len(boxes.Quads[0]) != 8 {
		return 0, 0, hidden
	}
	var at *struct {
		X, Y   float64
		Cover  string
		Hidden bool
	}
	if err := b.with(ctx, e, "aim", "", &at); err != nil {
		return 0, 0, err
	}
	switch {
	case at == nil || at.Hidden:
		return 0, 0, hidden
	case at.Cover != "":
		return 0, 0, tool.Wrong("%s is covered by %s. Close or click that first.", e, at.Cover)
	}
	return boxes.Quads[0][0] + at.X, boxes.Quads[0][1] + at.Y, nil
}

// typed are the inputs into which a user types letter by letter.
func typed(kind string) bool {
	switch kind {
	case "text", "search", "url", "tel", "email", "password", "number":
		return true
	}
	return false
}

func typeText(ctx context.Context, b *browser, in TypeAction) (reply, error) {
	e, err := b.element(ctx, in.Index)
	if err != nil {
		return reply{}, err
	}
	if len(in.Text) > maxText {
		return reply{}, tool.Wrong("text is longer than 1 MiB.")
	}
	if e.Off || e.Locked {
		return reply{}, tool.Wrong("%s cannot be changed: it is disabled or read-only.", e)
	}
	var r reply
	switch {
	case e.Tag == "select":
		r, err = b.choose(ctx, e, in.Text)
	case e.Type == "file":
		r, err = b.upload(ctx, e, in.Text)
	case e.Tag == "textarea" || e.Free || e.Tag == "input" && typed(e.Type):
		r, err = b.write(ctx, e, in.Text)
	case e.Tag == "input" && e.Type != "checkbox" && e.Type != "radio" && e.Type != "submit" && e.Type != "button":
		r, err = b.assign(ctx, e, in.Text)
	default:
		return reply{}, tool.Wrong("%s is no field to type into. Click it, or choose a field.", e)
	}
	if err != nil {
		return reply{}, err
	}
	if err := b.settle(ctx); err != nil {
		return reply{}, err
	}
	r.text += " " + b.where(ctx)
	return r, nil
}

// write types into a text field, in place of what it holds.
func (b *browser) write(ctx context.Context, e element, text string) (reply, error) {
	enter := false
	if e.Tag == "input" {
		text, enter = strings.CutSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
		if strings.Contains(text, "\n") {
			return reply{}, tool.Wrong("%s has one line only; the text has several.", e)
		}
	}
	var field *struct {
		Focused bool `json:"focused"`
	}
	if err := b.with(ctx, e, "ready", "", &field); err != nil {
		return reply{}, err
	}
	if field == nil || !field.Focused {
		return reply{}, tool.Wrong("%s does not take the focus. Click it first, then look at the page again.", e)
	}
	if err := b.enterText(ctx, e, text); err != nil {
		return reply{}, err
	}
	note, err := b.compare(ctx, e, text)
	if err != nil {
		return reply{}, err
	}
	done := fmt.Sprintf("Typed into %s.%s", e, note)
	if enter {
		done = fmt.Sprintf("Typed into %s and pressed Enter.%s", e, note)
		err = b.key(ctx, e, map[string]any{"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"})
	}
	return reply{text: done}, err
}

// enterText puts a text in place of the selection, key by key if it is short: pages
// that complete or check what is typed listen to keys.
func (b *browser) enterText(ctx context.Context, e element, text string) error {
	if text == "" {
		return b.key(ctx, e, map[string]any{"key": "Delete", "code": "Delete", "windowsVirtualKeyCode": 46})
	}
	if utf8.RuneCountInString(text) > maxKeys || strings.ContainsAny(text, "\n\t") {
		return b.call(ctx, e.tab, "Input.insertText", map[string]any{"text": text}, nil)
	}
	for _, r := range text {
		key := map[string]any{"key": string(r), "text": string(r)}
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == ' ' {
			key["windowsVirtualKeyCode"] = int(strings.ToUpper(string(r))[0])
		}
		if err := b.key(ctx, e, key); err != nil {
			return err
		}
	}
	return nil
}

// key presses a key and lets it go. What pressing it causes, is not waited for.
func (b *browser) key(ctx context.Context, e element, key map[string]any) error {
	key["type"] = "keyDown"
	if key["text"] == nil {
		key["type"] = "rawKeyDown"
	}
	if key["key"] == "Enter" {
		b.conn.Send(e.tab.session, "Input.dispatchKeyEvent", key)
	} else if err := b.call(ctx, e.tab, "Input.dispatchKeyEvent", key, nil); err != nil {
		return err
	}
	up := map[string]any{"type": "keyUp", "key": key["key"]}
	b.conn.Send(e.tab.session, "Input.dispatchKeyEvent", up)
	return nil
}

// compare tells if a field does not hold what was typed.
func (b *browser) compare(ctx context.Context, e element, text string) (string, error) {
	var now *struct {
		Value string `json:"value"`
	}
	if err := b.with(ctx, e, "held", "", &now); err != nil {
		return "", err
	}
	if now == nil || e.Type == "password" || strings.TrimSpace(now.Value) == strings.TrimSpace(text) {
		return "", nil
	}
	return fmt.Sprintf(" The field holds %q now.", clip(now.Value, 200)), nil
}

// assign sets a field that is not typed into: dates, colours, sliders.
func (b *browser) assign(ctx context.Context, e element, text string) (reply, error) {
	var now *struct {
		Value string `json:"value"`
	}
	if err := b.with(ctx, e, "set", strings.TrimSpace(text), &now); err != nil {
		return reply{}, err
	}
	if now == nil || now.Value == "" && text != "" {
		forms := map[string]string{"date": "2026-12-31", "time": "23:59", "datetime-local": "2026-12-31T23:59", "month": "2026-12", "week": "2026-W52", "color": "#00ff00"}
		return reply{}, tool.Wrong("%s does not take %q. A value looks like %q.", e, clip(text, 100), forms[e.Type])
	}
	return reply{text: fmt.Sprintf("%s is %q now.", e, clip(now.Value, 100))}, nil
}

func (b *browser) choose(ctx context.Context, e element, text string) (reply, error) {
	var done *struct {
		Chosen   *string `json:"chosen"`
		Options  string  `json:"options"`
		Disabled bool    `json:"disabled"`
	}
	if err := b.with(ctx, e, "choose", text, &done); err != nil {
		return reply{}, err
	}
	switch {
	case done == nil:
		return reply{}, tool.Wrong("%s is gone. Call browser_get_state for the current numbers.", e)
	case done.Disabled:
		return reply{}, tool.Wrong("The option %q of %s is disabled. It has %s.", clip(text, 100), e, done.Options)
	case done.Chosen == nil:
		return reply{}, tool.Wrong("%s has no option %q, or several that contain it. It has %s.", e, clip(text, 100), done.Options)
	}
	return reply{text: fmt.Sprintf("Chose %q in %s.", clip(*done.Chosen, 100), e)}, nil
}

// upload gives a file input the files of a text: absolute paths, one per line.
func (b *browser) upload(ctx context.Context, e element, text string) (reply, error) {
	var files []string
	for line := range strings.Lines(text) {
		if name := strings.TrimSpace(line); name != "" {
			files = append(files, path.Clean(name))
		}
	}
	if len(files) > 1 && !e.Many {
		return reply{}, tool.Wrong("%s takes one file only.", e)
	}
	for _, name := range files {
		if !path.IsAbs(name) {
			return reply{}, tool.Wrong("%q is no absolute path of a file in the sandbox.", clip(name, 200))
		}
		info, err := b.env.Hands.Stat(ctx, name)
		if err != nil {
			return reply{}, err
		}
		if info.IsDir {
			return reply{}, tool.Wrong("%s is a directory.", name)
		}
	}
	object, err := b.run(ctx, e.tab, e.frame, "pick", e.arg(), false)
	if err != nil {
		return reply{}, err
	}
	defer b.release(e.tab)
	if files == nil {
		files = []string{}
	}
	err = b.call(ctx, e.tab, "DOM.setFileInputFiles", map[string]any{"files": files, "objectId": object.Object}, nil)
	return reply{text: fmt.Sprintf("%s holds %d files now.", e, len(files))}, err
}
