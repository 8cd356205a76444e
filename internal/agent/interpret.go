package agent

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"parley/internal/agent/policy"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/tool"
)

// maxUnparsable bounds what is kept of arguments that are no JSON, in bytes.
const maxUnparsable = 2000

// Policy says which calls wait for the user.
type Policy struct {
	Own   policy.Rule  // the conversation's
	Floor *policy.Rule // the server's; nil = none
}

// Turn is what an answer of the model means.
type Turn struct {
	Events  []conversation.Payload // to append, in order; headers complete but for the time
	Confirm bool                   // the calls must wait for the user
	Finish  bool                   // the run is over (text-only answer)
	Nudge   bool                   // an empty answer: the model was told to go on
	Failed  bool                   // an analyzer could not answer: the calls wait

	runnable []*conversation.ActionEvent // of Events
	calls    []policy.Call               // the same
}

// Decide judges the calls and says whether they must wait. Interpret did so with the
// rules that it got; this is for rules that are newer.
func (t *Turn) Decide(rules Policy) {
	decision := policy.Decide(rules.Own, rules.Floor, t.calls)
	t.Confirm, t.Failed = decision.Confirm, false
	for i, v := range decision.Verdicts {
		t.runnable[i].SecurityRisk = v.Risk
		t.Failed = t.Failed || v.Failed
	}
}

// Ends reports whether the run is over with the answer: a text, or a call of
// finish.
func (t *Turn) Ends() bool {
	return t.Finish || slices.ContainsFunc(t.Events, func(p conversation.Payload) bool {
		a, ok := p.(*conversation.ActionEvent)
		return ok && a.ToolName == ToolFinish && a.Action != nil
	})
}

// Judge attaches what a critic thinks of the answer to its last action or message.
func (t *Turn) Judge(result *conversation.CriticResult) {
	for _, p := range slices.Backward(t.Events) {
		switch e := p.(type) {
		case *conversation.ActionEvent:
			e.CriticResult = result
			return
		case *conversation.MessageEvent:
			if e.Source == conversation.SourceAgent {
				e.CriticResult = result
				return
			}
		}
	}
}

// nudgeText is our answer to an answer without content.
const nudgeText = "Your last answer had neither text nor a tool call. Go on with the task: call a tool, " +
	"or call `finish` with a message if the task is done."

// Interpret turns an answer into events.
func Interpret(resp *llm.Response, tools *tool.Set, rules Policy) Turn {
	if len(resp.Message.ToolCalls) > 0 {
		return interpretCalls(resp, tools, rules)
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
func interpretCalls(resp *llm.Response, tools *tool.Set, rules Policy) Turn {
	var turn Turn
	for i, c := range resp.Message.ToolCalls {
		action, call, problem := interpretCall(c, tools)
		action.LLMResponseID = resp.ID
		if i == 0 {
			action.Thought, action.Reasoning = resp.Message.Parts, resp.Message.Reasoning
		}
		turn.Events = append(turn.Events, action)
		if problem != nil {
			turn.Events = append(turn.Events, problem)
			continue
		}
		turn.runnable, turn.calls = append(turn.runnable, action), append(turn.calls, call)
		if action.ToolName == ToolFinish {
			break
		}
	}
	turn.Decide(rules)
	return turn
}

// ToolFinish is the name of the tool that ends a run.
const ToolFinish = "finish"

func interpretCall(c content.ToolCall, tools *tool.Set) (*conversation.ActionEvent, policy.Call, *conversation.AgentErrorEvent) {
	if c.Origin == "" {
		c.Origin = "completion"
	}
	action := &conversation.ActionEvent{Header: newHeader(conversation.KindAction, conversation.SourceAgent),
		ToolName: c.Name, ToolCallID: c.ID, ToolCall: c, SecurityRisk: conversation.RiskUnknown}
	args, label, summary := splitArguments(c.Arguments, ownMembers(tools, c.Name))
	t, args, ok := tools.Resolve(c.Name, args)
	if !ok {
		keepValidJSON(&action.ToolCall)
		return action, policy.Call{}, callError(action, "There is no tool named "+shortened(c.Name)+". The tools are: "+strings.Join(tools.Names(), ", ")+".")
	}
	spec := t.Spec()
	action.ToolName = spec.Name
	parsed, err := t.Parse(args)
	if err != nil {
		keepValidJSON(&action.ToolCall)
		return action, policy.Call{}, callError(action, "The call of "+spec.Name+" was not run: "+fault.PublicText(err))
	}
	action.Action = parsed
	repair(&action.ToolCall, parsed)
	action.Summary = summary
	if action.Summary == "" {
		action.Summary = shortened(spec.Name + ": " + plainly(c.Arguments))
	}
	return action, policy.NewCall(spec, parsed, label.risk, label.bad), nil
}

// plainly writes JSON with each character as itself: escapes would hide what it says.
func plainly(arguments string) string {
	var v any
	if !strings.Contains(arguments, `\u`) && !strings.Contains(arguments, `\/`) || json.Unmarshal([]byte(arguments), &v) != nil {
		return arguments
	}
	out, err := content.Marshal(v)
	if err != nil {
		return arguments
	}
	return string(out)
}

func shortened(s string) string {
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

// repair writes arguments that were understood although they are no JSON anew:
// providers refuse a history with broken arguments, and what replaces them must not
// look like a failure.
func repair(c *content.ToolCall, parsed json.RawMessage) {
	var members map[string]json.RawMessage
	if json.Valid([]byte(c.Arguments)) || json.Unmarshal(parsed, &members) != nil {
		return
	}
	delete(members, "kind")
	if whole, err := json.Marshal(members); err == nil {
		c.Arguments = string(whole)
	}
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
// the arguments, but for those that are the tool's own. Arguments that are no object
// are left for the tool to judge.
func splitArguments(arguments string, own map[string]bool) (args json.RawMessage, label riskLabel, summary string) {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &m) != nil || m == nil {
		return json.RawMessage(arguments), riskLabel{}, ""
	}
	given := len(m)
	if !own[memberRisk] {
		label = riskOf(m[memberRisk])
		delete(m, memberRisk)
	}
	if !own[memberSummary] {
		_ = json.Unmarshal(m[memberSummary], &summary) // no string: no summary
		delete(m, memberSummary)
	}
	rest, err := json.Marshal(m)
	if err != nil || len(m) == given {
		return json.RawMessage(arguments), label, summary
	}
	return rest, label, summary
}

// riskLabel is the risk that a model gave a call.
type riskLabel struct {
	risk string // LOW, MEDIUM, HIGH; "" = none of them
	bad  bool   // it gave something else
}

func riskOf(raw json.RawMessage) riskLabel {
	var r string
	if len(raw) == 0 || string(raw) == "null" {
		return riskLabel{}
	}
	if json.Unmarshal(raw, &r) != nil {
		return riskLabel{bad: true}
	}
	switch r = strings.ToUpper(strings.TrimSpace(r)); r {
	case conversation.RiskLow, conversation.RiskMedium, conversation.RiskHigh:
		return riskLabel{risk: r}
	}
	return riskLabel{bad: r != conversation.RiskUnknown && r != ""}
}
