// Package files has the file tools in the manner that Gemini models are used to:
// edit, read_file, write_file and list_directory. Paths may be relative to the
// working directory. A file is replaced as a whole or not at all, and keeps its
// encoding, line ends and mode.
package files

import (
	"context"
	"path"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/textfile"
)

const (
	maxFile     = 10 << 20 // bytes of a file that is read or edited
	maxText     = 50_000   // characters a model gets of a file
	maxRecorded = 1 << 20  // bytes of a content in an observation
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

// load reads a text file.
func load(ctx context.Context, env *tool.Env, p string) (f textfile.File, err error) {
	data, err := env.Hands.ReadFile(ctx, p, maxFile)
	switch {
	case fault.Is(err, fault.TooLarge):
		return f, tool.Wrong("%s is larger than 10 MB. Use the terminal (head, tail, sed, grep) for a part of it.", p)
	case fault.Is(err, fault.NotFound):
		return f, &missing{p}
	case err != nil:
		return f, err
	}
	f, ok := textfile.Decode(data)
	if !ok {
		return f, tool.Wrong("%s is a binary file. Use the terminal (file, xxd, strings) to look at it.", p)
	}
	return f, nil
}

// missing is a file that is not there: for some commands that is fine.
type missing struct{ path string }

func (m *missing) Error() string { return "The file " + m.path + " does not exist." }

// Unwrap makes it a mistake of the model.
func (m *missing) Unwrap() error { return tool.Wrong("%s", m.Error()) }

// store writes text as f was stored.
func store(ctx context.Context, env *tool.Env, p string, f textfile.File, text string) error {
	data, ok := f.Encode(f.Adapt(text))
	if !ok {
		return tool.Wrong("%s is stored as Latin-1, which has no code for a character of the new text. "+
			"Convert the file first, for example with iconv -f latin1 -t utf-8.", p)
	}
	if len(data) > maxFile {
		return tool.Wrong("The file would become larger than 10 MB.")
	}
	return env.Hands.WriteFile(ctx, p, data, tool.WriteOptions{Parents: true})
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
