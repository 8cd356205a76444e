package texttools

import (
	"strings"
	"unicode"

	"parley/internal/llm"
)

// filter hands on what a model says, and keeps back what is or may become the
// markup of a call, with the white space before it.
type filter struct {
	onDelta func(llm.Delta)
	pending string
	shown   int  // bytes
	calling bool // a call began
}

func (f *filter) take(d llm.Delta) {
	out := llm.Delta{Reasoning: d.Reasoning}
	if d.Text != "" && !f.calling {
		f.pending += d.Text
		out.Text = f.ready()
	}
	if out != (llm.Delta{}) {
		f.onDelta(out)
	}
}

// ready takes what can be shown from what is pending.
func (f *filter) ready() string {
	end := len(f.pending)
	for _, mark := range []string{callOpen, wrapOpen} {
		if i := strings.Index(f.pending[:end], mark); i >= 0 {
			end, f.calling = i, true
		}
	}
	if !f.calling {
		end -= partial(f.pending, callOpen, wrapOpen)
	}
	text := strings.TrimRightFunc(f.pending[:end], unicode.IsSpace)
	f.pending = f.pending[len(text):]
	f.shown += len(text)
	return text
}

// finish shows what was kept back of said, which is all that the model said.
func (f *filter) finish(said string) {
	if f.shown < len(said) {
		f.onDelta(llm.Delta{Text: said[f.shown:]})
	}
}
