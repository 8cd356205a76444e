package arch_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// Bounds on length. The tail of a tree grows where the live thing is owned.
const (
	maxFunction = 100 // lines
	maxFile     = 800
)

// longAllowed lists functions and files that may be longer, each with its reason.
func longAllowed() map[string]string {
	return map[string]string{}
}

// rule finds violations in one file.
type rule func(*source) []string

func rules() map[string]rule {
	return map[string]rule{
		"imports point downward":    imports,
		"SQL drivers in store":      sqlDrivers,
		"environment in config":     environment,
		"no init":                   noInit,
		"no global logger":          noGlobalLogger,
		"functions are not endless": length,
		"expressions compile late":  expressions,
	}
}

func TestTree(t *testing.T) {
	sources := readTree(t, os.DirFS("../.."))
	if len(sources) < 20 {
		t.Fatalf("only %d files were found: is the root right?", len(sources))
	}
	for name, rule := range rules() {
		t.Run(name, func(t *testing.T) {
			for _, src := range sources {
				for _, violation := range rule(src) {
					t.Error(violation)
				}
			}
		})
	}
	t.Run("every package says what it promises", func(t *testing.T) {
		for _, violation := range undocumented(sources) {
			t.Error(violation)
		}
	})
}

// imports holds the layers. Tests may use whatever they need to test for real.
func imports(s *source) []string {
	if s.test {
		return nil
	}
	var bad []string
	for _, target := range s.imports {
		below, ok := strings.CutPrefix(target, module+"/")
		if !ok {
			continue
		}
		if text := importFault(s.pkg, below); text != "" {
			bad = append(bad, fmt.Sprintf("%s: %s %s", s.path, s.pkg, text))
		}
	}
	return bad
}

func sqlDrivers(s *source) []string {
	if s.pkg == "internal/store" || strings.HasPrefix(s.pkg, "internal/store/") || s.test || outside(s.pkg) {
		return nil
	}
	var bad []string
	for _, target := range s.imports {
		for _, driver := range []string{"database/sql", "modernc.org/sqlite", "github.com/jackc/pgx", "github.com/pressly/goose"} {
			if target == driver || strings.HasPrefix(target, driver+"/") {
				bad = append(bad, fmt.Sprintf("%s: imports %s; SQL lives in internal/store, everybody else uses the seam", s.path, target))
			}
		}
	}
	return bad
}

func environment(s *source) []string {
	if s.pkg == "internal/config" || s.test || outside(s.pkg) {
		return nil
	}
	readers := []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Unsetenv", "Clearenv"}
	var bad []string
	s.selectors(func(pos token.Pos, target, member string) {
		if (target == "os" || target == "syscall" || target == "golang.org/x/sys/unix") && slices.Contains(readers, member) {
			bad = append(bad, fmt.Sprintf("%s: %s.%s; the environment is read in internal/config only, hand the value in", s.at(pos), target, member))
		}
	})
	return bad
}

func noInit(s *source) []string {
	var bad []string
	for _, decl := range s.tree.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			bad = append(bad, s.at(f.Pos())+": func init; registration by side effect hides who uses what, call it from internal/app")
		}
	}
	return bad
}

func noGlobalLogger(s *source) []string {
	if s.test {
		return nil
	}
	slog := []string{"Default", "SetDefault", "SetLogLoggerLevel", "Debug", "Info", "Warn", "Error", "Log", "LogAttrs",
		"DebugContext", "InfoContext", "WarnContext", "ErrorContext", "With"}
	var bad []string
	s.selectors(func(pos token.Pos, target, member string) {
		global := target == "log/slog" && slices.Contains(slog, member) || target == "log" && member != "Logger" && member != "New" &&
			!strings.HasPrefix(member, "L")
		if global {
			bad = append(bad, fmt.Sprintf("%s: %s.%s; the logger is handed in", s.at(pos), target, member))
		}
	})
	return bad
}

func length(s *source) []string {
	if s.test {
		return nil
	}
	var bad []string
	allowed := longAllowed()
	if s.lines > maxFile && allowed[s.path] == "" {
		bad = append(bad, fmt.Sprintf("%s: %d lines, more than %d; a file holds one noun", s.path, s.lines, maxFile))
	}
	for _, decl := range s.tree.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1
		if name := s.pkg + "." + f.Name.Name; lines > maxFunction && allowed[name] == "" {
			bad = append(bad, fmt.Sprintf("%s: %s has %d lines, more than %d", s.at(f.Pos()), name, lines, maxFunction))
		}
	}
	return bad
}

// undocumented lists packages none of whose files has a package comment.
func undocumented(sources []*source) []string {
	documented := map[string]bool{}
	for _, s := range sources {
		if !s.test {
			documented[s.pkg] = documented[s.pkg] || s.tree.Doc.Text() != ""
		}
	}
	var bad []string
	for pkg, ok := range documented {
		if !ok {
			bad = append(bad, pkg+": no package comment; say what the package promises and what it does not")
		}
	}
	slices.Sort(bad)
	return bad
}

// The rules find what they are for: each of these trees breaks exactly one.
func TestRulesFindViolations(t *testing.T) {
	long := "func f() {\n" + strings.Repeat("\t_ = 0\n", maxFunction) + "}\n"
	tests := map[string]struct {
		path, text string
		broken     string // name of the rule; "" = none
	}{
		"upward":                  {"internal/fault/a.go", "import _ \"parley/internal/engine\"", "imports point downward"},
		"sideways":                {"internal/store/a.go", "import _ \"parley/internal/llm\"", "imports point downward"},
		"sideways in a layer":     {"internal/api/v0/a.go", "import _ \"parley/internal/api/v1\"", "imports point downward"},
		"an implementation":       {"internal/engine/a.go", "import _ \"parley/internal/store/sqlstore\"", "imports point downward"},
		"a testkit":               {"internal/app/a.go", "import _ \"parley/test/testkit\"", "imports point downward"},
		"no layer":                {"internal/util/a.go", "import _ \"parley/internal/fault\"", "imports point downward"},
		"downward":                {"internal/engine/a.go", "import _ \"parley/internal/fault\"", ""},
		"own implementation":      {"internal/llm/factory/a.go", "import _ \"parley/internal/llm/openai\"", ""},
		"app and implementations": {"internal/app/a.go", "import _ \"parley/internal/store/sqlstore\"", ""},
		"test of an engine":       {"internal/engine/a_test.go", "import _ \"parley/internal/store/sqlstore\"", ""},
		"a driver":                {"internal/engine/a.go", "import _ \"modernc.org/sqlite\"", "SQL drivers in store"},
		"a driver in store":       {"internal/store/sqlstore/a.go", "import _ \"modernc.org/sqlite\"", ""},
		"environment":             {"internal/app/a.go", "import \"os\"\nvar x = os.Getenv(\"X\")", "environment in config"},
		"renamed environment":     {"internal/app/a.go", "import sys \"os\"\nvar x = sys.Environ()", "environment in config"},
		"config":                  {"internal/config/a.go", "import \"os\"\nvar x = os.Getenv(\"X\")", ""},
		"init":                    {"internal/app/a.go", "func init() {}", "no init"},
		"a method init":           {"internal/app/a.go", "type t int\nfunc (t) init() {}", ""},
		"global slog":             {"internal/app/a.go", "import \"log/slog\"\nfunc f() { slog.Info(\"x\") }", "no global logger"},
		"global log":              {"internal/app/a.go", "import \"log\"\nfunc f() { log.Printf(\"x\") }", "no global logger"},
		"own logger":              {"internal/app/a.go", "import \"log/slog\"\nfunc f(l *slog.Logger) { l.Info(\"x\") }", ""},
		"long function":           {"internal/app/a.go", long, "functions are not endless"},
		"long file":               {"internal/app/a.go", strings.Repeat("// x\n", maxFile+1), "functions are not endless"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sources := readTree(t, memory(test.path, "package p\n"+test.text+"\n"))
			for ruleName, rule := range rules() {
				violations := rule(sources[0])
				if (len(violations) > 0) != (ruleName == test.broken) {
					t.Errorf("rule %q: %v", ruleName, violations)
				}
			}
		})
	}
	if bad := undocumented(readTree(t, memory("internal/app/a.go", "package app\n"))); len(bad) != 1 {
		t.Errorf("a package without a comment: %v", bad)
	}
}

func TestOtherModulesAreNotRead(t *testing.T) {
	fsys := fstest.MapFS{"a.go": {Data: []byte("package a\n")}, "tools/go.mod": {}, "tools/b.go": {Data: []byte("broken")},
		"x/testdata/c.go": {Data: []byte("broken")}, ".hidden/d.go": {Data: []byte("broken")}}
	if n := len(readTree(t, fsys)); n != 1 {
		t.Errorf("%d files were read", n)
	}
}

func memory(path, text string) fs.FS {
	return fstest.MapFS{path: &fstest.MapFile{Data: []byte(text)}}
}
