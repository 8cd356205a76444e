package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"parley/internal/lazyre"
)

// byPattern judges what a call would run and write, and looks for instructions
// that somebody planted in its texts.
func byPattern(c *Call) (assessment, error) {
	s, err := scanCall(c)
	if err != nil {
		return assessment{}, err
	}
	return s.pattern(), nil
}

// byRails knows only the few things that are dangerous whatever the circumstances:
// to run what was just fetched, to write to raw disks, and to delete everything.
func byRails(c *Call) (assessment, error) {
	s, err := scanCall(c)
	if err != nil {
		return assessment{}, err
	}
	return s.rails(), nil
}

// scanCall judges all that is in an action.
func scanCall(c *Call) (*scan, error) {
	var action any
	if err := json.Unmarshal(c.Action, &action); err != nil {
		return nil, fmt.Errorf("policy: the action of %s: %w", clip(c.Tool), err)
	}
	object, ok := action.(map[string]any)
	if !ok {
		return nil, errors.New("policy: an action that is no object")
	}
	r := &reader{scan: newScan(), tool: c.Tool, foreign: !isOurs(c.Tool), left: maxText}
	if r.foreign && c.Destructive {
		r.medium("destructive_tool")
	}
	r.object(object, 0)
	return r.scan, nil
}

// isOurs reports whether the server's own tools have the name. What the members of
// others mean can only be guessed.
func isOurs(name string) bool {
	switch name {
	case "terminal", "file_editor", "planning_file_editor", "apply_patch", "task_tracker", "glob", "grep", "edit", "read_file",
		"write_file", "list_directory", "switch_llm", "inspect_image_with_vision", "workflow", "task", "finish", "think", "invoke_skill":
		return true
	}
	return strings.HasPrefix(name, "browser_")
}

// reader walks over an action.
type reader struct {
	*scan
	tool    string
	foreign bool
	left    int // bytes of text that may still be judged
}

// maxDepth bounds how deep the action is walked.
const maxDepth = 40

// meaning is what a member is for, by its name.
type meaning int

const (
	anyText meaning = iota
	shellText
	codeText
	pathText
	patchText
	sqlText
	urlText
	contentText
)

func meaningOf(name string) meaning {
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(name)) {
	case "command", "cmd", "commands", "shell", "bash", "sh", "shellcommand", "commandline", "exec", "execute", "run":
		return shellText
	case "script", "code", "source", "sourcecode", "python", "javascript", "js", "expression", "pagefunction", "function", "program", "snippet":
		return codeText
	case "path", "file", "filename", "filepath", "dest", "destination", "target", "targetpath", "outputpath", "outputfile", "newpath", "to", "uri":
		return pathText
	case "patch", "diff":
		return patchText
	case "sql", "query", "statement", "statements":
		return sqlText
	case "url", "href", "endpoint", "address", "link":
		return urlText
	case "content", "contents", "filetext", "newstr", "newstring", "text", "data", "body":
		return contentText
	}
	return anyText
}

// object judges the members of an object: each, and those that belong together.
func (r *reader) object(m map[string]any, depth int) {
	if depth > maxDepth {
		r.unclear("an action that is nested too deeply")
		return
	}
	if r.tool == "file_editor" || r.tool == "planning_file_editor" {
		r.editor(m)
	} else {
		r.writes(m)
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if name != "kind" || depth > 0 {
			r.member(m, name, depth)
		}
	}
}

func (r *reader) member(m map[string]any, name string, depth int) {
	switch v := m[name].(type) {
	case string:
		if r.take(v) {
			r.text(name, v, arguments(m))
		}
	case []any:
		r.list(name, v, depth+1)
	case map[string]any:
		r.object(v, depth+1)
	}
}

// arguments are the words that stand beside a command in a list of their own.
func arguments(m map[string]any) []data {
	for _, name := range []string{"args", "argv", "arguments"} {
		list, ok := m[name].([]any)
		if !ok {
			continue
		}
		var out []data
		for _, v := range list[:min(len(list), maxFields)] {
			if text, ok := v.(string); ok {
				out = append(out, known(text))
			}
		}
		return out
	}
	return nil
}

// list judges the members of a list; a list of texts that is a command is one.
func (r *reader) list(name string, list []any, depth int) {
	if depth > maxDepth {
		r.unclear("an action that is nested too deeply")
		return
	}
	var words []data
	for _, v := range list {
		switch v := v.(type) {
		case string:
			if r.take(v) {
				r.text("", v, nil)
				words = append(words, known(v))
			}
		case map[string]any:
			r.object(v, depth+1)
		case []any:
			r.list(name, v, depth+1)
		}
	}
	if meaningOf(name) != shellText || len(words) == 0 {
		return
	}
	newShell(r.scan).exec(words[:min(len(words), maxFields)], redirected{})
	if len(words) > 1 { // or each is a command of its own
		for _, w := range words {
			r.aside(func() { newShell(r.scan).eval(w, data{}) })
		}
	}
}

// take counts a text against the bound.
func (r *reader) take(text string) bool {
	if len(text) > r.left {
		r.left = 0
		r.unclear("too much text to judge")
		return false
	}
	r.left -= len(text)
	return true
}

func (r *reader) text(name, text string, args []data) {
	injection(r.scan, text)
	sh := newShell(r.scan)
	switch meaningOf(name) {
	case shellText:
		r.command(sh, text, args)
	case codeText:
		sh.code(data{text, fromFile})
		r.aside(func() { sh.eval(known(text), data{}) })
	case patchText:
		r.patch(text)
	case sqlText:
		if isSQL.MatchString(text) {
			sh.sql(text)
		}
	case urlText, pathText:
		r.address(sh, text)
	default:
		r.mention(text)
	}
}

// isSQL tells a statement from a question to a search engine.
var isSQL = lazyre.MustCompile(`(?i)^\s*(?:select|insert|update|delete|drop|truncate|alter|create|grant|revoke|with|copy|begin|exec|use|set)\b`)

func (r *reader) command(sh *shell, text string, args []data) {
	if r.tool == "file_editor" || r.tool == "planning_file_editor" {
		return // the name of what to do
	}
	if len(args) > 0 {
		sh.exec(append([]data{known(text)}, args...), redirected{})
	}
	sh.eval(known(text), data{})
}

// address judges what is asked for by an address.
func (r *reader) address(sh *shell, text string) {
	if metadataHost.MatchString(text) {
		r.high("cloud_credentials")
	}
	if p, ok := strings.CutPrefix(text, "file://"); ok {
		sh.read(p)
	}
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), "javascript:") {
		sh.code(data{text, fromFile})
	}
}

// maxMention bounds texts that are looked at in case they are commands, in bytes.
const maxMention = 4 << 10

// mention looks at a text of a tool that is not ours as if it were a command. It
// may be a message to somebody, so what it says counts less.
func (r *reader) mention(text string) {
	if !r.foreign || len(text) > maxMention {
		return
	}
	other := newScan()
	other.steps, other.bytes = r.steps, r.bytes
	newShell(other).eval(known(text), data{})
	r.steps, r.bytes = other.steps, other.bytes
	if other.steps == 0 || other.bytes == 0 {
		r.unclear(other.doubt)
	}
	if rank(other.risk) > 1 {
		r.medium(other.rule)
	}
}

// editor judges the actions of the file editor.
func (r *reader) editor(m map[string]any) {
	p, _ := m["path"].(string)
	if m["command"] == "view" {
		newShell(r.scan).read(p)
		return
	}
	r.file(p, first(m, "file_text", "new_str"))
}

// writes judges an object that names a file, and perhaps its content.
func (r *reader) writes(m map[string]any) {
	content := ""
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if text, ok := m[name].(string); ok && meaningOf(name) == contentText {
			content = text
		}
	}
	for name, v := range m {
		if p, ok := v.(string); ok && meaningOf(name) == pathText && !strings.Contains(p, "://") {
			r.file(p, content)
		}
	}
}

func first(m map[string]any, names ...string) string {
	for _, n := range names {
		if text, ok := m[n].(string); ok {
			return text
		}
	}
	return ""
}

// file judges that a file is written.
func (r *reader) file(name, content string) {
	if name == "" {
		return
	}
	p := resolve("", name)
	judgePath(r.scan, p)
	if len(content) > maxText {
		return // not judged as text either, and noted there
	}
	line, _, _ := strings.Cut(content, "\n")
	switch sh := newShell(r.scan); {
	case runsLater(p) || strings.HasPrefix(line, "#!") && strings.Contains(line, "sh"):
		r.aside(func() { sh.eval(known(content), data{}) })
	case isCode(p):
		codeFileText(r.scan, content)
	}
}

func isCode(p string) bool {
	return slices.Contains([]string{".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".php", ".pl"}, path.Ext(p))
}

// patch judges a patch: the files that it names, and the lines that it adds.
func (r *reader) patch(text string) {
	name := ""
	var added strings.Builder
	end := func() {
		r.file(name, added.String())
		added.Reset()
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if p, ok := patchedFile(line); ok {
			end()
			name = p
			continue
		}
		if rest, ok := strings.CutPrefix(line, "+"); ok {
			added.WriteString(rest + "\n")
		}
	}
	end()
}

// patchedFile returns the file that a line of a patch names.
func patchedFile(line string) (string, bool) {
	for _, head := range []string{"*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:", "+++ b/", "+++ ", "--- a/", "--- ", "rename to ", "copy to "} {
		if rest, ok := strings.CutPrefix(line, head); ok {
			name, _, _ := strings.Cut(strings.TrimSpace(rest), "\t")
			return name, name != ""
		}
	}
	return "", false
}
