package skill

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/frontmatter"
)

// maxFront bounds front matter, in bytes.
const maxFront = 32 << 10

// fields are the members of a file's front matter. The first thing that is wrong
// becomes the parser's problem; what is wrong reads as absent.
type fields struct {
	*parser
	values map[string]frontmatter.Member // by key, with "_" for "-"
	body   string                        // the file without its front matter
}

// frontMatter reads the front matter of a file, if there is any.
func (p *parser) frontMatter(text string) *fields {
	members, body, err := frontmatter.Read(text, maxFront, func(key string) string { return strings.ReplaceAll(key, "-", "_") })
	var wrong *frontmatter.Error
	if errors.As(err, &wrong) {
		p.fail(wrong.Line, "%s", wrong.Text)
	}
	return &fields{parser: p, values: members, body: trimBody(body)}
}

// trimBody takes the blank lines around a text away.
func trimBody(text string) string {
	return strings.TrimRight(strings.TrimLeft(text, "\n"), " \t\n")
}

// get returns a member that is there and not null.
func (f *fields) get(key string) *yaml.Node {
	if n := f.values[key].Value; n != nil && !frontmatter.Null(n) {
		return n
	}
	return nil
}

// text returns a member as it is written, numbers too, and its line.
func (f *fields) text(key string) (value string, line int) {
	n := f.get(key)
	if n == nil {
		return "", 1
	}
	if n.Kind != yaml.ScalarNode {
		f.fail(n.Line, "%s is not a text", key)
		return "", n.Line
	}
	return n.Value, n.Line
}

// list returns the texts of a list, or the only text, with their lines. Blank ones
// are left out.
func (f *fields) list(key string) (texts []string, lines []int) {
	n := f.get(key)
	if n == nil {
		return nil, nil
	}
	for _, item := range f.items(n, key) {
		switch {
		case item.Kind != yaml.ScalarNode:
			f.fail(item.Line, "an item of %s is not a text", key)
		case strings.TrimSpace(item.Value) != "" && !frontmatter.Null(item):
			texts, lines = append(texts, strings.TrimSpace(item.Value)), append(lines, item.Line)
		}
	}
	return texts, lines
}

func (f *fields) items(n *yaml.Node, key string) []*yaml.Node {
	switch {
	case n.Kind == yaml.ScalarNode:
		return []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		f.fail(n.Line, "%s is not a list", key)
		return nil
	case len(n.Content) > maxItems:
		f.fail(n.Line, "%s has %d items, more than the %d allowed", key, len(n.Content), maxItems)
		return nil
	}
	return n.Content
}

// declaredType returns the type that a file says it has, "" for none.
func (f *fields) declaredType() string {
	value, line := f.text("type")
	switch value {
	case "", typeRepo, typeKnowledge, "task":
		return value
	}
	f.fail(line, "the type %q is not known; the types are knowledge, repo and task", short(value))
	return ""
}

func (f *fields) flag(key string) bool {
	value, line := f.text(key)
	switch strings.ToLower(value) {
	case "", "false", "no", "off":
		return false
	case "true", "yes", "on":
		return true
	}
	f.fail(line, "%s is %q; it is true or false", key, short(value))
	return false
}

// tools returns a list, or the parts of a text between spaces and commas outside
// of parentheses: "Read Bash(git diff *)".
func (f *fields) tools(key string) []string {
	if n := f.get(key); n == nil || n.Kind != yaml.ScalarNode {
		list, _ := f.list(key)
		return list
	}
	text, line := f.text(key)
	depth := 0
	names := strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth = max(depth-1, 0)
		}
		return depth == 0 && strings.ContainsRune(" \t\n,", r)
	})
	if len(names) > maxItems {
		f.fail(line, "%s has %d items, more than the %d allowed", key, len(names), maxItems)
	}
	return names
}

// texts returns a map of texts; values of other kinds are their JSON.
func (f *fields) texts(key string) map[string]string {
	n := f.get(key)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		f.fail(n.Line, "%s is not a list of keys with values (key: value)", key)
		return nil
	}
	out := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i].Value, n.Content[i+1]
		if out[name] = value.Value; value.Kind == yaml.ScalarNode {
			continue
		}
		raw, err := content.Marshal(frontmatter.JSON(value))
		if err != nil {
			f.fail(value.Line, "%s.%s cannot be read", key, short(name))
		}
		out[name] = string(raw)
	}
	return out
}

func (f *fields) inputs(key string) []Input {
	n := f.get(key)
	if n == nil {
		return nil
	}
	var out []Input
	for _, item := range f.items(n, key) {
		var in Input
		if item.Kind == yaml.MappingNode {
			in = input(item)
		}
		if in.Name == "" {
			f.fail(item.Line, "an item of %s has no name; it is written as name: ..., description: ...", key)
			continue
		}
		out = append(out, in)
	}
	return out
}

func input(n *yaml.Node) (in Input) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := n.Content[i+1]
		switch {
		case value.Kind != yaml.ScalarNode || frontmatter.Null(value):
		case n.Content[i].Value == "name":
			in.Name = strings.TrimSpace(value.Value)
		case n.Content[i].Value == "description":
			in.Description = strings.TrimSpace(value.Value)
		}
	}
	return in
}

// servers reads MCP servers: by name, as most clients write them, or in the lists of
// the legacy API, which has only those that are commands in skills (17.1).
func (f *fields) servers(key string) *account.MCPConfig {
	n := f.get(key)
	if n == nil || f.problem != nil {
		return nil
	}
	if inner := member(n, "mcpServers"); inner != nil {
		n = inner
	}
	raw, err := content.Marshal(frontmatter.JSON(n))
	if err != nil {
		f.fail(n.Line, "%s cannot be read", key)
		return nil
	}
	config, wrong := account.ParseMCPServers(raw, nil)
	if len(wrong) > 0 {
		f.fail(lineAt(n, wrong[0].Loc), "%s: %s", place(key, wrong[0].Loc), wrong[0].Msg)
		return nil
	}
	if member(n, "stdio_servers") == nil && member(n, "sse_servers") == nil && member(n, "shttp_servers") == nil {
		return config
	}
	switch {
	case len(config.SSE)+len(config.SHTTP) > 0:
		f.fail(n.Line, "%s has sse_servers or shttp_servers; in this form a skill has stdio_servers only", key)
	case len(config.Stdio) == 0:
		f.fail(n.Line, "%s has no stdio_servers", key)
	}
	return config
}

func member(n *yaml.Node, name string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// lineAt returns the line of the deepest node that a place names.
func lineAt(n *yaml.Node, loc []any) int {
	for _, step := range loc {
		next := (*yaml.Node)(nil)
		switch step := step.(type) {
		case string:
			next = member(n, step)
		case int:
			if n.Kind == yaml.SequenceNode && step < len(n.Content) {
				next = n.Content[step]
			}
		}
		if next == nil {
			break
		}
		n = next
	}
	return n.Line
}

func place(key string, loc []any) string {
	for _, step := range loc {
		key += "." + short(fmt.Sprint(step))
	}
	return key
}
