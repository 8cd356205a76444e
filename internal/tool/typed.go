package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"parley/internal/fault"
)

// CodeArguments is the code of the fault for arguments that do not fit a tool.
const CodeArguments = "invalid_arguments"

// Typed is a tool made from a Go function with a typed input.
type Typed[In any] struct {
	spec   Spec
	root   *node
	run    func(context.Context, *Env, In) (Result, error)
	check  func(*In) error
	claims func(In) []Claim
}

var _ Tool = (*Typed[struct{}])(nil)

// Option changes a typed tool.
type Option[In any] func(*Typed[In])

// WithCheck adds a rule that a schema cannot express. It may normalise the input;
// members it sets that were absent are not added to the action. Its error is
// wrapped as fault.Invalid and its text shown to the model.
func WithCheck[In any](check func(*In) error) Option[In] {
	return func(t *Typed[In]) { t.check = check }
}

// WithClaims says what a run uses. Without it a tool that only reads claims to
// read everything, and any other to change everything.
func WithClaims[In any](claims func(In) []Claim) Option[In] {
	return func(t *Typed[In]) { t.claims = claims }
}

// New makes a tool from a function. The schema comes from In, a struct, by its
// tags:
//
//	json      the member's name; omitempty or a pointer makes it optional
//	desc      the member's description
//	enum      the allowed texts, separated by commas
//	min, max  bounds of a number
//	default   makes it optional and is written into the action when absent
//
// Names that spec leaves empty are derived from spec.Name. New panics if In has
// no schema.
func New[In any](spec Spec, run func(context.Context, *Env, In) (Result, error), opts ...Option[In]) *Typed[In] {
	root := nodeOf(reflect.TypeFor[In](), 0)
	if root.kind != typeObject || root.values != nil {
		panic(fmt.Sprintf("tool: the input of %s is not a struct", spec.Name))
	}
	parameters, err := encodeJSON(root.schema())
	if err != nil {
		panic(fmt.Sprintf("tool: the schema of %s: %v", spec.Name, err))
	}
	spec.Parameters = parameters
	spec.Description = strings.TrimSpace(spec.Description)
	t := &Typed[In]{spec: spec.named(), root: root, run: run}
	for _, opt := range opts {
		opt(t)
	}
	return t
}

// named fills the names that follow from the tool's name: "file_editor" is
// FileEditorTool with FileEditorAction and FileEditorObservation.
func (s Spec) named() Spec {
	var base strings.Builder
	for word := range strings.SplitSeq(s.Name, "_") {
		if word != "" {
			base.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	fill := func(name *string, value string) {
		if *name == "" {
			*name = value
		}
	}
	fill(&s.Title, s.Name)
	fill(&s.Kind, base.String()+"Tool")
	fill(&s.ActionKind, base.String()+"Action")
	fill(&s.ObservationKind, base.String()+"Observation")
	return s
}

// Spec describes the tool. Callers must not change it.
func (t *Typed[In]) Spec() *Spec { return &t.spec }

// Parse checks arguments and returns the action: the members in the order of the
// schema, absent ones with their default or left out, and "kind". Parsing an
// action again gives the same action.
func (t *Typed[In]) Parse(args json.RawMessage) (json.RawMessage, error) {
	members, err := DecodeArguments(args)
	if err != nil {
		return nil, t.invalid("The arguments of %s cannot be read: %v.", err)
	}
	var c coercion
	action := c.object("", t.root, members)
	if len(c.problems) > 0 {
		return nil, t.wrongMembers(c.problems, members)
	}
	action = append(action, member{"kind", t.spec.ActionKind})
	raw, err := encodeJSON(action)
	if err != nil {
		return nil, t.invalid("The arguments of %s cannot be read: %v.", err)
	}
	if _, err := t.input(raw); err != nil {
		return nil, t.invalid("The arguments of %s do not fit: %v.", err)
	}
	return raw, nil
}

func (t *Typed[In]) invalid(format string, err error) error {
	return fault.Wrap(err, fault.Invalid, CodeArguments, format, t.spec.Name, err)
}

// wrongMembers says everything that is wrong at once, so that the model can mend
// it in one go.
func (t *Typed[In]) wrongMembers(problems []problem, members map[string]any) error {
	texts := make([]string, len(problems))
	fields := make([]fault.Field, len(problems))
	for i, p := range problems {
		texts[i] = p.text
		fields[i] = fault.Field{Loc: []any{p.path}, Type: p.rule, Msg: p.text, Input: p.input}
	}
	text := strings.Join(texts, "; ") + "."
	if unknown := t.unknown(members); len(unknown) > 0 {
		text += " Not a member of this tool: " + strings.Join(unknown, ", ") + "."
	}
	e := fault.New(fault.Invalid, CodeArguments, "The arguments of %s do not fit: %s", t.spec.Name, text)
	e.Fields = fields
	return e
}

func (t *Typed[In]) unknown(members map[string]any) []string {
	var names []string
	for name := range members {
		if !slices.ContainsFunc(t.root.fields, func(f field) bool { return f.name == name }) && name != "kind" {
			names = append(names, show(name))
		}
	}
	slices.Sort(names)
	return names[:min(len(names), 10)]
}

// input reads an action as the function's input.
func (t *Typed[In]) input(action json.RawMessage) (In, error) {
	var in In
	if err := json.Unmarshal(action, &in); err != nil {
		return in, err
	}
	if t.check != nil {
		if err := t.check(&in); err != nil {
			return in, err
		}
	}
	return in, nil
}

// Run runs an action that Parse returned.
func (t *Typed[In]) Run(ctx context.Context, env *Env, action json.RawMessage) (Result, error) {
	in, err := t.input(action)
	if err != nil {
		return Result{}, t.invalid("The action of %s cannot be read: %v.", err)
	}
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	return t.run(ctx, env, in)
}

// Claims says what a run of the action uses. An action that cannot be read claims
// everything.
func (t *Typed[In]) Claims(action json.RawMessage) []Claim {
	all := []Claim{{Write: !t.spec.ReadOnly}}
	if t.claims == nil {
		return all
	}
	in, err := t.input(action)
	if err != nil {
		return all
	}
	return t.claims(in)
}
