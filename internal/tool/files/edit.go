package files

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"parley/internal/tool"
	"parley/internal/tool/editing"
	"parley/internal/tool/textfile"
)

// NameEdit is the name of the tool that replaces text in a file.
const NameEdit = "edit"

//go:embed edit.md
var editDescription string

// maxListed bounds how many places of a text are listed.
const maxListed = 20

// EditAction is the input of edit.
type EditAction struct {
	FilePath  string `json:"file_path" desc:"Path of the file, absolute or relative to the working directory."`
	OldString string `json:"old_string" desc:"The text to replace, exactly as it is in the file. Empty: make a new file."`
	NewString string `json:"new_string" desc:"The text to put in its place."`
	Expected  int    `json:"expected_replacements" min:"0" default:"1" desc:"How often old_string occurs; all of them are replaced."`
}

type editMembers struct {
	FilePath     string  `json:"file_path"`
	IsNewFile    bool    `json:"is_new_file"`
	Replacements int     `json:"replacements_made"`
	OldContent   *string `json:"old_content,omitempty"`
	NewContent   *string `json:"new_content,omitempty"`
}

// Edit returns the tool that replaces text in a file.
func Edit() tool.Tool {
	spec := tool.Spec{Name: NameEdit, Description: editDescription, Destructive: true}
	return tool.New(spec, runEdit, tool.WithClaims(func(a EditAction) []tool.Claim { return []tool.Claim{tool.ClaimFile(a.FilePath, true)} }))
}

func runEdit(ctx context.Context, env *tool.Env, a EditAction) (tool.Result, error) {
	m, note, err := edit(ctx, env, a)
	text := fmt.Sprintf("Edited %s. Replacements: %d.", m.FilePath, m.Replacements)
	if m.IsNewFile {
		text = "Created " + m.FilePath + "."
	}
	return observe("EditObservation", text+note, m, err)
}

func edit(ctx context.Context, env *tool.Env, a EditAction) (m editMembers, note string, err error) {
	m.FilePath = a.FilePath
	if m.FilePath, err = placeFile(env, a.FilePath); err != nil {
		return m, "", err
	}
	f, before, err := load(ctx, env, m.FilePath)
	var none *missing
	if errors.As(err, &none) && a.OldString == "" {
		if note, err = create(ctx, env, m.FilePath, a.NewString); err == nil {
			m.IsNewFile, m.NewContent = true, recorded(a.NewString)
		}
		return m, note, err
	}
	if err != nil {
		return m, "", err
	}
	text, count, err := substitute(m.FilePath, f, a)
	if err != nil {
		return m, "", err
	}
	if note, err = replace(ctx, env, m.FilePath, f, before, text); err != nil {
		return m, "", err
	}
	m.Replacements, m.OldContent, m.NewContent = count, recorded(f.Text), recorded(text)
	return m, note, nil
}

// substitute replaces every place if there are as many as expected.
func substitute(name string, f textfile.File, a EditAction) (string, int, error) {
	old, repl := f.Adapt(a.OldString), f.Adapt(a.NewString)
	switch {
	case old == "":
		return "", 0, tool.Wrong("%s exists already, and old_string is empty. Give the text to replace.", name)
	case old == repl:
		return "", 0, tool.Wrong("new_string is the same as old_string: there is nothing to change.")
	}
	count := strings.Count(f.Text, old)
	switch {
	case count == 0:
		return "", 0, tool.Wrong("old_string was not found in %s. Read the file and copy the text exactly, white space included.%s",
			name, textfile.Hint(f.Text, old))
	case count != a.Expected:
		return "", 0, tool.Wrong("old_string occurs %d times in %s, in lines %s, but expected_replacements is %d. "+
			"Add lines around it, or expect all of them.", count, name, lineList(f.Text, old), a.Expected)
	}
	if size := len(f.Text) + count*(len(repl)-len(old)); size > editing.MaxFile {
		return "", 0, tool.Wrong("The file would become larger than 10 MB.")
	}
	return strings.ReplaceAll(f.Text, old, repl), count, nil
}

// lineList lists the lines where part begins.
func lineList(text, part string) string {
	var lines []string
	line := 1
	for len(lines) < maxListed {
		before, rest, found := strings.Cut(text, part)
		if !found {
			return strings.Join(lines, ", ")
		}
		line += strings.Count(before, "\n")
		lines = append(lines, fmt.Sprint(line))
		line += strings.Count(part, "\n")
		text = rest
	}
	return strings.Join(lines, ", ") + ", ..."
}
