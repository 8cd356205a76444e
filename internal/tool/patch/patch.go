// Package patch is the tool that changes several files with one patch in the format
// that begins with "*** Begin Patch".
//
// All files are changed or none (tool.Files.ChangeFiles), only inside the working
// directory, also where links lead elsewhere, and only if they still are what the
// patch was computed from. Nothing outside is read either. Encoding, line ends and
// mode are kept. A hunk that could be meant for several places is refused. What was
// done to a file can be undone with the file editor.
package patch

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/editing"
	"parley/internal/tool/textfile"
)

// Name of the tool.
const Name = "apply_patch"

//go:embed description.md
var description string

// maxRecorded is how many bytes all contents in an observation have.
const maxRecorded = 1 << 20

// Action is the input of the tool.
type Action struct {
	Patch string `json:"patch" desc:"The patch, from *** Begin Patch to *** End Patch."`
}

// members are the observation's own.
type members struct {
	Message string  `json:"message"`
	Fuzz    int     `json:"fuzz"`
	Commit  *commit `json:"commit,omitempty"`
}

type commit struct {
	Changes map[string]fileChange `json:"changes"`
}

// fileChange is what clients show of a file.
type fileChange struct {
	Type       action  `json:"type"`
	OldContent *string `json:"old_content,omitempty"`
	NewContent *string `json:"new_content,omitempty"`
	MovePath   string  `json:"move_path,omitempty"`
}

// New makes the tool. One value serves all conversations.
func New() tool.Tool {
	spec := tool.Spec{Name: Name, Description: description, Destructive: true}
	return tool.New(spec, run, tool.WithClaims(func(Action) []tool.Claim { return []tool.Claim{{Name: "files", Write: true}} }))
}

func run(ctx context.Context, env *tool.Env, a Action) (tool.Result, error) {
	p := &patching{ctx: ctx, env: env, seen: map[string]bool{}, commit: commit{Changes: map[string]fileChange{}}}
	err := p.run(a.Patch)
	if text, ok := tool.ForModel(err); ok {
		return observe(members{Message: text + " No file was changed."}, true)
	}
	if err != nil {
		return tool.Result{}, err
	}
	return observe(members{Message: p.message(), Fuzz: p.fuzz, Commit: &p.commit}, false)
}

func observe(m members, isError bool) (tool.Result, error) {
	return tool.Observation{Kind: "ApplyPatchObservation", Content: []content.Part{content.Text(m.Message)}, IsError: isError, Members: m}.Result()
}

// patching is one use of the tool.
type patching struct {
	ctx      context.Context
	env      *tool.Env
	seen     map[string]bool
	changes  []tool.FileChange
	edits    []edit
	commit   commit
	recorded int
	summary  []string
	lost     []string // cannot be undone
	fuzz     int
}

// edit is what undoing the change of a file needs.
type edit struct {
	path string
	editing.Edit
}

// run computes every change before any file is touched.
func (p *patching) run(text string) error {
	sections, err := parse(text)
	if err != nil {
		return err
	}
	for _, s := range sections {
		if err := p.section(s); err != nil {
			return err
		}
	}
	if err := p.env.Hands.ChangeFiles(p.ctx, p.env.WorkingDir, p.changes); err != nil {
		return err
	}
	for _, e := range p.edits {
		if editing.Record(p.ctx, p.env, e.path, e.Edit) != "" {
			p.lost = append(p.lost, e.path)
		}
	}
	return nil
}

func (p *patching) section(s section) error {
	at, err := p.place(s.path)
	if err != nil {
		return err
	}
	switch s.action {
	case actionAdd:
		return p.add(s, at)
	case actionDelete:
		return p.remove(s, at)
	}
	return p.update(s, at)
}

// place returns the absolute path of a file of the patch, each only once.
func (p *patching) place(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", tool.Wrong("The path %q contains a NUL character.", name)
	}
	at := name
	if !path.IsAbs(at) {
		at = path.Join(p.env.WorkingDir, at)
	}
	at = path.Clean(at)
	if !strings.HasPrefix(at, strings.TrimSuffix(path.Clean(p.env.WorkingDir), "/")+"/") {
		return "", tool.Wrong("%s is not inside the working directory %s: give paths relative to it.", name, p.env.WorkingDir)
	}
	if p.seen[at] {
		return "", tool.Wrong("%s appears twice in the patch: put all its changes under one header.", name)
	}
	p.seen[at] = true
	err := editing.Check(p.ctx, p.env, at)
	var out *editing.Outside
	if errors.As(err, &out) {
		return "", tool.Wrong("%s is reached through a symbolic link and is really %s, which is not inside the working directory %s.",
			name, out.Real, p.env.WorkingDir)
	}
	return at, err
}

func (p *patching) add(s section, at string) error {
	switch _, err := p.env.Hands.Stat(p.ctx, at); {
	case err == nil:
		return tool.Wrong("%s exists already: change it with %q.", s.path, markUpdate)
	case !fault.Is(err, fault.NotFound):
		return err
	}
	text := strings.Join(s.content, "\n")
	if len(s.content) > 0 {
		text += "\n"
	}
	p.changes = append(p.changes, tool.FileChange{Path: at, Data: []byte(text)})
	p.edits = append(p.edits, edit{at, editing.Edit{After: []byte(text)}})
	p.record(s.path, fileChange{Type: actionAdd, NewContent: &text})
	p.summary = append(p.summary, "A "+s.path)
	return nil
}

func (p *patching) remove(s section, at string) error {
	data, err := p.read(s.path, at)
	if err != nil {
		return err
	}
	change := fileChange{Type: actionDelete}
	if f, ok := textfile.Decode(data); ok {
		change.OldContent = &f.Text
	}
	p.record(s.path, change)
	p.summary = append(p.summary, "D "+s.path)
	_, err = p.take(at, data)
	return err
}

// take removes a file; mode is its mode.
func (p *patching) take(at string, data []byte) (mode fs.FileMode, err error) {
	info, err := p.env.Hands.Stat(p.ctx, at)
	if err != nil {
		return 0, err
	}
	p.changes = append(p.changes, tool.FileChange{Path: at, Remove: true, Before: editing.Digest(data)})
	if info.Link != "" { // a link is removed, not what it leads to
		p.lost = append(p.lost, at)
		return info.Mode.Perm(), nil
	}
	p.edits = append(p.edits, edit{at, editing.Edit{Before: data, Existed: true, Mode: info.Mode.Perm()}})
	return info.Mode.Perm(), nil
}

func (p *patching) update(s section, at string) error {
	data, err := p.read(s.path, at)
	if err != nil {
		return err
	}
	file, ok := textfile.Decode(data)
	if !ok && len(s.hunks) > 0 {
		return tool.Wrong("%s is a binary file: it can be moved or deleted, not updated.", s.path)
	}
	after, text := data, file.Text
	if len(s.hunks) > 0 {
		fuzz := 0
		if text, fuzz, err = applyHunks(s.path, file.Text, s.hunks); err != nil {
			return err
		}
		p.fuzz += fuzz
		if after, ok = file.Encode(text); !ok {
			return tool.Wrong("%s is stored as Latin-1, which has no code for a character of the new text. "+
				"Convert the file first, for example with iconv -f latin1 -t utf-8.", s.path)
		}
	}
	change := fileChange{Type: actionUpdate, OldContent: &file.Text, NewContent: &text, MovePath: s.moveTo}
	return p.replace(s, at, data, after, change)
}

// replace stores the new text, in its old place or in a new one.
func (p *patching) replace(s section, at string, before, after []byte, change fileChange) error {
	p.record(s.path, change)
	if s.moveTo == "" {
		p.changes = append(p.changes, tool.FileChange{Path: at, Data: after, Before: editing.Digest(before)})
		p.edits = append(p.edits, edit{at, editing.Edit{Before: before, Existed: true, After: after}})
		p.summary = append(p.summary, "M "+s.path)
		return nil
	}
	to, err := p.place(s.moveTo)
	if err != nil {
		return err
	}
	mode, err := p.take(at, before)
	if err != nil {
		return err
	}
	p.changes = append(p.changes, tool.FileChange{Path: to, Data: after, Mode: mode})
	p.edits = append(p.edits, edit{to, editing.Edit{After: after}})
	p.summary = append(p.summary, "R "+s.path+" -> "+s.moveTo)
	return nil
}

func (p *patching) read(name, at string) ([]byte, error) {
	data, err := editing.Read(p.ctx, p.env, at)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, tool.Wrong("The file %s does not exist in %s.", name, p.env.WorkingDir)
	case fault.Is(err, fault.TooLarge):
		return nil, tool.Wrong("%s is larger than 10 MB. Use the terminal.", name)
	}
	return data, err
}

// record keeps contents for the observation as long as they do not bloat the log.
func (p *patching) record(name string, c fileChange) {
	for _, text := range []**string{&c.OldContent, &c.NewContent} {
		if *text == nil {
			continue
		}
		if p.recorded += len(**text); p.recorded > maxRecorded {
			*text = nil
		}
	}
	p.commit.Changes[name] = c
}

func (p *patching) message() string {
	text := fmt.Sprintf("Applied the patch to %d files:\n%s\n", len(p.summary), strings.Join(p.summary, "\n"))
	if len(p.summary) == 1 {
		text = "Applied the patch:\n" + p.summary[0] + "\n"
	}
	if p.fuzz > 0 {
		text += fmt.Sprintf("[Some lines were found only with other white space or in another place (fuzz %d): check the result.]\n", p.fuzz)
	}
	if len(p.lost) > 0 {
		text += fmt.Sprintf("[This cannot be undone: %s.]\n", strings.Join(p.lost, ", "))
	}
	return text
}
