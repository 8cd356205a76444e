package search_test

import (
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"context"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
	"parley/internal/tool/search"
	"parley/internal/tool/tooltest"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type observation struct {
	Files     []string `json:"files"`
	Matches   []string `json:"matches"`
	Pattern   string   `json:"pattern"`
	Path      string   `json:"search_path"`
	Include   *string  `json:"include_pattern"`
	Truncated bool     `json:"truncated"`
}

// tree writes files, the first the newest.
func tree(b *tooltest.Box, files ...string) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, entry := range files {
		name, text, _ := strings.Cut(entry, "=")
		when := at.Add(-time.Duration(i) * time.Minute)
		if err := os.Chtimes(b.Write(name, text), when, when); err != nil {
			b.Fatal(err)
		}
	}
}

func TestGlob(t *testing.T) {
	b := tooltest.New(t)
	tree(b, "b.go", "src/a.go", "src/deep/c.ts", ".env", "out/x.o", ".gitignore=out/\n")
	for _, c := range []struct {
		pattern, path string
		want          []string
		root          string
	}{
		{"*.go", "", []string{"b.go", "src/a.go"}, b.Dir},
		{"**/*.{go,ts}", "src", []string{"src/a.go", "src/deep/c.ts"}, b.Path("src")},
		{" *.ts ", b.Path("src") + "/", []string{"src/deep/c.ts"}, b.Path("src")},
		{b.Dir + "/src/*.go", "", []string{"src/a.go"}, b.Path("src")},
		{b.Dir + "/*.go", "", []string{"b.go"}, b.Dir},
		{"*.o", "out", []string{"out/x.o"}, b.Path("out")},
		{".env", "", []string{".env"}, b.Dir},
		{"*.rs", "", []string{}, b.Dir},
	} {
		args := map[string]any{"pattern": c.pattern}
		if c.path != "" {
			args["path"] = c.path
		}
		var o observation
		text := b.OK(search.Glob(), args, &o)
		want := []string{}
		for _, name := range c.want {
			want = append(want, b.Path(name))
			if !strings.Contains(text, b.Path(name)+"\n") {
				t.Errorf("%s is missing in %q", name, text)
			}
		}
		if diff := cmp.Diff(want, o.Files); diff != "" || o.Path != c.root || o.Pattern != c.pattern || o.Truncated {
			t.Errorf("%q: %s %+v", c.pattern, diff, o)
		}
	}
	b.Refused(search.Glob(), map[string]any{"pattern": "*", "path": "none"}, b.Path("none"), "does not exist")
	b.Refused(search.Glob(), map[string]any{"pattern": "../*"}, `".."`)
	b.Refused(search.Glob(), map[string]any{"pattern": " "}, "empty")
	if text := b.OK(search.Glob(), map[string]any{"pattern": "*.o"}, nil); !strings.Contains(text, ".gitignore") {
		t.Errorf("no hint in %q", text)
	}
}

func TestGrep(t *testing.T) {
	b := tooltest.New(t)
	tree(b, "a.py=import OS\n", "b/c.py=# os.path\n", "b/d.txt=os", "bin=os\x00", ".h=os")
	for _, c := range []struct {
		args map[string]any
		want []string
	}{
		{map[string]any{"pattern": `\bos\b`}, []string{"a.py", "b/c.py", "b/d.txt"}},
		{map[string]any{"pattern": "os", "include": "*.py"}, []string{"a.py", "b/c.py"}},
		{map[string]any{"pattern": "os", "include": "b/**"}, []string{"b/c.py", "b/d.txt"}},
		{map[string]any{"pattern": "^import", "path": "a.py"}, []string{"a.py"}},
		{map[string]any{"pattern": "nothing"}, []string{}},
	} {
		var o observation
		b.OK(search.Grep(), c.args, &o)
		want := []string{}
		for _, name := range c.want {
			want = append(want, b.Path(name))
		}
		if diff := cmp.Diff(want, o.Matches); diff != "" || o.Truncated {
			t.Errorf("%v: %s", c.args, diff)
		}
		if _, has := c.args["include"]; has != (o.Include != nil) {
			t.Errorf("%v: include %v", c.args, o.Include)
		}
	}
	b.Refused(search.Grep(), map[string]any{"pattern": "(a"}, "missing closing )")
	b.Refused(search.Grep(), map[string]any{"pattern": "(?<=a)b"}, "RE2")
	b.Refused(search.Grep(), map[string]any{"pattern": ""}, "empty")
	b.Refused(search.Grep(), map[string]any{"pattern": "a", "path": "/none"}, "does not exist")
}

func TestBounded(t *testing.T) {
	b := tooltest.New(t)
	long := strings.Repeat("d", 200)
	for i := range 130 {
		b.Write(fmt.Sprintf("%s/%s/%03d\xff.txt", long, long, i), "text")
	}
	for _, tl := range []tool.Tool{search.Glob(), search.Grep()} {
		args := map[string]any{"pattern": "*.txt"}
		if tl.Spec().Name == search.NameGrep {
			args["pattern"] = "text"
		}
		var o observation
		text := b.OK(tl, args, &o)
		if len(o.Files)+len(o.Matches) != 100 || !o.Truncated || len(text) > 20_000 || !strings.Contains(text, "There are more") ||
			!strings.Contains(text, "more are not shown") || !strings.Contains(text, "\ufffd.txt") {
			t.Errorf("%s: %d files, %v, %d bytes", tl.Spec().Name, len(o.Files)+len(o.Matches), o.Truncated, len(text))
		}
	}
}

func TestGolden(t *testing.T) {
	b := tooltest.New(t)
	tree(b, "a.go=package a\n", "b/b.go=package b\n")
	b.Golden(search.Glob(), map[string]any{"pattern": "*.go"}, "testdata/glob.json")
	b.Golden(search.Grep(), map[string]any{"pattern": "PACKAGE", "include": "b/*.go"}, "testdata/grep.json")
	b.Golden(search.Grep(), map[string]any{"pattern": "*"}, "testdata/grep_error.json")
}

func TestNoSandbox(t *testing.T) {
	client := sandboxd.NewClient(func(context.Context) (net.Conn, error) { return nil, os.ErrClosed })
	defer client.Close()
	for _, tl := range []tool.Tool{search.Glob(), search.Grep()} {
		action, err := tl.Parse([]byte(`{"pattern":"a"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = tl.Run(context.Background(), &tool.Env{WorkingDir: "/", Hands: client}, action); !fault.Is(err, fault.Unavailable) {
			t.Errorf("error %v", err)
		}
		if s := tl.Spec(); !s.ReadOnly || tool.Conflict(tl.Claims(action), tl.Claims(action)) {
			t.Errorf("spec %+v", s)
		}
	}
}
