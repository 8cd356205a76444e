package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/skill"
	"parley/internal/subagent"
	"parley/internal/tool"
	"parley/internal/tool/task"
)

// delegating gives the conversations the tool task.
func delegating(o *engine.Options) {
	o.Tools = must(tool.NewSet(shTool(), pathTool(), task.New(), finishTool()))
	o.DefaultTools, o.PlanTools, o.TaskTool = []string{"sh", "look"}, []string{"look"}, task.Name
	o.ToolSets = map[string][]string{task.SetName: {task.Name}}
}

// newTeam is a world whose users want sub-agents.
func newTeam(t *testing.T, do step, more ...func(*engine.Options)) *world {
	w := newWorldWith(t, thinking(do, append([]func(*engine.Options){delegating}, more...)...))
	w.settings(func(s *account.Settings) { s.SubAgents = ptr(true) })
	return w
}

// assign is a call of the tool task.
func assign(prompts ...string) step {
	var pairs []string
	for _, p := range prompts {
		kind, prompt, _ := strings.Cut(p, "|")
		pairs = append(pairs, "task", string(must(json.Marshal(map[string]string{"prompt": prompt, "subagent_type": kind, "description": prompt}))))
	}
	return call(pairs...)
}

// firstAsked is the first message that a request has.
func firstAsked(req *llm.Request) string {
	for _, m := range req.Messages {
		if m.Role == content.RoleUser {
			return m.Text()
		}
	}
	return ""
}

// resulted reports whether the last message is the result of a call.
func resulted(req *llm.Request) bool {
	return req.Messages[len(req.Messages)-1].Role == content.RoleTool
}

// children are the conversations below one, oldest first.
func (w *world) children(id conversation.ID) []conversation.ID {
	w.Helper()
	return must(w.engine.Children(w.Context(), owner, []conversation.ID{id}))[id]
}

func (w *world) child(id conversation.ID) conversation.ID {
	w.Helper()
	w.eventually("a child", func() bool { return len(w.children(id)) > 0 })
	return w.children(id)[0]
}

func (w *world) tasks(id conversation.ID) string {
	w.Helper()
	var out []string
	for _, t := range must(w.engine.View(w.Context(), owner, id)).Summary.Notes.Tasks {
		out = append(out, fmt.Sprintf("%s %s %s", t.ID, t.Agent, t.Status))
	}
	return strings.Join(out, ", ")
}

func TestTasksRunSideBySide(t *testing.T) {
	var both sync.WaitGroup
	both.Add(2)
	w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		switch q := firstAsked(req); {
		case strings.HasPrefix(q, "part"):
			both.Done()
			both.Wait() // neither ends before the other has begun
			return say("did "+q)(ctx, req)
		case resulted(req):
			return say("all done")(ctx, req)
		}
		return assign("|part one", "bash|part two")(ctx, req)
	})
	id := w.begin("do it")
	w.wait(id, conversation.Finished)
	if text := w.text(id); !strings.Contains(text, "did part one") || !strings.Contains(text, "did part two") {
		t.Error(text)
	}
	if got := w.tasks(id); got != "task_00000001 general-purpose finished, task_00000002 bash-runner finished" && got != "task_00000002 bash-runner finished, task_00000001 general-purpose finished" &&
		got != "task_00000001 bash-runner finished, task_00000002 general-purpose finished" && got != "task_00000002 general-purpose finished, task_00000001 bash-runner finished" {
		t.Error(got)
	}
	parent := must(w.engine.View(t.Context(), owner, id))
	for _, c := range w.children(id) {
		v := must(w.engine.View(t.Context(), owner, c))
		if v.SandboxID != parent.SandboxID || v.Options.WorkingDir != parent.Options.WorkingDir || v.Options.Task.Depth != 1 {
			t.Errorf("%+v", v.Options.Task)
		}
		if !strings.Contains(w.text(c), "You work as a sub-agent") {
			t.Error("it does not know what it is")
		}
	}
	w.expect("delete", w.engine.Delete(t.Context(), owner, id))
	if all := must(w.store.Conversations().Children(t.Context(), owner, []conversation.ID{id})); len(all[id]) != 0 {
		t.Error("children are left")
	}
}

func TestTasksAreNestedToALimit(t *testing.T) {
	w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		if resulted(req) || !slices.Contains(toolNames(req), task.Name) {
			return say("depth of "+firstAsked(req))(ctx, req)
		}
		return assign("|"+firstAsked(req)+"x")(ctx, req)
	})
	id := w.begin("x")
	w.wait(id, conversation.Finished)
	depth := 0
	for c := id; len(w.children(c)) > 0; depth++ {
		c = w.children(c)[0]
	}
	if depth != 3 {
		t.Errorf("nested %d deep", depth)
	}
}

func TestTasksThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct{ args, want string }{
		"an unknown kind": {`{"prompt":"x","subagent_type":"wizard"}`, "The kinds are bash-runner"},
		"an unknown task": {`{"prompt":"x","resume":"task_00000009"}`, "no task"},
	} {
		w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			if resulted(req) {
				return say(lastAsked(req))(ctx, req)
			}
			return call("task", c.args)(ctx, req)
		})
		id := w.begin("go")
		w.wait(id, conversation.Finished)
		if text := w.text(id); !strings.Contains(text, c.want) || len(w.children(id)) != 0 {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestATaskIsResumed(t *testing.T) {
	step := 0
	w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		if firstAsked(req) == "count" {
			return say(fmt.Sprintf("I read %d messages", len(req.Messages)))(ctx, req)
		}
		switch step++; step {
		case 1:
			return assign("|count")(ctx, req)
		case 2:
			return call("task", `{"prompt":"count again","resume":"task_00000001"}`)(ctx, req)
		}
		return say("done")(ctx, req)
	})
	id := w.begin("go")
	w.wait(id, conversation.Finished)
	if text := w.text(id); !strings.Contains(text, "I read 2 messages") || !strings.Contains(text, "I read 4 messages") {
		t.Error(text)
	}
	if n := len(w.children(id)); n != 1 || w.tasks(id) != "task_00000001 general-purpose finished" {
		t.Errorf("%d children, %s", n, w.tasks(id))
	}
}

// working is a team whose sub-agent hangs in its first call of the model.
func working(t *testing.T, more ...func(*engine.Options)) (w *world, started chan struct{}) {
	started = make(chan struct{}, 10)
	return newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		switch {
		case strings.HasPrefix(firstAsked(req), "work") && strings.Contains(whole(req), "zweiter versuch"):
			return say("worked after all")(ctx, req)
		case firstAsked(req) == "work":
			started <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		case strings.Contains(whole(req), "resume it") && !strings.Contains(whole(req), "worked after all"):
			return call("task", `{"prompt":"zweiter versuch","resume":"task_00000001"}`)(ctx, req)
		case resulted(req):
			return say("done")(ctx, req)
		}
		return assign("|work")(ctx, req)
	}, more...), started
}

func TestStoppingTheParentStopsTheTree(t *testing.T) {
	w, started := working(t)
	id := w.begin("go")
	<-started
	child := w.child(id)
	w.expect("interrupt", w.engine.Interrupt(t.Context(), owner, id))
	w.wait(id, conversation.Paused)
	w.wait(child, conversation.Paused)
	w.eventually("the note", func() bool { return w.tasks(id) == "task_00000001 general-purpose paused" })
	w.send(id, "resume it")
	w.wait(id, conversation.Finished)
	if text := w.text(id); !strings.Contains(text, "worked after all") {
		t.Error(text)
	}
}

func TestPausingTheParentPausesTheTree(t *testing.T) {
	open := make(chan struct{})
	started := make(chan struct{}, 1)
	w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		switch {
		case firstAsked(req) != "work":
			return assign("|work")(ctx, req)
		case !resulted(req):
			started <- struct{}{}
			<-open
			return call("sh", `{"command":"true"}`)(ctx, req)
		}
		return say("worked")(ctx, req)
	})
	id := w.begin("go")
	<-started
	child := w.child(id)
	w.expect("pause", w.engine.Pause(t.Context(), owner, id))
	close(open)
	w.wait(id, conversation.Paused)
	w.wait(child, conversation.Paused)
	w.ends(id, "action task call_0", "observation call_0", "pause", "status paused")
}

// A sub-agent whose start is not through when its parent is stopped does not begin.
func TestATaskThatIsStoppedBeforeItBegins(t *testing.T) {
	w, started := working(t)
	until := make(chan struct{})
	id := w.begin("")
	w.store.hook(func(ctx context.Context) { // the child's start changes its record
		if len(w.children(id)) > 0 {
			<-until
		}
	}, nil)
	w.send(id, "go")
	child := w.child(id)
	w.expect("interrupt", w.engine.Interrupt(t.Context(), owner, id))
	w.wait(id, conversation.Paused)
	close(until)
	w.wait(child, conversation.Paused)
	if len(started) != 0 {
		t.Error("it began")
	}
}

func TestDeletingTheParentEndsTheTree(t *testing.T) {
	w, started := working(t)
	id := w.begin("go")
	<-started
	child := w.child(id)
	w.expect("delete", w.engine.Delete(t.Context(), owner, id))
	for _, gone := range []conversation.ID{id, child} {
		if _, err := w.engine.View(t.Context(), owner, gone); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", gone, err)
		}
	}
}

// After a restart nobody waits for a sub-agent: it is paused, its call is open no more,
// and whoever gave it the task can go on with it.
func TestARestartInTheMiddleOfATask(t *testing.T) {
	w, started := working(t, func(o *engine.Options) { o.IdleAfter = 5 * time.Millisecond })
	id := w.begin("go")
	<-started
	child := w.child(id)
	w.stop()
	w.start()
	w.wait(child, conversation.Paused)
	w.wait(id, conversation.Finished)
	w.ends(id, "action task call_0", "agent error call_0", "agent: done", "status finished")
	if got := w.tasks(id); got != "task_00000001 general-purpose paused" {
		t.Error(got)
	}
	w.send(id, "resume it")
	w.eventually("the answer", func() bool { return strings.Contains(w.text(id), "worked after all") })
	w.wait(id, conversation.Finished)
}

// A sub-agent waits for its user like any other, and the parent waits with it.
func TestASubAgentAsksItsUser(t *testing.T) {
	w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		switch {
		case resulted(req):
			return say("done")(ctx, req)
		case firstAsked(req) == "work":
			return call("sh", `{"command":"touch ran"}`)(ctx, req)
		}
		return assign("careful|work")(ctx, req)
	})
	careful := subagent.Definition{Name: "careful", Level: subagent.LevelProgrammatic, PermissionMode: subagent.PermitAlwaysConfirm, SystemPrompt: "Be careful."}
	id := w.beginWith(engine.StartRequest{Owner: owner, InitialMessage: words("go"), Brought: &extension.Bundle{Name: "request", Level: skill.LevelExplicit, Agents: []subagent.Definition{careful}}})
	child := w.child(id)
	w.wait(child, conversation.WaitingConfirmation)
	w.eventually("the note", func() bool { return w.tasks(id) == "task_00000001 careful waiting_for_confirmation" })
	if w.status(id) != conversation.Running || exists(w.path(id, "ran")) {
		t.Error(w.status(id))
	}
	w.expect("confirm", w.engine.Confirm(t.Context(), owner, child, true, ""))
	w.wait(id, conversation.Finished)
	if !exists(w.path(id, "ran")) {
		t.Error("it did not run")
	}
}

// No definition makes an agent freer than its parent.
func TestADefinitionIsNeverLessStrict(t *testing.T) {
	for _, mode := range []string{"", subagent.PermitNeverConfirm, subagent.PermitConfirmRisky} {
		w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			switch {
			case resulted(req):
				return say("done")(ctx, req)
			case firstAsked(req) == "work":
				return call("sh", `{"command":"touch ran"}`)(ctx, req)
			}
			return assign("free|work")(ctx, req)
		})
		free := subagent.Definition{Name: "free", Level: subagent.LevelProgrammatic, PermissionMode: mode, SystemPrompt: "Be free."}
		id := w.beginWith(engine.StartRequest{Owner: owner, InitialMessage: words("go"), Confirmation: &conversation.ConfirmationPolicy{Kind: conversation.AlwaysConfirm},
			Brought: &extension.Bundle{Name: "request", Level: skill.LevelExplicit, Agents: []subagent.Definition{free}}})
		w.wait(id, conversation.WaitingConfirmation)
		w.expect("confirm", w.engine.Confirm(t.Context(), owner, id, true, ""))
		w.wait(w.child(id), conversation.WaitingConfirmation)
	}
}

// What a sub-agent may use never exceeds what its parent has.
func TestToolsOfSubAgents(t *testing.T) {
	kinds := []subagent.Definition{
		{Name: "same", Level: subagent.LevelProgrammatic, SystemPrompt: "x"},
		{Name: "reader", Level: subagent.LevelProgrammatic, SystemPrompt: "x", Tools: []string{"look", "gone"}},
		{Name: "doer", Level: subagent.LevelProgrammatic, SystemPrompt: "x", Tools: []string{"sh", "db_query"}},
		{Name: "none", Level: subagent.LevelProgrammatic, SystemPrompt: "x", Tools: []string{}},
	}
	for _, c := range []struct{ parent, kind, want string }{
		{"", "same", "sh look task finish db_query"},
		{"", "reader", "look finish"},
		{"", "doer", "sh finish db_query"},
		{"", "none", "finish"},
		{engine.AgentPlan, "same", "look task finish db_query"},
		{engine.AgentPlan, "doer", "finish db_query"},
	} {
		h := &host{}
		var got []string
		w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
			switch {
			case firstAsked(req) == "work":
				got = toolNames(req)
				return say("done")(ctx, req)
			case resulted(req):
				return say("done")(ctx, req)
			case !slices.Contains(toolNames(req), "db_query"):
				h.of()[0].offer(tool.ServerConnected, remote("db_query"))
				return call("look", `{"path":"x"}`)(ctx, req)
			}
			return assign(c.kind+"|work")(ctx, req)
		}, h.use)
		req := withServers("")
		req.AgentType, req.Brought = c.parent, &extension.Bundle{Name: "request", Level: skill.LevelExplicit, Agents: kinds}
		if c.parent != "" {
			req.Tools = []string{"look", task.SetName}
		}
		id := w.beginWith(req)
		w.send(id, "wait")
		w.wait(id, conversation.Finished)
		w.send(id, "go")
		w.eventually("the task", func() bool { return len(w.children(id)) > 0 && w.status(id) == conversation.Finished })
		slices.Sort(got)
		want := strings.Fields(c.want)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q %s has %v, want %v", c.parent, c.kind, got, want)
		}
		if n := len(h.of()); n != 1 {
			t.Errorf("%d sessions: the parent's servers were started again", n)
		}
	}
}

// What a definition did not allow is not allowed because the definition is gone.
func TestASubAgentWhoseDefinitionIsGone(t *testing.T) {
	h := &host{}
	var gone atomic.Bool
	var worked atomic.Int32
	collections := func(o *engine.Options) {
		o.Collections = func() []extension.Bundle {
			if gone.Load() {
				return nil
			}
			return []extension.Bundle{{Name: "collection", Level: skill.LevelOrg, Agents: []subagent.Definition{
				{Name: "reader", Level: subagent.LevelUser, SystemPrompt: "x", Tools: []string{"look"}}}}}
		}
	}
	var got [][]string
	w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		sessions := h.of()
		switch {
		case firstAsked(req) == "work":
			got = append(got, toolNames(req))
			worked.Add(1)
			return say("done")(ctx, req)
		case !slices.Contains(toolNames(req), "db_query"):
			sessions[len(sessions)-1].offer(tool.ServerConnected, remote("db_query"))
			return call("look", `{"path":"x"}`)(ctx, req)
		case worked.Load() == 0:
			return assign("reader|work")(ctx, req)
		case gone.Load() && worked.Load() == 1:
			return call("task", `{"prompt":"more","resume":"task_00000001"}`)(ctx, req)
		}
		return say("done")(ctx, req)
	}, h.use, collections)
	id := w.beginWith(withServers("go"))
	w.wait(id, conversation.Finished)
	w.stop()
	gone.Store(true)
	w.start()
	w.send(id, "again")
	w.eventually("the second task", func() bool { return worked.Load() == 2 && w.status(id) == conversation.Finished })
	for i, names := range got {
		if slices.Contains(names, "db_query") {
			t.Errorf("task %d has %v", i+1, names)
		}
	}
}

// A sub-agent has its parent's secrets as they are now, and nothing of them shows.
func TestSecretsOfSubAgentsFollowTheirParents(t *testing.T) {
	w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		switch {
		case firstAsked(req) == "work" && strings.Contains(lastAsked(req), "again") || firstAsked(req) == "work" && !resulted(req):
			return call("sh", `{"command":"echo $TOKEN >token.txt; echo $TOKEN"}`)(ctx, req)
		case lastAsked(req) == "go":
			return assign("|work")(ctx, req)
		case lastAsked(req) == "once more":
			return call("task", `{"prompt":"again","resume":"task_00000001"}`)(ctx, req)
		}
		return say("done")(ctx, req)
	})
	id := w.beginWith(engine.StartRequest{Owner: owner, InitialMessage: words("go"), Secrets: map[string]account.CustomSecret{"TOKEN": {Value: account.NewSecret("the-old-value")}}})
	w.wait(id, conversation.Finished)
	if got := read(w.path(id, "token.txt")); got != "the-old-value\n" {
		t.Error(got)
	}
	w.expect("secrets", w.engine.AddSecrets(t.Context(), owner, id, map[string]account.CustomSecret{"TOKEN": {Value: account.NewSecret("the-new-value")}}))
	w.send(id, "once more")
	w.eventually("the new one", func() bool { return read(w.path(id, "token.txt")) == "the-new-value\n" })
	w.wait(id, conversation.Finished)
	if text := w.text(id) + w.text(w.child(id)); strings.Contains(text, "the-old-value") || strings.Contains(text, "the-new-value") {
		t.Error(text)
	}
}

func TestBudgetsOfTheTree(t *testing.T) {
	poor := subagent.Definition{Name: "poor", Level: subagent.LevelProgrammatic, SystemPrompt: "x", MaxBudget: 0.4}
	for name, c := range map[string]struct {
		tree *float64
		kind string
		want string
	}{
		"its own is per run": {nil, "poor", "did not finish (error)"},
		"the tree's":         {ptr(0.4), "", "MaxBudgetReached"},
	} {
		spent := func(ctx context.Context, req *llm.Request) (*llm.Response, error) { // 0.5 USD
			if resulted(req) {
				return say("done")(ctx, req)
			}
			return call("sh", `{"command":"true"}`)(ctx, req)
		}
		w := newWorldWith(t, func(o *engine.Options) {
			delegating(o)
			o.Models = func(_ account.LLM, mo engine.ModelOptions) (llm.Model, error) {
				return guard(mo, &brain{info: priced(), do: func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
					switch {
					case firstAsked(req) == "work":
						return spent(ctx, req)
					case lastAsked(req) == "once more":
						return call("task", `{"prompt":"again","resume":"task_00000001"}`)(ctx, req)
					case resulted(req):
						return free(say("done"))(ctx, req)
					}
					return free(assign(c.kind+"|work"))(ctx, req)
				}}), nil
			}
		})
		w.settings(func(s *account.Settings) { s.SubAgents, s.MaxBudgetPerTask = ptr(true), c.tree })
		id := w.beginWith(engine.StartRequest{Owner: owner, InitialMessage: words("go"), Brought: &extension.Bundle{Name: "request", Level: skill.LevelExplicit, Agents: []subagent.Definition{poor}}})
		w.eventually("the end", func() bool { return w.status(id).Terminal() })
		if text := w.text(id) + w.text(w.child(id)); !strings.Contains(text, c.want) || !strings.Contains(text, "MaxBudgetReached") {
			t.Errorf("%s: %v %v", name, w.trace(id), w.trace(w.child(id)))
		}
		if c.tree != nil {
			continue
		}
		before := len(w.events(w.child(id)))
		w.send(id, "once more")
		w.eventually("the second run", func() bool { return len(w.events(w.child(id))) > before && w.status(w.child(id)).Terminal() })
		if text := w.trace(w.child(id)); strings.Count(strings.Join(text, "\n"), "action sh") != 2 {
			t.Errorf("%s: a second run has no budget: %v", name, text)
		}
	}
}

// free is a step that costs nothing.
func free(s step) step {
	return func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		resp, err := s(ctx, req)
		if resp != nil {
			resp.Cost = ptr(0.0)
		}
		return resp, err
	}
}

// The parent's guards guard what its sub-agents do; hooks of an agent's definition run
// with the pins of the place that it is from, and only while that is trusted.
func TestHooksOfSubAgents(t *testing.T) {
	dir := place(t, map[string]string{
		".agents/agents/doer.md": "---\nname: doer\ndescription: does\nhooks:\n  pre_tool_use:\n    - matcher: sh\n      hooks: [{type: command, command: ./guard.sh}]\n---\nDo.",
		"guard.sh":               "#!/bin/sh\ntouch guarded\n"})
	w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		switch {
		case resulted(req):
			return say("done")(ctx, req)
		case firstAsked(req) == "work":
			return call("sh", `{"command":"touch ran"}`)(ctx, req)
		}
		return assign("doer|work")(ctx, req)
	})
	id := w.beginWith(engine.StartRequest{Owner: owner, WorkingDir: dir, InitialMessage: words("go")})
	w.wait(id, conversation.Finished)
	if exists(filepath.Join(dir, "guarded")) {
		t.Fatal("a hook ran that nobody trusts")
	}
	if text := w.text(w.child(id)); !strings.Contains(text, "untrusted_role") {
		t.Error("the role of a repository is not marked")
	}
	q := w.question(id)
	w.expect("trust", w.engine.Trust(t.Context(), owner, id, q.Subject, q.Hash, true))
	w.send(id, "again")
	w.eventually("the second task", func() bool { return len(w.children(id)) == 2 && w.status(id) == conversation.Finished })
	if !exists(filepath.Join(dir, "guarded")) {
		t.Errorf("the hook did not run: %v", w.trace(w.children(id)[1]))
	}
	write(t, filepath.Join(dir, "guard.sh"), "#!/bin/sh\nexit 0\n")
	w.send(id, "and again")
	w.eventually("the third task", func() bool { return len(w.children(id)) == 3 && w.status(id) == conversation.Finished })
	if got := strings.Join(w.trace(w.children(id)[2]), "\n"); !strings.Contains(got, "hook PreToolUse blocked") {
		t.Error(got)
	}
}

func TestTheParentsGuardsGuardSubAgents(t *testing.T) {
	w := newTeam(t, func(ctx context.Context, req *llm.Request) (*llm.Response, error) {
		switch {
		case resulted(req):
			return say("done")(ctx, req)
		case firstAsked(req) == "work":
			return call("sh", `{"command":"touch ran"}`)(ctx, req)
		}
		return assign("|work")(ctx, req)
	})
	id := w.beginWith(withHooks(`{"PreToolUse":[{"matcher":"sh","hooks":[{"type":"command","command":"exit 2"}]}],"UserPromptSubmit":[{"hooks":[{"type":"command","command":"if grep -q forbidden; then exit 2; fi"}]}]}`, "go"))
	w.wait(id, conversation.Finished)
	w.ends(w.child(id), "action sh call_0", "hook PreToolUse blocked", "rejected call_0", "agent: done", "status finished")
	// What the user says to a sub-agent is the user's words.
	w.send(w.child(id), "forbidden")
	w.ends(w.child(id), "hook UserPromptSubmit blocked", "user: forbidden", "status running", "status finished")
}
