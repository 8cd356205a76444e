// Package frontmatter reads the YAML between two lines of three dashes at the top of
// a Markdown file. Files are hostile: size and depth are bounded, and aliases are
// refused, so that nothing grows. What the members mean is up to the caller. Pure.
package frontmatter

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"parley/internal/content"
)

// maxDepth bounds how deep the value of a member is nested.
const maxDepth = 20

// Error is why front matter cannot be read. It quotes at most 100 characters of it.
type Error struct {
	Line int    // of the file, from 1
	Text string // for people
}

// Error returns the text with its place.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

func problem(line int, format string, args ...any) *Error {
	return &Error{Line: line, Text: fmt.Sprintf(format, args...)}
}

// Member is one member of front matter.
type Member struct {
	Line  int        // of its key in the file, from 1
	Value *yaml.Node // not nil; has no aliases, and the lines of the file
}

// Read returns the members of a file's front matter and the text after it, as it is.
// text has the line ends of Unix; most bounds the front matter in bytes; key makes
// one key of all its spellings, and members that have the same are refused. A file
// without front matter is all body. A line "description: a: b" is no YAML; where
// that is all that is wrong, the value is what is after the key, as programs take it
// that read line by line. The error is an *Error.
func Read(text string, most int, key func(string) string) (members map[string]Member, body string, err error) {
	matter, body, err := cut(text, most)
	if err != nil {
		return nil, "", err
	}
	root, err := readYAML(matter)
	if err != nil {
		return nil, "", err
	}
	members, err = membersOf(root, key)
	if err != nil {
		return nil, "", err
	}
	return members, body, nil
}

// cut splits a file at the lines of dashes around its front matter.
func cut(text string, most int) (matter, body string, err error) {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t") != "---" {
		return "", text, nil
	}
	at := 0
	for line := range strings.Lines(rest) {
		switch {
		case strings.TrimRight(line, " \t\n") != "---":
			at += len(line)
		case at > most:
			return "", "", problem(1, "the front matter has %d bytes, more than the %d allowed", at, most)
		default:
			return rest[:at], rest[at+len(line):], nil
		}
	}
	return "", "", problem(1, "the front matter that begins here has no end: a line of three dashes is missing")
}

func membersOf(root *yaml.Node, key func(string) string) (map[string]Member, error) {
	members := map[string]Member{}
	switch {
	case root == nil || Null(root):
		return members, nil
	case root.Kind != yaml.MappingNode:
		return nil, problem(root.Line, "the front matter is not a list of keys with values (key: value)")
	}
	for _, child := range root.Content {
		if err := check(child, 0); err != nil {
			return nil, err
		}
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		k := root.Content[i]
		name := key(k.Value)
		if _, twice := members[name]; twice {
			return nil, problem(k.Line, "%s is given twice", content.Short(k.Value, maxQuoted))
		}
		members[name] = Member{Line: k.Line, Value: root.Content[i+1]}
	}
	return members, nil
}

// check refuses what a tree must not have anywhere.
func check(n *yaml.Node, depth int) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return problem(n.Line, "the front matter uses an alias (*%s); write the value itself", content.Short(n.Value, maxQuoted))
	case depth > maxDepth:
		return problem(n.Line, "the front matter is nested more than %d levels deep", maxDepth)
	}
	for _, child := range n.Content {
		if err := check(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// Null reports whether a value is none.
func Null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// JSON returns a member's value as encoding/json has such values: nil, bool, string,
// []any, map[string]any, and for numbers the types of Go. What JSON cannot express,
// such as infinity, is a text.
func JSON(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			out[n.Content[i].Value] = JSON(n.Content[i+1])
		}
		return out
	case yaml.SequenceNode:
		out := []any{}
		for _, item := range n.Content {
			out = append(out, JSON(item))
		}
		return out
	}
	var v any
	switch n.Tag {
	case "!!null", "!!bool", "!!int":
		if n.Decode(&v) == nil {
			return v
		}
	case "!!float":
		var number float64
		if n.Decode(&number) == nil && number-number == 0 { // neither infinite nor no number
			return number
		}
	}
	return n.Value
}
