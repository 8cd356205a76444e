package fileeditor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/textfile"
)

// maxHistory is how many edits of a file can be undone.
const maxHistory = 10

// What the name of an entry says about the file before the edit.
const (
	suffixHad  = ".had"  // the entry is what it held
	suffixNone = ".none" // it did not exist
)

// The history of a file is a directory in the sandbox with one entry per edit,
// numbered in their order: it survives a restart of the server, and goes with the
// sandbox.
func (e *editor) historyDir() string {
	sum := sha256.Sum256([]byte(e.action.Path))
	return path.Join(e.env.StateDir(), "undo", hex.EncodeToString(sum[:12]))
}

// entry is one edit that can be undone.
type entry struct {
	editor *editor
	path   string // "" if it could not be kept
	note   string // says so
}

// forget removes the entry of an edit that did not happen.
func (n entry) forget(ctx context.Context) {
	if n.path != "" {
		_ = n.editor.files.Remove(ctx, n.path) // at worst, an undo changes nothing
	}
}

// remember keeps what the file holds before an edit. An edit is not refused because
// it cannot be undone; the model is told. The entry's name has a digest of what the
// file holds after the edit.
func (e *editor) remember(ctx context.Context, before, after []byte, existed bool) entry {
	dir := e.historyDir()
	old, err := e.entries(ctx)
	if err != nil {
		return entry{note: " (It cannot be undone.)"}
	}
	next := 1
	if len(old) > 0 {
		next = sequence(old[len(old)-1]) + 1
	}
	suffix := suffixNone
	if existed {
		suffix = suffixHad
	}
	name := path.Join(dir, fmt.Sprintf("%08d.%s%s", next, digest(after), suffix))
	err = e.files.WriteFile(ctx, name, before, tool.WriteOptions{Parents: true, Mode: 0o600})
	if err != nil {
		return entry{note: " (It cannot be undone.)"}
	}
	for len(old) >= maxHistory {
		_ = e.files.Remove(ctx, path.Join(dir, old[0]))
		old = old[1:]
	}
	return entry{editor: e, path: name}
}

// entries returns the names of the file's entries, oldest first.
func (e *editor) entries(ctx context.Context) ([]string, error) {
	infos, err := e.files.ListDir(ctx, e.historyDir(), 1, 10*maxHistory)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, info := range infos {
		if sequence(info.Path) > 0 {
			names = append(names, info.Path)
		}
	}
	slices.Sort(names)
	return names, nil
}

// sequence returns the number in an entry's name, or 0.
func sequence(name string) int {
	for _, suffix := range []string{suffixHad, suffixNone} {
		rest, ok := strings.CutSuffix(name, suffix)
		if digits, _, _ := strings.Cut(rest, "."); ok && len(digits) == 8 {
			n, err := strconv.Atoi(digits)
			if err == nil {
				return max(n, 0)
			}
		}
	}
	return 0
}

// digest identifies what a file holds.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// leaves reports whether the edit of an entry left data in the file. Entries of
// older versions do not tell.
func leaves(entry string, data []byte) bool {
	parts := strings.Split(entry, ".")
	return len(parts) != 3 || parts[1] == digest(data)
}

// undo takes the last edit back, unless that would take others with it.
func (e *editor) undo(ctx context.Context) (outcome, error) {
	names, err := e.entries(ctx)
	if err != nil {
		return outcome{}, err
	}
	if len(names) == 0 {
		return outcome{}, wrong("There is no edit of %s to undo.", e.action.Path)
	}
	name := names[len(names)-1]
	last := path.Join(e.historyDir(), name)
	now, err := e.files.ReadFile(ctx, e.action.Path, maxFile)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return outcome{}, err
	}
	if err == nil && !leaves(name, now) {
		return outcome{}, wrong("%s was changed by something else after the last edit of this tool; undoing the edit would lose that change. "+
			"View the file and edit it.", e.action.Path)
	}
	out, err := e.restore(ctx, last, now)
	if err != nil {
		return outcome{}, err
	}
	return out, e.files.Remove(ctx, last)
}

// restore brings back what an entry holds.
func (e *editor) restore(ctx context.Context, entry string, now []byte) (outcome, error) {
	var out outcome
	if d, ok := textfile.Decode(now); ok {
		out.old = &d.Text
	}
	if strings.HasSuffix(entry, suffixNone) {
		out.text = "Undid the creation of " + e.action.Path + ": the file was removed."
		return out, e.files.Remove(ctx, e.action.Path)
	}
	before, err := e.files.ReadFile(ctx, entry, maxFile)
	if err != nil {
		return outcome{}, err
	}
	if err := e.files.WriteFile(ctx, e.action.Path, before, tool.WriteOptions{Parents: true}); err != nil {
		return outcome{}, err
	}
	out.text = "Undid the last edit of " + e.action.Path + "."
	if d, ok := textfile.Decode(before); ok {
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
