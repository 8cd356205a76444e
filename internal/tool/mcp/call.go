package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
	"parley/internal/tool/client"
)

// mcpTool is a tool whose arguments are in a member of its action: one of a server, or
// one of those that list what servers have beside tools.
type mcpTool struct {
	spec   tool.Spec
	schema *client.Schema
	run    func(ctx context.Context, env *tool.Env, args map[string]any) (reply, error)
	claims func(args map[string]any) []tool.Claim
}

var _ tool.Tool = (*mcpTool)(nil)

// reply is what a call brought.
type reply struct {
	parts   []content.Part
	isError bool
}

func wrong(format string, args ...any) reply {
	return reply{parts: []content.Part{content.Text(fmt.Sprintf(format, args...))}, isError: true}
}

// newTool makes a tool of what a server offers. The hints of a server are in its own
// definition; for the rest of Parley they count only where they make it more careful,
// and the defaults are the most careful ones already.
func newTool(v *server, o *offer, name string) *mcpTool {
	more := append(append([]byte(`{"mcp_tool":`), o.definition...), '}')
	return &mcpTool{
		schema: o.schema,
		spec: tool.Spec{Name: name, Title: orElse(o.title, name), Description: o.description, Kind: DefinitionKind,
			ActionKind: ActionKind, ObservationKind: ObservationKind, Parameters: o.parameters,
			Destructive: true, OpenWorld: true, NoHands: true, More: more},
		run: func(ctx context.Context, env *tool.Env, args map[string]any) (reply, error) {
			return v.callTool(ctx, env, o.name, args)
		},
		claims: func(map[string]any) []tool.Claim { return []tool.Claim{claimOf(v.config.Name)} },
	}
}

// claimOf makes the calls of one server run one after the other.
func claimOf(server string) tool.Claim { return tool.Claim{Name: "mcp/" + server, Write: true} }

// Spec describes the tool. Callers must not change it.
func (t *mcpTool) Spec() *tool.Spec { return &t.spec }

// wrapped is an action.
type wrapped struct {
	Data map[string]any `json:"data"`
	Kind string         `json:"kind"`
}

// Parse checks arguments and returns the action. Parsing an action again gives the same.
func (t *mcpTool) Parse(args json.RawMessage) (json.RawMessage, error) {
	members, err := tool.DecodeArguments(args)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, tool.CodeArguments, "The arguments of %s cannot be read: %v.", t.spec.Name, err)
	}
	if inner, ok := members["data"].(map[string]any); ok && members["kind"] == ActionKind && len(members) == 2 {
		members = inner
	}
	members, problems := t.schema.Fit(members)
	if len(problems) > 0 {
		return nil, fault.New(fault.Invalid, tool.CodeArguments, "The arguments of %s do not fit: %s.", t.spec.Name, strings.Join(problems, "; "))
	}
	raw, err := content.Marshal(wrapped{members, ActionKind})
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, tool.CodeArguments, "The arguments of %s cannot be read.", t.spec.Name)
	}
	return raw, nil
}

// arguments are those of an action; never nil, because servers refuse null.
func arguments(action json.RawMessage) (map[string]any, error) {
	var w struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(action, &w); err != nil {
		return nil, err
	}
	return tool.DecodeArguments(w.Data)
}

// Run runs an action that Parse returned.
func (t *mcpTool) Run(ctx context.Context, env *tool.Env, action json.RawMessage) (tool.Result, error) {
	args, err := arguments(action)
	if err != nil {
		return tool.Result{}, fault.Wrap(err, fault.Invalid, tool.CodeArguments, "The action of %s cannot be read.", t.spec.Name)
	}
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	r, err := t.run(ctx, env, args)
	if err != nil {
		return tool.Result{}, err
	}
	head := "[The tool '" + t.spec.Name + "' ran.]"
	if r.isError {
		head = "[The tool '" + t.spec.Name + "' failed.]"
	}
	return tool.Observation{Kind: ObservationKind, IsError: r.isError, Content: append([]content.Part{content.Text(head)}, r.parts...),
		Members: struct {
			ToolName string `json:"tool_name"`
		}{t.spec.Name}}.Result()
}

// Claims says what a run of the action uses.
func (t *mcpTool) Claims(action json.RawMessage) []tool.Claim {
	args, err := arguments(action)
	if err != nil {
		return []tool.Claim{{Write: true}}
	}
	return t.claims(args)
}

func (v *server) callTool(ctx context.Context, env *tool.Env, name string, args map[string]any) (reply, error) {
	return v.ask(ctx, env, func(ctx context.Context, l *link) (reply, error) {
		params := &sdk.CallToolParams{Name: name, Arguments: args}
		if env.Progress != nil {
			token, forget := l.notify(env.Progress)
			defer forget()
			params.SetProgressToken(token)
		}
		result, err := l.session.CallTool(ctx, params)
		if err != nil {
			return reply{}, err
		}
		if result.NeedsInput() {
			return wrong("The server wants to ask its user something first. That is not possible here."), nil
		}
		return render(result, env.Mask), nil
	})
}

// timeout is how long a call may take.
func (v *server) timeout() time.Duration {
	seconds := 0
	if s := v.config.Stdio; s != nil {
		seconds = timeoutOf(s.Timeout)
	}
	if s := v.config.HTTP; s != nil {
		seconds = timeoutOf(s.Timeout)
	}
	if seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return v.session.host.cfg.CallTimeout
}

// ask makes one request to the server. It is made once, whatever becomes of it. What
// goes wrong with the server is a reply; an error is that ctx ended.
func (v *server) ask(ctx context.Context, env *tool.Env, do func(context.Context, *link) (reply, error)) (reply, error) {
	l, problem := v.session.connected(v)
	if l == nil {
		return masked(wrong("The MCP server %q is not connected, nothing ran. %s", v.config.Name, problem), env.Mask), nil
	}
	timeout := v.timeout()
	calling, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(l.calls, cancel)()
	r, err := guarded(calling, l, do)
	switch {
	case ctx.Err() != nil:
		return reply{}, context.Cause(ctx)
	case err == nil:
		return r, nil
	case errors.Is(calling.Err(), context.DeadlineExceeded):
		return wrong("The call took longer than %v and was cancelled. What it did until then is unknown.", timeout), nil
	}
	return masked(v.failure(l, err), env.Mask), nil
}

// guarded keeps the panics of the SDK here.
func guarded(ctx context.Context, l *link, do func(context.Context, *link) (reply, error)) (r reply, err error) {
	defer recovered(&err)
	return do(ctx, l)
}

// failure answers a call that brought no result.
func (v *server) failure(l *link, err error) reply {
	if rpc, ok := rpcError(err); ok {
		text, _ := describe(rpc)
		return wrong("The MCP server %q answers with an error. %s", v.config.Name, text)
	}
	lost := errors.Is(err, io.EOF) || errors.Is(err, sdk.ErrConnectionClosed) || l.ctx.Err() != nil
	waitFor(l.done, endGrace/5)
	select {
	case <-l.done:
		lost = true
	default:
	}
	if !lost {
		text, _ := describe(l.explain(err))
		return wrong("The MCP server %q gave no answer that can be read; whether the call had an effect is unknown. %s", v.config.Name, text)
	}
	if l.pipe != nil {
		waitFor(l.pipe.ended, endGrace)
	}
	text, _ := describe(l.explain(err))
	return wrong("The MCP server %q ended while this ran; its outcome is unknown. %s", v.config.Name, text)
}

// masked hides secrets in what is said of a server.
func masked(r reply, mask func(string) string) reply {
	if mask != nil {
		for i := range r.parts {
			r.parts[i].Text = mask(r.parts[i].Text)
		}
	}
	return r
}
