// Package client makes the tools that a client brings along and carries out itself:
// a call is answered at once, the client reads it from the log, and what comes of it
// reaches the model as a message, if at all.
//
// The client's JSON Schema goes to models and clients as it came. Arguments are
// checked against it within bounds, so that a model hears of its mistakes; what a
// bound or an unknown keyword leaves unchecked is let through, because the client has
// to look at what it gets in any case. Nothing is ever fetched.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/tool"
)

// CodeTool is the code of the Invalid fault for a tool that cannot be offered.
const CodeTool = "invalid_client_tool"

// Bounds of what a client sends, in bytes.
const (
	maxSchema      = 64 << 10
	maxDescription = 64 << 10
)

// ObservationKind is the kind of every client tool's observation.
const ObservationKind = "ClientToolObservation"

// ackText answers every call.
const ackText = "The call was handed over to the user's client, which carries it out. If there is a result, it comes as a message later: do not wait for it."

// Tool is a client's tool.
type Tool struct {
	spec   tool.Spec
	schema *schema
}

var _ tool.Tool = (*Tool)(nil)

// hints are the annotations of the MCP standard, with its defaults.
type hints struct {
	Title       string `json:"title"`
	ReadOnly    *bool  `json:"readOnlyHint"`
	Destructive *bool  `json:"destructiveHint"`
	Idempotent  *bool  `json:"idempotentHint"`
	OpenWorld   *bool  `json:"openWorldHint"`
}

// New makes a tool of what a client sent. The name is not checked. Invalid
// (CodeTool) if the schema is not that of an object, cannot be understood, refers to
// anything but itself, or has more than 64 KiB; no parameters at all are none.
// Without annotations a tool counts as one that changes nothing.
func New(spec conversation.ClientTool) (tool.Tool, error) {
	parameters := bytes.TrimSpace(spec.Parameters)
	if len(parameters) == 0 || string(parameters) == "null" {
		parameters = []byte(`{"type":"object","properties":{}}`)
	}
	switch {
	case len(parameters) > maxSchema:
		return nil, refuse(nil, spec.Name, "its schema has more than %d KiB", maxSchema>>10)
	case len(spec.Description) > maxDescription:
		return nil, refuse(nil, spec.Name, "its description has more than %d KiB", maxDescription>>10)
	}
	compiled, err := compile(parameters)
	if err != nil {
		return nil, refuse(err, spec.Name, "its schema cannot be used: %v", err)
	}
	if name := compiled.takes(); name != "" {
		return nil, refuse(nil, spec.Name, "its schema cannot be used: the name %q of a property is taken", name)
	}
	t := &Tool{schema: compiled, spec: tool.Spec{
		Name: spec.Name, Title: spec.Name, Description: strings.TrimSpace(spec.Description), Parameters: parameters,
		Kind: "ClientTool", ActionKind: "ClientAction_" + spec.Name, ObservationKind: ObservationKind,
		ReadOnly: true, Idempotent: true, NoHands: true,
	}}
	if err := t.annotate(spec.Annotations); err != nil {
		return nil, refuse(err, spec.Name, "its annotations are not those of a tool")
	}
	t.spec.More, err = content.Marshal(map[string]any{"client_tool_name": spec.Name, "input_schema": json.RawMessage(parameters)})
	if err != nil {
		return nil, refuse(err, spec.Name, "its schema is not JSON")
	}
	return t, nil
}

func refuse(err error, name, format string, args ...any) error {
	return fault.Wrap(err, fault.Invalid, CodeTool, "The client tool %q cannot be offered: "+format+".", append([]any{name}, args...)...)
}

// annotate takes over what the client says about its tool.
func (t *Tool) annotate(raw json.RawMessage) error {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var h hints
	if err := json.Unmarshal(raw, &h); err != nil {
		return err
	}
	if h.Title != "" {
		t.spec.Title = h.Title
	}
	t.spec.ReadOnly = h.ReadOnly != nil && *h.ReadOnly
	t.spec.Destructive = h.Destructive == nil || *h.Destructive
	t.spec.Idempotent = h.Idempotent != nil && *h.Idempotent
	t.spec.OpenWorld = h.OpenWorld == nil || *h.OpenWorld
	return nil
}

// Spec describes the tool. Callers must not change it.
func (t *Tool) Spec() *tool.Spec { return &t.spec }

// Parse checks arguments and returns the action: the members sorted by name, and
// "kind". Parsing an action again gives the same action.
func (t *Tool) Parse(args json.RawMessage) (json.RawMessage, error) {
	members, err := tool.DecodeArguments(args)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, tool.CodeArguments, "The arguments of %s cannot be read: %v.", t.spec.Name, err)
	}
	if members["kind"] == t.spec.ActionKind {
		delete(members, "kind")
	}
	members, problems := t.schema.fit(members)
	if len(problems) > 0 {
		return nil, fault.New(fault.Invalid, tool.CodeArguments, "The arguments of %s do not fit: %s.", t.spec.Name, strings.Join(problems, "; "))
	}
	delete(members, "kind") // it is the action's
	raw, err := content.Marshal(members)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, tool.CodeArguments, "The arguments of %s cannot be read.", t.spec.Name)
	}
	kind, err := content.Marshal(t.spec.ActionKind)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, tool.CodeArguments, "The arguments of %s cannot be read.", t.spec.Name)
	}
	raw = raw[:len(raw)-1]
	if len(members) > 0 {
		raw = append(raw, ',')
	}
	return append(append(append(raw, `"kind":`...), kind...), '}'), nil
}

// Run says that the client was told; the log tells it.
func (t *Tool) Run(ctx context.Context, _ *tool.Env, _ json.RawMessage) (tool.Result, error) {
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	return tool.TextObservation(ObservationKind, ackText).Result()
}

// Claims is nothing: nothing of the conversation's is touched here.
func (t *Tool) Claims(json.RawMessage) []tool.Claim { return nil }
