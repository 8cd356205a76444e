// Package legacy reads events as servers of the legacy API write them: exported
// trajectories, stored files, what clients send (legacy API 9). What they do is
// translated into the words of the log: messages and calls of tools.
//
// It is lenient where old versions wrote other things (9.5) and promises that
// nothing panics, whatever is in an event. It is pure.
package legacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"parley/internal/content"
)

// Sources of an event.
const (
	SourceAgent       = "agent"
	SourceUser        = "user"
	SourceEnvironment = "environment"
)

// Kinds of actions and observations that are asked for by name.
const (
	ActionMessage      = "message"
	ActionSystem       = "system"
	ActionRecall       = "recall"
	ActionNull         = "null"
	ActionState        = "change_agent_state"
	ActionCondensation = "condensation"
	ActionCondense     = "condensation_request"
	ActionLoopRecovery = "loop_recovery"
	ActionReject       = "reject"

	ObservationState    = "agent_state_changed"
	ObservationError    = "error"
	ObservationRejected = "user_rejected"
)

// actions are all that there are (legacy API 9.2).
var actions = []string{ActionMessage, ActionSystem, "run", "run_ipython", "read", "write", "edit", "browse",
	"browse_interactive", "call_tool_mcp", "think", "finish", ActionReject, "delegate", ActionRecall, ActionState,
	ActionCondensation, ActionCondense, "task_tracking", ActionLoopRecovery, ActionNull}

// observations are all that there are (9.3), and those of old versions.
var observations = []string{"run", "run_ipython", "read", "write", "edit", "browse", "mcp", "delegate", "think",
	"recall", ObservationState, ObservationError, ObservationRejected, "task_tracking", "condense", "success",
	"download", "loop_detection", "null", "chat"}

// Event is one event, an action or an observation.
type Event struct {
	ID          int64  // -1 = it has none
	Timestamp   string // as it is written: ISO, local time without a zone
	Source      string // "" = it has none
	Message     string
	Cause       int64 // id of the action that an observation answers; -1 = none
	Action      string
	Observation string
	Args        map[string]any // of an action
	Content     string         // of an observation
	Extras      map[string]any // of an observation
	Success     *bool
	Timeout     float64 // seconds; 0 = none
	Metadata    Metadata
	Cost        float64 // USD that the conversation had cost by then; 0 = not known
}

// Metadata tells which call of a model an event belongs to.
type Metadata struct {
	Function   string
	CallID     string
	ResponseID string
	Arguments  string // of the call, JSON; "" = not known
}

// wire is an event as JSON. What may be anything is read leniently afterwards.
type wire struct {
	ID          any             `json:"id"`
	Timestamp   any             `json:"timestamp"`
	Source      any             `json:"source"`
	Message     any             `json:"message"`
	Cause       any             `json:"cause"`
	Action      any             `json:"action"`
	Observation any             `json:"observation"`
	Args        map[string]any  `json:"args"`
	Content     any             `json:"content"`
	Extras      map[string]any  `json:"extras"`
	Success     any             `json:"success"`
	Timeout     any             `json:"timeout"`
	Metadata    json.RawMessage `json:"tool_call_metadata"`
	Metrics     struct {
		Cost any `json:"accumulated_cost"`
	} `json:"llm_metrics"`
}

// Parse reads one event. An error says in words for people why it is none.
func Parse(raw []byte) (*Event, error) {
	var w wire
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, errors.New("it is no JSON object of the form of an event")
	}
	e := &Event{ID: number(w.ID, -1), Timestamp: text(w.Timestamp), Source: text(w.Source), Message: text(w.Message),
		Cause: number(w.Cause, -1), Action: text(w.Action), Observation: text(w.Observation), Args: w.Args,
		Content: text(w.Content), Extras: w.Extras, Timeout: seconds(w.Timeout), Metadata: metadataOf(w.Metadata),
		Cost: seconds(w.Metrics.Cost)}
	if b, ok := w.Success.(bool); ok {
		e.Success = &b
	}
	acts, observes := w.Action != nil && w.Action != "", w.Observation != nil && w.Observation != ""
	switch {
	case !acts && !observes:
		return nil, errors.New(`it has neither "action" nor "observation"`)
	case acts && !slices.Contains(actions, e.Action):
		return nil, fmt.Errorf("there is no action %s", shown(w.Action))
	case !acts && !slices.Contains(observations, e.Observation):
		return nil, fmt.Errorf("there is no observation %s", shown(w.Observation))
	case e.Source != "" && e.Source != SourceAgent && e.Source != SourceUser && e.Source != SourceEnvironment:
		return nil, fmt.Errorf("there is no source %s", shown(w.Source))
	}
	if acts {
		e.Observation = ""
	}
	return e, nil
}

// Kind is the name of the action or the observation.
func (e *Event) Kind() string {
	if e.Action != "" {
		return e.Action
	}
	return e.Observation
}

// shown is a value as a refusal may repeat it.
func shown(v any) string {
	s, ok := v.(string)
	if !ok {
		return "of that kind"
	}
	return strconv.Quote(content.Head(s, 40))
}

// metadataOf reads what is known of the model's call. Old versions kept the whole
// answer of the model, which has the arguments in it.
func metadataOf(raw json.RawMessage) Metadata {
	var w struct {
		Function any `json:"function_name"`
		CallID   any `json:"tool_call_id"`
		Response struct {
			ID      any `json:"id"`
			Choices []struct {
				Message struct {
					Calls []struct {
						ID       any `json:"id"`
						Function struct {
							Arguments any `json:"arguments"`
						} `json:"function"`
					} `json:"tool_calls"`
				} `json:"message"`
			} `json:"choices"`
		} `json:"model_response"`
	}
	if len(raw) == 0 {
		return Metadata{}
	}
	_ = json.Unmarshal(raw, &w) // what does not fit is not known
	m := Metadata{Function: text(w.Function), CallID: text(w.CallID), ResponseID: text(w.Response.ID)}
	for _, c := range w.Response.Choices {
		for _, call := range c.Message.Calls {
			if m.CallID != "" && text(call.ID) == m.CallID {
				m.Arguments = text(call.Function.Arguments)
			}
		}
	}
	return m
}

// text returns a string, "" for anything else.
func text(v any) string {
	s, _ := v.(string)
	return strings.ToValidUTF8(s, "\uFFFD")
}

// number returns a whole number, or the fallback for anything else.
func number(v any, fallback int64) int64 {
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return fallback
	}
	return int64(f)
}

// seconds returns an amount that is not negative, 0 for anything else.
func seconds(v any) float64 {
	f, ok := v.(float64)
	if !ok || f < 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0
	}
	return f
}

// Images are the addresses of the images of a message.
func (e *Event) Images() []string {
	list, ok := e.Args["image_urls"].([]any)
	if !ok {
		list, _ = e.Args["images_urls"].([]any) // as old versions spelt it
	}
	var urls []string
	for _, v := range list {
		if u := text(v); u != "" {
			urls = append(urls, u)
		}
	}
	return urls
}

// Parts are what a message says, nil if it says nothing.
func (e *Event) Parts() []content.Part {
	var parts []content.Part
	said := text(e.Args["content"])
	if strings.TrimSpace(said) != "" {
		parts = append(parts, content.Text(said))
	}
	if urls := e.Images(); len(urls) > 0 {
		parts = append(parts, content.Image(urls...))
	}
	return parts
}

// Waits reports whether a message of the agent's waits for the user.
func (e *Event) Waits() bool {
	b, _ := e.Args["wait_for_response"].(bool)
	return b
}
