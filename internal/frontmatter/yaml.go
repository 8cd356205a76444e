package frontmatter

import (
	"errors"
	"io"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"

	"parley/internal/content"
	"parley/internal/lazyre"
)

// maxQuoted bounds what an error quotes, in characters.
const maxQuoted = 100

// readYAML returns the root of front matter, nil if there is nothing in it.
func readYAML(matter string) (*yaml.Node, error) {
	// The line that stands for the opening dashes lets YAML count the file's lines.
	text := "\n" + matter
	root, err := decode(text)
	if err == nil {
		return root, nil
	}
	if again, errAgain := decode(quoteValues(text)); errAgain == nil {
		return again, nil
	}
	return nil, problem(errorLine(text, err), "the front matter is not valid YAML: %s", content.Short(reason(err), maxQuoted))
}

// decode returns the only document of a text, nil if it has none. The tree is not
// resolved: aliases stay what they are and cannot grow.
func decode(text string) (root *yaml.Node, err error) {
	defer func() { // the decoder panics at what it did not expect; a file must not end the server
		if recover() != nil {
			root, err = nil, errors.New("it cannot be read")
		}
	}()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var doc yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	return doc.Content[0], nil
}

// plainLine is a key with a value that has no mark of YAML at its beginning.
var plainLine = lazyre.MustCompile(`^([A-Za-z][\w-]*):[ \t]+([^\s"'\[{|>&*!%@` + "`" + `#].*)$`)

// quoteValues puts the value of each line that is a key with a plain text between
// quotes, where YAML would take something in the text for its own.
func quoteValues(matter string) string {
	lines := strings.Split(matter, "\n")
	for i, line := range lines {
		if m := plainLine.FindStringSubmatch(line); m != nil && strings.ContainsAny(m[2], ":#") {
			lines[i] = m[1] + ": '" + strings.ReplaceAll(strings.TrimRight(m[2], " \t"), "'", "''") + "'"
		}
	}
	return strings.Join(lines, "\n")
}

var yamlPrefix = lazyre.MustCompile(`^yaml: (line \d+: )?`)

// reason is an error of the decoder without the line, which is often that of
// something before it.
func reason(err error) string { return yamlPrefix.ReplaceAllString(err.Error(), "") }

// errorLine returns the first line with which a text fails as all of it does.
func errorLine(text string, err error) int {
	var ends []int
	for line := range strings.Lines(text) {
		ends = append(ends, len(line))
		if n := len(ends); n > 1 {
			ends[n-1] += ends[n-2]
		}
	}
	same := func(i int) bool {
		_, partial := decode(text[:ends[i]])
		return partial != nil && reason(partial) == reason(err)
	}
	return min(sort.Search(len(ends), same)+1, len(ends))
}
