package glob_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/glob"
)

// TestIgnoreAsGit compares every rule with what git says of every path.
func TestIgnoreAsGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("SKIPPED: git is not installed here, so our reading of .gitignore rules is not compared with that of git itself")
	}
	paths := []string{"a", "a.o", "b/a.o", "build/", "x/build/", "build.go", "src/a/b/c.go", "src/c.go", "foo/bar", "x/foo/bar",
		"#x", "!x", "sp ace", "trail ", "node_modules/", "a.min.js", "a.js", "dir/", "k/dir", ".env", ".env.local", "[x", "b.txt", "a/x/y/b", "a/b"}
	for _, text := range []string{
		"*.o", "/a.o", "build", "build/", "/build", "src/*.go", "src/**/*.go", "**/foo", "foo/**", "**/foo/bar", "foo/bar", "/foo",
		"# c\n#x", `\#x`, `\!x`, "sp ace", "trail ", `trail\ `, "node_modules/\n", "*.js\n!a.js", "!a.js\n*.js", "dir/", "[a-b].txt",
		"[!a].txt", ".env*", "[x", "a/**/b", "**", "*", "/*\n!/src", "a.?", "build\r\n", "**/", "!", "a**o", "\\", "src/**/", "[[:alpha:]]*", "*.[oj]*",
	} {
		ig := glob.ParseIgnore(text)
		repo := t.TempDir()
		run := func(stdin string, args ...string) string {
			cmd := exec.Command(git, append([]string{"-C", repo, "-c", "core.excludesFile=/dev/null"}, args...)...)
			cmd.Stdin = strings.NewReader(stdin)
			out, _ := cmd.Output() // 1: nothing is ignored
			return string(out)
		}
		run("", "init", "-q")
		if err := os.WriteFile(filepath.Join(repo, ".gitignore"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "/") {
				if err := os.MkdirAll(filepath.Join(repo, path), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		verdict := map[string]bool{}
		for record := range strings.SplitSeq(run(strings.Join(paths, "\x00")+"\x00", "check-ignore", "--no-index", "-z", "--stdin"), "\x00") {
			verdict[record] = true
		}
		for _, path := range paths {
			if got := ignored(ig, path); got != verdict[path] {
				t.Errorf("%q: %s: %v, git says %v", text, path, got, verdict[path])
			}
		}
	}
}

// ignored comes from above, as callers do.
func ignored(ig *glob.Ignore, path string) bool {
	names := strings.Split(strings.TrimSuffix(path, "/"), "/")
	for i := range names {
		dir := i < len(names)-1 || strings.HasSuffix(path, "/")
		if out, _ := ig.Match(strings.Join(names[:i+1], "/"), dir); out {
			return true
		}
	}
	return false
}

func TestIgnoreIsBounded(t *testing.T) {
	if n := glob.ParseIgnore(strings.Repeat("a*b\n", 20_000)).Len(); n != 5000 {
		t.Errorf("%d rules", n)
	}
	if n := glob.ParseIgnore(strings.Repeat("a", 5000)).Len(); n != 0 {
		t.Errorf("%d rules", n)
	}
}
