package v0

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/internal/api/v0/projection"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
)

// What clients send.
const (
	actionMessage  = "message"
	actionState    = "change_agent_state"
	actionRun      = "run"
	actionRecovery = "loop_recovery"
	actionNull     = "null"
)

// argsOf are the arguments that an action may have. Those in oldArgs are of older
// clients and mean nothing any more.
var argsOf = map[string][]string{
	actionMessage: {"content", "image_urls", "images_urls", "file_urls", "wait_for_response", "security_risk", "thought"},
	actionState:   {"agent_state", "thought"},
	actionRun: {"command", "is_input", "thought", "blocking", "is_static", "cwd", "hidden", "confirmation_state",
		"is_confirmed", "security_risk"},
	actionRecovery: {"option"},
	actionNull:     {},
}

var oldArgs = []string{"timestamp", "keep_prompt", "task_completed", "translated_ipython_code"}

const expectedActions = "'message', 'change_agent_state', 'run', 'loop_recovery' or 'null'"

// clientEvent is what a client says or decides.
type clientEvent struct {
	action string
	text   string   // of a message, or the command of a run
	images []string // of a message
	files  []string // of a message
	state  projection.AgentState
	hidden bool // of a run
	option int  // of a loop_recovery
}

// readEvent reads a client's event (contract of the legacy API, 9.5). Its source is the
// user, whatever it says.
func readEvent(raw json.RawMessage) (*clientEvent, error) {
	var in struct {
		ID          json.RawMessage            `json:"id"`
		Action      json.RawMessage            `json:"action"`
		Observation json.RawMessage            `json:"observation"`
		Source      json.RawMessage            `json:"source"`
		Args        map[string]json.RawMessage `json:"args"`
	}
	if !isObject(raw) {
		return nil, wrongField("model_attributes_type", "Input should be a valid dictionary or object to extract fields from", nil, "body")
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, wrongField("dict_type", "Input should be a valid dictionary", nil, "body", "args")
	}
	e := &clientEvent{}
	e.action, _ = textOf(in.Action)
	known, ok := argsOf[e.action]
	switch {
	case !ok && in.Action == nil:
		return nil, wrongField("missing", "Field required", nil, "body", "action")
	case !ok:
		return nil, wrongEnum(expectedActions, shown(in.Action), "body", "action")
	}
	if source, ok := textOf(in.Source); in.Source != nil && !isNull(in.Source) && (!ok || !slices.Contains([]string{"agent", "user", "environment"}, source)) {
		return nil, wrongEnum("'agent', 'user' or 'environment'", shown(in.Source), "body", "source")
	}
	var id int64
	if json.Unmarshal(in.ID, &id) == nil && !isNull(in.ID) && id >= 0 {
		return nil, wrongField("value_error", "Value error, An event gets its id from the server", id, "body", "id")
	}
	var wrong []fault.Field
	for name := range in.Args {
		if !slices.Contains(known, name) && !slices.Contains(oldArgs, name) {
			wrong = append(wrong, fault.Field{Loc: []any{"body", "args", name}, Type: "extra_forbidden",
				Msg: "Extra inputs are not permitted", Input: shown(in.Args[name])})
		}
	}
	if len(wrong) > 0 {
		slices.SortFunc(wrong, func(a, b fault.Field) int { return strings.Compare(a.Loc[2].(string), b.Loc[2].(string)) })
		return nil, wrongFields(wrong)
	}
	return e, e.readArgs(args(in.Args))
}

func (e *clientEvent) readArgs(in args) error {
	var err error
	switch e.action {
	case actionMessage:
		var old []string
		e.text, err = in.text("content")
		err = errors.Join(err, in.texts("image_urls", &e.images), in.texts("images_urls", &old), in.texts("file_urls", &e.files))
		e.images = append(e.images, old...)
	case actionState:
		e.state, err = in.state()
	case actionRun:
		e.text, err = in.text("command")
		err = errors.Join(err, in.flag("hidden", &e.hidden))
	case actionRecovery:
		e.option, err = in.option()
	}
	if err != nil {
		return wrongFields(fieldsOf(err))
	}
	return nil
}

// args are the arguments of an event.
type args map[string]json.RawMessage

func (a args) text(name string) (string, error) {
	raw, there := a[name]
	if !there {
		return "", wrongField("missing", "Field required", nil, "body", "args", name)
	}
	s, ok := textOf(raw)
	if !ok {
		return "", wrongField("string_type", "Input should be a valid string", shown(raw), "body", "args", name)
	}
	return s, nil
}

func (a args) texts(name string, out *[]string) error {
	raw, there := a[name]
	if !there || isNull(raw) {
		return nil
	}
	var list []any
	if json.Unmarshal(raw, &list) != nil {
		return wrongField("list_type", "Input should be a valid list", shown(raw), "body", "args", name)
	}
	for i, v := range list {
		s, ok := v.(string)
		if !ok {
			return wrongField("string_type", "Input should be a valid string", v, "body", "args", name, i)
		}
		*out = append(*out, s)
	}
	return nil
}

func (a args) flag(name string, out *bool) error {
	raw, there := a[name]
	if there && !isNull(raw) && json.Unmarshal(raw, out) != nil {
		return wrongField("bool_parsing", "Input should be a valid boolean, unable to interpret input", shown(raw), "body", "args", name)
	}
	return nil
}

func (a args) state() (projection.AgentState, error) {
	s, _ := textOf(a["agent_state"])
	switch state := projection.AgentState(s); state {
	case projection.Running, projection.Paused, projection.Stopped, projection.UserConfirmed, projection.UserRejected:
		return state, nil
	}
	return "", wrongEnum("'running', 'paused', 'stopped', 'user_confirmed' or 'user_rejected'", shown(a["agent_state"]), "body", "args", "agent_state")
}

func (a args) option() (int, error) {
	var n int
	if json.Unmarshal(a["option"], &n) != nil || n < 1 || n > 3 {
		return 0, wrongEnum("1, 2 or 3", shown(a["option"]), "body", "args", "option")
	}
	return n, nil
}

func isObject(raw json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) }

func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }

func textOf(raw json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

// shown is an input as an error shows it.
func shown(raw json.RawMessage) any {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return nil
	}
	return v
}

func wrongField(typ, msg string, input any, loc ...any) *fault.Error {
	f := fault.Field{Loc: loc, Type: typ, Msg: msg, Input: input}
	if typ == "value_error" {
		f.Ctx = map[string]any{"error": map[string]any{}} // V0 1.4
	}
	return wrongFields([]fault.Field{f})
}

func wrongEnum(expected string, input any, loc ...any) *fault.Error {
	return wrongFields([]fault.Field{{Loc: loc, Type: "enum", Msg: "Input should be " + expected, Input: input,
		Ctx: map[string]any{"expected": expected}}})
}

func wrongFields(fields []fault.Field) *fault.Error {
	f := fault.New(fault.Invalid, "validation", "The request is not valid.")
	f.Fields = fields
	return f
}

// fieldsOf collects the fields of joined faults.
func fieldsOf(err error) []fault.Field {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var out []fault.Field
		for _, e := range joined.Unwrap() {
			out = append(out, fieldsOf(e)...)
		}
		return out
	}
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Fields
	}
	return nil
}

// told is what a client on a socket, which has no status codes, is told of an error.
func told(err error) string {
	fields := fieldsOf(err)
	if len(fields) == 0 {
		return fault.PublicText(err)
	}
	where := fmt.Sprint(fields[0].Loc[len(fields[0].Loc)-1])
	return "The event is not valid: " + where + ": " + fields[0].Msg
}

// act carries out what a client says or decides.
func (h *handlers) act(ctx context.Context, owner string, id conversation.ID, raw json.RawMessage) error {
	e, err := readEvent(raw)
	if err != nil {
		return err
	}
	return h.carryOut(ctx, owner, id, e)
}

func (h *handlers) carryOut(ctx context.Context, owner string, id conversation.ID, e *clientEvent) error {
	switch e.action {
	case actionMessage:
		return h.say(ctx, owner, id, e)
	case actionState:
		return h.decide(ctx, owner, id, e.state)
	case actionRun:
		return h.engine.RunForUser(ctx, owner, id, e.text, e.hidden)
	case actionRecovery:
		return h.leaveLoop(ctx, owner, id, e.option)
	}
	return nil // it means nothing
}

func (h *handlers) say(ctx context.Context, owner string, id conversation.ID, e *clientEvent) error {
	parts := firstMessage(e.text, e.images)
	if len(parts) == 0 {
		return wrongField("value_error", "Value error, The message is empty", e.text, "body", "args", "content")
	}
	if len(e.files) > maxFiles {
		return wrongField("too_long", fmt.Sprintf("List should have at most %d items", maxFiles), nil, "body", "args", "file_urls")
	}
	if slices.ContainsFunc(parts, func(p content.Part) bool { return p.Type == content.TypeImage }) {
		if err := h.checkSight(ctx, owner, id); err != nil {
			return err
		}
	}
	return h.engine.Send(ctx, owner, id, engine.Message{Parts: parts, Files: e.files, Run: true})
}

// maxFiles is how many files a message may name.
const maxFiles = 100

// checkSight refuses images that the model would not see. The first text is one that
// clients know.
func (h *handlers) checkSight(ctx context.Context, owner string, id conversation.ID) error {
	sight, err := h.engine.Sight(ctx, owner, id)
	switch {
	case err != nil:
		return err
	case sight == engine.Blind:
		return fault.New(fault.Invalid, "no_vision", "Model does not support image upload, change to a different model or try without an image.")
	case sight == engine.Closed:
		return fault.New(fault.Invalid, "vision_disabled", "Image upload is disabled for this model, change to a different model or try without an image.")
	}
	return nil
}

// leaveLoop is what the user chose for an agent that repeated itself.
func (h *handlers) leaveLoop(ctx context.Context, owner string, id conversation.ID, option int) error {
	if option != optionStop {
		return h.engine.LeaveLoop(ctx, owner, id, option == optionAgain)
	}
	v, err := h.engine.View(ctx, owner, id)
	if err != nil {
		return err
	}
	if v.Summary.Status != conversation.Stuck {
		return fault.New(fault.Conflict, engine.CodeNoLoop, "The conversation was not stopped for repeating itself.")
	}
	if err := h.ledger.halted(ctx, v.Conversation, time.Now()); err != nil {
		return err
	}
	h.rooms.touch(id)
	return nil
}

// Options of a loop_recovery; the other is to wait for the user before the loop.
const (
	optionAgain = 2
	optionStop  = 3
)
