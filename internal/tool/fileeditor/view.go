package fileeditor

import (
	"context"
	"encoding/base64"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/editing"
	"parley/internal/tool/textfile"
)

// maxEntries bounds how many entries of a directory are looked at.
const maxEntries = 5000

// imageTypes are the images that models read.
var imageTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
	".gif": "image/gif", ".webp": "image/webp", ".bmp": "image/bmp",
}

func (e *editor) view(ctx context.Context) (outcome, error) {
	if err := editing.Check(ctx, e.env, e.action.Path); err != nil {
		return outcome{}, err
	}
	info, err := e.files.Stat(ctx, e.action.Path)
	if err != nil {
		return outcome{}, e.missing(ctx, err)
	}
	if info.IsDir {
		return e.viewDir(ctx)
	}
	if kind, ok := imageTypes[strings.ToLower(path.Ext(e.action.Path))]; ok {
		return e.viewImage(ctx, kind)
	}
	d, _, err := e.load(ctx)
	if err != nil {
		return outcome{}, err
	}
	return e.viewText(d)
}

// missing adds what might have been meant to an error for a path that is not there.
func (e *editor) missing(ctx context.Context, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	text := "The path " + e.action.Path + " does not exist."
	if inside := path.Join(e.env.WorkingDir, e.action.Path); inside != e.action.Path {
		if _, err := e.files.Stat(ctx, inside); err == nil {
			text += " Did you mean " + inside + "?"
		}
	}
	return wrong("%s", text)
}

// load reads the file as text; data is what it holds.
func (e *editor) load(ctx context.Context) (d textfile.File, data []byte, err error) {
	data, err = editing.Read(ctx, e.env, e.action.Path)
	switch {
	case fault.Is(err, fault.TooLarge):
		return d, nil, wrong("%s is larger than 10 MB. Use the terminal (head, tail, sed, grep) for a part of it.", e.action.Path)
	case fault.Is(err, fault.NotFound):
		return d, nil, e.missing(ctx, err)
	case err != nil:
		return d, nil, err
	}
	d, ok := textfile.Decode(data)
	if !ok {
		return d, nil, wrong("%s is a binary file. Use the terminal (file, xxd, strings) to look at it.", e.action.Path)
	}
	return d, data, nil
}

func (e *editor) viewImage(ctx context.Context, kind string) (outcome, error) {
	if e.action.ViewRange != nil {
		return outcome{}, wrong("view_range is for text files; %s is an image.", e.action.Path)
	}
	data, err := editing.Read(ctx, e.env, e.action.Path)
	if fault.Is(err, fault.TooLarge) {
		return outcome{}, wrong("The image %s is larger than 10 MB. Make a smaller copy of it first.", e.action.Path)
	}
	if err != nil {
		return outcome{}, err
	}
	if len(data) == 0 {
		return outcome{}, wrong("The image %s is empty.", e.action.Path)
	}
	url := "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)
	return outcome{text: fmt.Sprintf("The image %s (%d bytes):", e.action.Path, len(data)), images: []string{url}}, nil
}

// viewText shows the lines asked for, as many as fit.
func (e *editor) viewText(d textfile.File) (outcome, error) {
	lines, _ := textfile.SplitLines(d.Text)
	if len(lines) == 0 && e.action.ViewRange == nil {
		return outcome{text: e.action.Path + " is empty."}, nil
	}
	first, last, note, err := viewRange(e.action.ViewRange, len(lines))
	if err != nil {
		return outcome{}, err
	}
	title := fmt.Sprintf("%s, lines %d to %d of %d:\n", e.action.Path, first, last, len(lines))
	if first == 1 && last == len(lines) {
		title = fmt.Sprintf("%s, %d lines:\n", e.action.Path, len(lines))
	}
	shown, rest := number(lines[first-1:last], first, maxResponse-utf8.RuneCountInString(title+note)-200)
	if rest > 0 {
		note += fmt.Sprintf("[Cut after line %d of %d. View the rest with view_range [%d, %d].]\n", rest-1, len(lines), rest, last)
	}
	return outcome{text: title + shown + note}, nil
}

// viewRange checks a range against the number of lines. The end is clamped, with a note.
func viewRange(r []int, count int) (first, last int, note string, err error) {
	switch {
	case r == nil:
		return 1, count, "", nil
	case len(r) != 2:
		return 0, 0, "", wrong("view_range has %d numbers; it must be [first, last].", len(r))
	case r[0] < 1 || r[0] > count:
		return 0, 0, "", wrong("view_range begins at line %d, but the file has lines 1 to %d.", r[0], count)
	case r[1] == -1:
		return r[0], count, "", nil
	case r[1] < r[0]:
		return 0, 0, "", wrong("view_range [%d, %d] ends before it begins.", r[0], r[1])
	case r[1] > count:
		return r[0], count, fmt.Sprintf("[The file ends at line %d.]\n", count), nil
	}
	return r[0], r[1], "", nil
}

// number puts line numbers before lines, as many as fit into most characters, but
// at least a part of one. next is the number of the first line left out, or 0.
func number(lines []string, first, most int) (text string, next int) {
	var b strings.Builder
	used := 0
	for i, line := range lines {
		numbered := fmt.Sprintf("%6d\t%s\n", first+i, line)
		n := utf8.RuneCountInString(numbered)
		if used+n > most {
			if i > 0 {
				return b.String(), first + i
			}
			b.WriteString(firstRunes(numbered, most) + "\n[The line is longer than fits here.]\n")
			n = most
		} else {
			b.WriteString(numbered)
		}
		used += n
	}
	return b.String(), 0
}

// viewDir shows what is in a directory, two levels deep.
func (e *editor) viewDir(ctx context.Context) (outcome, error) {
	if e.action.ViewRange != nil {
		return outcome{}, wrong("view_range is for text files; %s is a directory.", e.action.Path)
	}
	entries, err := e.files.ListDir(ctx, e.action.Path, 2, maxEntries)
	if err != nil {
		return outcome{}, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, two levels deep:\n%s\n", e.action.Path, strings.TrimSuffix(e.action.Path, "/")+"/")
	hidden, left, used := 0, 0, 0
	for _, entry := range entries {
		if isHidden(entry.Path) {
			hidden += 1 - min(1, strings.Count(entry.Path, "/"))
			continue
		}
		line := entryLine(e.action.Path, entry)
		if used += utf8.RuneCountInString(line); used > maxResponse-1000 {
			left++
			continue
		}
		b.WriteString(line)
	}
	b.WriteString(dirNotes(hidden, left, len(entries)))
	return outcome{text: b.String()}, nil
}

func entryLine(dir string, entry tool.FileInfo) string {
	line := path.Join(dir, strings.ToValidUTF8(entry.Path, "\ufffd"))
	if entry.IsDir {
		line += "/"
	}
	return line + "\n"
}

func isHidden(relative string) bool {
	return strings.HasPrefix(relative, ".") || strings.Contains(relative, "/.")
}

func dirNotes(hidden, left, total int) string {
	var notes string
	if left > 0 {
		notes += fmt.Sprintf("[%d more entries are not shown. View a directory further down, or use the terminal.]\n", left)
	}
	if total >= maxEntries {
		notes += fmt.Sprintf("[Only the first %d entries were looked at.]\n", maxEntries)
	}
	if hidden > 0 {
		notes += fmt.Sprintf("[%d hidden entries of this directory are not shown. Use `ls -la` in the terminal to see them.]\n", hidden)
	}
	return notes
}
