package browser

import (
	"context"
	"fmt"
)

// ScrollAction is the input of browser_scroll.
type ScrollAction struct {
	Direction string `json:"direction" enum:"up,down" default:"down" desc:"Where to."`
}

func scroll(ctx context.Context, b *browser, in ScrollAction) (reply, error) {
	x, err := b.active(ctx)
	if err != nil {
		return reply{}, err
	}
	var moved struct {
		Before float64 `json:"before"`
		After  float64 `json:"after"`
		End    float64 `json:"end"`
		Part   string  `json:"part"`
	}
	if err := b.eval(ctx, x, "scroll", map[string]any{"direction": in.Direction}, &moved); err != nil {
		return reply{}, err
	}
	if err := b.settle(ctx); err != nil {
		return reply{}, err
	}
	what := "the page"
	if moved.Part != "" {
		what = moved.Part
	}
	switch {
	case moved.Before == moved.After && in.Direction == "up":
		return reply{text: "Already at the top of " + what + "."}, nil
	case moved.Before == moved.After:
		return reply{text: "Already at the end of " + what + "."}, nil
	}
	return reply{text: fmt.Sprintf("Scrolled %s in %s: %.0f of %.0f pixels.", in.Direction, what, moved.After, moved.End)}, nil
}
