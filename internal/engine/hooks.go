package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"parley/internal/agent/hookrun"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/hook"
	"parley/internal/skill"
	"parley/internal/tool"
)

// hasHooks reports whether an event calls any of the conversation's hooks. tool is ""
// for events without one.
func (l *live) hasHooks(event hook.Event, tool string) bool {
	return l.extras != nil && slices.ContainsFunc(l.extras.hooks,
		func(s hookrun.Source) bool { return len(s.Config.For(event, tool)) > 0 })
}

// hooksFor is what runs the hooks of an event, nil if it calls none.
func (l *live) hooksFor(event hook.Event) *hookrun.Runner {
	if !l.hasHooks(event, "") {
		return nil
	}
	return l.hooks()
}

// hooksAround is what runs the hooks before and after calls of a tool, nil if there
// are none.
func (l *live) hooksAround(tool string) *hookrun.Runner {
	if !l.hasHooks(hook.PreToolUse, tool) && !l.hasHooks(hook.PostToolUse, tool) {
		return nil
	}
	return l.hooks()
}

// hooks is what runs the conversation's hooks. It is used beside the conversation's
// goroutine.
func (l *live) hooks() *hookrun.Runner {
	if l.background == nil {
		l.background = hookrun.NewBackground()
	}
	owner, box := l.conv.Owner, l.conv.SandboxID
	asker := &hookModel{e: l.e, owner: owner, id: l.id, choice: quickly(l.choice), tools: l.tools(), env: l.env()}
	asker.env.Secrets = l.lateSecrets()
	// A shell of its own: what the agent types must not go into a hook's command.
	asker.env.ConversationID += "-hook"
	return &hookrun.Runner{Sources: l.extras.hooks, WorkingDir: l.conv.Options.WorkingDir, SessionID: string(l.id),
		Hands:   func(ctx context.Context) (tool.Hands, error) { return l.e.opt.Fleet.Ensure(ctx, owner, box, true) },
		Secrets: l.lateSecrets(), Mask: l.masker.Mask, Ask: asker.ask, Agent: asker.work, Background: l.background}
}

// leaveHooks lets the hooks that nobody waits for come to their end.
func (l *live) leaveHooks() {
	if b := l.background; b != nil && !l.e.job(func() { b.Close(l.e.ctx) }) {
		b.Close(l.e.ctx) // which has ended
	}
}

// hookEvents are the events of an outcome.
func hookEvents(o hookrun.Outcome) []conversation.Payload {
	events := make([]conversation.Payload, len(o.Events))
	for i, e := range o.Events {
		events[i] = e
	}
	return events
}

// contextParts are what hooks have to say to the model, marked as theirs.
func contextParts(o hookrun.Outcome) []content.Part {
	var parts []content.Part
	for _, c := range o.Context {
		parts = append(parts, content.Text("[A hook adds]\n"+c))
	}
	return parts
}

// outcome is what came of a call, with what hooks did before and after.
type outcome struct {
	res     tool.Result
	err     error
	hooks   []conversation.Payload
	context []content.Part // of the hooks, for the model
	refused *string        // why a hook did not let the call run; nil = it ran
	branch  string         // that it left the repository on; "" = not looked at
}

func (o *outcome) add(h hookrun.Outcome) {
	o.hooks = append(o.hooks, hookEvents(h)...)
	o.context = append(o.context, contextParts(h)...)
}

// carryOut runs a call between its hooks. It is used beside the conversation's
// goroutine.
func (l *live) carryOut(ctx context.Context, conv *conversation.Conversation, tools *toolbox, a *conversation.ActionEvent, env *tool.Env, hooks *hookrun.Runner) outcome {
	var o outcome
	in := hookrun.Input{Event: hook.PreToolUse, Tool: a.ToolName, ToolInput: a.Action, ActionID: a.ID}
	if hooks != nil && hooks.Has(in.Event, a.ToolName) {
		if o.err = l.awake(ctx, conv); o.err != nil {
			return o
		}
		guard, err := hooks.Run(ctx, in)
		o.add(guard)
		if o.err = err; err != nil {
			return o
		}
		if guard.Blocked {
			o.refused = &guard.Reason
			return o
		}
	}
	if o.err = context.Cause(ctx); o.err != nil { // the last guard agreed while the user stopped it
		return o
	}
	began := time.Now()
	o.res, o.err = guarded(l.e, a.ToolName, func() (tool.Result, error) { return l.callTool(ctx, conv, tools, a, env) })
	if o.err == nil {
		o.branch = l.e.branchAfter(ctx, conv, a, env.Hands)
	}
	if t, ok := tools.set.Lookup(a.ToolName); ok && !t.Spec().NoConfirm { // finish and think run nothing
		o.context = append(o.context, l.e.incidentsSince(ctx, conv, began)...)
	}
	if in.Event = hook.PostToolUse; o.err == nil && hooks != nil && hooks.Has(in.Event, a.ToolName) {
		in.ToolResponse = o.res.Observation
		after, _ := hooks.Run(ctx, in) // the call is done, whatever stops its hooks
		o.add(after)
	}
	return o
}

// awake refuses a call whose sandbox the user paused: its guard must not resume it.
func (l *live) awake(ctx context.Context, conv *conversation.Conversation) error {
	_, err := l.e.opt.Fleet.Ensure(ctx, conv.Owner, conv.SandboxID, false)
	if fault.CodeOf(err) == fleet.CodePaused {
		return err
	}
	return nil // what else is wrong, the guard says
}

// pathKnowledge is what skills say about the path that a call worked on, each once in
// a conversation, and the names of these skills.
func (l *live) pathKnowledge(a *conversation.ActionEvent) (parts []content.Part, names []string) {
	if l.extras == nil || !slices.ContainsFunc(l.extras.skills, func(s skill.Skill) bool { return len(s.Paths) > 0 }) {
		return nil, nil
	}
	rel, ok := pathIn(a.Action, l.conv.Options.WorkingDir)
	if !ok {
		return nil, nil
	}
	for _, found := range skill.MatchPath(l.extras.skills, rel, l.knowsSkill) {
		parts = append(parts, content.Text(skill.Knowledge(found)))
		names = append(names, found.Skill.Name)
	}
	return parts, names
}

// knowsSkill reports whether a skill's content is in the conversation already.
func (l *live) knowsSkill(name string) bool {
	return slices.Contains(l.state.Extensions.Skills, name) || slices.Contains(l.state.Notes.PathSkills, name) ||
		l.batch != nil && slices.ContainsFunc(l.batch.calls, func(c *batchCall) bool { return slices.Contains(c.skills, name) })
}

// pathIn returns the path of an action, relative to the working directory. False if
// it has none inside.
func pathIn(action json.RawMessage, dir string) (string, bool) {
	var a struct {
		Path     string `json:"path"`
		FilePath string `json:"file_path"`
	}
	if json.Unmarshal(action, &a) != nil {
		return "", false
	}
	if a.Path == "" {
		a.Path = a.FilePath
	}
	rel, inside := strings.CutPrefix(a.Path, strings.TrimSuffix(dir, "/")+"/")
	if !strings.HasPrefix(a.Path, "/") {
		rel, inside = a.Path, a.Path != ""
	}
	return rel, inside && rel != ""
}

// beginSession runs the hooks of the beginning, once in a conversation. What they say
// is told to the model.
func (e *Engine) beginSession(ctx context.Context, owner string, id conversation.ID) error {
	var hooks *hookrun.Runner
	err := e.do(ctx, owner, id, func(l *live) error {
		if !l.beginning && !l.state.Extensions.Begun && l.conv.Options.Task == nil && l.prepared() {
			hooks = l.hooksFor(hook.SessionStart)
			l.beginning = hooks != nil
		}
		return nil
	})
	if err != nil || hooks == nil {
		return err
	}
	o, err := e.runHooks(ctx, hooks, hookrun.Input{Event: hook.SessionStart})
	if errors.Is(err, ErrInterrupted) { // they guard nothing: the conversation begins without the rest
		err = nil
	}
	ran := err == nil
	return errors.Join(err, e.do(context.WithoutCancel(ctx), owner, id, func(l *live) error {
		l.beginning = false
		if !ran || l.state.Extensions.Begun {
			return nil
		}
		if err := l.storable(); err != nil {
			return err
		}
		return l.append(slices.Concat(l.opening(), hookEvents(o), hint(contextParts(o)))...)
	}))
}

// hint is a message of the environment, none without parts.
func hint(parts []content.Part) []conversation.Payload {
	if len(parts) == 0 {
		return nil
	}
	return []conversation.Payload{&conversation.MessageEvent{
		Header:     conversation.Head(conversation.KindMessage, conversation.SourceEnvironment, time.Time{}),
		LLMMessage: conversation.LLMMessage{Role: content.RoleUser, Content: parts}}}
}

// sessionEndTime bounds the hooks of the end: who deletes does not wait longer.
const sessionEndTime = 10 * time.Second

// endSession runs the hooks of the end. Their failure changes nothing.
func (e *Engine) endSession(ctx context.Context, owner string, id conversation.ID) {
	var hooks *hookrun.Runner
	err := e.do(ctx, owner, id, func(l *live) error {
		if l.state.Extensions.Begun || l.state.HasPrompt {
			hooks = l.hooksFor(hook.SessionEnd)
		}
		return nil
	})
	if err != nil || hooks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sessionEndTime)
	defer cancel()
	if _, err := hooks.Run(ctx, hookrun.Input{Event: hook.SessionEnd}); err != nil {
		e.opt.Logger.Info("hooks of the end stopped", "conversation", id, "error", err)
	}
}
