// Package hookrun runs hooks (agent protocol 4.9): commands inside the sandbox,
// questions to a model, and tasks for an agent. It says whether what they guard may
// go on, and makes the event of each run; the engine appends those and acts.
//
// Where a hook guards (before a tool, before a message reaches the model), that it
// could not run blocks: a guard that somebody deleted must not be a guard that
// agrees. Elsewhere a failure is told and blocks nothing, because an agent that can
// never stop is worse.
package hookrun

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/hook"
	"parley/internal/tool"
)

// maxContext bounds, in characters, all that the hooks of one event add to what
// the model reads.
const maxContext = 2 * maxText

// Source is the hooks of one place.
type Source struct {
	Name   string // for people: "repository", "plugin review"
	Config hook.Config
	Dir    string // where commands run, absolute inside the sandbox; "" = Runner.WorkingDir
	// Pins are files that must be as they were when they were trusted, or none of
	// the source's commands runs.
	Pins []extension.Pin
	Env  map[string]string // of its commands, such as the plugin's root
}

// Runner runs the hooks of a conversation. Its fields are not changed while it
// runs; its methods may be called concurrently.
type Runner struct {
	Sources    []Source // in the order in which they run
	Hands      func(ctx context.Context) (tool.Hands, error)
	WorkingDir string // absolute, inside the sandbox
	SessionID  string // the conversation's
	// Secrets returns name to value of the secrets that a command names; nil = none.
	Secrets func(command string) map[string]string
	// Mask hides secrets in what is logged and what models read; nil = nothing to hide.
	Mask func(text string) string
	// Ask calls a model once; Agent runs an agent with the tools and for the
	// iterations of the question. Both return the text of the answer. nil = such
	// hooks cannot run.
	Ask   func(ctx context.Context, q Question) (string, error)
	Agent func(ctx context.Context, q Question) (string, error)
	// Background runs those that nobody waits for; nil = they cannot run.
	Background *Background
}

// Question is what a prompt or agent hook asks.
type Question struct {
	System        string
	Prompt        string   // with the event as data in it, secrets masked
	Tools         []string // of an agent
	MaxIterations int      // of an agent
}

// Input is what happened.
type Input struct {
	Event        hook.Event
	Tool         string          // name; "" for events without one
	ToolInput    json.RawMessage // JSON; nil = none
	ToolResponse json.RawMessage // JSON; nil = none
	Message      string          // a user's message, or the agent's last one
	Metadata     map[string]any
	ActionID     string // id of the event that the hooks are for
	MessageID    string // likewise
}

// Outcome is what the hooks of an event said.
type Outcome struct {
	// Blocked: it must not go on; for Stop, the agent must go on. Only PreToolUse,
	// UserPromptSubmit and Stop can be blocked.
	Blocked bool
	Reason  string   // of the block, for the model and the user
	Context []string // what the hooks want the model to read, secrets masked
	// Events has one for every hook that was started, in order.
	Events []*conversation.HookExecutionEvent
}

// Has reports whether an event calls any hook. tool is "" for events without one.
func (r *Runner) Has(event hook.Event, tool string) bool {
	for i := range r.Sources {
		if len(r.Sources[i].Config.For(event, tool)) > 0 {
			return true
		}
	}
	return false
}

// guards reports whether a failure of an event's hooks blocks.
func guards(event hook.Event) bool { return event == hook.PreToolUse || event == hook.UserPromptSubmit }

// blocks reports whether an event's hooks can block.
func blocks(event hook.Event) bool { return guards(event) || event == hook.Stop }

// Run runs the hooks that an event calls, one after the other, and stops at the
// first that blocks. The error is ctx's cause, if ctx ended before all had their
// say: then nothing is decided, and what they guard must not go on; the Outcome has
// the events so far, and Blocked is set for an event that hooks guard.
func (r *Runner) Run(ctx context.Context, in Input) (Outcome, error) {
	var out Outcome
	if !r.Has(in.Event, in.Tool) {
		return out, nil
	}
	c, room := r.call(in), maxContext
	for i := range r.Sources {
		src := &r.Sources[i]
		for _, d := range src.Config.For(in.Event, in.Tool) {
			if ctx.Err() != nil {
				return canceled(ctx, out, in.Event)
			}
			if d.Async {
				out.Events = append(out.Events, r.launch(src, d, c))
				continue
			}
			res := r.execute(ctx, src, d, c)
			out.Events = append(out.Events, r.event(d, c, res))
			if res.canceled {
				return canceled(ctx, out, in.Event)
			}
			if text := clip(res.context, room); text != "" {
				room -= utf8.RuneCountInString(text)
				out.Context = append(out.Context, text)
			}
			if res.blocked {
				out.Blocked, out.Reason = true, res.reason
				return out, nil
			}
		}
	}
	return out, nil
}

func canceled(ctx context.Context, out Outcome, event hook.Event) (Outcome, error) {
	if guards(event) {
		out.Blocked, out.Reason = true, "It was stopped before its hooks had run."
	}
	return out, context.Cause(ctx)
}

// result is what came of one hook. Its texts are masked and bounded.
type result struct {
	success  bool
	blocked  bool
	canceled bool
	exitCode int
	stdout   string
	stderr   string
	reason   string
	context  string
	failure  string // why it could not run, "" if it ran
}

// failed is the result of a hook that could not run.
func failed(format string, args ...any) result {
	return result{exitCode: -1, failure: fmt.Sprintf(format, args...)}
}

// execute runs one hook to its end and says what it means for the event.
func (r *Runner) execute(ctx context.Context, src *Source, d hook.Definition, c *call) result {
	var res result
	switch d.Type {
	case hook.TypeCommand:
		res = r.command(ctx, src, d, c)
	case hook.TypePrompt:
		res = r.question(ctx, r.Ask, d, c)
	case hook.TypeAgent:
		res = r.question(ctx, r.Agent, d, c)
	default:
		res = failed("There is no type of hook %q.", d.Type)
	}
	if ctx.Err() != nil && res.failure != "" {
		res.canceled, res.failure = true, "It was stopped before it had ended."
	}
	return r.judged(res, src, d, c.Event)
}

// judged applies what an event allows hooks to do.
func (r *Runner) judged(res result, src *Source, d hook.Definition, event hook.Event) result {
	res.reason, res.context, res.failure = clip(res.reason, maxText), clip(res.context, maxText), clip(r.mask(res.failure), maxText)
	hookName := clip(r.mask(d.Label()), maxLabel) + " of " + src.Name
	switch {
	case res.canceled:
		res.blocked, res.success = false, false
	case res.failure != "":
		res.success, res.blocked = false, guards(event)
		if res.blocked {
			res.reason = fmt.Sprintf("The hook %s could not run, and what it guards may not happen without it. %s", hookName, res.failure)
		}
	case !blocks(event):
		res.blocked = false
	case res.blocked && res.reason == "":
		res.reason = fmt.Sprintf("The hook %s blocked it and gave no reason.", hookName)
	}
	return res
}

func (r *Runner) event(d hook.Definition, c *call, res result) *conversation.HookExecutionEvent {
	return &conversation.HookExecutionEvent{
		Header:    conversation.Head(conversation.KindHookExecution, conversation.SourceHook, time.Time{}),
		EventType: string(c.Event), Command: r.mask(d.Label()), ToolName: c.Tool,
		Success: res.success, Blocked: res.blocked, ExitCode: res.exitCode, Stdout: res.stdout, Stderr: res.stderr,
		Reason: res.reason, Context: res.context, Error: res.failure,
		ActionID: c.ActionID, MessageID: c.MessageID, Input: c.shown,
	}
}

// launch starts a hook that nobody waits for. What comes of it is not told.
func (r *Runner) launch(src *Source, d hook.Definition, c *call) *conversation.HookExecutionEvent {
	res := result{success: true}
	if r.Background == nil || !r.Background.start(func(ctx context.Context) { r.execute(ctx, src, d, c) }) {
		res = failed("Too many hooks run in the background, or the conversation ends.")
	}
	return r.event(d, c, res)
}

func (r *Runner) mask(text string) string {
	if r.Mask == nil {
		return text
	}
	return r.Mask(text)
}
