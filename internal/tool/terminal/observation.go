package terminal

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/tool"
)

const (
	// maxText is how many characters of an output a model gets.
	maxText = 30_000

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
	out     bool // text is that of c.out
	suffix  string
	code    int
	timeout bool
	isError bool
}

// finish reports a command that ended, or that ended the shell.
func (c *call) finish(ctx context.Context, p progress) (tool.Result, error) {
	text, _ := c.out.text()
	c.session.drawing = nil
	r := report{text: text, out: true}
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
	text, drawing := c.out.text()
	c.session.drawing = drawing
	return c.report(ctx, report{
		text: text, out: true, code: -1, timeout: true,
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
	prefix := c.session.note + c.earlier
	c.session.note = ""
	if c.session.phase == busy || c.session.phase == idle {
		prefix += heading("Output of background jobs since the last command", c.background())
	}
	if c.reset && !c.blank() {
		prefix = "[The shell was reset.]\n" + prefix
	}
	text, dir := strings.TrimRight(r.text, "\n"), ""
	if r.out {
		text, dir = c.fit(ctx, text)
	}
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

// background returns what background jobs printed between two commands.
func (c *call) background() string { return c.mask(cleanText(c.session.background())) }

// mask hides secrets in a text that may be cut.
func (c *call) mask(text string) string {
	if c.env.Mask == nil {
		return text
	}
	return c.env.Mask(text)
}

// fit cuts the long text of an output in the middle and sees to it that the whole
// output is in a file in the sandbox, whose directory it returns.
func (c *call) fit(ctx context.Context, text string) (string, string) {
	spool, masked := c.out.spool, c.mask(text)
	long := utf8.RuneCountInString(masked) > maxText
	if !long && c.out.dropped == 0 {
		return masked, ""
	}
	var where string
	switch {
	case spool.file != "" || c.out.dropped > 0:
		where = spool.finish(ctx, &c.out)
	default:
		where = spool.save(ctx, text)
	}
	dir := spool.dir
	if spool.err != nil {
		dir = ""
	}
	if !long {
		return masked + "\n[" + where + "]", dir
	}
	return middleOut(masked, maxText, func(left int) string {
		if c.out.dropped > 0 {
			return "[... The middle is left out. " + where + " ...]"
		}
		return fmt.Sprintf("[... %d characters left out. %s ...]", left, where)
	}), dir
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
