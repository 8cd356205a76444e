// Package fileeditor is the tool that views and edits files in a sandbox.
//
// It promises what package editing promises, and that what an edit does not name
// stays as it is: encoding, line ends, the end of the last line. Any file of the
// sandbox can be named; but a name inside the working directory is never followed
// out of it.
//
// What a model does wrong is an observation with is_error, with a text that says
// how to do it right.
package fileeditor

import (
	"context"
	_ "embed"
	"path"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/tool"
)

//go:embed description.md
var description string

// Bounds.
const (
	maxResponse = 16_000  // characters a model gets
	maxRecorded = 1 << 20 // bytes of old_content and new_content in an observation

	observationKind = "FileEditorObservation"
)

// Commands.
const (
	commandView       = "view"
	commandCreate     = "create"
	commandStrReplace = "str_replace"
	commandInsert     = "insert"
	commandUndo       = "undo_edit"
)

// Action is what a model may ask.
type Action struct {
	Command    string  `json:"command" enum:"view,create,str_replace,insert,undo_edit" desc:"What to do."`
	Path       string  `json:"path" desc:"Absolute path of the file, or of the directory to view."`
	FileText   *string `json:"file_text,omitempty" desc:"create: the content of the new file."`
	OldStr     *string `json:"old_str,omitempty" desc:"str_replace: the text to replace. It must occur exactly once."`
	NewStr     *string `json:"new_str,omitempty" desc:"str_replace: the text to put in its place. insert: the lines to insert."`
	InsertLine *int    `json:"insert_line,omitempty" min:"0" desc:"insert: the number of the line after which to insert; 0 = before the first."`
	ViewRange  []int   `json:"view_range,omitempty" desc:"view: first and last line to show, from 1; -1 as last is the end of the file."`
}

// members are the observation's own.
type members struct {
	Command    string  `json:"command"`
	Path       string  `json:"path"`
	PrevExist  bool    `json:"prev_exist"`
	OldContent *string `json:"old_content,omitempty"`
	NewContent *string `json:"new_content,omitempty"`
}

func wrong(format string, args ...any) error { return tool.Wrong(format, args...) }

// New makes the tool. One value serves all conversations.
func New() tool.Tool {
	return newTool(tool.NameFileEditor, description, observationKind, false)
}

func newTool(name, description, kind string, planning bool) tool.Tool {
	spec := tool.Spec{Name: name, Description: description, Destructive: true}
	run := func(ctx context.Context, env *tool.Env, a Action) (tool.Result, error) {
		return run(ctx, &editor{env: env, files: env.Hands, action: a, kind: kind, planning: planning})
	}
	return tool.New(spec, run, tool.WithClaims(claims))
}

// claims is the file: edits of different files may overlap.
func claims(a Action) []tool.Claim {
	return []tool.Claim{tool.ClaimFile(a.Path, a.Command != commandView)}
}

// outcome is what a command gave.
type outcome struct {
	text     string
	images   []string // data URLs
	created  bool     // the path did not exist before
	old, new *string
}

func run(ctx context.Context, e *editor) (tool.Result, error) {
	out, err := e.do(ctx)
	if text, ok := tool.ForModel(err); ok {
		return e.observe(outcome{text: text}, true)
	}
	if err != nil {
		return tool.Result{}, err
	}
	return e.observe(out, false)
}

// editor is one use of the tool.
type editor struct {
	env    *tool.Env
	files  tool.Files
	action Action
	kind   string // of the observation
	// planning: only the plan may be edited.
	planning bool
}

func (e *editor) do(ctx context.Context) (outcome, error) {
	if err := e.checkPath(); err != nil {
		return outcome{}, err
	}
	e.action.Path = path.Clean(e.action.Path)
	if err := e.checkPlan(ctx); err != nil {
		return outcome{}, err
	}
	switch e.action.Command {
	case commandView:
		return e.view(ctx)
	case commandCreate:
		return e.create(ctx)
	case commandStrReplace:
		return e.strReplace(ctx)
	case commandInsert:
		return e.insert(ctx)
	case commandUndo:
		return e.undo(ctx)
	}
	return outcome{}, wrong("There is no command %q.", e.action.Command)
}

func (e *editor) checkPath() error {
	p := e.action.Path
	switch {
	case p == "":
		return wrong("path is empty. Give the absolute path of a file.")
	case strings.ContainsRune(p, 0):
		return wrong("path contains a NUL character.")
	case !path.IsAbs(p):
		return wrong("The path %s is not absolute. Did you mean %s?", p, path.Join(e.env.WorkingDir, p))
	}
	return nil
}

// observe encodes the outcome.
func (e *editor) observe(out outcome, isError bool) (tool.Result, error) {
	parts := []content.Part{content.Text(clip(out.text))}
	if len(out.images) > 0 {
		parts = append(parts, content.Image(out.images...))
	}
	return tool.Observation{
		Kind:    e.kind,
		Content: parts,
		IsError: isError,
		Members: members{
			Command: e.action.Command, Path: e.action.Path, PrevExist: !out.created,
			OldContent: recorded(out.old), NewContent: recorded(out.new),
		},
	}.Result()
}

// recorded leaves out contents that would bloat the log.
func recorded(text *string) *string {
	if text == nil || len(*text) > maxRecorded {
		return nil
	}
	return text
}

// clip is the last guard; what is long by nature says itself where to go on.
func clip(text string) string {
	if utf8.RuneCountInString(text) <= maxResponse {
		return text
	}
	const notice = "\n[The rest was cut.]"
	return firstRunes(text, maxResponse-len(notice)) + notice
}

// firstRunes returns at most n characters of text.
func firstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}
