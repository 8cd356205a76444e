package agent

import (
	"encoding/json"
	"strings"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/tool"
)

// analyzerLLM is the security analyzer that takes the model's own label.
const analyzerLLM = "llm"

// maxUnparsable bounds what is kept of arguments that are no JSON, in bytes.
const maxUnparsable = 2000

// Policy says which calls wait for the user.
type Policy struct {
	Confirm  bool   // confirmation mode
	Analyzer string // "llm": ask for HIGH and UNKNOWN only; else ask for every call that can be confirmed
}

// Turn is what an answer of the model means.
type Turn struct {
	Events  []conversation.Payload // to append, in order; headers complete but for the time
	Confirm bool                   // the calls must wait for the user
	Finish  bool                   // the run is over (text-only answer)
	Nudge   bool                   // an empty answer: the model was told to go on
}

// nudgeText is our answer to an answer without content.
const nudgeText = "Your last answer had neither text nor a tool call. Go on with the task: call a tool, " +
	"or call `finish` with a message if the task is done."

// Interpret turns an answer into events.
func Interpret(resp *llm.Response, tools *tool.Set, policy Policy) Turn {
	if len(resp.Message.ToolCalls) > 0 {
		return interpretCalls(resp, tools, policy)
	}
	said := &conversation.MessageEvent{
		Header: newHeader(conversation.KindMessage, conversation.SourceAgent),
		LLMMessage: conversation.LLMMessage{Role: content.RoleAssistant, Content: resp.Message.Parts,
			Reasoning: resp.Message.Reasoning},
		LLMResponseID: resp.ID,
	}
	if strings.TrimSpace(resp.Message.Text()) != "" {
		return Turn{Events: []conversation.Payload{said}, Finish: true}
	}
	nudge := &conversation.MessageEvent{
		Header:     newHeader(conversation.KindMessage, conversation.SourceEnvironment),
		LLMMessage: conversation.LLMMessage{Role: content.RoleUser, Content: []content.Part{content.Text(nudgeText)}},
	}
	return Turn{Events: []conversation.Payload{said, nudge}, Nudge: true}
}

func newHeader(kind, source string) conversation.Header {
	return conversation.Head(kind, source, time.Time{})
}

// interpretCalls makes an ActionEvent of each call, and an AgentErrorEvent for
// each that cannot be run. Calls after the first finish are dropped: they were
// never announced, so nothing has to answer them.
func interpretCalls(resp *llm.Response, tools *tool.Set, policy Policy) Turn {
	var turn Turn
	var actions []conversation.Payload
	runnable := 0
	for i, c := range resp.Message.ToolCalls {
		action, spec, problem := interpretCall(c, tools, policy)
		action.LLMResponseID = resp.ID
		if i == 0 {
			action.Thought, action.Reasoning = resp.Message.Parts, resp.Message.Reasoning
		}
		actions = append(actions, action)
		if problem != nil {
			actions = append(actions, problem)
			continue
		}
		runnable++
		turn.Confirm = turn.Confirm || needsConfirmation(action, spec, policy)
		if spec.Name == ToolFinish {
			break
		}
	}
	turn.Events = actions
	turn.Confirm = turn.Confirm && runnable > 0
	return turn
}

// ToolFinish is the name of the tool that ends a run.
const ToolFinish = "finish"

func interpretCall(c content.ToolCall, tools *tool.Set, policy Policy) (*conversation.ActionEvent, *tool.Spec, *conversation.AgentErrorEvent) {
	if c.Origin == "" {
		c.Origin = "completion"
	}
	action := &conversation.ActionEvent{Header: newHeader(conversation.KindAction, conversation.SourceAgent),
		ToolName: c.Name, ToolCallID: c.ID, ToolCall: c, SecurityRisk: conversation.RiskUnknown}
	args, risk, summary := splitArguments(c.Arguments)
	t, args, ok := tools.Resolve(c.Name, args)
	if !ok {
		return action, nil, callError(action, "There is no tool named "+c.Name+". The tools are: "+strings.Join(tools.Names(), ", ")+".")
	}
	spec := t.Spec()
	action.ToolName = spec.Name
	parsed, err := t.Parse(args)
	if err != nil {
		keepValidJSON(&action.ToolCall)
		return action, spec, callError(action, "The call of "+spec.Name+" was not run: "+fault.PublicText(err))
	}
	action.Action = parsed
	action.Summary = summary
	if action.Summary == "" {
		action.Summary = clipSummary(spec.Name + ": " + c.Arguments)
	}
	if policy.Analyzer == analyzerLLM && !spec.ReadOnly {
		action.SecurityRisk = risk
	}
	return action, spec, nil
}

func clipSummary(s string) string {
	if r := []rune(s); len(r) > 200 {
		return string(r[:200]) + "..."
	}
	return s
}

func callError(a *conversation.ActionEvent, msg string) *conversation.AgentErrorEvent {
	return &conversation.AgentErrorEvent{Header: newHeader(conversation.KindAgentError, conversation.SourceAgent),
		ToolName: a.ToolName, ToolCallID: a.ToolCallID, Error: msg,
		Classification: &conversation.Classification{Kind: "agent_action", Retryable: true, UserAction: "retry"}}
}

// keepValidJSON replaces arguments that are no JSON by a small marker: providers
// refuse a history with broken arguments in it.
func keepValidJSON(c *content.ToolCall) {
	if json.Valid([]byte(c.Arguments)) {
		return
	}
	raw := c.Arguments
	if len(raw) > maxUnparsable {
		raw = raw[:maxUnparsable]
	}
	marker, err := json.Marshal(map[string]string{"unparsable_arguments": strings.ToValidUTF8(raw, "?")})
	if err != nil {
		marker = []byte("{}")
	}
	c.Arguments = string(marker)
}

// splitArguments takes security_risk and summary, which every tool gets, out of
// the arguments. Arguments that are no object are left for the tool to judge.
func splitArguments(arguments string) (args json.RawMessage, risk, summary string) {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &m) != nil || m == nil {
		return json.RawMessage(arguments), conversation.RiskUnknown, ""
	}
	risk = riskOf(m["security_risk"])
	_ = json.Unmarshal(m["summary"], &summary) // no string: no summary
	if _, a := m["security_risk"]; !a {
		if _, b := m["summary"]; !b {
			return json.RawMessage(arguments), risk, summary
		}
	}
	delete(m, "security_risk")
	delete(m, "summary")
	rest, err := json.Marshal(m)
	if err != nil {
		return json.RawMessage(arguments), risk, summary
	}
	return rest, risk, summary
}

func riskOf(raw json.RawMessage) string {
	var r string
	_ = json.Unmarshal(raw, &r)
	switch r = strings.ToUpper(strings.TrimSpace(r)); r {
	case conversation.RiskLow, conversation.RiskMedium, conversation.RiskHigh:
		return r
	}
	return conversation.RiskUnknown
}

// needsConfirmation fails closed: what has no label is asked for.
func needsConfirmation(a *conversation.ActionEvent, spec *tool.Spec, p Policy) bool {
	if !p.Confirm || spec.NoConfirm {
		return false
	}
	if p.Analyzer != analyzerLLM {
		return true
	}
	return !spec.ReadOnly && (a.SecurityRisk == conversation.RiskHigh || a.SecurityRisk == conversation.RiskUnknown)
}
