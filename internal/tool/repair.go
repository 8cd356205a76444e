package tool

import (
	"encoding/json"
	"slices"
	"strings"
)

// Names of the tools that misnamed calls are usually meant for.
const (
	NameTerminal   = "terminal"
	NameFileEditor = "file_editor"
	namePlanEditor = "planning_file_editor" // has the same arguments
)

// editorCommands are the commands of the file editor: models call them as tools.
var editorCommands = []string{"view", "create", "str_replace", "insert", "undo_edit"}

// Resolve finds the tool a model meant by name. Models misname tools in a few
// ways that are safe to understand: another agent's name for the same tool, a
// control token glued to the name, a program's name where the terminal was
// meant. The returned arguments are args, or a changed copy where the repair
// needs it; false means that there is no such tool.
func (s *Set) Resolve(name string, args json.RawMessage) (Tool, json.RawMessage, bool) {
	for _, candidate := range []string{name, baseName(name)} {
		if t, ok := s.byName[candidate]; ok {
			return t, inferCommand(candidate, args), true
		}
	}
	return s.resolveAlias(baseName(name), args)
}

// baseName cuts what models glue to a name: "functions." before it, "<|...|>"
// and other garbage after it.
func baseName(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	for _, prefix := range []string{"functions.", "default_api.", "tools."} {
		name = strings.TrimPrefix(name, prefix)
	}
	end := strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	if end > 0 {
		name = name[:end]
	}
	return name
}

func (s *Set) resolveAlias(name string, args json.RawMessage) (Tool, json.RawMessage, bool) {
	switch name {
	case "bash", "command", "execute", "execute_bash", "shell", "run":
		return s.with(NameTerminal, args, true)
	case "reset":
		changed, ok := edit(args, func(m map[string]any) { setDefault(m, "command", ""); m["reset"] = true })
		return s.with(NameTerminal, changed, ok)
	case "grep", "find", "ls", "pwd", "git":
		changed, ok := programCall(name, args)
		return s.with(NameTerminal, changed, ok)
	case "str_replace_editor", "edit_file":
		return s.with(NameFileEditor, inferCommand(NameFileEditor, args), true)
	}
	if slices.Contains(editorCommands, name) {
		changed, ok := edit(args, func(m map[string]any) { setDefault(m, "command", name) })
		return s.with(NameFileEditor, changed, ok)
	}
	return nil, args, false
}

func (s *Set) with(name string, args json.RawMessage, ok bool) (Tool, json.RawMessage, bool) {
	t, known := s.byName[name]
	if !known || !ok {
		return nil, args, false
	}
	return t, args, true
}

// edit changes a copy of the arguments. False: they cannot be read.
func edit(args json.RawMessage, change func(map[string]any)) (json.RawMessage, bool) {
	members, err := DecodeArguments(args)
	if err != nil {
		return args, false
	}
	change(members)
	raw, err := encodeJSON(members)
	if err != nil {
		return args, false
	}
	return raw, true
}

func setDefault(m map[string]any, key string, value any) {
	if text, ok := m[key].(string); !ok || text == "" {
		m[key] = value
	}
}

// inferCommand adds a missing command to a call of the file editor: the members
// say which one was meant.
func inferCommand(name string, args json.RawMessage) json.RawMessage {
	if name != NameFileEditor && name != namePlanEditor {
		return args
	}
	members, err := DecodeArguments(args)
	if err != nil || members["command"] != nil {
		return args
	}
	command := commandByMembers(members)
	if command == "" {
		return args
	}
	changed, ok := edit(args, func(m map[string]any) { m["command"] = command })
	if !ok {
		return args
	}
	return changed
}

func commandByMembers(members map[string]any) string {
	for _, rule := range []struct{ member, command string }{
		{"old_str", "str_replace"},
		{"insert_line", "insert"},
		{"file_text", "create"},
		{"path", "view"},
	} {
		if members[rule.member] != nil {
			return rule.command
		}
	}
	return ""
}

// programCall turns a call of a program as if it were a tool into a terminal
// command. False: the arguments do not say what to run.
func programCall(program string, args json.RawMessage) (json.RawMessage, bool) {
	members, err := DecodeArguments(args)
	if err != nil {
		return args, false
	}
	line := programLine(program, members)
	if line == "" {
		return args, false
	}
	raw, err := encodeJSON(object{{"command", line}})
	return raw, err == nil
}

func programLine(program string, members map[string]any) string {
	text := func(key string) string { s, _ := members[key].(string); return s }
	for _, key := range []string{"command", "args", "arguments"} {
		line := text(key)
		if list, ok := members[key].([]any); ok {
			line = quoteList(list)
		}
		switch {
		case line == "":
		case line == program || strings.HasPrefix(line, program+" "):
			return line
		default:
			return program + " " + line
		}
	}
	path := text("path")
	if path == "" {
		path = "."
	}
	switch {
	case program == "pwd":
		return program
	case program == "ls":
		return "ls -la -- " + shellQuote(path)
	case program == "grep" && text("pattern") != "":
		include := ""
		if text("include") != "" {
			include = " --include=" + shellQuote(text("include"))
		}
		return "grep -rn" + include + " -e " + shellQuote(text("pattern")) + " -- " + shellQuote(path)
	case program == "find" && text("pattern")+text("name") != "":
		return "find " + shellQuote(path) + " -name " + shellQuote(text("pattern")+text("name"))
	}
	return ""
}

func quoteList(list []any) string {
	var words []string
	for _, e := range list {
		if word, ok := e.(string); ok {
			words = append(words, shellQuote(word))
		}
	}
	return strings.Join(words, " ")
}

// shellQuote quotes a word for a POSIX shell, plain words stay as they are.
func shellQuote(word string) string {
	plain := strings.IndexFunc(word, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+", r)
	}) < 0
	if plain && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
