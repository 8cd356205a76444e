package golden_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// shape is what clients expect of an event: members that are always there, and
// members that may be. They refuse any other (agent protocol 3 and trap 1).
type shape struct {
	source string // "" = any
	always string
	maybe  string
}

// shapes is the table of agent protocol 3, of the kinds that scenarios meet.
func shapes() map[string]shape {
	return map[string]shape{
		"SystemPromptEvent":      {"agent", "system_prompt tools", "dynamic_context"},
		"MessageEvent":           {"", "llm_message activated_skills extended_content", "llm_response_id sender critic_result"},
		"ActionEvent":            {"agent", "thought thinking_blocks tool_name tool_call_id tool_call llm_response_id security_risk", "reasoning_content responses_reasoning_item action critic_result summary"},
		"ObservationEvent":       {"environment", "tool_name tool_call_id observation action_id extended_content", ""},
		"UserRejectObservation":  {"environment", "tool_name tool_call_id rejection_reason rejection_source action_id", ""},
		"AgentErrorEvent":        {"agent", "tool_name tool_call_id error classification", ""},
		"ConversationErrorEvent": {"environment", "code detail classification", ""},
		"Condensation":           {"environment", "forgotten_event_ids llm_response_id", "summary summary_offset"},
		"CondensationRequest":    {"environment", "", ""},
		"HookExecutionEvent": {"hook", "hook_event_type hook_command success blocked exit_code stdout stderr",
			"tool_name reason additional_context error action_id message_id hook_input"},
		"PauseEvent":     {"user", "", ""},
		"InterruptEvent": {"user", "", ""},

		// A value that is null is left out like every null, and clients have a default.
		"ConversationStateUpdateEvent": {"environment", "key", "value"},
	}
}

// members of objects inside events, by their path: always, maybe.
func innerShapes() map[string]shape {
	return map[string]shape{
		"MessageEvent.llm_message":              {"", "role content thinking_blocks", "reasoning_content"},
		"ActionEvent.tool_call":                 {"", "id name arguments origin", "responses_item_id"},
		"AgentErrorEvent.classification":        {"", "kind retryable user_action", ""},
		"ConversationErrorEvent.classification": {"", "kind retryable user_action", ""},
		"MessageEvent.critic_result":            {"", "score", "message metadata"},
		"ActionEvent.critic_result":             {"", "score", "message metadata"},
	}
}

var (
	dashed = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	naive  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?$`)
)

// stateKeys are the members of a conversation's state that updates may name: clients
// refuse others.
const stateKeys = "execution_status stats goal leaf_event_id confirmation_policy security_analyzer current_model_id agent_state"

// misshapen says what is wrong with an event as clients get it.
func misshapen(e event) []string {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	s, ok := shapes()[e.kind()]
	if !ok {
		return []string{"unknown kind " + e.kind()}
	}
	s.always += " kind id timestamp source"
	s.maybe += " parent_id"
	faults = append(faults, s.compare(e)...)
	for path, inner := range innerShapes() {
		kind, member, _ := strings.Cut(path, ".")
		if o, ok := e[member].(map[string]any); ok && kind == e.kind() {
			faults = append(faults, inner.compare(o)...)
		}
	}
	if s.source != "" && e.str("source") != s.source {
		say("source %s", e.str("source"))
	}
	if !dashed.MatchString(e.str("id")) {
		say("id %s", e.str("id"))
	}
	if !naive.MatchString(e.str("timestamp")) {
		say("timestamp %s", e.str("timestamp"))
	}
	if key := e.str("key"); e.isState() && !slices.Contains(strings.Fields(stateKeys), key) {
		say("state update of %s", key)
	}
	if !e.isState() { // an update may set something to null
		rest := maps.Clone(e)
		delete(rest, "hook_input") // what a hook reads has all members, also those that are null
		nulls("", map[string]any(rest), &faults)
	}
	return faults
}

func (s shape) compare(o map[string]any) []string {
	var faults []string
	always, all := strings.Fields(s.always), strings.Fields(s.always+" "+s.maybe)
	for _, m := range always {
		if _, ok := o[m]; !ok {
			faults = append(faults, "no "+m)
		}
	}
	for m := range o {
		if !slices.Contains(all, m) {
			faults = append(faults, m+" is no member")
		}
	}
	return faults
}

// nulls finds members that should have been left out.
func nulls(path string, v any, faults *[]string) {
	switch v := v.(type) {
	case nil:
		*faults = append(*faults, path+" is null")
	case map[string]any:
		for k, x := range v {
			nulls(path+"."+k, x, faults)
		}
	case []any:
		for i, x := range v {
			nulls(fmt.Sprintf("%s[%d]", path, i), x, faults)
		}
	}
}
