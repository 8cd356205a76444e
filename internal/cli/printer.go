package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"parley/internal/content"
	"parley/internal/conversation"
)

// How much of one thing is shown.
const (
	lineRunes   = 400
	outputHead  = 12
	outputTail  = 8
	diffHead    = 60
	diffTail    = 10
	thoughtHead = 6
)

// printer shows events as text. Everything it is given is cleaned here; only
// paint adds control sequences. Write errors are remembered, not returned: the
// session looks at err.
type printer struct {
	out   io.Writer
	color bool
	full  bool // do not fold
	err   error

	clean    Sanitizer
	streamed strings.Builder // the streamed part of the answer that is on its way
	told     conversation.AgentNotes
	cursor   *cursor
}

// cursor is where the last character went. Printers that write to one screen
// share it.
type cursor struct{ midLine bool }

func (p *printer) write(text string) {
	if p.err != nil || text == "" {
		return
	}
	p.cursor.midLine = !strings.HasSuffix(text, "\n")
	_, p.err = io.WriteString(p.out, text)
}

// line writes clean text as lines of their own.
func (p *printer) line(s style, text string) {
	if p.cursor.midLine {
		p.write("\n")
	}
	p.write(paint(p.color, s, text) + "\n")
}

// block writes clean lines, indented, shortened and folded.
func (p *printer) block(lines []string, head, tail int, styleOf func(string) style) {
	if !p.full {
		lines = fold(lines, head, tail)
	}
	for _, line := range lines {
		if !p.full {
			line = cut(line, lineRunes)
		}
		p.line(styleOf(line), "  "+line)
	}
}

func all(s style) func(string) style { return func(string) style { return s } }

// delta shows a piece of an answer while it is being written.
func (p *printer) delta(text string) {
	text = p.clean.Write(text)
	if text == "" {
		return
	}
	if p.streamed.Len() == 0 && p.cursor.midLine {
		p.write("\n")
	}
	p.streamed.WriteString(text)
	p.write(text)
}

// said shows the text of an answer, less what was streamed of it already.
// Pieces may have been lost on the way; then the whole text is shown again.
func (p *printer) said(text string) {
	text = strings.TrimRight(Clean(text), "\n ")
	streamed := p.streamed.String()
	p.endStream()
	switch {
	case text == "":
	case streamed != "" && strings.HasPrefix(text, strings.TrimRight(streamed, "\n ")):
		p.write(strings.TrimPrefix(text, strings.TrimRight(streamed, "\n ")))
	default:
		p.line(plain, text)
	}
	if p.cursor.midLine {
		p.write("\n")
	}
}

func (p *printer) endStream() {
	p.streamed.Reset()
	p.clean = Sanitizer{}
}

// event shows one event.
func (p *printer) event(e conversation.Event) {
	payload, err := conversation.Decode(e)
	if err != nil {
		p.line(yellow, "! an event of this server cannot be read: "+CleanLine(err.Error()))
		return
	}
	switch ev := payload.(type) {
	case *conversation.MessageEvent:
		p.message(ev)
	case *conversation.ActionEvent:
		p.thought(ev)
		p.action(ev)
	case *conversation.ObservationEvent:
		p.observation(ev)
	case *conversation.UserRejectObservation:
		if ev.RejectionSource != conversation.SourceHook { // whose event has said so
			p.line(yellow, "! rejected: "+CleanLine(ev.ToolName)+reason(ev.RejectionReason))
		}
	case *conversation.HookExecutionEvent:
		p.hook(ev)
	case *conversation.AgentErrorEvent:
		p.line(red, "! "+CleanLine(ev.ToolName)+" failed:")
		p.block(textLines(Clean(ev.Error)), outputHead, outputTail, all(red))
	case *conversation.ConversationErrorEvent:
		p.failure(ev)
	case *conversation.StateUpdateEvent:
		p.stateUpdate(ev)
	case *conversation.PauseEvent:
		p.line(yellow, "! paused")
	case *conversation.InterruptEvent:
		p.line(yellow, "! interrupted")
	case *conversation.Condensation:
		p.line(dim, "(the older part of the conversation is summarised for the model; the log keeps it)")
	case *conversation.Unknown:
		p.unknown(ev)
	}
}

func reason(text string) string {
	if text = CleanLine(text); text != "" {
		return " (" + cut(text, lineRunes) + ")"
	}
	return ""
}

func (p *printer) message(ev *conversation.MessageEvent) {
	text := content.JoinText(ev.LLMMessage.Content)
	if images := countImages(ev.LLMMessage.Content); images > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s\n[%d image(s)]", text, images))
	}
	switch ev.Source {
	case conversation.SourceAgent:
		p.reasoning(ev.LLMMessage.Reasoning)
		p.said(text)
	case conversation.SourceUser:
		p.line(bold, "> "+strings.ReplaceAll(strings.TrimSpace(Clean(text)), "\n", "\n> "))
		p.activated(ev)
	default:
		if len(ev.ActivatedSkills) > 0 { // their texts are for the model
			p.activated(ev)
			return
		}
		p.line(dim, "note to the agent:")
		p.block(textLines(Clean(text)), thoughtHead, 0, all(dim))
	}
}

func countImages(parts []content.Part) int {
	n := 0
	for _, part := range parts {
		n += len(part.ImageURLs)
	}
	return n
}

func (p *printer) thought(ev *conversation.ActionEvent) {
	p.reasoning(ev.Reasoning)
	p.said(content.JoinText(ev.Thought))
}

// reasoning shows the beginning of what a model thought; it is not its answer.
func (p *printer) reasoning(text string) {
	if p.streamed.Len() > 0 {
		return
	}
	p.block(textLines(Clean(text)), thoughtHead, 0, all(dim))
}

// action is the members of the actions that are shown in their own way.
type action struct {
	Kind       string  `json:"kind"`
	Command    string  `json:"command"`
	IsInput    bool    `json:"is_input"`
	Path       string  `json:"path"`
	FileText   *string `json:"file_text"`
	OldStr     *string `json:"old_str"`
	NewStr     *string `json:"new_str"`
	InsertLine *int    `json:"insert_line"`
	Message    string  `json:"message"`
	Thought    string  `json:"thought"`
}

func readAction(ev *conversation.ActionEvent) action {
	var a action
	if json.Unmarshal(ev.Action, &a) != nil {
		return action{}
	}
	return a
}

func (p *printer) action(ev *conversation.ActionEvent) {
	a := readAction(ev)
	switch {
	case ev.Action == nil:
		// The call cannot be executed: the error that follows says why.
	case a.Kind == "TerminalAction" && a.IsInput:
		p.line(cyan, "$ (input) "+CleanLine(a.Command))
	case a.Kind == "TerminalAction" && a.Command == "":
		p.line(cyan, "$ (waits for more output)")
	case a.Kind == "TerminalAction":
		p.line(cyan, "$ "+strings.ReplaceAll(strings.TrimSpace(Clean(a.Command)), "\n", "\n  "))
	case a.Kind == "FileEditorAction":
		p.line(cyan, "* "+CleanLine(a.Command)+" "+CleanLine(a.Path))
	case a.Kind == "FinishAction":
		p.said(a.Message)
	case a.Kind == "ThinkAction":
		p.block(textLines(Clean(a.Thought)), thoughtHead, 0, all(dim))
	default:
		p.line(cyan, "* "+CleanLine(ev.ToolName)+" "+cut(CleanLine(string(ev.Action)), lineRunes))
	}
}

// proposal shows an action in full, for somebody who is asked to allow it.
func (p *printer) proposal(ev *conversation.ActionEvent) {
	folded := p.full
	p.full = true
	defer func() { p.full = folded }()
	p.action(ev)
	a := readAction(ev)
	var lines []string
	switch {
	case a.Kind == "FileEditorAction" && a.FileText != nil:
		lines, _ = diffLines("", *a.FileText)
	case a.Kind == "FileEditorAction" && a.InsertLine != nil && a.NewStr != nil:
		p.line(dim, fmt.Sprintf("  after line %d:", *a.InsertLine))
		lines, _ = diffLines("", *a.NewStr)
	case a.Kind == "FileEditorAction" && a.OldStr != nil && a.NewStr != nil:
		lines, _ = diffLines(*a.OldStr, *a.NewStr)
	}
	p.block(lines, 0, 0, diffStyle)
	if ev.SecurityRisk != "" && ev.SecurityRisk != "UNKNOWN" {
		p.line(yellow, "  risk: "+CleanLine(ev.SecurityRisk))
	}
}

// observation is the members of the observations that are shown in their own way.
type observation struct {
	Kind       string         `json:"kind"`
	Content    []content.Part `json:"content"`
	IsError    bool           `json:"is_error"`
	ExitCode   *int           `json:"exit_code"`
	Timeout    bool           `json:"timeout"`
	Command    string         `json:"command"`
	OldContent *string        `json:"old_content"`
	NewContent *string        `json:"new_content"`
}

func (p *printer) observation(ev *conversation.ObservationEvent) {
	var o observation
	if err := json.Unmarshal(ev.Observation, &o); err != nil {
		p.line(yellow, "! the result of "+CleanLine(ev.ToolName)+" cannot be read")
		return
	}
	text := textLines(Clean(content.JoinText(o.Content)))
	switch {
	case o.IsError:
		p.block(text, outputHead, outputTail, all(red))
	case o.Kind == "TerminalObservation":
		p.block(text, outputHead, outputTail, all(plain))
		p.exitCode(o)
	case o.NewContent != nil && o.Command != "view":
		p.fileChange(o)
	case o.Kind == "FileEditorObservation":
		p.line(dim, fmt.Sprintf("  (%s lines)", thousands(int64(len(text)))))
	case o.Kind == "FinishObservation" || o.Kind == "ThinkObservation":
	default:
		p.block(text, outputHead, outputTail, all(plain))
	}
	if images := countImages(o.Content); images > 0 {
		p.line(dim, fmt.Sprintf("  [%d image(s)]", images))
	}
}

func (p *printer) exitCode(o observation) {
	switch {
	case o.Timeout || (o.ExitCode != nil && *o.ExitCode == -1):
		p.line(yellow, "  (still running)")
	case o.ExitCode != nil && *o.ExitCode != 0:
		p.line(red, fmt.Sprintf("  exit code %d", *o.ExitCode))
	}
}

func (p *printer) fileChange(o observation) {
	before := ""
	if o.OldContent != nil {
		before = *o.OldContent
	}
	lines, ok := diffLines(before, *o.NewContent)
	switch {
	case !ok:
		p.line(dim, "  (the file is too large to show the difference)")
	case len(lines) == 0:
		p.line(dim, "  (no change)")
	}
	p.block(lines, diffHead, diffTail, diffStyle)
}

// failure shows why a run ended and what to do about it.
func (p *printer) failure(ev *conversation.ConversationErrorEvent) {
	p.line(red, "! "+CleanLine(ev.Code)+": "+cut(CleanLine(ev.Detail), 2*lineRunes))
	action := ""
	if ev.Classification != nil {
		action = ev.Classification.UserAction
	}
	// The server may have said it in its own words.
	advise := func(about, text string) {
		if !strings.Contains(ev.Detail, about) {
			p.line(yellow, "  "+text)
		}
	}
	switch {
	case ev.Code == "MaxIterationsReached":
		advise("message", "Send a message to let the agent go on.")
	case action == "settings":
		advise("settings", "Check the model, its URL and its key in the settings (POST /api/settings), then send a message to go on.")
	case action == "retry":
		advise("message", "Send a message to try again.")
	}
}

func (p *printer) stateUpdate(ev *conversation.StateUpdateEvent) {
	var notes conversation.AgentNotes
	if ev.Key == conversation.KeyGoal {
		p.goal(ev)
		return
	}
	if ev.Key != conversation.KeyAgentState || json.Unmarshal(ev.Value, &notes) != nil {
		return
	}
	p.notes(notes)
	if notes.LLMRetry == nil {
		return
	}
	// What was streamed of the broken answer is void: the next attempt starts anew.
	p.endStream()
	r := notes.LLMRetry
	p.line(yellow, fmt.Sprintf("! attempt %d of %d to reach the model failed%s; next one in %.3gs",
		r.Attempt, r.MaxAttempts, reason(r.Reason), r.WaitSeconds))
}

// goal shows how the work on a goal stands.
func (p *printer) goal(ev *conversation.StateUpdateEvent) {
	var g conversation.Goal
	if json.Unmarshal(ev.Value, &g) != nil {
		return
	}
	text := fmt.Sprintf("! goal %s, run %d of %d", CleanLine(string(g.Status)), g.Iteration, g.MaxIterations)
	if v := g.Verdict; v != nil && !v.Complete {
		text += reason(v.Missing)
	}
	p.line(yellow, text)
}

// unknown shows kinds that other versions of the protocol have.
func (p *printer) unknown(ev *conversation.Unknown) {
	switch ev.Kind {
	case conversation.KindServerError:
		var e struct {
			Code   string `json:"code"`
			Detail string `json:"detail"`
		}
		if json.Unmarshal(ev.Raw, &e) == nil {
			p.line(red, "! "+CleanLine(e.Code)+": "+cut(CleanLine(e.Detail), lineRunes))
		}
	}
}

// jsonLine writes a stored event on one line.
func (p *printer) jsonLine(e conversation.Event) {
	var line bytes.Buffer
	if err := json.Compact(&line, e.Raw); err != nil {
		return // the follower has decoded it already: it is JSON
	}
	line.WriteByte('\n')
	if p.err == nil {
		_, p.err = p.out.Write(line.Bytes())
	}
}
