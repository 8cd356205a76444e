package arch_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every module that is imported is in docs/dependencies.md with its reason, and
// nothing is there that is not imported.
func TestDependenciesAreExplained(t *testing.T) {
	doc, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	modules := requirements(t)
	used := map[string]bool{}
	for _, src := range readTree(t, os.DirFS("../..")) {
		for _, target := range src.imports {
			if m := moduleOf(target, modules); m != "" {
				used[m] = true
			}
		}
	}
	explained := map[string]bool{}
	npm := map[string]bool{}
	section := ""
	for row := range strings.Lines(string(doc)) {
		if title, ok := strings.CutPrefix(row, "## "); ok {
			section = strings.TrimSpace(title)
		}
		cell, ok := strings.CutPrefix(row, "| `")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut(cell, " | ")
		for name := range strings.SplitSeq(cell, ", ") {
			if name = strings.Trim(name, "`"); section == "In the web UI" {
				npm[name] = true
			} else {
				explained[name] = true
			}
		}
	}
	compare(t, "web/package.json", packages(t), npm)
	compare(t, "the code", used, explained)
}

// compare reports what one side has and the other has not.
func compare(t *testing.T, where string, used, explained map[string]bool) {
	t.Helper()
	for m := range used {
		if !explained[m] {
			t.Errorf("%s uses %s, which is not in docs/dependencies.md: a dependency must earn its place there", where, m)
		}
	}
	for m := range explained {
		if !used[m] {
			t.Errorf("docs/dependencies.md explains %s, which %s does not use", m, where)
		}
	}
}

// packages returns the npm packages that the web UI is made of.
func packages(t *testing.T) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile("../../web/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for name := range file.Dependencies {
		names[name] = true
	}
	return names
}

// requirements returns the modules that go.mod requires, direct or not.
func requirements(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, match := range regexp.MustCompile(`(?m)^(?:require)?\s+([\w.-]+\.[\w.-]+/\S+) v`).FindAllStringSubmatch(string(text), -1) {
		modules = append(modules, match[1])
	}
	if len(modules) < 10 {
		t.Fatalf("only %v found in go.mod", modules)
	}
	return modules
}

// moduleOf returns the module that an import path belongs to, "" for the
// standard library and our own.
func moduleOf(target string, modules []string) string {
	best := ""
	for _, m := range modules {
		if (target == m || strings.HasPrefix(target, m+"/")) && len(m) > len(best) {
			best = m
		}
	}
	return best
}
