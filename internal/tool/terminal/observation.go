package terminal

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/tool"
)

const (
	// maxText is how many characters of an output a model gets.
	maxText = 30_000
	// maxSaved is how many full outputs are kept per conversation.
	maxSaved = 20

	observationKind = "TerminalObservation"
)

// howToGoOn is what a model can do while a command runs.
const howToGoOn = `Send command="" to wait for more output, is_input=true with a text or key to type ` +
	`(C-c stops the command), or reset=true for a new shell.`

// members are the observation's own.
type members struct {
	Command           string   `json:"command"`
	ExitCode          int      `json:"exit_code"`
	Timeout           bool     `json:"timeout"`
	Metadata          metadata `json:"metadata"`
	FullOutputSaveDir string   `json:"full_output_save_dir,omitempty"`
}

// metadata is what is known of the shell, and the texts around the output.
type metadata struct {
	ExitCode   int    `json:"exit_code"`
	PID        int    `json:"pid"` // of the last background job; -1 = none
	Username   string `json:"username,omitempty"`
	Hostname   string `json:"hostname,omitempty"`
	WorkingDir string `json:"working_dir,omitempty"`
	Python     string `json:"py_interpreter_path,omitempty"`
	Prefix     string `json:"prefix"`
	Suffix     string `json:"suffix"`
}

// report is a result in the making.
type report struct {
	text    string
	suffix  string
	code    int
	timeout bool
	isError bool
}

// finish reports a command that ended, or that ended the shell.
func (c *call) finish(ctx context.Context, p progress) (tool.Result, error) {
	r := report{text: c.out.text()}
	if p.exited {
		r.code = p.code
		r.suffix = fmt.Sprintf("\n[The shell ended with exit code %d. The next command starts a new one, in %s.]",
			p.code, c.env.WorkingDir)
		return c.report(ctx, r)
	}
	r.code = p.end.code
	r.suffix = fmt.Sprintf("\n[The command completed with exit code %d.]", r.code)
	return c.report(ctx, r)
}

// leave reports a command that is left running.
func (c *call) leave(ctx context.Context, why string) (tool.Result, error) {
	c.session.unsure = true
	return c.report(ctx, report{
		text: c.out.text(), code: -1, timeout: true,
		suffix: "\n[The command " + why + ". It is still running. " + howToGoOn + "]",
	})
}

// refuse reports a call that did nothing.
func (c *call) refuse(ctx context.Context, text string) (tool.Result, error) {
	return c.report(ctx, report{text: text, code: -1, isError: true})
}

func (c *call) say(ctx context.Context, text string, code int) (tool.Result, error) {
	return c.report(ctx, report{text: text, code: code})
}

func (c *call) report(ctx context.Context, r report) (tool.Result, error) {
	prefix := c.earlier
	if c.session.phase == busy || c.session.phase == idle {
		prefix += heading("Output of background jobs since the last command", c.session.background())
	}
	if c.reset && !c.blank() {
		prefix = "[The shell was reset.]\n" + prefix
	}
	text, dir := c.fit(ctx, strings.TrimRight(r.text, "\n"))
	return tool.Observation{
		Kind:    observationKind,
		Content: []content.Part{content.Text(text)},
		IsError: r.isError,
		Members: members{
			Command: c.command(), ExitCode: r.code, Timeout: r.timeout,
			Metadata: c.metadata(r, prefix), FullOutputSaveDir: dir,
		},
	}.Result()
}

func (c *call) command() string {
	if c.reset {
		return strings.TrimSpace("[RESET] " + c.action.Command)
	}
	return c.action.Command
}

func (c *call) metadata(r report, prefix string) metadata {
	last := c.session.last
	m := metadata{
		ExitCode: r.code, PID: last.job, Username: last.user, Hostname: last.host,
		WorkingDir: strings.ToValidUTF8(last.cwd, "\ufffd"), Python: strings.ToValidUTF8(last.python, "\ufffd"),
		Prefix: prefix, Suffix: r.suffix,
	}
	if c.session.phase == unknown {
		m.WorkingDir = c.env.WorkingDir
	}
	return m
}

// heading puts a line above a text; nothing above nothing.
func heading(title, text string) string {
	text = strings.Trim(text, "\n")
	if strings.TrimSpace(text) == "" {
		return ""
	}
	cut := middleOut(text, maxText/3, func(int) string { return "[... left out ...]" })
	return "[" + title + ":]\n" + cut + "\n[End of that output.]\n"
}

// fit cuts a long text in the middle and saves the whole of it in the sandbox. It
// returns the directory of the saved file.
func (c *call) fit(ctx context.Context, text string) (string, string) {
	if utf8.RuneCountInString(text) <= maxText {
		return text, ""
	}
	dir := path.Join(c.env.StateDir(), "output")
	file := path.Join(dir, "output-"+newNonce()+".txt")
	where := "The full output is in " + file + "."
	err := c.env.Hands.WriteFile(ctx, file, []byte(text), tool.WriteOptions{Parents: true, Mode: 0o600})
	if err != nil {
		where, dir = "The full output could not be saved.", ""
	} else {
		c.sweep(ctx, dir)
	}
	return middleOut(text, maxText, func(left int) string {
		return fmt.Sprintf("[... %d characters left out. %s ...]", left, where)
	}), dir
}

// sweep removes the oldest saved outputs. What it cannot remove stays.
func (c *call) sweep(ctx context.Context, dir string) {
	files, err := c.env.Hands.ListDir(ctx, dir, 1, 0)
	if err != nil || len(files) <= maxSaved {
		return
	}
	slices.SortFunc(files, func(a, b tool.FileInfo) int { return a.ModTime.Compare(b.ModTime) })
	for _, f := range files[:len(files)-maxSaved] {
		_ = c.env.Hands.Remove(ctx, path.Join(dir, f.Path))
	}
}

// middleOut keeps the first and last most/2 characters of a text and puts a notice
// between them, which is told how many characters are left out.
func middleOut(text string, most int, notice func(left int) string) string {
	count := utf8.RuneCountInString(text)
	if count <= most {
		return text
	}
	head, tail := 0, len(text)
	for range most / 2 {
		_, size := utf8.DecodeRuneInString(text[head:])
		head += size
		_, size = utf8.DecodeLastRuneInString(text[:tail])
		tail -= size
	}
	return text[:head] + "\n" + notice(count-most/2*2) + "\n" + text[tail:]
}
