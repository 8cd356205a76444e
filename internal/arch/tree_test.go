package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"testing"
)

// source is one parsed Go file.
type source struct {
	path    string // below the root
	pkg     string // directory below the root
	test    bool
	lines   int
	tree    *ast.File
	set     *token.FileSet
	imports map[string]string // local name to import path
}

// readTree parses every Go file of the module in fsys. Directories with a go.mod
// of their own are other modules.
func readTree(t *testing.T, fsys fs.FS) []*source {
	t.Helper()
	var sources []*source
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && skipDir(fsys, p):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(p, ".go"):
			return nil
		}
		src, err := readSource(fsys, p)
		if err != nil {
			return err
		}
		sources = append(sources, src)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func skipDir(fsys fs.FS, p string) bool {
	base := path.Base(p)
	if strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || base == "bin" {
		return true
	}
	_, err := fs.Stat(fsys, p+"/go.mod")
	return err == nil
}

func readSource(fsys fs.FS, p string) (*source, error) {
	text, err := fs.ReadFile(fsys, p)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	src := &source{path: p, pkg: path.Dir(p), test: strings.HasSuffix(p, "_test.go"), tree: tree, set: set,
		lines: strings.Count(string(text), "\n"), imports: map[string]string{}}
	for _, spec := range tree.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		name := path.Base(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "_" || name == "." {
			name += target // each is an import of its own
		}
		src.imports[name] = target
	}
	return src, nil
}

// at names a place for a message.
func (s *source) at(pos token.Pos) string {
	return s.path + ":" + strconv.Itoa(s.set.Position(pos).Line)
}

// selectors calls f for every expression name.member where name is an imported package.
func (s *source) selectors(f func(pos token.Pos, target, member string)) {
	ast.Inspect(s.tree, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if name, ok := sel.X.(*ast.Ident); ok && s.imports[name.Name] != "" {
			f(sel.Pos(), s.imports[name.Name], sel.Sel.Name)
		}
		return true
	})
}
