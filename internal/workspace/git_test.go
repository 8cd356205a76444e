package workspace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/tool/tooltest"
	"parley/internal/workspace"
)

// bench is a sandbox with a workspace in it.
type bench struct {
	*tooltest.Box
	ws *workspace.Workspace
}

func newBench(t testing.TB) *bench {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	box := tooltest.New(t)
	return &bench{box, workspace.New(box.Env.Hands, box.Dir)}
}

func (b *bench) path(name string) string { return filepath.Join(b.Dir, name) }

func (b *bench) write(name, text string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) git(dir string, args ...string) string {
	b.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ada", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false",
		"-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = b.path(dir)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (b *bench) commit(dir, message string) string {
	b.Helper()
	b.git(dir, "add", "-A")
	b.git(dir, "commit", "-q", "-m", message)
	return b.git(dir, "rev-parse", "HEAD")
}

func (b *bench) repository(dir string) {
	b.Helper()
	if err := os.MkdirAll(b.path(dir), 0o755); err != nil {
		b.Fatal(err)
	}
	b.git(dir, "init", "-q")
}

// changes renders what Changes gives, one "STATUS path" each.
func (b *bench) changes(dir, ref string) []string {
	b.Helper()
	found, err := b.ws.Changes(b.Context(), b.path(dir), ref)
	if err != nil {
		b.Fatal(err)
	}
	return lines(found)
}

func lines(found []workspace.Change) []string {
	out := []string{}
	for _, c := range found {
		out = append(out, string(c.Status)+" "+c.Path)
	}
	return out
}

func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func wantFault(t testing.TB, err error, kind fault.Kind, code string) {
	t.Helper()
	if !fault.Is(err, kind) || fault.CodeOf(err) != code {
		t.Errorf("got %v (%v %s), want %v %s", err, fault.KindOf(err), fault.CodeOf(err), kind, code)
	}
}

func text(s *string) string {
	if s == nil {
		return "<none>"
	}
	return *s
}

func (b *bench) diff(name, ref, commit string) [2]string {
	b.Helper()
	d, err := b.ws.FileDiff(b.Context(), b.path(name), ref, commit)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return [2]string{text(d.Original), text(d.Modified)}
}

func TestChangesNameEveryKind(t *testing.T) {
	b := newBench(t)
	b.repository("")
	long := strings.Repeat("a line of a file that is long enough\n", 20)
	b.write("kept", "same\n")
	b.write("updated", "old\n")
	b.write("deleted", "gone\n")
	b.write("old/name", long)
	b.write("forgotten", "still here\n")
	b.write(".gitignore", "ignored\n")
	b.commit("", "one")
	b.write("updated", "new\n")
	b.write("ignored", "x")
	b.write("fresh/file", "x")
	b.write("staged", "x")
	b.git("", "add", "staged")
	b.git("", "mv", "old/name", "moved")
	b.git("", "rm", "-q", "--cached", "forgotten")
	if err := os.Remove(b.path("deleted")); err != nil {
		t.Fatal(err)
	}
	want(t, "against HEAD", b.changes("", "HEAD"), []string{"DELETED deleted", "UPDATED forgotten", "ADDED fresh/file", "MOVED moved", "ADDED staged", "UPDATED updated"})
	want(t, "of a directory, relative to it", b.changes("fresh", "HEAD"), []string{"ADDED file"})
	want(t, "moved", b.diff("moved", "HEAD", ""), [2]string{long, long})
	want(t, "updated", b.diff("updated", "HEAD", ""), [2]string{"old\n", "new\n"})
	want(t, "deleted", b.diff("deleted", "HEAD", ""), [2]string{"gone\n", ""})
	want(t, "added", b.diff("fresh/file", "HEAD", ""), [2]string{"", "x"})
	_, err := b.ws.FileDiff(t.Context(), b.path("nowhere/at/all"), "HEAD", "")
	wantFault(t, err, fault.NotFound, "file_not_found")
}

func TestChangesWithoutARef(t *testing.T) {
	b := newBench(t)
	b.repository("up")
	b.write("up/a", "1\n")
	b.commit("up", "one")
	b.git("", "clone", "-q", b.path("up"), "clone")
	b.write("clone/a", "2\n")
	b.commit("clone", "two")
	want(t, "a branch that the remote has is compared with what it has", b.changes("clone", ""), []string{"UPDATED a"})
	b.git("clone", "checkout", "-q", "-b", "mine")
	b.write("clone/b", "x\n")
	b.write("up/c", "x\n")
	b.commit("up", "elsewhere")
	b.git("clone", "fetch", "-q")
	want(t, "another branch is compared with where it left the remote's", b.changes("clone", ""), []string{"UPDATED a", "ADDED b"})
	want(t, "without a remote all is new", b.changes("up", ""), []string{"ADDED a", "ADDED c"})
	b.repository("empty")
	b.write("empty/first", "x")
	want(t, "without commits too", b.changes("empty", ""), []string{"ADDED first"})
	want(t, "HEAD of a repository without commits is nothing", b.changes("empty", "HEAD"), []string{"ADDED first"})
	_, err := b.ws.Changes(t.Context(), b.path("clone"), "no-such-ref")
	wantFault(t, err, fault.Invalid, "bad_ref")
	_, err = b.ws.Changes(t.Context(), b.path("clone"), "--output=/tmp/x")
	wantFault(t, err, fault.Invalid, "bad_ref")
}

func TestChangesWithoutARepository(t *testing.T) {
	b := newBench(t)
	b.write("plain/file", "x")
	for _, dir := range []string{"plain", "plain/file", "missing", "missing/deeper"} {
		want(t, dir, b.changes(dir, ""), []string{})
	}
	_, err := b.ws.FileDiff(t.Context(), b.path("plain/file"), "", "")
	wantFault(t, err, fault.Invalid, "not_a_repository")
	commits, more, err := b.ws.Commits(t.Context(), b.path("plain"), 5)
	if len(commits) != 0 || more || err != nil {
		t.Errorf("%v %v %v", commits, more, err)
	}
	b.repository("broken")
	b.write("broken/.git/config", "[core\n")
	_, err = b.ws.Changes(t.Context(), b.path("broken"), "")
	wantFault(t, err, fault.Invalid, "git_failed")
}

func TestNestedRepositoriesAndSubmodules(t *testing.T) {
	b := newBench(t)
	b.repository("lib")
	b.write("lib/l", "1\n")
	b.commit("lib", "lib")
	b.repository("work")
	b.write("work/top", "1\n")
	b.commit("work", "one")
	b.git("work", "submodule", "--quiet", "add", b.path("lib"), "sub")
	b.commit("work", "two")
	b.repository("work/inner")
	b.write("work/inner/i", "x")
	b.write("work/sub/l", "2\n")
	want(t, "both are looked into", b.changes("work", "HEAD"), []string{"ADDED inner/i", "UPDATED sub/l"})
	b.commit("work/sub", "in the submodule")
	want(t, "a submodule that moved on", b.changes("work", "HEAD"), []string{"ADDED inner/i", "UPDATED sub"})
	d := b.diff("work/sub", "HEAD", "")
	if !strings.HasPrefix(d[0], "Subproject commit ") || !strings.HasPrefix(d[1], "Subproject commit ") || d[0] == d[1] {
		t.Errorf("diff of a submodule: %q", d)
	}
	b.repository("several/one")
	b.repository("several/two")
	b.write("several/one/f", "x")
	b.write("several/two/f", "x")
	want(t, "repositories side by side in a directory that is none", b.changes("several", ""), []string{"ADDED one/f", "ADDED two/f"})
}

func TestMerges(t *testing.T) {
	b := newBench(t)
	b.repository("")
	b.write("f", "base\n")
	b.commit("", "base")
	b.git("", "checkout", "-q", "-b", "side")
	b.write("f", "side\n")
	b.write("only-side", "x\n")
	b.commit("", "side")
	b.git("", "checkout", "-q", "main")
	b.write("f", "main\n")
	b.commit("", "main")
	cmd := exec.Command("git", "-c", "user.name=A", "-c", "user.email=a@b", "merge", "-q", "side")
	cmd.Dir = b.Dir
	if cmd.Run() == nil {
		t.Fatal("the merge has no conflict")
	}
	want(t, "a conflict is listed once", b.changes("", "HEAD"), []string{"UPDATED f", "ADDED only-side"})
	b.write("f", "both\n")
	merge := b.commit("", "merged")
	found, err := b.ws.CommitChanges(t.Context(), b.Dir, merge)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "a merge is compared with its first parent", lines(found), []string{"UPDATED f", "ADDED only-side"})
}

func TestCommits(t *testing.T) {
	b := newBench(t)
	b.repository("")
	b.write("a", strings.Repeat("line\n", 30))
	first := b.commit("", "first\n\nwith a body")
	b.git("", "mv", "a", "b")
	second := b.commit("", "second: \"quoted\" \xc3\xa4")
	commits, more, err := b.ws.Commits(t.Context(), b.Dir, 1)
	if err != nil || !more || len(commits) != 1 {
		t.Fatalf("%v %v %v", commits, more, err)
	}
	c := commits[0]
	if c.SHA != second || !strings.HasPrefix(second, c.Short) || c.Subject != "second: \"quoted\" \u00e4" || c.Author != "Ada" || c.Timestamp == "" {
		t.Errorf("%+v", c)
	}
	if commits, more, err = b.ws.Commits(t.Context(), b.Dir, 10); err != nil || more || len(commits) != 2 || commits[1].Subject != "first" {
		t.Errorf("%v %v %v", commits, more, err)
	}
	for sha, listed := range map[string][]string{first: {"ADDED a"}, second[:8]: {"MOVED b"}} {
		found, err := b.ws.CommitChanges(t.Context(), b.Dir, sha)
		if err != nil {
			t.Fatal(err)
		}
		want(t, sha, lines(found), listed)
	}
	for _, sha := range []string{"deadbeef", "HEAD", "--all", "", "zz"} {
		_, err := b.ws.CommitChanges(t.Context(), b.Dir, sha)
		wantFault(t, err, fault.NotFound, "commit_not_found")
	}
	want(t, "moved by a commit", b.diff("b", "", second), [2]string{strings.Repeat("line\n", 30), strings.Repeat("line\n", 30)})
	want(t, "the first commit", b.diff("a", "", first), [2]string{"", strings.Repeat("line\n", 30)})
	_, err = b.ws.FileDiff(t.Context(), b.path("a"), "HEAD", first)
	wantFault(t, err, fault.Invalid, "ref_and_commit")
}

func TestDiffOfWhatIsNoText(t *testing.T) {
	b := newBench(t)
	b.repository("")
	b.write("binary", "a\x00b")
	b.write("latin", "caf\xe9")
	b.write("large", strings.Repeat("x", workspace.MaxDiffBytes+1))
	b.write("secret", "not to be read through a link")
	b.write("shrinks", strings.Repeat("x", workspace.MaxDiffBytes+1))
	if err := os.Symlink("secret", b.path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", b.path("dangling")); err != nil {
		t.Fatal(err)
	}
	b.commit("", "one")
	b.write("binary", "text now")
	want(t, "binary before", b.diff("binary", "HEAD", ""), [2]string{"<none>", "text now"})
	want(t, "not UTF-8", b.diff("latin", "HEAD", ""), [2]string{"<none>", "<none>"})
	want(t, "a link is where it leads", b.diff("link", "HEAD", ""), [2]string{"secret", "secret"})
	want(t, "a dangling link, too", b.diff("dangling", "HEAD", ""), [2]string{"nowhere", "nowhere"})
	_, err := b.ws.FileDiff(t.Context(), b.path("large"), "HEAD", "")
	wantFault(t, err, fault.TooLarge, "file_too_large")
	b.write("shrinks", "x")
	_, err = b.ws.FileDiff(t.Context(), b.path("shrinks"), "HEAD", "")
	wantFault(t, err, fault.TooLarge, "file_too_large")
	b.git("", "rm", "-q", "--cached", "large")
	if err := exec.Command("mkfifo", b.path("pipe")).Run(); err != nil {
		t.Skip("no mkfifo")
	}
	if _, err = b.ws.FileDiff(t.Context(), b.path("pipe"), "HEAD", ""); err == nil {
		t.Error("a pipe has a diff")
	}
	_ = b.changes("", "HEAD") // does not hang
}

func TestHostileNames(t *testing.T) {
	b := newBench(t)
	b.repository("")
	names := []string{"with \"quotes\"", "with\nnewline", "-dash", ":(glob)*", "tab\there", "back\\slash", "sp ace", "HEAD"}
	for _, name := range names {
		b.write(name, "old\n")
	}
	b.write("bad\xffname", "old\n")
	b.commit("", "one")
	for _, name := range names {
		b.write(name, "new\n")
	}
	b.write("bad\xffname", "new\n")
	listed := strings.Join(b.changes("", "HEAD"), "\x00")
	for _, name := range append(names, "bad\ufffdname") {
		if !strings.Contains(listed+"\x00", "UPDATED "+name+"\x00") {
			t.Errorf("%q is not listed in %q", name, listed)
		}
	}
	for _, name := range names {
		want(t, name, b.diff(name, "HEAD", ""), [2]string{"old\n", "new\n"})
	}
	hostile := "dir\nwith newline"
	b.repository(hostile)
	b.write(hostile+"/sub/f", "1\n")
	b.commit(hostile, "one")
	b.write(hostile+"/sub/f", "2\n")
	want(t, "below a name with a newline", b.diff(hostile+"/sub/f", "HEAD", ""), [2]string{"1\n", "2\n"})
}

// TestHostileConfiguration plants everything that makes git run a program.
func TestHostileConfiguration(t *testing.T) {
	b := newBench(t)
	b.repository("")
	b.write("f.txt", "old\n")
	b.write("touched.txt", "same\n")
	b.write(".gitattributes", "*.txt diff=evil filter=evil\n")
	sha := b.commit("", "one")
	mark := filepath.Join(b.Dir, "ran")
	script := filepath.Join(t.TempDir(), "evil")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$0 $*\" >>"+mark+"\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.write(".git/more", "[core]\n\tfsmonitor = "+script+"\n[diff]\n\texternal = "+script+"\n")
	for key, value := range map[string]string{
		"core.fsmonitor": script, "core.pager": script, "core.hooksPath": filepath.Dir(script), "core.sshCommand": script,
		"core.gitProxy": script, "diff.external": script, "diff.evil.textconv": script, "diff.evil.command": script,
		"filter.evil.clean": script, "filter.evil.smudge": script, "filter.evil.process": script, "filter.evil.required": "true",
		"include.path": "more", "gpg.program": script, "log.showSignature": "true", "alias.diff": "!" + script, "pager.diff": script,
		"pager.log": "true", "credential.helper": "!" + script, "core.editor": script, "diff.orderFile": "/dev/zero-not-there", "diff.relative": "true",
		"diff.noprefix": "true", "color.ui": "always", "core.quotePath": "true", "log.decorate": "full", "format.pretty": "raw", "core.askPass": script,
	} {
		b.git("", "-c", "core.fsmonitor=false", "config", key, value)
	}
	for _, hook := range []string{"post-index-change", "pre-commit", "reference-transaction", "fsmonitor-watchman"} {
		data, _ := os.ReadFile(script)
		if err := os.MkdirAll(b.path(".git/hooks"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(b.path(".git/hooks/"+hook), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Remove(mark)
	b.write("f.txt", "new\n")
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(b.path("touched.txt"), later, later); err != nil { // git looks into it
		t.Fatal(err)
	}
	want(t, "changes", b.changes("", "HEAD"), []string{"UPDATED f.txt"})
	want(t, "diff", b.diff("f.txt", "HEAD", ""), [2]string{"old\n", "new\n"})
	if commits, _, err := b.ws.Commits(t.Context(), b.Dir, 5); err != nil || len(commits) != 1 || commits[0].SHA != sha {
		t.Errorf("%v %v", commits, err)
	}
	if _, err := b.ws.CommitChanges(t.Context(), b.Dir, sha); err != nil {
		t.Error(err)
	}
	if ran, err := os.ReadFile(mark); err == nil {
		t.Errorf("the repository's programs ran:\n%s", ran)
	}
}
