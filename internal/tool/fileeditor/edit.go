package fileeditor

import (
	"context"
	"fmt"
	"strings"

	"parley/internal/fault"
	"parley/internal/tool/editing"
	"parley/internal/tool/textfile"
)

const (
	// snippetLines is how many lines around a change are shown.
	snippetLines = 4
	// maxListed bounds how many places of a text are listed.
	maxListed = 20
)

func (e *editor) create(ctx context.Context) (outcome, error) {
	p := e.action.Path
	if e.action.FileText == nil {
		return outcome{}, wrong(`create needs file_text, the content of the new file ("" for an empty one).`)
	}
	if len(*e.action.FileText) > editing.MaxFile {
		return outcome{}, wrong("file_text is larger than 10 MB.")
	}
	note, err := editing.Create(ctx, e.env, p, []byte(*e.action.FileText))
	if fault.Is(err, fault.Conflict) {
		return outcome{}, wrong("%s exists already. Change it with str_replace, or remove it first.", p)
	}
	if err != nil {
		return outcome{}, err
	}
	return outcome{text: "Created " + p + "." + note, created: true, new: e.action.FileText}, nil
}

func (e *editor) strReplace(ctx context.Context) (outcome, error) {
	if e.action.OldStr == nil || *e.action.OldStr == "" {
		return outcome{}, wrong("str_replace needs old_str, the text to replace.")
	}
	if e.action.NewStr == nil {
		return outcome{}, wrong(`str_replace needs new_str, the text to put in the place of old_str ("" to delete it).`)
	}
	d, data, err := e.load(ctx)
	if err != nil {
		return outcome{}, err
	}
	old, repl := d.Adapt(*e.action.OldStr), d.Adapt(*e.action.NewStr)
	if old == repl {
		return outcome{}, wrong("new_str is the same as old_str: there is nothing to change.")
	}
	at, old, repl, err := e.find(d.Text, old, repl)
	if err != nil {
		return outcome{}, err
	}
	text := d.Text[:at] + repl + d.Text[at+len(old):]
	first := textfile.LineAt(text, at)
	return e.store(ctx, d, data, text, first, first+strings.Count(repl, "\n"))
}

// find returns where old is in text, and old and its replacement as they apply: if
// old is not there as it is, without the white space around it, or with the line
// ends of a file that mixes them.
func (e *editor) find(text, old, repl string) (int, string, string, error) {
	for _, try := range [][2]string{
		{old, repl},
		{strings.TrimSpace(old), strings.TrimSpace(repl)},
		{withCRLF(old), withCRLF(repl)},
	} {
		if try[0] == "" || try[0] == try[1] {
			continue
		}
		switch places := occurrences(text, try[0]); len(places) {
		case 0:
		case 1:
			return places[0], try[0], try[1], nil
		default:
			return 0, "", "", wrong("old_str occurs %s in %s, in lines %s. Add lines around it until it is unique.",
				times(len(places)), e.action.Path, lineList(text, places))
		}
	}
	return 0, "", "", wrong("old_str was not found in %s.%s", e.action.Path, nearMiss(text, old))
}

func withCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// occurrences returns where part is in text, overlaps included: each is a place
// that could be meant. It stops after a thousand.
func occurrences(text, part string) []int {
	var places []int
	for at := 0; len(places) < 1000; {
		i := strings.Index(text[at:], part)
		if i < 0 {
			break
		}
		places = append(places, at+i)
		at += i + 1
	}
	return places
}

func times(n int) string {
	if n >= 1000 {
		return "1000 times or more"
	}
	return fmt.Sprintf("%d times", n)
}

func lineList(text string, places []int) string {
	var lines []string
	for i, at := range places {
		if i == maxListed {
			lines = append(lines, "...")
			break
		}
		lines = append(lines, fmt.Sprint(textfile.LineAt(text, at)))
	}
	return strings.Join(lines, ", ")
}

// nearMiss says which lines are most like old: white space and small slips are the
// usual reason why it is not found.
func nearMiss(text, old string) string {
	return " View the file and copy the text exactly, white space included and without line numbers." + textfile.Hint(text, old)
}

func (e *editor) insert(ctx context.Context) (outcome, error) {
	if e.action.InsertLine == nil {
		return outcome{}, wrong("insert needs insert_line, the number of the line after which to insert (0 = before the first).")
	}
	if e.action.NewStr == nil {
		return outcome{}, wrong("insert needs new_str, the lines to insert.")
	}
	d, data, err := e.load(ctx)
	if err != nil {
		return outcome{}, err
	}
	at := *e.action.InsertLine
	lines, ended := textfile.SplitLines(d.Text)
	if at > len(lines) {
		return outcome{}, wrong("insert_line is %d, but %s has %d lines: it must be from 0 to %d.", at, e.action.Path, len(lines), len(lines))
	}
	added := strings.Split(strings.TrimSuffix(d.Adapt(*e.action.NewStr), "\n"), "\n")
	all := make([]string, 0, len(lines)+len(added))
	all = append(append(append(all, lines[:at]...), added...), lines[at:]...)
	text := strings.Join(all, "\n")
	if ended {
		text += "\n"
	}
	return e.store(ctx, d, data, text, at+1, at+len(added))
}

// store writes the new text and shows the lines that changed.
func (e *editor) store(ctx context.Context, d textfile.File, before []byte, text string, first, last int) (outcome, error) {
	data, ok := d.Encode(text)
	if !ok {
		return outcome{}, wrong("%s is stored as Latin-1, which has no code for a character of the new text. "+
			"Convert the file first, for example with iconv -f latin1 -t utf-8.", e.action.Path)
	}
	if len(data) > editing.MaxFile {
		return outcome{}, wrong("The file would become larger than 10 MB.")
	}
	note, err := editing.Replace(ctx, e.env, e.action.Path, before, data)
	if err != nil {
		return outcome{}, err
	}
	return outcome{
		text: fmt.Sprintf("Edited %s.%s The result:\n%s", e.action.Path, note, snippet(text, first, last)),
		old:  &d.Text, new: &text,
	}, nil
}

// snippet shows lines first to last of text and a few around them.
func snippet(text string, first, last int) string {
	lines, _ := textfile.SplitLines(text)
	if len(lines) == 0 {
		return "(The file is empty now.)"
	}
	from := min(max(1, first-snippetLines), len(lines))
	to := min(len(lines), last+snippetLines)
	shown, rest := number(lines[from-1:to], from, maxResponse-1000)
	if rest > 0 {
		shown += fmt.Sprintf("[Cut after line %d.]\n", rest-1)
	}
	return shown
}
