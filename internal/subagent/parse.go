package subagent

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/internal/lazyre"
	"parley/internal/skill"
)

// maxFile bounds a file, in bytes.
const maxFile = 256 << 10

// Parse reads an agent from a Markdown file (agent protocol 4.8): front matter, and
// the system prompt as the rest. file is its path for people; without a name in the
// front matter the agent is called like the file. Files that were written for other
// programs are read as far as the meaning is clear: keys in their spelling, tools by
// their names there. Members that mean nothing here are ignored. The error is a
// *skill.Problem.
func Parse(file string, data []byte, level string) (Definition, error) {
	d, err := parse(file, data)
	if err != nil {
		problem := &skill.Problem{Text: err.Error()}
		errors.As(err, &problem)
		problem.File = file
		return Definition{}, problem
	}
	d.Source, d.Level = file, level
	return d, nil
}

func parse(file string, data []byte) (Definition, error) {
	switch {
	case len(data) > maxFile:
		return Definition{}, fmt.Errorf("the file has %d bytes, more than the %d that an agent may have", len(data), maxFile)
	case !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0:
		return Definition{}, errors.New("the file is no text in UTF-8")
	}
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\uFEFF"), "\r\n", "\n")
	f, body, err := readFront(text)
	if err != nil {
		return Definition{}, err
	}
	adopt(f.values, strings.TrimSuffix(path.Base(file), path.Ext(file)))
	r := &reader{m: f.values, key: normalKey}
	d := r.definition()
	if d.SystemPrompt = strings.TrimSpace(body); d.SystemPrompt == "" && d.Description == "" {
		return Definition{}, errors.New("the file has neither a description nor a prompt")
	}
	if len(r.fields) > 0 {
		key, _ := r.fields[0].Loc[0].(string)
		return Definition{}, &skill.Problem{Line: f.lines[normalKey(key)], Text: r.text(0)}
	}
	return d, nil
}

// adopt turns what other programs write into front matter into what is written here.
func adopt(m map[string]any, name string) {
	rename := func(from, to string) {
		if _, there := m[to]; !there && m[from] != nil {
			m[to] = m[from]
		}
	}
	if m["name"] == nil {
		m["name"] = name
	}
	// A description in one line often has the line ends of the text that it was made from.
	if text, ok := m["description"].(string); ok && !strings.Contains(text, "\n") {
		m["description"] = strings.ReplaceAll(text, `\n`, "\n")
	}
	rename("allowedtools", "tools")
	rename("maxturns", "maxiterationperrun")
	rename("maxiterations", "maxiterationperrun")
	for _, key := range []string{"tools", "disallowedtools", "skills"} {
		if text, ok := m[key].(string); ok {
			m[key] = list(splitNames(text))
		}
	}
	if mode, ok := m["permissionmode"].(string); ok {
		m["permissionmode"] = permission(mode)
	}
	if servers, ok := m["mcpservers"].([]any); ok {
		m["mcpservers"] = inlineServers(servers)
	}
}

func list(names []string) []any {
	out := make([]any, len(names))
	for i, name := range names {
		out[i] = name
	}
	return out
}

// permission maps the modes of other programs. Where one of them means that less is
// confirmed, nothing is said about it: a definition only makes a policy stricter.
func permission(mode string) any {
	switch normalKey(mode) {
	case "", "default", "inherit", "acceptedits", "auto":
		return nil
	case "bypasspermissions":
		return PermitNeverConfirm
	case "plan", "dontask": // they refuse where this asks
		return PermitAlwaysConfirm
	}
	return mode
}

// inlineServers takes the servers out of a list of names and servers. The names are
// of servers that the parent has, and so has its sub-agent.
func inlineServers(items []any) any {
	servers := map[string]any{}
	for _, item := range items {
		switch item := item.(type) {
		case string:
		case map[string]any:
			for name, server := range item {
				servers[name] = server
			}
		default:
			return items // the reader says what is wrong
		}
	}
	return servers
}

// withoutTools takes away the tools that must not be used, as mapped names.
func withoutTools(tools, not []string) []string {
	return slices.DeleteFunc(tools, func(name string) bool { return slices.Contains(not, name) })
}

var example = lazyre.MustCompile(`(?s)<example>(.*?)</example>`)

// splitExamples takes the examples out of a description.
func splitExamples(text string) (description string, examples []string) {
	for _, m := range example.FindAllStringSubmatch(text, maxItems) {
		if e := strings.TrimSpace(m[1]); e != "" {
			examples = append(examples, e)
		}
	}
	return strings.TrimSpace(example.ReplaceAllString(text, "")), examples
}
