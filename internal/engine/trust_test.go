package engine_test

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/skill"
)

// origin is a git repository that a local server gives out; it returns its address.
func origin(t *testing.T, files map[string]string) (address, commit string) {
	t.Helper()
	dir := place(t, nil)
	work := filepath.Join(dir, "work")
	git := func(in string, args ...string) string {
		t.Helper()
		c := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@y", "-C", in}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git(dir, "init", "--quiet", "--initial-branch=main", "work")
	for name, text := range files {
		write(t, filepath.Join(work, name), text)
	}
	git(work, "add", "-A")
	git(work, "commit", "--quiet", "-m", "x")
	git(dir, "clone", "--quiet", "--bare", work, "r.git")
	git(filepath.Join(dir, "r.git"), "update-server-info")
	s := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(s.Close)
	return s.URL + "/r.git", git(work, "rev-parse", "HEAD")
}

// question is the only thing that a conversation asks.
func (w *world) question(id conversation.ID) conversation.TrustQuestion {
	w.Helper()
	notes := must(w.engine.View(w.Context(), owner, id)).Summary.Notes
	if len(notes.Questions) != 1 {
		w.Fatalf("questions %+v, problems %q", notes.Questions, notes.Problems)
	}
	return notes.Questions[0]
}

func (w *world) asksNothing(id conversation.ID) {
	w.Helper()
	if q := must(w.engine.View(w.Context(), owner, id)).Summary.Notes.Questions; len(q) != 0 {
		w.Errorf("it asks %+v", q)
	}
}

// guarded is a repository whose guard leaves a trace.
func guardedPlace(t *testing.T) string {
	return place(t, map[string]string{".openhands/hooks.json": on(hook.PreToolUse, "./guard.sh"), "guard.sh": "#!/bin/sh\ntouch guarded\n"})
}

func TestARepositorysHooksRunOnlyOnceTrusted(t *testing.T) {
	sh := call("sh", `{"command":"true"}`)
	w := newWorld(t, sh, say("done"), sh, say("done"), sh, say("done"))
	dir := guardedPlace(t)
	id := w.beginWith(engine.StartRequest{Owner: owner, WorkingDir: dir, InitialMessage: words("go")})
	w.wait(id, conversation.Finished)
	if exists(filepath.Join(dir, "guarded")) {
		t.Fatal("a hook ran that nobody trusts")
	}
	q := w.question(id)
	if !strings.Contains(strings.Join(q.Runs, "\n"), "guard.sh") {
		t.Errorf("%q", q.Runs)
	}
	if err := w.engine.Trust(t.Context(), owner, id, q.Subject, "another hash", true); !fault.Is(err, fault.Conflict) {
		t.Error(err)
	}
	if err := w.engine.Trust(t.Context(), owner, id, "another subject", q.Hash, true); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	w.expect("trust", w.engine.Trust(t.Context(), owner, id, q.Subject, q.Hash, true))
	w.asksNothing(id)
	if err := w.engine.Trust(t.Context(), owner, id, q.Subject, q.Hash, true); !fault.Is(err, fault.NotFound) {
		t.Errorf("asked twice: %v", err)
	}
	w.send(id, "again")
	w.eventually("the hook", func() bool { return exists(filepath.Join(dir, "guarded")) && w.status(id) == conversation.Finished })

	// The same content in the same place is trusted in other conversations, too.
	box := must(w.engine.View(t.Context(), owner, id)).SandboxID
	other := w.beginWith(engine.StartRequest{Owner: owner, WorkingDir: dir, SandboxID: box})
	w.asksNothing(other)
	// Other content asks again, and the decision about the first stays.
	write(t, filepath.Join(dir, "guard.sh"), "#!/bin/sh\ntouch worse\n")
	changed := w.beginWith(engine.StartRequest{Owner: owner, WorkingDir: dir, SandboxID: box})
	if q2 := w.question(changed); q2.Hash == q.Hash || q2.Subject != q.Subject {
		t.Errorf("%+v", q2)
	}
	// What was taken back is asked again, also in conversations that are loaded.
	w.expect("forget", w.engine.Forget(t.Context(), owner, q.Subject))
	w.eventually("the question", func() bool {
		return len(must(w.engine.View(t.Context(), owner, id)).Summary.Notes.Questions) == 1
	})
	if err := w.engine.Forget(t.Context(), owner, q.Subject); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

func TestWhatIsRefusedStaysRefused(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"true"}`))
	dir := guardedPlace(t)
	id := w.beginWith(engine.StartRequest{Owner: owner, WorkingDir: dir})
	q := w.question(id)
	w.expect("refuse", w.engine.Trust(t.Context(), owner, id, q.Subject, q.Hash, false))
	w.asksNothing(id)
	w.stop()
	w.start()
	w.send(id, "go")
	w.wait(id, conversation.Finished)
	w.asksNothing(id)
	if exists(filepath.Join(dir, "guarded")) {
		t.Error("it ran")
	}
}

// Clients read a repository's hooks and send them along: that is no trust.
func TestARequestWithTheRepositorysHooks(t *testing.T) {
	w := newWorld(t, call("sh", `{"command":"true"}`))
	dir := guardedPlace(t)
	req := withHooks(on(hook.PreToolUse, "./guard.sh"), "go")
	req.WorkingDir = dir
	id := w.beginWith(req)
	w.wait(id, conversation.Finished)
	w.question(id)
	if exists(filepath.Join(dir, "guarded")) {
		t.Error("it ran")
	}
}

// setUpRepository has a set-up script and a hook of the beginning.
func setUpRepository(t *testing.T, traces string) string {
	address, _ := origin(t, map[string]string{
		".openhands/setup.sh":   "echo x >>" + traces + "/set-up\n",
		".openhands/hooks.json": on(hook.SessionStart, "echo x >>"+traces+"/begun")})
	return address
}

func TestASetUpScriptRunsOnceAndOnlyTrusted(t *testing.T) {
	w := newWorld(t)
	traces := t.TempDir()
	address := setUpRepository(t, traces)
	id := w.beginWith(engine.StartRequest{Owner: owner, Repository: address, InitialMessage: words("go")})
	w.wait(id, conversation.Finished)
	if exists(traces+"/set-up") || exists(traces+"/begun") {
		t.Fatal("it ran before it was trusted")
	}
	q := w.question(id)
	w.expect("trust", w.engine.Trust(t.Context(), owner, id, q.Subject, q.Hash, true))
	w.eventually("both", func() bool { return exists(traces+"/set-up") && exists(traces+"/begun") })
	// Another decision is none about this one.
	plugin := place(t, map[string]string{"hooks/hooks.json": on(hook.Stop, "true")})
	with := w.beginWith(engine.StartRequest{Owner: owner, Repository: address, Plugins: []conversation.Plugin{{Source: plugin}}})
	for n, q := range must(w.engine.View(t.Context(), owner, with)).Summary.Notes.Questions { // of the plugin, of the repository
		w.expect("trust", w.engine.Trust(t.Context(), owner, with, q.Subject, q.Hash, true))
		w.eventually("the set-up", func() bool { return len(read(traces+"/set-up")) >= 2*(1+n) })
	}
	w.stop() // joins what runs
	w.start()
	if got := read(traces + "/set-up"); got != "x\nx\n" {
		t.Errorf("it was set up %q", got)
	}
}

// What the agent changed since is not what the user was asked about.
func TestAChangedSetUpScriptDoesNotRun(t *testing.T) {
	traces := t.TempDir()
	w := newWorld(t, call("sh", `{"command":"echo 'echo x >>`+traces+`/evil' >>.openhands/setup.sh"}`))
	id := w.beginWith(engine.StartRequest{Owner: owner, Repository: setUpRepository(t, traces), InitialMessage: words("go")})
	w.wait(id, conversation.Finished)
	q := w.question(id)
	w.expect("trust", w.engine.Trust(t.Context(), owner, id, q.Subject, q.Hash, true))
	w.eventually("the hook of the beginning", func() bool { return exists(traces + "/begun") })
	if exists(traces+"/evil") || exists(traces+"/set-up") {
		t.Error("it ran")
	}
}

func TestAServerThatTrustsAll(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) { o.TrustAll = true })
	traces := t.TempDir()
	id := w.beginWith(engine.StartRequest{Owner: owner, Repository: setUpRepository(t, traces)})
	w.asksNothing(id)
	if !exists(traces+"/set-up") || !exists(traces+"/begun") {
		t.Error("it did not run")
	}
}

// Nothing can be trusted before it is known what asks.
func TestTrustBeforeTheStartIsThrough(t *testing.T) {
	w := newWorld(t)
	until := make(chan struct{})
	w.bench.HoldCreate(until)
	task := must(w.engine.Start(t.Context(), engine.StartRequest{Owner: owner}))
	if err := w.engine.Trust(t.Context(), owner, task.ConversationID, "x", "y", true); fault.CodeOf(err) != "not_ready" {
		t.Error(err)
	}
	close(until)
	w.eventually("the start", func() bool { return must(w.engine.LatestTask(t.Context(), task.ConversationID)).Status.Done() })
}

func TestPlugins(t *testing.T) {
	files := map[string]string{".plugin/plugin.json": `{"name":"ship"}`, "hooks/hooks.json": on(hook.PreToolUse, "touch $CLAUDE_PLUGIN_ROOT/guarded"),
		"skills/deploying/SKILL.md": "---\nname: deploying\ndescription: how to deploy\n---\nUse make ship."}
	address, commit := origin(t, files)
	dir := place(t, files)
	for _, c := range []struct {
		name   string
		plugin conversation.Plugin
		commit string
	}{
		{"a directory", conversation.Plugin{Source: dir}, ""},
		{"git", conversation.Plugin{Source: address}, commit},
		{"git at a branch", conversation.Plugin{Source: address, Ref: "main"}, commit},
		{"git at a commit", conversation.Plugin{Source: address, Ref: commit}, commit},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorldWith(t, skilful, call("invoke_skill", `{"name":"deploying"}`), say("done"), call("sh", `{"command":"true"}`))
			id := w.beginWith(engine.StartRequest{Owner: owner, Plugins: []conversation.Plugin{c.plugin}, InitialMessage: words("go")})
			w.wait(id, conversation.Finished)
			if said := w.model.lastRequest(); !strings.Contains(said, "Use make ship.") || strings.Contains(strings.Join(w.trace(id), ","), "hook") {
				t.Error(said)
			}
			bundles := must(w.store.Extensions().Bundles(t.Context(), id))
			if len(bundles) != 1 || bundles[0].Commit != c.commit {
				t.Errorf("%+v", bundles)
			}
			q := w.question(id)
			w.expect("trust", w.engine.Trust(t.Context(), owner, id, q.Subject, q.Hash, true))
			w.send(id, "again")
			w.eventually("the hook", func() bool {
				return exists(filepath.Join(bundles[0].Root, "guarded")) && w.status(id) == conversation.Finished
			})
			// A fork has them, too.
			fork := must(w.engine.Fork(t.Context(), owner, id, engine.ForkRequest{}))
			if copied := must(w.store.Extensions().Bundles(t.Context(), fork.ID)); len(copied) != 1 || copied[0].Hash != bundles[0].Hash {
				t.Errorf("%+v", copied)
			}
		})
	}
}

func TestAPluginThatCannotBeHadIsAProblem(t *testing.T) {
	address, _ := origin(t, map[string]string{"README.md": "x"})
	w := newWorld(t)
	id := w.beginWith(engine.StartRequest{Owner: owner, InitialMessage: words("go"), Plugins: []conversation.Plugin{
		{Source: address + "/gone"}, {Source: address, Ref: "gone"}, {Source: address}, {Source: "/gone"}, {Source: "/with a space"}, {Source: address, Path: "gone"}}})
	w.wait(id, conversation.Finished)
	if p := must(w.engine.View(t.Context(), owner, id)).Summary.Notes.Problems; len(p) != 6 {
		t.Errorf("%q", p)
	}
	for _, bad := range []conversation.Plugin{{Source: "owner/repo"}, {Source: "ftp://x/y"}, {Source: address, Ref: "--upload-pack=x"}, {Source: address, Path: "../x"}, {Source: ""}} {
		if _, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, Plugins: []conversation.Plugin{bad}}); fault.CodeOf(err) != "bad_plugin" {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, ToolFilter: "("}); fault.CodeOf(err) != "bad_tool_filter" {
		t.Error(err)
	}
}

// A sub-conversation that a user makes shares what was found in the directory it shares,
// and finds its own elsewhere.
func TestWhatSubConversationsFind(t *testing.T) {
	w := newWorld(t)
	dir := guardedPlace(t)
	id := w.beginWith(engine.StartRequest{Owner: owner, WorkingDir: dir})
	shared := w.beginWith(engine.StartRequest{Owner: owner, ParentID: id})
	if w.question(shared).Subject != w.question(id).Subject {
		t.Error("not shared")
	}
	box := must(w.engine.View(t.Context(), owner, w.begin(""))).SandboxID
	elsewhere := w.beginWith(engine.StartRequest{Owner: owner, ParentID: id, SandboxID: box})
	w.asksNothing(elsewhere)
}

func TestCollectionsAreEverybodys(t *testing.T) {
	w := newWorldWith(t, func(o *engine.Options) {
		o.Collections = func() []extension.Bundle {
			return []extension.Bundle{{Name: "collection", Level: skill.LevelPublic,
				Skills: []skill.Skill{{Name: "deploying", Content: "Use make ship.", Triggers: []string{"deploy"}, Level: skill.LevelPublic}}}}
		}
	})
	id := w.begin("deploy")
	w.wait(id, conversation.Finished)
	if said := w.model.lastRequest(); !strings.Contains(said, "Use make ship.") {
		t.Error(said)
	}
}
