// Package files has the file tools in the manner that Gemini models are used to:
// edit, read_file, write_file and list_directory. Paths may be relative to the
// working directory. They promise what package editing promises, and that a file
// keeps its encoding and line ends.
package files

import (
	"context"
	"path"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/editing"
	"parley/internal/tool/textfile"
)

const (
	maxText     = 50_000  // characters a model gets of a file
	maxRecorded = 1 << 20 // bytes of a content in an observation
)

// place makes a path absolute.
func place(env *tool.Env, p string) (string, error) {
	switch {
	case strings.TrimSpace(p) == "":
		return "", tool.Wrong("The path is empty.")
	case strings.ContainsRune(p, 0):
		return "", tool.Wrong("The path contains a NUL character.")
	case !path.IsAbs(p):
		p = path.Join(env.WorkingDir, p)
	}
	return path.Clean(p), nil
}

// placeFile is place for a path that must be a file's.
func placeFile(env *tool.Env, p string) (string, error) {
	if strings.HasSuffix(p, "/") {
		return p, tool.Wrong("The path %s ends with a slash: it must be that of a file.", p)
	}
	return place(env, p)
}

// load reads a text file; data is what it holds.
func load(ctx context.Context, env *tool.Env, p string) (f textfile.File, data []byte, err error) {
	data, err = editing.Read(ctx, env, p)
	switch {
	case fault.Is(err, fault.TooLarge):
		return f, nil, tool.Wrong("%s is larger than 10 MB. Use the terminal (head, tail, sed, grep) for a part of it.", p)
	case fault.Is(err, fault.NotFound):
		return f, nil, &missing{p}
	case err != nil:
		return f, nil, err
	}
	f, ok := textfile.Decode(data)
	if !ok {
		return f, nil, tool.Wrong("%s is a binary file. Use the terminal (file, xxd, strings) to look at it.", p)
	}
	return f, data, nil
}

// missing is a file that is not there: for some commands that is fine.
type missing struct{ path string }

func (m *missing) Error() string { return "The file " + m.path + " does not exist." }

// Unwrap makes it a mistake of the model.
func (m *missing) Unwrap() error { return tool.Wrong("%s", m.Error()) }

// encode stores text, with the line ends of f's text, as f was stored.
func encode(p string, f textfile.File, text string) ([]byte, error) {
	data, ok := f.Encode(text)
	if !ok {
		return nil, tool.Wrong("%s is stored as Latin-1, which has no code for a character of the new text. "+
			"Convert the file first, for example with iconv -f latin1 -t utf-8.", p)
	}
	if len(data) > editing.MaxFile {
		return nil, tool.Wrong("The file would become larger than 10 MB.")
	}
	return data, nil
}

// replace stores text, with the line ends of f's text, in the place of before.
func replace(ctx context.Context, env *tool.Env, p string, f textfile.File, before []byte, text string) (note string, err error) {
	data, err := encode(p, f, text)
	if err != nil {
		return "", err
	}
	return editing.Replace(ctx, env, p, before, data)
}

// create makes a new file; one that appeared meanwhile is not replaced.
func create(ctx context.Context, env *tool.Env, p, text string) (note string, err error) {
	data, err := encode(p, textfile.File{}, text)
	if err != nil {
		return "", err
	}
	return editing.Create(ctx, env, p, data)
}

// observe encodes what a use gave; members are the tool's own.
func observe(kind, text string, members any, err error) (tool.Result, error) {
	problem, mine := tool.ForModel(err)
	if err != nil && !mine {
		return tool.Result{}, err
	}
	if mine {
		text = problem
	}
	return tool.Observation{Kind: kind, Content: []content.Part{content.Text(text)}, IsError: mine, Members: members}.Result()
}

// recorded leaves out contents that would bloat the log.
func recorded(text string) *string {
	if len(text) > maxRecorded {
		return nil
	}
	return &text
}

// firstRunes returns at most n characters of text.
func firstRunes(text string, n int) string {
	if len(text) <= n || utf8.RuneCountInString(text) <= n {
		return text
	}
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}
