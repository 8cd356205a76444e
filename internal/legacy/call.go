package legacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"parley/internal/content"
	"parley/internal/lazyre"
)

// Names of the tools that legacy actions become.
const (
	ToolTerminal    = "terminal"
	ToolEditor      = "file_editor"
	ToolThink       = "think"
	ToolFinish      = "finish"
	ToolTaskTracker = "task_tracker"
	ToolNavigate    = "browser_navigate"
	ToolBrowserLook = "browser_get_state"
)

// Call is an action of the agent's as the call of a tool.
type Call struct {
	Tool    string
	Args    map[string]any
	Thought string
	Risk    string // LOW, MEDIUM, HIGH; "" = nobody judged it
}

// Arguments are the arguments as the model would have written them: with the risk.
func (c *Call) Arguments() (string, error) {
	args := make(map[string]any, len(c.Args)+1)
	for k, v := range c.Args {
		args[k] = v
	}
	if _, own := args["security_risk"]; c.Risk != "" && !own {
		args["security_risk"] = c.Risk
	}
	raw, err := content.Marshal(args)
	return string(raw), err
}

// Call returns the action as the call of a tool. An error says in words for people
// why there is no tool that does the same.
func (e *Event) Call() (*Call, error) {
	translate := translations[e.Action]
	if translate == nil {
		return nil, fmt.Errorf("no tool does what %s does", e.Action)
	}
	c := &Call{Thought: text(e.Args["thought"]), Risk: riskOf(e.Args["security_risk"])}
	if e.Action == ToolThink {
		c.Thought = "" // it is the argument
	}
	var err error
	c.Tool, c.Args, err = translate(e)
	return c, err
}

// riskOf reads a risk: a number, or its name in what clients and old versions sent.
func riskOf(v any) string {
	switch number(v, -1) {
	case 0:
		return "LOW"
	case 1:
		return "MEDIUM"
	case 2:
		return "HIGH"
	}
	switch s := strings.ToUpper(text(v)); s {
	case "LOW", "MEDIUM", "HIGH":
		return s
	}
	return ""
}

type translation func(e *Event) (tool string, args map[string]any, err error)

// translations say how actions are done here. Those that are missing cannot be done.
var translations = map[string]translation{
	"run":                runCall,
	"read":               readCall,
	"write":              writeCall,
	"edit":               editCall,
	"browse":             browseCall,
	"browse_interactive": interactiveCall,
	"call_tool_mcp":      toolCall,
	"think":              thinkCall,
	"finish":             finishCall,
	"task_tracking":      trackCall,
}

// maxTimeout is the longest time-out of a command, in seconds.
const maxTimeout = 86400

func runCall(e *Event) (string, map[string]any, error) {
	command, ok := e.Args["command"].(string)
	if !ok {
		return "", nil, errors.New(`its args have no "command"`)
	}
	input, _ := e.Args["is_input"].(bool)
	if cwd := text(e.Args["cwd"]); cwd != "" && !input {
		command = "cd " + quoted(cwd) + " && " + command
	}
	args := map[string]any{"command": command, "is_input": input}
	if e.Timeout > 0 {
		args["timeout"] = min(e.Timeout, maxTimeout)
	}
	return ToolTerminal, args, nil
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (e *Event) file() (string, error) {
	if p := text(e.Args["path"]); p != "" {
		return p, nil
	}
	return "", errors.New(`its args have no "path"`)
}

func readCall(e *Event) (string, map[string]any, error) {
	p, err := e.file()
	args := map[string]any{"command": "view", "path": p}
	if r, ok := e.Args["view_range"].([]any); ok && len(r) == 2 {
		args["view_range"] = []any{number(r[0], 1), number(r[1], -1)}
		return ToolEditor, args, err
	}
	// Lines from start (the first is 0) up to end, which is not among them; -1 = all.
	if start, end := number(e.Args["start"], 0), number(e.Args["end"], -1); start > 0 || end > start {
		args["view_range"] = []any{max(start, 0) + 1, end}
	}
	return ToolEditor, args, err
}

// writeCall writes a whole file, whether or not there is one, which the editor does
// not. Parts of files by line numbers are no longer in use.
func writeCall(e *Event) (string, map[string]any, error) {
	p, err := e.file()
	body, ok := e.Args["content"].(string)
	if !ok && err == nil {
		err = errors.New(`its args have no "content"`)
	}
	if start, end := number(e.Args["start"], 0), number(e.Args["end"], -1); err == nil && (start > 0 || end >= 0) {
		err = errors.New("it writes a part of a file by line numbers")
	}
	command := "mkdir -p -- " + quoted(path.Dir(p)) + " && printf %s " + quoted(text(body)) + " > " + quoted(p)
	return ToolTerminal, map[string]any{"command": command, "is_input": false}, err
}

// editorCommands are the ways of editing that work here.
var editorCommands = map[string]bool{"create": true, "str_replace": true, "insert": true, "undo_edit": true, "view": true}

// editCall takes what old versions left out of args from the model's own call.
func editCall(e *Event) (string, map[string]any, error) {
	args := map[string]any{}
	for _, from := range []map[string]any{e.modelArguments(), e.Args} {
		for _, name := range []string{"command", "path", "file_text", "old_str", "new_str"} {
			if s, ok := from[name].(string); ok && s != "" {
				args[name] = strings.ToValidUTF8(s, "\uFFFD")
			}
		}
		if n := number(from["insert_line"], -1); n >= 0 {
			args["insert_line"] = n
		}
	}
	command, _ := args["command"].(string)
	if !editorCommands[command] {
		return "", nil, errors.New("it edits a file in a way that needs a model (no command like str_replace)")
	}
	if args["path"] == nil {
		return "", nil, errors.New(`its args have no "path"`)
	}
	for name, of := range map[string]string{"file_text": "create", "new_str": "str_replace"} {
		if args[name] == nil && command == of {
			args[name] = "" // an empty file, a text that goes away
		}
	}
	return ToolEditor, args, nil
}

// modelArguments are the arguments of the model's call, nil if they are not known.
func (e *Event) modelArguments() map[string]any {
	var args map[string]any
	if e.Metadata.Arguments == "" || json.Unmarshal([]byte(e.Metadata.Arguments), &args) != nil {
		return nil
	}
	return args
}

func browseCall(e *Event) (string, map[string]any, error) {
	url := text(e.Args["url"])
	if url == "" {
		return "", nil, errors.New(`its args have no "url"`)
	}
	return ToolNavigate, map[string]any{"url": url}, nil
}

var gotoCall = lazyre.MustCompile(`^goto\(\s*(?:url\s*=\s*)?(?:'([^'\\]*)'|"([^"\\]*)")\s*\)$`)

// interactiveCall knows the steps that mean the same on every page: others name
// elements by numbers that another browser gave.
func interactiveCall(e *Event) (string, map[string]any, error) {
	code := strings.TrimSpace(text(e.Args["browser_actions"]))
	if m := gotoCall.FindStringSubmatch(code); m != nil {
		return ToolNavigate, map[string]any{"url": m[1] + m[2]}, nil
	}
	if strings.HasPrefix(code, "noop(") && !strings.Contains(code, "\n") {
		return ToolBrowserLook, map[string]any{}, nil
	}
	return "", nil, errors.New("it drives a browser by numbers of elements, which another browser gives otherwise")
}

func toolCall(e *Event) (string, map[string]any, error) {
	name := text(e.Args["name"])
	if name == "" {
		return "", nil, errors.New(`its args have no "name"`)
	}
	args, ok := e.Args["arguments"].(map[string]any)
	if !ok {
		args = map[string]any{}
	}
	return name, args, nil
}

func thinkCall(e *Event) (string, map[string]any, error) {
	return ToolThink, map[string]any{"thought": text(e.Args["thought"])}, nil
}

// finishCall says what the agent said last, in whatever member the version has it.
func finishCall(e *Event) (string, map[string]any, error) {
	message := text(e.Args["final_thought"])
	if message == "" {
		message, _ = e.modelArguments()["message"].(string)
	}
	if message == "" {
		message = text(e.Args["thought"])
	}
	return ToolFinish, map[string]any{"message": message}, nil
}

func trackCall(e *Event) (string, map[string]any, error) {
	args := map[string]any{"command": "view"}
	if text(e.Args["command"]) != "plan" {
		return ToolTaskTracker, args, nil
	}
	args["command"] = "plan"
	var tasks []any
	list, _ := e.Args["task_list"].([]any)
	for _, v := range list {
		m, ok := v.(map[string]any)
		if !ok {
			return "", nil, errors.New("its task_list has something else than tasks")
		}
		task := map[string]any{"title": text(m["title"])}
		for _, name := range []string{"notes", "status"} {
			if s := text(m[name]); s != "" {
				task[name] = s
			}
		}
		tasks = append(tasks, task)
	}
	args["task_list"] = tasks
	return ToolTaskTracker, args, nil
}
