package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// entry is one key of a configuration file.
type entry struct {
	key  string
	text string
	line int
}

// file is a parsed configuration file.
type file struct {
	path    string
	entries []entry
	shared  bool // others than the owner may read it
}

// findFile returns the path of the file to read, "" if there is none. An
// explicit path is returned whether or not it exists.
func findFile(explicit string, env Env) string {
	if explicit == "" {
		explicit = env["PARLEY_CONFIG"]
	}
	if explicit != "" {
		return explicit
	}
	for _, place := range env.filePlaces() {
		if _, err := os.Stat(place); !errors.Is(err, fs.ErrNotExist) {
			return place
		}
	}
	return ""
}

func readFile(path string) (*file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("larger than %s", FormatBytes(maxFileBytes))
	}
	parsed := &file{path: path}
	if info, err := f.Stat(); err == nil {
		parsed.shared = info.Mode().Perm()&0o077 != 0
	}
	parsed.entries, err = parseFile(data)
	return parsed, err
}

// parseFile reads a flat mapping of keys to scalars or lists of scalars.
func parseFile(data []byte) ([]entry, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one document")
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("is no mapping of keys to values")
	}
	return readMapping(doc.Content[0])
}

func readMapping(node *yaml.Node) ([]entry, error) {
	var entries []entry
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		k, v := node.Content[i], node.Content[i+1]
		if k.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("line %d: a key must be a word", k.Line)
		}
		if seen[k.Value] {
			return nil, fmt.Errorf("line %d: the key %s is there twice", k.Line, quote(k.Value))
		}
		seen[k.Value] = true
		text, err := scalarText(v)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s %w", v.Line, k.Value, err)
		}
		entries = append(entries, entry{k.Value, text, k.Line})
	}
	return entries, nil
}

// scalarText returns a scalar's text, and a list as the text of its items
// separated by commas.
func scalarText(v *yaml.Node) (string, error) {
	switch {
	case v.Kind == yaml.ScalarNode && v.Tag == "!!null":
		return "", errors.New("has no value; write one or remove the key")
	case v.Kind == yaml.ScalarNode:
		return v.Value, nil
	case v.Kind != yaml.SequenceNode:
		return "", errors.New("must be a plain value or a list of them")
	case len(v.Content) > 0 && v.Content[0].Kind == yaml.MappingNode:
		return structured(v)
	}
	items := make([]string, 0, len(v.Content))
	for _, item := range v.Content {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" || strings.Contains(item.Value, ",") {
			return "", fmt.Errorf("has an item in line %d that is no plain value without a comma", item.Line)
		}
		items = append(items, item.Value)
	}
	return strings.Join(items, ","), nil
}
