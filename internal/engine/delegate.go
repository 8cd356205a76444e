package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/skill"
	"parley/internal/stream"
	"parley/internal/subagent"
	"parley/internal/tool"
)

const (
	// maxDepth is how deeply agents may be nested: a conversation of the user's is 0.
	maxDepth = 3
	// maxTasks bounds the tasks of one conversation.
	maxTasks = 1000
	// maxTaskNotes bounds the tasks that a conversation shows, the newest.
	maxTaskNotes = 50
)

// agency gives tasks of a conversation to sub-agents. It is used beside the
// conversation's goroutine.
type agency struct {
	e      *Engine
	parent conversation.Conversation
	extras *extras
	tools  []string // that the parent has
}

var _ tool.Agents = (*agency)(nil)

// assignment is a task in work.
type assignment struct {
	owner string
	id    conversation.ID // of the sub-agent's conversation
	task  conversation.Task
}

// Delegate implements tool.Agents.
func (a *agency) Delegate(ctx context.Context, d tool.Delegation) (tool.Delegated, error) {
	w, err := a.assign(ctx, d)
	if err != nil {
		return tool.Delegated{}, err
	}
	defer a.e.untend(w.id)
	result := tool.Delegated{TaskID: w.task.ID, Agent: w.task.Agent}
	a.note(w, conversation.Running)
	status, err := a.e.awaitRun(ctx, w.owner, w.id, func(s conversation.Status) { a.note(w, s) })
	switch {
	case err == nil:
	case isLeaving(context.Cause(ctx)): // it is parked like its parent
		return result, err
	case ctx.Err() != nil:
		a.stop(w)
		return result, err
	default:
		a.note(w, conversation.Error)
		return result, err
	}
	a.note(w, status)
	result.Answer, result.Failed, err = a.e.answerOf(ctx, w, status)
	return result, err
}

// assign starts a task or goes on with one. Its conversation is tended from then on.
func (a *agency) assign(ctx context.Context, d tool.Delegation) (*assignment, error) {
	if d.Resume != "" {
		return a.resume(ctx, d)
	}
	depth := 1
	if t := a.parent.Options.Task; t != nil {
		depth = t.Depth + 1
	}
	if depth > maxDepth {
		return nil, fault.New(fault.Unsupported, "agents_too_deep", "Agents can be nested %d deep, and this one is the last: do the task yourself.", maxDepth)
	}
	def, ok := subagent.Find(a.extras.agents, d.Agent)
	if !ok {
		return nil, fault.New(fault.NotFound, "unknown_agent", "There is no agent of the kind %.100q.", d.Agent).
			WithHint("The kinds are %s.", strings.Join(agentNames(a.extras.agents), ", "))
	}
	req, err := a.request(ctx, def, d, depth)
	if err != nil {
		return nil, err
	}
	w := &assignment{owner: req.Owner, id: req.ConversationID, task: *req.Task}
	a.e.tend(w.id)
	if _, err := a.e.Start(ctx, req); err != nil {
		a.e.untend(w.id)
		return nil, err
	}
	return w, nil
}

// tend notes that somebody waits for a sub-agent. False if another one does already.
func (e *Engine) tend(id conversation.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tended[id] {
		return false
	}
	e.tended[id] = true
	return true
}

// untend notes that nobody waits any more: what was not begun does not begin.
func (e *Engine) untend(id conversation.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.tended, id)
}

func (e *Engine) tends(id conversation.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tended[id]
}

func agentNames(all []subagent.Definition) []string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = d.Name
	}
	return names
}

// request is the start of a sub-conversation: in the parent's sandbox and directory,
// with its secrets, under its policy and its budget.
func (a *agency) request(ctx context.Context, def subagent.Definition, d tool.Delegation, depth int) (StartRequest, error) {
	p := &a.parent
	number, err := a.number(ctx)
	if err != nil {
		return StartRequest{}, err
	}
	task := conversation.Task{ID: fmt.Sprintf("task_%08d", number), Agent: def.Name, Description: d.Description, Depth: depth,
		Prompt: joinTexts(def.SystemPrompt, a.skillTexts(def.Skills)), MaxBudget: def.MaxBudget,
		Untrusted: def.Level == subagent.LevelProject || def.Level == subagent.LevelPlugin}
	req := StartRequest{ConversationID: conversation.NewID(), Owner: p.Owner, Origin: p.Origin, ParentID: p.ID, SandboxID: p.SandboxID, Title: titleOf(d),
		InitialMessage: []content.Part{content.Text(d.Prompt)}, Trigger: "subagent", Task: &task, NoTitle: true,
		MCP: noServers(), MaxIterations: p.Options.MaxIterations, Stuck: p.Options.Stuck,
		Condenser: p.Options.Condenser, ToolConcurrency: p.Options.ToolConcurrency, DisabledSkills: p.Options.DisabledSkills,
		Tools: p.Options.Tools, ToolFilter: p.Options.ToolFilter, AgentType: p.AgentType}
	req.Confirmation, req.Analyzer = stricter(&p.Options, def.PermissionMode)
	if def.MaxIterations > 0 {
		req.MaxIterations = min(def.MaxIterations, p.Options.MaxIterations)
	}
	if def.Tools != nil {
		req.Tools = a.e.knownTools(def.Tools, a.tools)
	}
	if def.Model != subagent.ModelInherit { // files name models of other programs, too: those are the parent's
		settings, err := a.e.settings(ctx, p.Owner)
		if err != nil {
			return StartRequest{}, err
		}
		if _, known := settings.Profiles[def.Model]; known {
			req.LLMProfile = def.Model
		}
	}
	req.Brought = a.broughtBy(&def)
	return req, nil
}

// titleOf names a sub-conversation.
func titleOf(d tool.Delegation) string {
	if d.Description != "" {
		return shorten(d.Description)
	}
	return shorten(d.Prompt)
}

// noServers are no servers of the conversation's own: a sub-agent has those of its
// parent.
func noServers() *account.MCPConfig { return &account.MCPConfig{} }

// agentBundle names what the definition of an agent brings along.
func agentBundle(agent string) string { return "agent " + agent }

// broughtBy is what a definition brings along, nil if that is nothing. It may run as
// long as the user trusts the place that it is from.
func (a *agency) broughtBy(def *subagent.Definition) *extension.Bundle {
	b, ok := a.extras.origin(def)
	b.Name, b.Servers = agentBundle(def.Name), def.MCP
	if def.Hooks != nil {
		b.Hooks = hook.Config{PreToolUse: def.Hooks.PreToolUse, PostToolUse: def.Hooks.PostToolUse}
	}
	if !ok || b.Servers == nil && b.Hooks.Empty() {
		return nil
	}
	return &b
}

func (a *agency) skillTexts(names []string) string {
	var texts []string
	for _, s := range a.extras.skills {
		if slices.Contains(names, s.Name) {
			texts = append(texts, skill.Knowledge(skill.Activation{Skill: s}))
		}
	}
	return strings.Join(texts, "\n\n")
}

func joinTexts(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}

// stricter is the parent's policy, made stricter by a definition's permission mode
// and never less strict: a definition may be a repository's.
func stricter(o *conversation.Options, mode string) (*conversation.ConfirmationPolicy, *conversation.Analyzer) {
	policy, analyzer := o.Policy(), o.Judge()
	if analyzer == nil {
		analyzer = &conversation.Analyzer{Kind: conversation.AnalyzerNone}
	}
	switch {
	case mode == subagent.PermitAlwaysConfirm:
		policy = conversation.ConfirmationPolicy{Kind: conversation.AlwaysConfirm}
	case mode == subagent.PermitConfirmRisky && policy.Kind == conversation.NeverConfirm:
		policy = conversation.ConfirmationPolicy{Kind: conversation.ConfirmRisky}
		if analyzer.Kind == conversation.AnalyzerNone {
			analyzer = &conversation.Analyzer{Kind: conversation.AnalyzerPattern}
		}
	}
	return &policy, analyzer
}

// number is that of the next task.
func (a *agency) number(ctx context.Context) (int, error) {
	next := 0
	err := a.e.do(ctx, a.parent.Owner, a.parent.ID, func(l *live) error {
		if l.tasks == 0 {
			last, err := l.e.lastTask(ctx, l.conv)
			if err != nil {
				return err
			}
			l.tasks = last
		}
		if l.tasks >= maxTasks {
			return fault.New(fault.Unsupported, "too_many_tasks", "The conversation has given away %d tasks, which is the limit.", maxTasks)
		}
		l.tasks++
		next = l.tasks
		return nil
	})
	return next, err
}

// lastTask is the highest number of a conversation's tasks.
func (e *Engine) lastTask(ctx context.Context, parent *conversation.Conversation) (int, error) {
	last := 0
	err := e.eachTask(ctx, parent.Owner, parent.ID, func(c *conversation.Conversation) {
		var n int
		if _, err := fmt.Sscanf(c.Options.Task.ID, "task_%d", &n); err == nil {
			last = max(last, n)
		}
	})
	return last, err
}

// eachTask visits the conversations of a conversation's tasks.
func (e *Engine) eachTask(ctx context.Context, owner string, parent conversation.ID, visit func(*conversation.Conversation)) error {
	children, err := e.opt.Store.Conversations().Children(ctx, owner, []conversation.ID{parent})
	if err != nil {
		return err
	}
	for ids := range slices.Chunk(children[parent], 100) {
		convs, err := e.opt.Store.Conversations().Batch(ctx, owner, ids)
		if err != nil {
			return err
		}
		for _, c := range convs {
			if c != nil && c.Options.Task != nil {
				visit(c)
			}
		}
	}
	return nil
}

// resume says more in the conversation of an earlier task.
func (a *agency) resume(ctx context.Context, d tool.Delegation) (*assignment, error) {
	found, err := a.earlier(ctx, d.Resume)
	if err != nil {
		return nil, err
	}
	w := &assignment{owner: found.Owner, id: found.ID, task: *found.Options.Task}
	busy := fault.New(fault.Conflict, CodeRunning, "The task %s is still being worked on.", d.Resume)
	if !a.e.tend(w.id) {
		return nil, busy
	}
	err = a.tighten(ctx, found)
	if err == nil {
		err = a.e.do(ctx, w.owner, w.id, func(l *live) error {
			if l.state.Status == conversation.Running || l.state.Status == conversation.WaitingConfirmation || !l.prepared() {
				return busy
			}
			return l.send(ctx, Message{Parts: []content.Part{content.Text(d.Prompt)}, Run: true}, nil)
		})
	}
	if err != nil {
		a.e.untend(w.id)
		return nil, err
	}
	return w, nil
}

// earlier finds the conversation of a task.
func (a *agency) earlier(ctx context.Context, task string) (*conversation.Conversation, error) {
	var found *conversation.Conversation
	var ids []string
	err := a.e.eachTask(ctx, a.parent.Owner, a.parent.ID, func(c *conversation.Conversation) {
		ids = append(ids, c.Options.Task.ID)
		if c.Options.Task.ID == task {
			found = c
		}
	})
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, fault.New(fault.NotFound, "unknown_task", "There is no task %.100q to go on with.", task).
			WithHint("The tasks are %s.", strings.Join(ids[max(0, len(ids)-20):], ", "))
	}
	return found, nil
}

// tighten gives an earlier task its parent's policy, if that is stricter by now.
func (a *agency) tighten(ctx context.Context, c *conversation.Conversation) error {
	policy, analyzer := stricter(&a.parent.Options, "")
	if strictness(*policy) <= strictness(c.Options.Policy()) {
		return nil
	}
	return a.e.setOption(ctx, c.Owner, c.ID, stateUpdate(conversation.KeyPolicy, policy), func(o *conversation.Options) {
		o.Confirmation, o.Analyzer = policy, analyzer
	})
}

// strictness orders policies: the more they ask, the higher.
func strictness(p conversation.ConfirmationPolicy) int {
	switch {
	case p.Kind == conversation.AlwaysConfirm:
		return 4
	case p.Kind != conversation.ConfirmRisky:
		return 0
	case p.Threshold == conversation.RiskLow:
		return 3
	case p.Threshold == conversation.RiskMedium:
		return 2
	}
	return 1
}

// awaitRun waits until a conversation's run is over, or paused, and returns how it
// ended. changed hears of the states in between. A conversation that waits for its
// user's confirmation is waited for.
func (e *Engine) awaitRun(ctx context.Context, owner string, id conversation.ID, changed func(conversation.Status)) (conversation.Status, error) {
	c, err := e.opt.Store.Conversations().Get(ctx, owner, id)
	if err != nil {
		return "", err
	}
	f := e.opt.Hub.Follow(e.opt.Store.Events(), id, c.Summary.Head-1)
	defer f.Close()
	last := conversation.Running
	for {
		over := c.Summary.Status.Terminal() || c.Summary.Status == conversation.Paused
		if over && c.Summary.UserMessage != "" || e.startedInVain(ctx, c) {
			return c.Summary.Status, nil
		}
		if s := c.Summary.Status; s != last && s != conversation.Idle {
			last = s
			changed(last)
		}
		if err := awaitEvents(ctx, f); err != nil {
			return "", err
		}
		if c, err = e.opt.Store.Conversations().Get(ctx, owner, id); err != nil {
			return "", err
		}
	}
}

// startedInVain reports whether a conversation will never run.
func (e *Engine) startedInVain(ctx context.Context, c *conversation.Conversation) bool {
	if c.Options.WorkingDir != "" || e.starting(c.ID) {
		return false
	}
	t, err := e.opt.Store.StartTasks().Latest(ctx, c.ID)
	return err == nil && t.Status == conversation.TaskError
}

// awaitEvents returns when the log has something new that may be a change of state.
func awaitEvents(ctx context.Context, f *stream.Follower) error {
	for {
		item, err := f.Next(ctx)
		switch {
		case err != nil:
			return err
		case item.Deleted:
			return fault.New(fault.Conflict, "task_deleted", "The conversation of the task was deleted.")
		case item.Snapshot:
			return nil
		}
		if slices.ContainsFunc(item.Events, func(ev conversation.Event) bool { return ev.Kind == conversation.KindStateUpdate }) {
			return nil
		}
	}
}

// answerOf is what a task came to.
func (e *Engine) answerOf(ctx context.Context, w *assignment, status conversation.Status) (answer string, failed bool, err error) {
	err = e.do(ctx, w.owner, w.id, func(l *live) error {
		history := sinceAsked(l.history())
		answer, failed = lastWords(history), status != conversation.Finished
		switch {
		case status == conversation.Paused:
			answer = joinTexts("The sub-agent was paused before it had finished.", answer)
		case failed:
			answer = joinTexts("The sub-agent did not finish ("+string(status)+"): "+lastError(history), answer)
		}
		return nil
	})
	return answer, failed, err
}

// sinceAsked is what came after the last message of a user or a parent: what was said
// before is no answer to it.
func sinceAsked(history []conversation.Payload) []conversation.Payload {
	for i, p := range slices.Backward(history) {
		if m, ok := p.(*conversation.MessageEvent); ok && m.Source == conversation.SourceUser {
			return history[i:]
		}
	}
	return history
}

// lastError is why a run ended badly, as far as its log says.
func lastError(history []conversation.Payload) string {
	for _, p := range slices.Backward(history) {
		if e, ok := p.(*conversation.ConversationErrorEvent); ok {
			return e.Detail
		}
	}
	return "its log does not say why."
}

// stopTime bounds how long the end of a parent's call waits for its sub-agent.
const stopTime = 10 * time.Second

// stop interrupts the conversation of a task whose parent was stopped, and with it
// those below. One whose start is not through does not begin.
func (a *agency) stop(w *assignment) {
	a.e.untend(w.id)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.e.ctx), stopTime)
	defer cancel()
	err := a.e.Interrupt(ctx, w.owner, w.id)
	if err != nil && !fault.Is(err, fault.NotFound) && !errors.Is(err, context.Canceled) {
		a.e.opt.Logger.Warn("sub-agent not stopped", "conversation", w.id, "error", err)
	}
	a.note(w, conversation.Paused)
}

// pauseTasks pauses what sub-agents of a conversation do.
func (e *Engine) pauseTasks(owner string, id conversation.ID) {
	err := e.eachTask(e.ctx, owner, id, func(c *conversation.Conversation) {
		if !e.tends(c.ID) {
			return
		}
		err := e.do(e.ctx, owner, c.ID, func(l *live) error {
			if l.state.Status == conversation.Idle { // its start is not through: it does not begin
				e.untend(c.ID)
			}
			return nil
		})
		if err == nil {
			err = e.pauseRun(owner, c.ID)
		}
		if err != nil && e.ctx.Err() == nil && !fault.Is(err, fault.NotFound) {
			e.opt.Logger.Warn("sub-agent not paused", "conversation", c.ID, "error", err)
		}
	})
	if err != nil && e.ctx.Err() == nil {
		e.opt.Logger.Warn("sub-agents not paused", "conversation", id, "error", err)
	}
}

// pauseRun pauses a conversation if it runs.
func (e *Engine) pauseRun(owner string, id conversation.ID) error {
	if c, err := e.opt.Store.Conversations().Get(e.ctx, owner, id); err != nil || c.Summary.Status != conversation.Running {
		return err
	}
	return e.Pause(e.ctx, owner, id)
}

// note shows in the parent how a task is.
func (a *agency) note(w *assignment, status conversation.Status) {
	entry := conversation.TaskNote{ID: w.task.ID, ConversationID: w.id, Agent: w.task.Agent, Description: w.task.Description, Status: status}
	a.e.tell(a.parent.ID, func(l *live) {
		l.taskNotes = withTask(l.taskNotes, entry)
		l.lookAround() // or later, if events wait to be stored
	})
}

// tasksIn are the tasks of notes, as they are now.
func (l *live) tasksIn(tasks []conversation.TaskNote) []conversation.TaskNote {
	for _, t := range l.taskNotes {
		t.Agent, t.Description = l.masker.Mask(t.Agent), l.masker.Mask(t.Description) // as the log has it
		tasks = withTask(tasks, t)
	}
	return tasks
}

// withTask puts a task in the place of its earlier note. It leaves tasks as it is.
func withTask(tasks []conversation.TaskNote, t conversation.TaskNote) []conversation.TaskNote {
	at := slices.IndexFunc(tasks, func(old conversation.TaskNote) bool { return old.ID == t.ID })
	if at < 0 {
		tasks = append(slices.Clip(tasks), t)
		return tasks[max(0, len(tasks)-maxTaskNotes):]
	}
	tasks = slices.Clone(tasks)
	tasks[at] = t
	return tasks
}

// endedTasks are the tasks after a restart: nobody waits for them any more.
func endedTasks(tasks []conversation.TaskNote) []conversation.TaskNote {
	tasks = slices.Clone(tasks)
	for i := range tasks {
		if s := tasks[i].Status; s == conversation.Running || s == conversation.WaitingConfirmation {
			tasks[i].Status = conversation.Paused
		}
	}
	return tasks
}
