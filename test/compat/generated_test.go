package compat_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

// generated is a directory where a client is made of the document that the server
// serves: what generators made of an older one may be wrong.
type generated struct {
	testing.TB
	dir    string
	server *parleytest.Server
	model  *openaitest.Server
}

// newGenerated copies the files of a language, and writes the server's document
// beside them as openapi.json.
func newGenerated(t *testing.T, language string, files ...string) *generated {
	t.Helper()
	model := openaitest.New(t)
	g := &generated{TB: t, dir: t.TempDir(), server: parleytest.Start(t, parleytest.Options{}), model: model}
	model.Handle(answer)
	g.server.UseModel(model.URL()+"/v1", nil)
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join("generated", language, name))
		if err != nil {
			t.Fatal(err)
		}
		g.write(name, text)
	}
	code, doc, err := g.server.Raw(t.Context(), "", "GET", "/openapi.json", nil)
	if err != nil || code != http.StatusOK {
		t.Fatalf("GET /openapi.json: %d %v", code, err)
	}
	g.write("openapi.json", doc)
	return g
}

func (g *generated) write(name string, text []byte) {
	g.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), text, 0o600); err != nil {
		g.Fatal(err)
	}
}

// run runs a generator or a compiler, which must have nothing to say against the
// document.
func (g *generated) run(program string, arguments ...string) {
	g.Helper()
	cmd := exec.CommandContext(g.Context(), program, arguments...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		g.Fatalf("%s %v: %v\n%.20000s", program, arguments, err, out)
	}
}

// session runs the client's program.
func (g *generated) session(t *testing.T, argv ...string) {
	t.Helper()
	session(t, client{argv: argv, limit: 2 * time.Minute}, g.server, g.model, g.server.URL, "")
}

// TestGeneratedGo: oapi-codegen makes a client that compiles and works.
func TestGeneratedGo(t *testing.T) {
	t.Parallel()
	tool := exec.CommandContext(t.Context(), "go", "tool", "oapi-codegen", "--version")
	tool.Dir = "generated/go"
	tool.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=")
	if out, err := tool.CombinedOutput(); err != nil {
		missing(t, "generated-go", "oapi-codegen is not there, run scripts/clients: "+string(out))
	}
	g := newGenerated(t, "go", "go.mod", "go.sum", "main.go")
	if err := os.Mkdir(filepath.Join(g.dir, "api"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.run("go", "tool", "oapi-codegen", "-generate", "types,client", "-package", "api", "-o", "api/api.go", "openapi.json")
	g.run("go", "vet", "./...")
	g.run("go", "build", "-o", "session", ".")
	g.session(t, filepath.Join(g.dir, "session"))
}

// TestGeneratedTypeScript: openapi-typescript makes types under which a strict
// program compiles and works.
func TestGeneratedTypeScript(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		missing(t, "generated-typescript", "node is not installed (apt-get install nodejs)")
	}
	modules, err := filepath.Abs("generated/typescript/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(modules, "openapi-typescript", "bin", "cli.js")); err != nil {
		missing(t, "generated-typescript", "openapi-typescript is not installed: run scripts/clients")
	}
	g := newGenerated(t, "typescript", "package.json", "tsconfig.json", "session.ts")
	if err := os.Symlink(modules, filepath.Join(g.dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	g.run(node, "node_modules/openapi-typescript/bin/cli.js", "--default-non-nullable=false", "openapi.json", "-o", "schema.ts")
	g.run(node, "node_modules/typescript/bin/tsc", "-p", ".")
	g.session(t, node, filepath.Join(g.dir, "session.js"))
}

// python returns a program of the virtual environment for what reads documents.
func python(t *testing.T, client, program string) string {
	t.Helper()
	venv, err := filepath.Abs("generated/python/.venv")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(venv, "installed")); err != nil {
		missing(t, client, "what reads OpenAPI documents in Python is not installed: run scripts/clients")
	}
	return filepath.Join(venv, "bin", program)
}

// TestGeneratedPython: openapi-python-client makes a client without a warning, whose
// modules can all be imported and which works.
func TestGeneratedPython(t *testing.T) {
	t.Parallel()
	python := python(t, "generated-python", "python")
	g := newGenerated(t, "python", "config.yml", "session.py")
	g.run(python, "-c", "import sys; from openapi_python_client.cli import app; app()", "generate", "--fail-on-warning",
		"--config", "config.yml", "--path", "openapi.json", "--meta", "none", "--output-path", "parley_api")
	g.session(t, python, filepath.Join(g.dir, "session.py"))
}
