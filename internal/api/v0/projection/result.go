package projection

import (
	"fmt"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"parley/internal/content"
	"parley/internal/conversation"
)

const (
	// maxOutput bounds the output of a command that is shown, in characters.
	maxOutput = 30000
	// maxDiff bounds the files whose difference is shown, in bytes.
	maxDiff = 256 << 10
)

// toolResult shows what a tool gave. shown is the call it answers, if known.
func toolResult(e *conversation.ObservationEvent, shown conversation.Payload) *Event {
	var o struct {
		Kind    string         `json:"kind"`
		Content []content.Part `json:"content"`
		IsError bool           `json:"is_error"`
	}
	decode(e.Observation, &o)
	text := content.JoinText(o.Content)
	call, _ := shown.(*conversation.ActionEvent)
	switch o.Kind {
	case kindTerminalResult:
		return runResult(e, call, text)
	case kindFileEditorResult:
		if o.IsError {
			return failure(text, "")
		}
		return editorResult(e, text)
	case kindThinkResult:
		out := observation(sourceAgent, "think", text, struct{}{})
		out.Message = "Your thought has been logged."
		return out
	case kindTasksResult:
		return tasksResult(e, text)
	case kindMCPResult:
		text = mcpResult(o.Content, o.IsError)
	}
	return otherResult(e, call, text)
}

type runMetadata struct {
	ExitCode   int     `json:"exit_code"`
	PID        int     `json:"pid"`
	Username   *string `json:"username"`
	Hostname   *string `json:"hostname"`
	WorkingDir *string `json:"working_dir"`
	Python     *string `json:"py_interpreter_path"`
	Prefix     string  `json:"prefix"`
	Suffix     string  `json:"suffix"`
}

type runExtras struct {
	Command  string      `json:"command"`
	Metadata runMetadata `json:"metadata"`
	Hidden   bool        `json:"hidden"`
}

func runResult(e *conversation.ObservationEvent, call *conversation.ActionEvent, text string) *Event {
	var o struct {
		Command  *string     `json:"command"`
		ExitCode *int        `json:"exit_code"`
		Metadata runMetadata `json:"metadata"`
	}
	o.Metadata = runMetadata{ExitCode: -1, PID: -1}
	decode(e.Observation, &o)
	if o.ExitCode != nil {
		o.Metadata.ExitCode = *o.ExitCode
	}
	extras := runExtras{Metadata: o.Metadata}
	switch {
	case o.Command != nil:
		extras.Command = *o.Command
	case call != nil:
		var a terminalAction
		decode(call.Action, &a)
		extras.Command = a.Command
	}
	out := observation(sourceAgent, "run", cutMiddle(text, maxOutput), extras)
	out.Message = fmt.Sprintf("Command `%s` executed with exit code %d.", extras.Command, o.Metadata.ExitCode)
	success := o.Metadata.ExitCode == 0
	out.Success = &success
	return out
}

// cutMiddle keeps the beginning and the end of a long text.
func cutMiddle(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	r := []rune(text)
	half := limit / 2
	return string(r[:half]) + "\n[... Observation truncated due to length ...]\n" + string(r[len(r)-half:])
}

type editExtras struct {
	Path       string  `json:"path"`
	PrevExist  bool    `json:"prev_exist"`
	OldContent *string `json:"old_content"`
	NewContent *string `json:"new_content"`
	Source     string  `json:"impl_source"`
	Diff       string  `json:"diff"`
	DiffCache  *string `json:"_diff_cache"`
}

func editorResult(e *conversation.ObservationEvent, text string) *Event {
	var o struct {
		Command    string  `json:"command"`
		Path       *string `json:"path"`
		PrevExist  bool    `json:"prev_exist"`
		OldContent *string `json:"old_content"`
		NewContent *string `json:"new_content"`
	}
	decode(e.Observation, &o)
	path := ""
	if o.Path != nil {
		path = *o.Path
	}
	if o.Command == "view" {
		out := observation(sourceAgent, "read", text, map[string]any{"path": path, "impl_source": editorBackend})
		out.Message = "I read the file " + path + "."
		return out
	}
	out := observation(sourceAgent, "edit", text, editExtras{Path: path, PrevExist: o.PrevExist,
		OldContent: o.OldContent, NewContent: o.NewContent, Source: editorBackend,
		Diff: diff(path, o.OldContent, o.NewContent)})
	out.Message = "I edited the file " + path + "."
	return out
}

// diff returns the difference in unified form, "" if it would cost too much.
func diff(path string, before, after *string) string {
	var a, b string
	if before != nil {
		a = *before
	}
	if after != nil {
		b = *after
	}
	if len(a)+len(b) > maxDiff {
		return ""
	}
	return udiff.Unified(path, path, a, b)
}

func otherResult(e *conversation.ObservationEvent, call *conversation.ActionEvent, text string) *Event {
	arguments := map[string]any{}
	if call != nil {
		arguments = argumentsOf(call)
	}
	return observation(sourceAgent, "mcp", text, map[string]any{"name": e.ToolName, "arguments": arguments})
}

// mcpResult is what a tool of an MCP server gave, as the JSON that such servers answer
// with. Pictures are left out: they are stored as addresses.
func mcpResult(parts []content.Part, isError bool) string {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	all := []text{}
	for _, p := range parts {
		switch p.Type {
		case content.TypeText:
			all = append(all, text{p.Type, p.Text})
		case content.TypeImage:
			all = append(all, text{content.TypeText, "[image]"})
		}
	}
	return plainJSON(struct {
		Content []text `json:"content"`
		IsError bool   `json:"isError"`
	}{all, isError})
}
