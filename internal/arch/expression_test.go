package arch_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// expressions holds that nothing compiles an expression while the program starts,
// and that what is compiled later can be. Expressions that are put together from
// other things than literals are a matter of their package's tests.
func expressions(s *source) []string {
	if s.test || s.pkg == "internal/lazyre" || outside(s.pkg) {
		return nil
	}
	var bad []string
	for _, decl := range s.tree.Decls {
		if v, ok := decl.(*ast.GenDecl); ok && v.Tok == token.VAR {
			ast.Inspect(v, func(n ast.Node) bool {
				if _, inside := n.(*ast.FuncLit); inside {
					return false
				}
				if call, ok := n.(*ast.CallExpr); ok && s.calls(call, "regexp") {
					bad = append(bad, s.at(call.Pos())+": compiled at every start of the program; use internal/lazyre")
				}
				return true
			})
		}
	}
	ast.Inspect(s.tree, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !s.calls(call, module+"/internal/lazyre") || len(call.Args) != 1 {
			return true
		}
		if text, ok := literal(call.Args[0]); ok {
			if _, err := regexp.Compile(text); err != nil {
				bad = append(bad, s.at(call.Pos())+": "+err.Error())
			}
		}
		return true
	})
	return bad
}

// calls reports whether a call is of MustCompile of a package.
func (s *source) calls(call *ast.CallExpr, target string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !strings.HasPrefix(sel.Sel.Name, "MustCompile") {
		return false
	}
	name, ok := sel.X.(*ast.Ident)
	return ok && s.imports[name.Name] == target
}

// literal evaluates strings that are added up.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok1 := literal(e.X)
		right, ok2 := literal(e.Y)
		return left + right, ok1 && ok2 && e.Op == token.ADD
	}
	return "", false
}

func TestExpressionsRule(t *testing.T) {
	for text, want := range map[string]string{
		"var x = regexp.MustCompile(`a`)":            "compiled at every start",
		"var x = lazyre.MustCompile(`a`)":            "",
		"var x = lazyre.MustCompile(`a` + \"(\")":    "missing closing",
		"func f() { _ = regexp.MustCompile(`a`) }":   "",
		"var x = func() { regexp.MustCompile(`a`) }": "",
		"var x = []any{1, regexp.MustCompile(`a`)}":  "compiled at every start",
		"func f(s string) { lazyre.MustCompile(s) }": "",
	} {
		files := fstest.MapFS{"internal/x/x.go": {Data: []byte("package x\nimport (\"regexp\"; \"parley/internal/lazyre\")\n" + text)}}
		src, err := readSource(files, "internal/x/x.go")
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(expressions(src), "\n")
		if want == "" && got != "" || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
