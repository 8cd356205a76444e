package projection

import (
	"bytes"
	"encoding/json"

	"parley/internal/content"
	"parley/internal/conversation"
)

// Kinds of the actions and observations that have a legacy form of their own.
// All others are shown as calls of an MCP server's tool.
const (
	kindTerminal   = "TerminalAction"
	kindFileEditor = "FileEditorAction"
	kindThink      = "ThinkAction"
	kindFinish     = "FinishAction"
	kindMCP        = "MCPToolAction"

	kindTerminalResult   = "TerminalObservation"
	kindFileEditorResult = "FileEditorObservation"
	kindThinkResult      = "ThinkObservation"
	kindMCPResult        = "MCPToolObservation"
)

// runTimeout is what commands are shown to have that do not name their time, in
// seconds: clients expect it there.
const runTimeout = 120.0

const (
	riskUnknown   = -1
	editorBackend = "oh_aci"
)

func riskOf(risk string) int {
	switch risk {
	case "LOW":
		return 0
	case "MEDIUM":
		return 1
	case "HIGH":
		return 2
	}
	return riskUnknown
}

// confirmationOf returns the confirmation state that a recipe shows.
func confirmationOf(r Recipe) string {
	switch r {
	case ActionAwaiting:
		return "awaiting_confirmation"
	case ActionRejected:
		return "rejected"
	}
	return "confirmed"
}

// toolCall shows a tool call. When it comes again its thought is not repeated.
func toolCall(in Input) *Event {
	call, ok := in.Shown.(*conversation.ActionEvent)
	if !ok {
		if call, ok = in.Payload.(*conversation.ActionEvent); !ok {
			return nil
		}
	}
	thought := content.JoinText(call.Thought)
	if in.Derived.Recipe == ActionConfirmed || in.Derived.Recipe == ActionRejected {
		thought = ""
	}
	switch kindOf(call.Action) {
	case kindTerminal:
		return runCall(call, thought, confirmationOf(in.Derived.Recipe))
	case kindFileEditor:
		return editorCall(call, thought)
	case kindThink:
		return thinkCall(call)
	case kindFinish:
		return finishCall(call, thought)
	case kindTasks:
		return tasksCall(call, thought)
	}
	return otherCall(call, thought)
}

type terminalAction struct {
	Command string   `json:"command"`
	IsInput bool     `json:"is_input"`
	Timeout *float64 `json:"timeout"`
}

type runArgs struct {
	Command      string  `json:"command"`
	IsInput      bool    `json:"is_input"`
	Thought      string  `json:"thought"`
	Blocking     bool    `json:"blocking"`
	IsStatic     bool    `json:"is_static"`
	Cwd          *string `json:"cwd"`
	Hidden       bool    `json:"hidden"`
	Confirmation string  `json:"confirmation_state"`
	SecurityRisk int     `json:"security_risk"`
}

func runCall(call *conversation.ActionEvent, thought, confirmation string) *Event {
	var a terminalAction
	decode(call.Action, &a)
	e := action(sourceAgent, "run", "Running command: "+a.Command, runArgs{Command: a.Command, IsInput: a.IsInput,
		Thought: thought, Confirmation: confirmation, SecurityRisk: riskOf(call.SecurityRisk)})
	if e.Timeout = a.Timeout; e.Timeout == nil {
		standard := runTimeout
		e.Timeout = &standard
	}
	return e
}

type editorAction struct {
	Command    string  `json:"command"`
	Path       string  `json:"path"`
	FileText   *string `json:"file_text"`
	OldStr     *string `json:"old_str"`
	NewStr     *string `json:"new_str"`
	InsertLine *int    `json:"insert_line"`
	ViewRange  []int   `json:"view_range"`
}

type readArgs struct {
	Path         string `json:"path"`
	Start        int    `json:"start"`
	End          int    `json:"end"`
	Thought      string `json:"thought"`
	SecurityRisk int    `json:"security_risk"`
	Source       string `json:"impl_source"`
	ViewRange    []int  `json:"view_range"`
}

type editArgs struct {
	Path         string  `json:"path"`
	Command      string  `json:"command"`
	FileText     *string `json:"file_text"`
	OldStr       *string `json:"old_str"`
	NewStr       *string `json:"new_str"`
	InsertLine   *int    `json:"insert_line"`
	Content      string  `json:"content"`
	Start        int     `json:"start"`
	End          int     `json:"end"`
	Thought      string  `json:"thought"`
	SecurityRisk int     `json:"security_risk"`
	Source       string  `json:"impl_source"`
}

func editorCall(call *conversation.ActionEvent, thought string) *Event {
	var a editorAction
	decode(call.Action, &a)
	risk := riskOf(call.SecurityRisk)
	if a.Command == "view" {
		return action(sourceAgent, "read", "Reading file: "+a.Path, readArgs{Path: a.Path, End: -1, Thought: thought,
			SecurityRisk: risk, Source: editorBackend, ViewRange: a.ViewRange})
	}
	return action(sourceAgent, "edit", "", editArgs{Path: a.Path, Command: a.Command, FileText: a.FileText,
		OldStr: a.OldStr, NewStr: a.NewStr, InsertLine: a.InsertLine, Start: 1, End: -1, Thought: thought,
		SecurityRisk: risk, Source: editorBackend})
}

func thinkCall(call *conversation.ActionEvent) *Event {
	var a struct {
		Thought string `json:"thought"`
	}
	decode(call.Action, &a)
	return action(sourceAgent, "think", "I am thinking...: "+a.Thought, a)
}

type finishArgs struct {
	FinalThought string         `json:"final_thought"`
	Outputs      map[string]any `json:"outputs"`
	Thought      string         `json:"thought"`
}

func finishCall(call *conversation.ActionEvent, thought string) *Event {
	var a struct {
		Message string `json:"message"`
	}
	decode(call.Action, &a)
	text := thought
	if text == "" {
		text = "All done! What's next on the agenda?"
	}
	return action(sourceAgent, "finish", text, finishArgs{FinalThought: a.Message, Outputs: map[string]any{}, Thought: thought})
}

type mcpArgs struct {
	Name         string         `json:"name"`
	Arguments    map[string]any `json:"arguments"`
	Thought      string         `json:"thought"`
	SecurityRisk int            `json:"security_risk"`
}

func otherCall(call *conversation.ActionEvent, thought string) *Event {
	args := mcpArgs{Name: call.ToolName, Arguments: argumentsOf(call), Thought: thought,
		SecurityRisk: riskOf(call.SecurityRisk)}
	text := "I am interacting with the MCP server with name:\n```\n" + args.Name +
		"\n```\nand arguments:\n```\n" + plainJSON(args.Arguments) + "\n```"
	return action(sourceAgent, "call_tool_mcp", text, args)
}

// argumentsOf returns a call's arguments as the tool saw them.
func argumentsOf(call *conversation.ActionEvent) map[string]any {
	m := map[string]any{}
	if !decode(call.Action, &m) || m == nil {
		return map[string]any{}
	}
	if m["kind"] == kindMCP {
		if data, ok := m["data"].(map[string]any); ok {
			return data
		}
	}
	delete(m, "kind")
	return m
}

func plainJSON(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b.Bytes()))
}
