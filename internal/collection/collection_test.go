package collection

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/extension"
	"parley/internal/hook"
	"parley/internal/skill"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		childRefresh(dir, os.Getenv(childLocation))
	}
	goleak.VerifyTestMain(m)
}

// open makes a set that may use plain http to this machine.
func open(t *testing.T, dir string, sources ...Source) *Set {
	t.Helper()
	s, err := newSet(t.Context(), Config{Sources: sources, Dir: dir, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}, true)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func org(location string) Source {
	return Source{Name: "acme", Level: skill.LevelOrg, Location: location}
}

// only is the bundle of a set with one source.
func only(t *testing.T, s *Set) extension.Bundle {
	t.Helper()
	all := s.Bundles()
	if len(all) != 1 || all[0].Name != "collection acme" || all[0].Level != skill.LevelOrg {
		t.Fatalf("bundles %+v", all)
	}
	return all[0]
}

func names(b extension.Bundle) []string {
	out := []string{}
	for _, s := range b.Skills {
		out = append(out, s.Name)
	}
	slices.Sort(out)
	return out
}

// holds fails unless the bundle has these skills, of a commit, and the problem
// that has the text in it ("" = none).
func holds(t *testing.T, b extension.Bundle, commit, problem string, want ...string) {
	t.Helper()
	if !slices.Equal(names(b), want) || b.Commit != commit {
		t.Errorf("skills %v of commit %q, want %v of %q", names(b), b.Commit, want, commit)
	}
	texts := ""
	for _, p := range b.Problems {
		texts += p.File + ": " + p.Text + "\n"
	}
	if problem == "" && texts != "" || !strings.Contains(texts, problem) {
		t.Errorf("problems %q, want %q", texts, problem)
	}
}

// clean fails if a refresh left something in the cache.
func clean(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, scratchPrefix+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left in the cache: %v (%v)", left, err)
	}
}

func TestRefsOfARepository(t *testing.T) {
	r := newRemote(t)
	first := r.commit("main", skills("one"))
	r.git(r.repository(), nil, "tag", "light", first)
	r.git(r.repository(), nil, "tag", "-a", "-m", "m", "heavy", first)
	r.git(r.repository(), nil, "tag", "both", first)
	second := r.commit("main", skills("one", "two"))
	files := skills("three")
	files["deep/down/skills/four/SKILL.md"] = entry{data: skillFile("four", "x")}
	third := r.commit("feature/x", files)
	r.git(r.repository(), nil, "branch", "both", third)
	for fragment, want := range map[string]struct {
		commit string
		skills []string
	}{
		"": {second, []string{"one", "two"}}, "#main": {second, []string{"one", "two"}}, "#feature/x": {third, []string{"three"}},
		"#light": {first, []string{"one"}}, "#heavy": {first, []string{"one"}}, "#both": {first, []string{"one"}},
		"#" + first: {first, []string{"one"}}, "#" + strings.ToUpper(second): {second, []string{"one", "two"}},
		"#feature/x:deep/down": {third, []string{"four"}},
	} {
		dir := t.TempDir()
		s := open(t, dir, org(r.location(fragment)))
		holds(t, only(t, s), "", "not fetched yet")
		s.refresh(t.Context())
		holds(t, only(t, s), want.commit, "", want.skills...)
		clean(t, dir)
	}
	for fragment, problem := range map[string]string{
		"#gone": `no branch or tag "gone"`, "#x": `no branch or tag "x"`, "#main:nowhere": `no directory "nowhere"`,
		"#main:skills/one/SKILL.md": "no directory", "#" + strings.Repeat("1", 40): "git could not read",
	} {
		s := open(t, t.TempDir(), org(r.location(fragment)))
		s.refresh(t.Context())
		holds(t, only(t, s), "", problem)
	}
}

func TestNewsArriveAndWhatIsLoadedStays(t *testing.T) {
	r := newRemote(t)
	dir := t.TempDir()
	first := r.commit("main", skills("one"))
	s := open(t, dir, org(r.location("")))
	s.refresh(t.Context())
	s.refresh(t.Context())
	if n := r.fetches(); n != 1 {
		t.Errorf("%d fetches of one commit", n)
	}
	second := r.commit("main", skills("two"))
	s.refresh(t.Context())
	holds(t, only(t, s), second, "", "two")

	r.answer(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return true
	})
	s.refresh(t.Context())
	holds(t, only(t, s), second, "git could not read the repository", "two")
	again := open(t, dir, org(r.location(""))) // a restart while the remote is down
	holds(t, only(t, again), second, "", "two")
	again.refresh(t.Context())
	holds(t, only(t, again), second, "git could not read the repository", "two")

	r.answer(nil)
	r.git(r.repository(), nil, "update-ref", "refs/heads/main", first) // and back
	again.refresh(t.Context())
	holds(t, only(t, again), first, "", "one")
	clean(t, dir)
}

// TestHostileRepositories: what is no regular file is not there, and nothing of a
// repository acts.
func TestHostileRepositories(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte(skillFile("outside", "stolen")), 0o600); err != nil {
		t.Fatal(err)
	}
	touched := filepath.Join(t.TempDir(), "touched")
	r := newRemote(t)
	files := skills("good")
	files["skills/link/SKILL.md"] = entry{"120000", outside}
	files["skills/up/SKILL.md"] = entry{"120000", "../../../../../../../../" + outside}
	files["skills/linked"] = entry{"120000", filepath.Dir(outside)}
	files["skills/sub"] = entry{"160000", strings.Repeat("1", 40)}
	files[".gitmodules"] = entry{data: "[submodule \"s\"]\n\tpath = skills/sub\n\turl = " + r.URL + "/other.git\n"}
	files[".gitattributes"] = entry{data: "*.md filter=evil ident working-tree-encoding=UTF-16 export-subst\nskills/good/** export-ignore\n"}
	files[".gitconfig"] = entry{data: "[filter \"evil\"]\n\tsmudge = touch " + touched + "\n"}
	files["hooks/post-checkout"] = entry{"100755", "#!/bin/sh\ntouch " + touched + "\n"}
	files["skills/good/$Format:%H$.md"] = entry{data: "$Id$"}
	commit := r.commit("main", files)
	s := open(t, t.TempDir(), org(r.location("")))
	s.refresh(t.Context())
	b := only(t, s)
	if !slices.Contains(names(b), "good") || slices.ContainsFunc(b.Skills, func(s skill.Skill) bool { return strings.Contains(s.Content, "stolen") }) {
		t.Errorf("skills %+v", b.Skills)
	}
	if b.Commit != commit {
		t.Errorf("commit %q (%v)", b.Commit, b.Problems)
	}
	if _, err := os.Stat(touched); !os.IsNotExist(err) {
		t.Errorf("something of the repository ran: %v", err)
	}
}

// TestForgedTreesAreRefused: git checks objects before they are used.
func TestForgedTreesAreRefused(t *testing.T) {
	for _, name := range []string{"..", ".git", ".GIT", "a/b", ".", ""} {
		r := newRemote(t)
		blob := strings.TrimSpace(r.git(r.repository(), []byte("x"), "hash-object", "-w", "--stdin"))
		raw := make([]byte, 20)
		if _, err := fmt.Sscanf(blob, "%40x", &raw); err != nil {
			t.Fatal(err)
		}
		tree := append([]byte("100644 "+name+"\x00"), raw...)
		id := strings.TrimSpace(r.git(r.repository(), tree, "hash-object", "-w", "--literally", "-t", "tree", "--stdin"))
		commit := strings.TrimSpace(r.git(r.repository(), nil, "commit-tree", "-m", "m", id))
		r.git(r.repository(), nil, "update-ref", "refs/heads/main", commit)
		s := open(t, t.TempDir(), org(r.location("")))
		s.refresh(t.Context())
		holds(t, only(t, s), "", "git could not read the repository")
	}
}

// TestRemoteWithOptionsForRefs: names that a remote gives never become arguments.
func TestRemoteWithOptionsForRefs(t *testing.T) {
	r := newRemote(t)
	commit := r.commit("main", skills("one"))
	touched := filepath.Join(t.TempDir(), "touched")
	packed := fmt.Sprintf("# pack-refs with: peeled fully-peeled sorted \n%s refs/heads/--upload-pack=touch %s\n%s refs/tags/-x\n", commit, touched, commit)
	if err := os.WriteFile(filepath.Join(r.repository(), "packed-refs"), []byte(packed), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, t.TempDir(), org(r.location("")))
	s.refresh(t.Context())
	holds(t, only(t, s), commit, "", "one")
	if _, err := newSet(t.Context(), Config{Sources: []Source{org(r.location("#--upload-pack=touch"))}}, true); err == nil {
		t.Error("an option was taken for a ref")
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	r := newRemote(t)
	r.commit("main", skills("one"))
	reached := make(chan string, 10)
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { reached <- req.URL.Path }))
	defer target.Close()
	for _, to := range []string{target.URL + "/r.git/info/refs?service=git-upload-pack", "file:///etc/passwd", "ftp://127.0.0.1/x"} {
		r.answer(func(w http.ResponseWriter, req *http.Request) bool {
			http.Redirect(w, req, to, http.StatusFound)
			return true
		})
		s := open(t, t.TempDir(), org(r.location("")))
		s.refresh(t.Context())
		holds(t, only(t, s), "", "without a redirect")
	}
	if len(reached) > 0 {
		t.Errorf("git went to %s", <-reached)
	}
}

// TestEndlessPackIsStopped: a remote that never stops sending fills no disk.
func TestEndlessPackIsStopped(t *testing.T) {
	r := newRemote(t)
	r.commit("main", skills("one"))
	r.answer(func(w http.ResponseWriter, req *http.Request) bool {
		body := new(bytes.Buffer)
		_, _ = body.ReadFrom(req.Body)
		req.Body = readCloser{bytes.NewReader(body.Bytes())}
		if !strings.Contains(body.String(), "command=fetch") {
			return false
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		if endlessPack(w, req.Context()) {
			t.Error("nobody stopped it")
		}
		return true
	})
	dir := t.TempDir()
	s := open(t, dir, org(r.location("")))
	s.max = 8 << 20
	s.refresh(t.Context())
	holds(t, only(t, s), "", "larger than 8388608 bytes")
	clean(t, dir)
}

// endlessPack sends a pack with one blob of 2^60 bytes, stored uncompressed. It is
// true if a whole GiB of it was taken.
func endlessPack(w http.ResponseWriter, ctx context.Context) bool {
	packet := func(data []byte) error {
		_, err := fmt.Fprintf(w, "%04x%s", len(data)+4, data)
		return err
	}
	head := "\x01PACK\x00\x00\x00\x02\x00\x00\x00\x01" + "\xb0" + "\x80\x80\x80\x80\x80\x80\x80\x01" + "\x78\x01"
	_, _ = packet([]byte("packfile\n")), packet([]byte(head))
	block := append([]byte("\x01\x00\x00\x40\xff\xbf"), make([]byte, 1<<14)...) // a stored block of 16 KiB
	for range 1 << 30 / len(block) {
		if err := packet(block); err != nil || ctx.Err() != nil {
			return false
		}
	}
	return true
}

func TestLargeRepositoryIsRefused(t *testing.T) {
	r := newRemote(t)
	files := skills("one")
	noise, state := make([]byte, 3<<20), uint32(1)
	for i := range noise {
		state = state*1664525 + 1013904223
		noise[i] = byte(state >> 24)
	}
	files["large.bin"] = entry{data: string(noise)}
	r.commit("main", files)
	dir := t.TempDir()
	s := open(t, dir, org(r.location("")))
	s.max = 1 << 20
	s.refresh(t.Context())
	holds(t, only(t, s), "", "larger than 1048576 bytes")
	s.max = maxRepo
	s.refresh(t.Context())
	holds(t, only(t, s), r.id("main"), "", "one")
	clean(t, dir)
}

// TestSilentRemote: one that never answers costs the time-out, and ends with ctx.
func TestSilentRemote(t *testing.T) {
	r := newRemote(t)
	asked, gone := make(chan struct{}, 10), make(chan struct{}, 10)
	r.answer(func(_ http.ResponseWriter, req *http.Request) bool {
		asked <- struct{}{}
		<-req.Context().Done()
		gone <- struct{}{}
		return true
	})
	dir := t.TempDir()
	s := open(t, dir, org(r.location("")))
	s.timeout = 300 * time.Millisecond
	s.refresh(t.Context())
	holds(t, only(t, s), "", "git took longer than 300ms")
	s.timeout = gitTimeout
	<-asked
	select {
	case <-gone:
	case <-time.After(20 * time.Second): // less than the time after which git's helper gives up by itself
		t.Error("git's helper was left behind")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	<-asked
	cancel()
	<-done
	clean(t, dir)
}

// TestPasswordsAreNotAskedFor: a remote that wants one is a problem, at once.
func TestPasswordsAreNotAskedFor(t *testing.T) {
	r := newRemote(t)
	r.answer(func(w http.ResponseWriter, req *http.Request) bool {
		if _, _, ok := req.BasicAuth(); ok {
			t.Error("a password was sent")
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	t.Setenv("HOME", t.TempDir())
	netrc := "machine 127.0.0.1 login u password p\n"
	if err := os.WriteFile(filepath.Join(os.Getenv("HOME"), ".netrc"), []byte(netrc), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_ASKPASS", "/bin/echo")
	s := open(t, t.TempDir(), org(r.location("")))
	s.refresh(t.Context())
	holds(t, only(t, s), "", "without a password")
}

// TestSurroundingsDoNotCount: neither the user's configuration nor variables.
func TestSurroundingsDoNotCount(t *testing.T) {
	r := newRemote(t)
	commit := r.commit("main", skills("one"))
	home, touched := t.TempDir(), filepath.Join(t.TempDir(), "touched")
	config := fmt.Sprintf("[url \"http://127.0.0.1:1/\"]\n\tinsteadOf = %s\n[credential]\n\thelper = !touch %s\n[core]\n\tsshCommand = touch %s\n", r.URL, touched, touched)
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": home, "GIT_DIR": home, "GIT_TRACE": touched, "GIT_EXEC_PATH": home,
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "url.http://127.0.0.1:1/.insteadOf", "GIT_CONFIG_VALUE_0": r.URL, "LD_PRELOAD": ""} {
		t.Setenv(name, value)
	}
	s := open(t, t.TempDir(), org(r.location("")))
	s.refresh(t.Context())
	holds(t, only(t, s), commit, "", "one")
	if _, err := os.Stat(touched); !os.IsNotExist(err) {
		t.Errorf("something of the surroundings ran: %v", err)
	}
}

func TestWithoutGit(t *testing.T) {
	s := open(t, t.TempDir(), org("https://127.0.0.1:1/r"))
	s.cfg.Git = filepath.Join(t.TempDir(), "git")
	s.refresh(t.Context())
	holds(t, only(t, s), "", "There is no git")
}

// TestReadersSeeWholeVersions: while one refreshes, others read (-race).
func TestReadersSeeWholeVersions(t *testing.T) {
	r := newRemote(t)
	r.commit("main", skills("a0", "b0"))
	s := open(t, t.TempDir(), org(r.location("")))
	s.refresh(t.Context())
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got := names(only(t, s))
				if len(got) != 2 || got[0][1:] != got[1][1:] {
					t.Errorf("a mixture: %v", got)
					return
				}
			}
		})
	}
	for i := 1; i <= 5; i++ {
		r.commit("main", skills(fmt.Sprint("a", i), fmt.Sprint("b", i)))
		s.refresh(t.Context())
	}
	close(done)
	readers.Wait()
	holds(t, only(t, s), r.id("main"), "", "a5", "b5")
}

// TestSweep removes leftovers and caches of sources that are no more, and nothing
// that is not the package's own.
func TestSweep(t *testing.T) {
	r := newRemote(t)
	r.commit("main", skills("one"))
	dir := t.TempDir()
	first := open(t, dir, org(r.location("")), Source{Name: "other", Level: skill.LevelPublic, Location: r.location("#main")})
	first.refresh(t.Context())
	for _, name := range []string{scratchPrefix + "1", "mine"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "objects"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{scratchPrefix + "2", "notes.json", "README"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second := open(t, dir, org(r.location("")))
	second.sweep()
	entries, err := os.ReadDir(dir)
	left := []string{}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{filepath.Base(second.cacheFile(second.sources[0])), "README", "mine", "notes.json"}
	slices.Sort(want)
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left %v (%v), want %v", left, err, want)
	}
	holds(t, only(t, open(t, dir, org(r.location("")))), r.id("main"), "", "one")
}

func TestDamagedCacheIsAProblemUntilTheRefresh(t *testing.T) {
	r := newRemote(t)
	commit := r.commit("main", skills("one"))
	dir := t.TempDir()
	s := open(t, dir, org(r.location("")))
	if err := os.WriteFile(s.cacheFile(s.sources[0]), []byte(`{"skills": [{`), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, org(r.location("")))
	holds(t, only(t, s), "", "cache of collections cannot be used")
	s.refresh(t.Context())
	holds(t, only(t, s), commit, "", "one")
	if err := os.Chmod(dir, 0o500); err == nil && os.Getuid() != 0 {
		r.commit("main", skills("two"))
		s.refresh(t.Context())
		holds(t, only(t, s), commit, "cache of collections cannot be used", "one")
		_ = os.Chmod(dir, 0o700)
	}
}

func TestNamesAreUnique(t *testing.T) {
	_, err := New(t.Context(), Config{Sources: []Source{org("/a"), org("/b")}})
	if err == nil || !strings.Contains(err.Error(), "two collections with the name acme") {
		t.Errorf("%v", err)
	}
	s, err := New(t.Context(), Config{})
	if err != nil || len(s.Bundles()) != 0 {
		t.Errorf("no sources: %v, %v", s, err)
	}
	if _, err := New(t.Context(), Config{Sources: []Source{org("http://127.0.0.1/r")}}); err == nil {
		t.Error("plain http was taken outside of tests")
	}
}

// rich is a collection with everything that a place may bring.
func rich() map[string]entry {
	files := skills("one")
	more := map[string]string{
		"skills/tool.md":               "---\nname: tool\ntriggers: [x]\nmcp_tools:\n  stdio_servers:\n    - name: evil\n      command: touch\n---\ntext\n",
		"skills/runs/SKILL.md":         skillFile("runs", "Now: !`touch /tmp/x`"),
		"skills/runs/scripts/run.sh":   "touch /tmp/x",
		"agents/helper.md":             "---\nname: helper\ndescription: helps\nmcpServers:\n  evil:\n    command: touch\nhooks:\n  PreToolUse:\n    - matcher: '*'\n      hooks:\n        - type: command\n          command: touch\n---\nYou help.\n",
		".openhands/hooks.json":        `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"touch"}]}]}}`,
		".openhands/setup.sh":          "touch /tmp/x",
		".mcp.json":                    `{"mcpServers":{"evil":{"command":"touch"}}}`,
		"plugins/p/plugin.json":        `{"name":"p"}`,
		"plugins/p/skills/two.md":      "---\nname: two\ntriggers: [y]\n---\ntext\n",
		"plugins/p/commands/three.md":  "---\ndescription: three\n---\nDo !`touch /tmp/x` in ${CLAUDE_PLUGIN_ROOT}\n",
		"plugins/p/hooks/hooks.json":   `{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"touch"}]}]}}`,
		"plugins/p/.mcp.json":          `{"mcpServers":{"evil":{"command":"touch"}}}`,
		"plugins/p/agents/reviewer.md": "---\nname: reviewer\ndescription: reviews\n---\nYou review.\n",
	}
	for name, text := range more {
		files[name] = entry{data: text}
	}
	return files
}

// harmless fails if anything of a bundle would run, or names a directory that no
// sandbox has.
func harmless(t *testing.T, all []extension.Bundle) {
	t.Helper()
	var skillNames, agentNames []string
	for _, b := range all {
		if !reflect.DeepEqual(b.Hooks, hook.Config{}) || b.Servers != nil || len(b.Scripts)+len(b.Pins) > 0 || b.Subject != "" || b.Root != "" {
			t.Errorf("%s would run something: %+v", b.Name, b)
		}
		for _, s := range b.Skills {
			skillNames = append(skillNames, s.Name)
			if s.MCP != nil || s.Trusted || s.Level != b.Level || s.Root != "" || (len(s.Files) > 0) != s.AgentSkill || filepath.IsAbs(s.Source) {
				t.Errorf("skill %+v", s)
			}
		}
		for _, a := range b.Agents {
			agentNames = append(agentNames, a.Name)
			if a.MCP != nil || a.Hooks != nil {
				t.Errorf("agent %+v", a)
			}
		}
	}
	slices.Sort(skillNames)
	slices.Sort(agentNames)
	if want := []string{"one", "runs", "tool", "two"}; !slices.Equal(slices.DeleteFunc(skillNames, func(n string) bool { return strings.HasSuffix(n, "three") }), want) {
		t.Errorf("skills %v, want %v", skillNames, want)
	}
	if !slices.Equal(agentNames, []string{"helper", "reviewer"}) {
		t.Errorf("agents %v", agentNames)
	}
}

// TestOnlySkillsAndAgentsCount: of a repository, of the cache, of a directory.
func TestOnlySkillsAndAgentsCount(t *testing.T) {
	r := newRemote(t)
	r.commit("main", rich())
	dir := t.TempDir()
	s := open(t, dir, org(r.location("")))
	s.refresh(t.Context())
	harmless(t, s.Bundles())
	harmless(t, open(t, dir, org(r.location(""))).Bundles())
	harmless(t, open(t, t.TempDir(), org(onDisk(t, rich()))).Bundles())
}

// onDisk writes files to a directory.
func onDisk(t *testing.T, files map[string]entry) string {
	t.Helper()
	dir := t.TempDir()
	for name, e := range files {
		name, mode := filepath.Join(dir, name), os.FileMode(0o600)
		if e.mode == "100755" {
			mode = 0o700
		}
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, []byte(e.data), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestLargeCollections: plugins that are too much are left out, and said to be.
func TestLargeCollections(t *testing.T) {
	skillsOf := func(files map[string]entry, dir string, n int) {
		for i := range n {
			name := fmt.Sprintf("s%02d", i)
			files[dir+"skills/"+name+".md"] = entry{data: skillFile(name, strings.Repeat("\x01", 200_000))} // six times that as JSON
		}
	}
	files := skills("one")
	for _, plugin := range []string{"a", "b", "c"} {
		files["plugins/"+plugin+"/plugin.json"] = entry{data: `{"name":"` + plugin + `"}`}
		skillsOf(files, "plugins/"+plugin+"/", 12)
	}
	got := open(t, t.TempDir(), org(onDisk(t, files))).Bundles()
	if len(got) != 3 || len(got[2].Skills) != 12 {
		t.Fatalf("%d bundles", len(got))
	}
	holds(t, got[0], "", "plugin c and what comes after it is left out", "one")
	skillsOf(files, "", 18)
	for i := range 16 {
		files[fmt.Sprintf("skills/x%d/SKILL.md", i/4)] = entry{data: skillFile(fmt.Sprint("x", i/4), "x")}
		files[fmt.Sprintf("skills/x%d/f%d", i/4, i)] = entry{data: strings.Repeat("x", 1<<20-100)}
	}
	holds(t, only(t, open(t, t.TempDir(), org(onDisk(t, files)))), "", "larger than 32 MiB")
}

// withFiles is a directory of skills as people have it, one of them with a program.
func withFiles() map[string]entry {
	return map[string]entry{"pdf/SKILL.md": {data: skillFile("pdf", "Run scripts/run. !`touch /tmp/x`")}, "pdf/scripts/run": {"100755", "#!/bin/sh\necho \xff\n"},
		"pdf/forms.md": {data: "Forms."}, "pdf/assets/deep/empty": {}, "word/SKILL.md": {data: skillFile("word", "Text.")}, "README.md": {data: "x"}}
}

// TestFilesOfSkillsComeAlong: from a repository, its cache, a directory in it, and a
// directory of this machine; the same ones.
func TestFilesOfSkillsComeAlong(t *testing.T) {
	r := newRemote(t)
	files := withFiles()
	below := map[string]entry{}
	for name, e := range files {
		below["docs/skills/"+name] = e
	}
	first := r.commit("main", files)
	r.commit("below", below)
	dir := t.TempDir()
	s := open(t, dir, org(r.location("")))
	s.refresh(t.Context())
	ofSubdir := open(t, t.TempDir(), org(r.location("#below:docs/skills")))
	ofSubdir.refresh(t.Context())
	hashes := map[string]bool{}
	for place, set := range map[string]*Set{"repository": s, "cache": open(t, dir, org(r.location(""))), "subdirectory": ofSubdir,
		"directory": open(t, t.TempDir(), org(onDisk(t, files)))} {
		b := only(t, set)
		holds(t, b, b.Commit, "", "pdf", "word")
		i := slices.IndexFunc(b.Skills, func(s skill.Skill) bool { return s.Name == "pdf" })
		pdf := b.Skills[i]
		hashes[pdf.FilesHash()] = true
		names := []string{}
		for _, f := range pdf.Files {
			names = append(names, f.Name)
			if want := files["pdf/"+f.Name]; string(f.Data) != want.data || f.Executable != (want.mode == "100755") {
				t.Errorf("%s: %+v, want %+v", place, f, want)
			}
		}
		if want := []string{"assets/deep/empty", "forms.md", "scripts/run", "SKILL.md"}; !slices.Equal(names, want) {
			t.Errorf("%s: files %v, want %v", place, names, want)
		}
		if !slices.Equal(pdf.Resources, []string{"assets/deep/empty", "scripts/run"}) || pdf.Root != "" || pdf.Trusted || pdf.Source != "pdf/SKILL.md" {
			t.Errorf("%s: %+v", place, pdf)
		}
	}
	if len(hashes) != 1 {
		t.Errorf("hashes %v", hashes)
	}
	files["pdf/scripts/run"] = entry{data: files["pdf/scripts/run"].data} // a program no more
	if second := r.commit("main", files); second == first {
		t.Fatal("nothing changed")
	}
	s.refresh(t.Context())
	for _, sk := range only(t, s).Skills {
		if hashes[sk.FilesHash()] {
			t.Errorf("after a change the files of %s have the same hash", sk.Name)
		}
	}
}

func TestDirectories(t *testing.T) {
	location := onDisk(t, skills("one"))
	outside := onDisk(t, skills("stolen"))
	if err := os.Symlink(filepath.Join(outside, "skills", "stolen", "SKILL.md"), filepath.Join(location, "skills", "link.md")); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(t.TempDir(), "not made")
	s := open(t, cache, org(location))
	if got := names(only(t, s)); !slices.Equal(got, []string{"one"}) {
		t.Errorf("at the start: %v", got)
	}
	if err := os.WriteFile(filepath.Join(location, "skills", "two.md"), []byte(skillFile("two", "x")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.refresh(t.Context())
	if got := names(only(t, s)); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("after a change: %v", got)
	}
	if err := os.Rename(location, location+"-moved"); err != nil {
		t.Fatal(err)
	}
	s.refresh(t.Context())
	holds(t, only(t, s), "", "cannot be read", "one", "two")
	holds(t, only(t, open(t, cache, org(location))), "", "cannot be read")
	if _, err := os.Stat(cache); !os.IsNotExist(err) {
		t.Errorf("directories need no cache: %v", err)
	}
}
