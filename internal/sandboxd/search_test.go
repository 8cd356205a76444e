package sandboxd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/fault"
	"parley/internal/sandboxd"
	"parley/internal/tool"
)

// tree writes files, the first the newest.
func tree(t testing.TB, root string, files ...string) {
	t.Helper()
	now := time.Now()
	for i, entry := range files {
		name, text, _ := strings.Cut(entry, "=")
		write(t, filepath.Join(root, name), text)
		at := now.Add(-time.Duration(i) * time.Minute)
		if err := os.Chtimes(filepath.Join(root, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func search(t testing.TB, c *sandboxd.Client, req tool.SearchRequest) (tool.SearchResult, []string) {
	t.Helper()
	result, err := c.Search(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, f := range result.Files {
		rel, err := filepath.Rel(req.Root, f.Path)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, rel)
	}
	return result, names
}

func TestSearchNames(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	tree(t, s.dir, "b.go", "a.go", "x/c.go", "x/d.txt", ".hid/e.go", ".env", "out/f.go", "out/keep/g.go", ".git/h.go",
		".gitignore=out/\n*.log\n", "z.log", "x/.gitignore=!important.log\nlocal.go\n", "x/important.log", "x/local.go",
		"sub/.git/x", "sub/z2.log", "sub/.gitignore=n.go", "sub/n.go", ".git/info/exclude=excl.go", "excl.go", "x/excl.go")
	link(t, ".", filepath.Join(s.dir, "loop"))
	link(t, "b.go", filepath.Join(s.dir, "link.go"))
	if err := syscall.Mkfifo(filepath.Join(s.dir, "fifo.go"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		root, names string
		want        []string
	}{
		{"", "*.go", []string{"b.go", "a.go", "x/c.go"}},
		{"", "", []string{"b.go", "a.go", "x/c.go", "x/d.txt", "x/important.log", "sub/z2.log"}},
		{"", "*.log", []string{"x/important.log", "sub/z2.log"}},
		{"", ".env", []string{".env"}},
		{"", "**/.hid/*", []string{".hid/e.go"}},
		{"", ".hid/*.go", []string{".hid/e.go"}},
		{"", "out/*.go", []string{"out/f.go"}},
		{"", "/*.go", []string{"b.go", "a.go"}},
		{"", "none/*.go", []string{}},
		{"out", "**/*.go", []string{"f.go", "keep/g.go"}},
		{"out/keep", "*.go", []string{"g.go"}},
		{"x", "*.log", []string{"important.log"}},
		{"x", "*.go", []string{"c.go"}},
		{".git", "*.go", []string{"h.go"}},
	} {
		_, got := search(t, c, tool.SearchRequest{Root: filepath.Join(s.dir, test.root), Names: test.names})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q in %q: %s", test.names, test.root, diff)
		}
	}
	result, _ := search(t, c, tool.SearchRequest{Root: s.dir, Names: "*.log", Max: 1})
	if !result.Truncated || !result.Excluded || len(result.Files) != 1 || result.Partial != "" {
		t.Errorf("result %+v", result)
	}
}

func TestSearchText(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	long := strings.Repeat("x", 3<<20)
	tree(t, s.dir, "plain=one\nTwo\nthree", "crlf=one\r\ntwo\r\n", "bin=two\x00", "utf=gr\u00fc\u00df\n", "bad=\xff\xfe caf\xe9 two\n",
		"long="+long+"needle"+long, "many="+strings.Repeat("line of text\n", 50_000)+"needle\n", "empty=", ".hid=two", "blank=a\n\nb\n",
		"kelvin=\u212aelvin de\u017fk\n")
	for _, test := range []struct {
		text string
		want []string
	}{
		{"two", []string{"plain", "crlf", "bad"}},
		{"^TWO$", []string{"plain", "crlf"}},
		{`\Atwo\z`, []string{"plain", "crlf"}},
		{"two$", []string{"plain", "crlf", "bad"}},
		{"one.two", []string{}},
		{`one\s+two`, []string{}},
		{`one[^x]two`, []string{}},
		{"(?s)one.*two", []string{}},
		{"needle", []string{"long", "many"}},
		{"xneedlex", []string{"long"}},
		{"GR\u00dc", []string{"utf"}},
		{"^$", []string{"blank"}},
		{"three$", []string{"plain"}},
		{"kelvin", []string{"kelvin"}},
		{"desk", []string{"kelvin"}},
		{"one|needle", []string{"plain", "crlf", "long", "many"}},
		{"(o)(n)e{1,2}$", []string{"plain", "crlf"}},
	} {
		_, got := search(t, c, tool.SearchRequest{Root: s.dir, Text: test.text})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%q: %s", test.text, diff)
		}
	}
	result, got := search(t, c, tool.SearchRequest{Root: s.dir, Text: "two", Names: "{plain,bad}", Max: 1})
	if !slices.Equal(got, []string{"plain"}) || !result.Truncated {
		t.Errorf("result %+v", result)
	}
	_, got = search(t, c, tool.SearchRequest{Root: filepath.Join(s.dir, ".hid"), Text: "two"})
	if !slices.Equal(got, []string{"."}) {
		t.Errorf("one file: %v", got)
	}
}

func TestSearchRefused(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	write(t, filepath.Join(s.dir, "f"), "x")
	for _, test := range []struct {
		req  tool.SearchRequest
		part string
	}{
		{tool.SearchRequest{Root: s.dir, Text: "(a"}, "missing closing )"},
		{tool.SearchRequest{Root: s.dir, Text: "(?=a)"}, "RE2"},
		{tool.SearchRequest{Root: s.dir, Text: `a\nb`}, "line break"},
		{tool.SearchRequest{Root: s.dir, Text: strings.Repeat("a{1000}", 100)}, "too complex"},
		{tool.SearchRequest{Root: s.dir, Text: strings.Repeat("a", 1001)}, "longer"},
		{tool.SearchRequest{Root: s.dir, Names: "../x"}, `".."`},
		{tool.SearchRequest{Root: s.dir, Max: 100_000}, "max"},
		{tool.SearchRequest{Root: "relative"}, "not absolute"},
	} {
		_, err := c.Search(t.Context(), test.req)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.PublicText(err), test.part) {
			t.Errorf("%+v: %v", test.req, err)
		}
	}
	_, err := c.Search(t.Context(), tool.SearchRequest{Root: s.dir + "/none"})
	wantFault(t, err, fault.NotFound, sandboxd.CodeNotFound)
}

// TestSearchHostile: what takes others for ever ends, with what there is.
func TestSearchHostile(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	write(t, filepath.Join(s.dir, "big"), strings.Repeat("a", 4<<20)+"\n"+strings.Repeat(strings.Repeat("a", 100)+"\n", 40_000))
	began := time.Now()
	for _, text := range []string{"(a+)+$b", "(a|a)*b", "(.*)(.*)(.*)(.*)(.*)b", strings.Repeat("a?", 400) + strings.Repeat("a", 190) + "b"} {
		result, err := c.Search(t.Context(), tool.SearchRequest{Root: s.dir, Text: text, Timeout: 500 * time.Millisecond})
		if err != nil || len(result.Files) != 0 {
			t.Errorf("%s: %+v %v", text, result, err)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	deep := s.dir
	for range 300 {
		deep = filepath.Join(deep, "d")
	}
	write(t, filepath.Join(deep, "bottom\xff"), "x")
	result, _ := search(t, c, tool.SearchRequest{Root: s.dir, Names: "bottom*"})
	if len(result.Files) != 1 || !strings.HasSuffix(result.Files[0].Path, "bottom\xff") {
		t.Errorf("result %+v", result)
	}
}

func TestSearchUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read every directory")
	}
	s, c := serve(t, sandboxd.Options{})
	tree(t, s.dir, "a", "shut/b")
	if err := os.Chmod(filepath.Join(s.dir, "shut"), 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(filepath.Join(s.dir, "shut"), 0o700) }()
	result, got := search(t, c, tool.SearchRequest{Root: s.dir})
	if !slices.Equal(got, []string{"a"}) || result.Unreadable != 1 {
		t.Errorf("%v %+v", got, result)
	}
}

func TestSearchManyFiles(t *testing.T) {
	s, c := serve(t, sandboxd.Options{})
	for i := range 50 {
		dir := filepath.Join(s.dir, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for j := range 200 {
			write(t, filepath.Join(dir, fmt.Sprintf("f%d.txt", j)), "text\n")
		}
	}
	newest := filepath.Join(s.dir, "7", "f7.txt")
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(newest, later, later); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "text"} {
		result, got := search(t, c, tool.SearchRequest{Root: s.dir, Names: "*.txt", Text: text})
		if len(got) != 100 || got[0] != "7/f7.txt" || !result.Truncated {
			t.Errorf("%d files, first %v, %v", len(got), got[:1], result.Truncated)
		}
	}
}
