package browser

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"

	"parley/internal/tool/browser/cdp"
)

const (
	outlineBudget = 20_000    // characters of an outline
	outlineText   = 250       // characters of one text or name in it
	maxImage      = 400 << 10 // bytes of a PNG screenshot; a larger one becomes a JPEG
	maxOwners     = 10_000    // numbered elements that are remembered
	jpegQuality   = 70        // percent
)

// GetStateAction is the input of browser_get_state.
type GetStateAction struct {
	Screenshot bool `json:"include_screenshot" default:"false" desc:"true: with a screenshot of what is in view."`
}

// outline is what page.js makes of a frame.
type outline struct {
	Lines      []string `json:"lines"`
	Above      int      `json:"above"` // lines left out
	Below      int      `json:"below"`
	Next       int      `json:"next"`
	Partial    bool     `json:"partial"` // the page is too large to be walked to its end
	ScrollY    float64  `json:"scrollY"`
	Height     float64  `json:"height"`
	ViewHeight float64  `json:"viewHeight"`
	ViewWidth  float64  `json:"viewWidth"`
}

func getState(ctx context.Context, b *browser, in GetStateAction) (reply, error) {
	x, err := b.active(ctx)
	if err != nil {
		return reply{}, err
	}
	text, err := b.outlines(ctx, x)
	if err != nil {
		return reply{}, err
	}
	r := reply{text: text}
	if in.Screenshot {
		r.image, err = b.screenshot(ctx, x)
	}
	return r, err
}

// outlines describes a tab, frame by frame.
func (b *browser) outlines(ctx context.Context, x tab) (string, error) {
	frames, err := b.frames(ctx, x)
	if err != nil {
		return "", err
	}
	var page about
	if err := b.eval(ctx, x, "about", nil, &page); err != nil {
		return "", err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s\n", clip(oneLine(page.Title), 200), clip(page.URL, 500))
	if all, _ := b.tabs.snapshot(); len(all) > 1 && b.refresh(ctx) == nil {
		fmt.Fprintf(&text, "Tabs:\n%s\n", b.tabs.text())
	}
	left := outlineBudget
	for i, f := range frames {
		if left < outlineText {
			fmt.Fprintf(&text, "\n(%d more frames are not listed.)\n", len(frames)-i)
			break
		}
		if !page.Huge {
			err = b.markListeners(ctx, x, f.ID, len(frames) == 1)
		}
		var part outline
		if err == nil {
			part, err = b.outlineOf(ctx, x, f, left)
		}
		if err != nil {
			if i == 0 || ctx.Err() != nil || lost(err) {
				return "", err
			}
			continue // a frame that went away meanwhile
		}
		if i > 0 && part.isTiny() {
			continue
		}
		left -= part.write(&text, i > 0, f.URL)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// lost tells that not one frame failed but all will.
func lost(err error) bool {
	var slow errSlow
	return errors.As(err, &slow) || errors.Is(err, cdp.ErrClosed) || errors.Is(err, cdp.ErrCrashed) || errors.Is(err, cdp.ErrDetached)
}

func (b *browser) outlineOf(ctx context.Context, x tab, f frameInfo, budget int) (outline, error) {
	var part outline
	err := b.evalIn(ctx, x, f.ID, "outline", map[string]any{"next": b.next, "budget": budget, "text": outlineText}, &part)
	if err != nil {
		return part, err
	}
	for id := b.next; id < part.Next; id++ {
		b.owners[id] = place{target: x.target, frame: f.ID}
	}
	b.next = max(b.next, part.Next)
	if len(b.owners) > 2*maxOwners { // nobody looks so far back
		maps.DeleteFunc(b.owners, func(id int, _ place) bool { return id < b.next-maxOwners })
	}
	return part, nil
}

// isTiny tells a frame that nobody sees: trackers and their like.
func (o outline) isTiny() bool { return o.ViewWidth < 3 || o.ViewHeight < 3 || len(o.Lines) == 0 }

// write adds the outline to a text and returns how many characters it took.
func (o outline) write(text *strings.Builder, inner bool, url string) int {
	before := text.Len()
	switch {
	case inner:
		fmt.Fprintf(text, "\nFrame %s\n", clip(url, 200))
	case o.Height > o.ViewHeight+1:
		fmt.Fprintf(text, "In view: %.0f to %.0f of %.0f pixels of the page's height.\n\n", o.ScrollY, o.ScrollY+o.ViewHeight, o.Height)
	default:
		text.WriteByte('\n')
	}
	if o.Above > 0 {
		fmt.Fprintf(text, "(%d lines above are not listed: scroll up to see them.)\n", o.Above)
	}
	for _, line := range o.Lines {
		text.WriteString(line)
		text.WriteByte('\n')
	}
	switch {
	case o.Below > 0:
		fmt.Fprintf(text, "(%d lines below are not listed: scroll down to see them, or use browser_get_content.)\n", o.Below)
	case o.Partial:
		text.WriteString("(The page is so large that its end is not listed.)\n")
	case len(o.Lines) == 0:
		text.WriteString("(The page is empty.)\n")
	}
	return text.Len() - before
}

// screenshot takes a picture of what is in view.
func (b *browser) screenshot(ctx context.Context, x tab) (*image, error) {
	shot, err := b.capture(ctx, x, map[string]any{"format": "png"})
	if err != nil || len(shot) <= maxImage {
		return &image{mime: "image/png", data: shot}, err
	}
	shot, err = b.capture(ctx, x, map[string]any{"format": "jpeg", "quality": jpegQuality})
	return &image{mime: "image/jpeg", data: shot}, err
}

func (b *browser) capture(ctx context.Context, x tab, params map[string]any) ([]byte, error) {
	var shot struct {
		Data string `json:"data"`
	}
	if err := b.call(ctx, x, "Page.captureScreenshot", params, &shot); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(shot.Data)
}
