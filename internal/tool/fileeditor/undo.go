package fileeditor

import (
	"context"

	"parley/internal/tool/editing"
	"parley/internal/tool/textfile"
)

// undo takes the last edit back, whichever tool made it.
func (e *editor) undo(ctx context.Context) (outcome, error) {
	u, err := editing.Undo(ctx, e.env, e.action.Path)
	if err != nil {
		return outcome{}, err
	}
	var out outcome
	if d, ok := textfile.Decode(u.Before); ok {
		out.old = &d.Text
	}
	if u.Removed {
		out.text = "Undid the creation of " + e.action.Path + ": the file was removed."
		return out, nil
	}
	out.text = "Undid the last edit of " + e.action.Path + "."
	if d, ok := textfile.Decode(u.After); ok {
		out.new = &d.Text
		if shown, _ := number(firstLines(d.Text), 1, maxResponse-1000); shown != "" {
			out.text += " It begins with:\n" + shown
		}
	}
	return out, nil
}

func firstLines(text string) []string {
	lines, _ := textfile.SplitLines(text)
	return lines[:min(len(lines), 2*snippetLines)]
}
