package texttools

import (
	_ "embed" // what the model is told about calls
	"encoding/json"
	"fmt"
	"strings"

	"parley/internal/llm"
)

//go:embed prompt.md
var prompt string

// describe tells a model in words how to call which tools.
func describe(tools []llm.Tool) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(prompt))
	for _, t := range tools {
		fmt.Fprintf(&b, "\n\n## %s\n", t.Name)
		if text := strings.TrimSpace(t.Description); text != "" {
			b.WriteString("\n" + text + "\n")
		}
		b.WriteString("\n" + describeParameters(t.Parameters))
	}
	return b.String()
}

func describeParameters(raw json.RawMessage) string {
	s := readSchema(raw)
	if len(s.names) == 0 {
		return "It has no parameters."
	}
	var b strings.Builder
	b.WriteString("Parameters:")
	for _, name := range s.names {
		b.WriteString("\n- " + name + " (" + s.word(name))
		if s.required[name] {
			b.WriteString(", required")
		}
		b.WriteString(")")
		if text := s.description(name); text != "" {
			b.WriteString(": " + text)
		}
	}
	return b.String()
}
