package arch_test

import (
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
	for row := range strings.Lines(string(doc)) {
		cell, ok := strings.CutPrefix(row, "| `")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut(cell, " | ")
		for name := range strings.SplitSeq(cell, ", ") {
			explained[strings.Trim(name, "`")] = true
		}
	}
	for m := range used {
		if !explained[m] {
			t.Errorf("%s is imported and not in docs/dependencies.md: a dependency must earn its place there", m)
		}
	}
	for m := range explained {
		if !used[m] {
			t.Errorf("docs/dependencies.md explains %s, which nothing imports", m)
		}
	}
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
