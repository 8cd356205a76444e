package engine

import (
	"context"
	"encoding/json"
	"slices"

	"parley/internal/account"
	"parley/internal/agent"
	"parley/internal/agent/hookrun"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/store"
	"parley/internal/tool"
)

// hookOutput bounds what a model says for a hook, in tokens per call.
const hookOutput = 4096

// hookModel answers the hooks that ask a model. What it costs is the conversation's.
type hookModel struct {
	e      *Engine
	owner  string
	id     conversation.ID
	choice account.LLM
	tools  *toolbox
	env    *tool.Env // without hands
}

// ask makes one call.
func (h *hookModel) ask(ctx context.Context, q hookrun.Question) (string, error) {
	resp, err := h.call(ctx, opening(q), nil)
	if err != nil {
		return "", err
	}
	return resp.Message.Text(), nil
}

func opening(q hookrun.Question) []content.Message {
	return []content.Message{{Role: content.RoleSystem, Parts: []content.Part{content.Text(q.System)}},
		{Role: content.RoleUser, Parts: []content.Part{content.Text(q.Prompt)}}}
}

func (h *hookModel) call(ctx context.Context, messages []content.Message, tools []llm.Tool) (*llm.Response, error) {
	req := &llm.Request{Messages: slices.Clone(messages), Tools: tools, MaxOutput: hookOutput}
	return guarded(h.e, "hook", func() (*llm.Response, error) { // some hooks have nobody around them
		return h.e.aside(ctx, h.owner, h.id, store.UseHook, h.choice, req, ModelOptions{})
	})
}

// work lets a model use tools until it answers, at most as often as the hook says.
// Without names of tools it has those that only read.
func (h *hookModel) work(ctx context.Context, q hookrun.Question) (string, error) {
	set, err := h.toolsOf(q.Tools)
	if err != nil {
		return "", err
	}
	specs, err := agent.ToolSpecs(set)
	if err != nil {
		return "", err
	}
	messages := opening(q)
	for range q.MaxIterations {
		resp, err := h.call(ctx, messages, specs)
		if err != nil {
			return "", err
		}
		if len(resp.Message.ToolCalls) == 0 {
			return resp.Message.Text(), nil
		}
		messages = append(messages, resp.Message)
		for _, c := range resp.Message.ToolCalls {
			messages = append(messages, content.Message{Role: content.RoleTool, ToolCallID: c.ID, ToolName: c.Name,
				Parts: h.use(ctx, set, c)})
		}
	}
	return "", fault.New(fault.Unavailable, "hook_undecided", "The model came to no decision in %d steps.", q.MaxIterations)
}

// toolsOf are the tools of an agent hook. It is no agent of its own: it ends no run
// and gives no tasks away.
func (h *hookModel) toolsOf(names []string) (*tool.Set, error) {
	var chosen []tool.Tool
	for _, t := range h.tools.set.Tools() {
		spec := t.Spec()
		if spec.NoConfirm || spec.NoHands {
			continue
		}
		if slices.Contains(names, spec.Name) || len(names) == 0 && spec.ReadOnly {
			chosen = append(chosen, t)
		}
	}
	return tool.NewSet(chosen...)
}

// use carries out a call of the hook's model. What goes wrong is for the model to read.
func (h *hookModel) use(ctx context.Context, set *tool.Set, c content.ToolCall) []content.Part {
	res, err := guarded(h.e, "hook", func() (tool.Result, error) {
		t, args, ok := set.Resolve(c.Name, json.RawMessage(c.Arguments))
		if !ok {
			return tool.Result{}, fault.New(fault.NotFound, "tool_missing", "There is no tool named %.100s.", c.Name)
		}
		action, err := t.Parse(args)
		if err != nil {
			return tool.Result{}, err
		}
		conv, err := h.e.opt.Store.Conversations().Get(ctx, h.owner, h.id)
		if err != nil {
			return tool.Result{}, err
		}
		env := *h.env
		if env.Hands, err = h.e.opt.Fleet.Ensure(ctx, h.owner, conv.SandboxID, true); err != nil {
			return tool.Result{}, err
		}
		return t.Run(ctx, &env, action)
	})
	if err != nil {
		return []content.Part{content.Text(fault.PublicText(err))}
	}
	for i := range res.Parts {
		res.Parts[i].Text = h.env.Mask(res.Parts[i].Text)
	}
	return res.Parts
}
