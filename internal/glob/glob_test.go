package glob_test

import (
	"strings"
	"testing"
	"time"

	"parley/internal/glob"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"*.go", []string{"a.go", "x/y/a.go"}, []string{".go", "x/.go", "a.gox", "x/.h/a.go", ".h.go"}},
		{"main.py", []string{"main.py", "a/main.py"}, []string{"main.pyc", "xmain.py"}},
		{"/main.py", []string{"main.py"}, []string{"a/main.py"}},
		{"./src/*.ts", []string{"src/a.ts"}, []string{"src/b/a.ts", "x/src/a.ts"}},
		{"src/**/*.ts", []string{"src/a.ts", "src/b/a.ts", "src/b/c/a.ts"}, []string{"a.ts", "src/.h/a.ts", "xsrc/a.ts"}},
		{"src/**", []string{"src/a", "src/b/c"}, []string{"src", "src/.a", "src/.b/c"}},
		{"**/*", []string{"a", "a/b"}, []string{".a", "a/.b"}},
		{"**/**/**/a", []string{"a", "x/a", "x/y/z/a"}, []string{"b"}},
		{"a**b/c", []string{"axxb/c", "ab/c"}, []string{"a/b/c"}},
		{"a?c", []string{"abc", "a\u00fcc", "a\xffc"}, []string{"ac", "a/c", "abbc"}},
		{"?bc", []string{"abc"}, []string{".bc"}},
		{"[a-c]x", []string{"ax", "d/cx"}, []string{"dx", "x"}},
		{"[!a-c]x", []string{"dx"}, []string{"ax", "/x", "y/x"}},
		{"a[+-9]b", []string{"a+b", "a9b"}, []string{"a/b"}},
		{"a[]]b", []string{"a]b"}, []string{"ab"}},
		{"[[:digit:]_]x", []string{"0x", "_x"}, []string{"ax"}},
		{"a[b", []string{"a[b"}, []string{"ab"}},
		{"*.{ts,tsx}", []string{"a.ts", "x/a.tsx"}, []string{"a.js", "a.{ts,tsx}"}},
		{"{src,test/unit}/*.go", []string{"src/a.go", "test/unit/a.go"}, []string{"test/a.go"}},
		{"{a,{b,c}d}/x", []string{"a/x", "bd/x", "cd/x"}, []string{"b/x"}},
		{"{a,b/**}", []string{"a", "b/x", "b/x/y"}, []string{"c/x"}},
		{"a{b", []string{"a{b"}, nil},
		{`a\*b`, []string{"a*b"}, []string{"axb"}},
		{`a\{b\}`, []string{"a{b}"}, []string{"ab"}},
		{".env*", []string{".env", "a/.env.local"}, []string{"env"}},
		{".github/**/*.yml", []string{".github/a.yml", ".github/workflows/a.yml"}, []string{"github/a.yml"}},
		{"a.b+(c)^$|", []string{"a.b+(c)^$|"}, []string{"aXb+(c)^$|"}},
		{"\u00fc*", []string{"\u00fcber"}, []string{"uber"}},
	} {
		p, err := glob.Compile(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		for _, path := range c.yes {
			if !p.Match(path) {
				t.Errorf("%s does not match %q", c.pattern, path)
			}
		}
		for _, path := range c.no {
			if p.Match(path) {
				t.Errorf("%s matches %q", c.pattern, path)
			}
		}
	}
}

func TestProperties(t *testing.T) {
	for _, c := range []struct {
		pattern, dir string
		hidden       bool
	}{
		{"*.go", "", false}, {"src/app/*.go", "src/app", false}, {"src/**/x/*.go", "src", false},
		{"/a/b", "a", false}, {".github/*.yml", ".github", true}, {"a/{.b,c}/d", "a", true},
		{"{a,b/c}/d", "", false}, {`a\b/c`, "", false}, {"a/b,c}/d", "", false},
	} {
		p, err := glob.Compile(c.pattern)
		if err != nil || p.Dir() != c.dir || p.Hidden() != c.hidden {
			t.Errorf("%s: dir %q, hidden %v, %v", c.pattern, p.Dir(), p.Hidden(), err)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, pattern := range []string{"", "/", "./", "../x", "a/../b", "./.", "a\x00", strings.Repeat("a", 1001)} {
		if _, err := glob.Compile(pattern); err == nil {
			t.Errorf("%q was accepted", pattern)
		}
	}
}

// TestHostile: patterns that make backtracking matchers take for ever.
func TestHostile(t *testing.T) {
	began := time.Now()
	for _, pattern := range []string{
		strings.Repeat("*a", 400), strings.Repeat("**/", 330) + "b", strings.Repeat("{a,b}", 200), strings.Repeat("{", 990),
		strings.Repeat("{a,", 300) + strings.Repeat("}", 90), "{" + strings.Repeat("{a,aa}", 160) + "}", strings.Repeat("[!x]", 240),
	} {
		p, err := glob.Compile(pattern)
		if err != nil {
			continue
		}
		p.Match(strings.Repeat("a", 1000) + "c")
		p.Match(strings.Repeat("a/", 500) + "c")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

func FuzzPattern(f *testing.F) {
	for _, seed := range []string{"*.go", "a/**/b", "{a,b{c,d}}", "[!a-z]", "[[:alpha:]", `\`, "[", "a\xff*", "[z-a]", "[]-a]"} {
		f.Add(seed, "a/b")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if p, err := glob.Compile(pattern); err == nil {
			p.Match(path)
			if d := p.Dir(); p.Match(path) && d != "" && !strings.HasPrefix(path, d+"/") {
				t.Errorf("%q matches %q outside %q", pattern, path, d)
			}
		}
		glob.ParseIgnore(pattern).Match(path, true)
	})
}
