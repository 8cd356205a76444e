package subagent

import (
	"slices"
	"strings"
)

// foreign are the names that agent files written for other programs use for tools
// that are here under another name. A name that means something else here, or only
// a part of it ("Bash(git:*)"), is not among them: the engine reports it, and the
// agent goes without.
var foreign = map[string]string{
	"read": "read_file", "write": "write_file", "multiedit": "edit", "ls": "list_directory",
	"bash": "terminal", "bashoutput": "terminal", "killbash": "terminal", "killshell": "terminal",
	"run_shell_command": "terminal", "execute_bash": "terminal", "shell": "terminal",
	"todowrite": "task_tracker", "todoread": "task_tracker", "websearch": "tavily_search",
	"task": "task_tool_set", "replace": "edit", "search_file_content": "grep",
	"terminaltool": "terminal", "bashtool": "terminal", "fileeditortool": "file_editor",
	"str_replace_editor": "file_editor", "tasktrackertool": "task_tracker", "globtool": "glob", "greptool": "grep",
	"applypatchtool": "apply_patch", "browsertoolset": "browser_tool_set", "tasktoolset": "task_tool_set",
}

// plain are names of tools that are here under the same name but written with a
// capital elsewhere.
var plain = []string{"edit", "glob", "grep"}

// toolNames maps names to those of this program, without doubles. It keeps unknown
// ones. nil stays nil; a list with "*" is nil, all tools.
func toolNames(names []string) []string {
	if names == nil || slices.Contains(names, "*") {
		return nil
	}
	out := []string{}
	for _, name := range names {
		lower := strings.ToLower(name)
		if own, ok := foreign[lower]; ok {
			name = own
		} else if slices.Contains(plain, lower) {
			name = lower
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// splitNames splits a text at commas outside of parentheses: one name may be
// "Bash(git add, git commit)".
func splitNames(text string) []string {
	names := []string{}
	depth, start := 0, 0
	add := func(name string) {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	for i, r := range text {
		switch {
		case r == '(':
			depth++
		case r == ')' && depth > 0:
			depth--
		case r == ',' && depth == 0:
			add(text[start:i])
			start = i + 1
		}
	}
	add(text[start:])
	return names
}
