package subagent

import (
	"encoding/json"
	"errors"
	"strings"

	"parley/internal/content"
	"parley/internal/frontmatter"
	"parley/internal/skill"
)

// maxFront bounds front matter, in bytes.
const maxFront = 64 << 10

// front is the front matter of a file by normal key: the values as encoding/json
// reads them, and the lines of the keys in the file.
type front struct {
	values map[string]any
	lines  map[string]int
}

// normalKey makes one key of the spellings that programs have: maxTurns, max-turns
// and max_turns.
func normalKey(key string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(key))
}

// readFront splits a file into its front matter and the rest. What is wrong with the
// front matter is a *skill.Problem.
func readFront(text string) (f front, body string, err error) {
	members, body, err := frontmatter.Read(text, maxFront, normalKey)
	var wrong *frontmatter.Error
	if errors.As(err, &wrong) {
		return f, "", &skill.Problem{Line: wrong.Line, Text: oneLine(wrong.Text)}
	}
	f.lines = map[string]int{}
	values := map[string]any{}
	for name, m := range members {
		f.lines[name], values[name] = m.Line, frontmatter.JSON(m.Value)
	}
	raw, err := content.Marshal(values)
	if err == nil {
		err = json.Unmarshal(raw, &f.values)
	}
	return f, body, err
}
