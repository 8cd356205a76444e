package texttools

import (
	"encoding/json"
	"maps"
	"slices"

	"parley/internal/content"
)

// resultOf begins the message of a result (agent protocol 4.12).
func resultOf(tool string) string { return "EXECUTION RESULT of [" + tool + "]:\n" }

// noResult stands for the result of a call that has none.
const noResult = "(none)"

// callFields is the member of Message.Extra that belongs to native calls.
const callFields = "tool_calls"

// told renders a history without tools: calls are text of the answers, results
// are messages of the user. An answer with several calls, which a model with
// native calling made, becomes as many answers, each with its result behind it.
func told(msgs []content.Message) []content.Message {
	out := make([]content.Message, 0, len(msgs))
	for i := 0; i < len(msgs); i++ {
		msg := msgs[i]
		switch {
		case msg.Role == content.RoleAssistant && len(msg.ToolCalls) > 0:
			results := resultsBehind(msgs[i+1:])
			out = append(out, toldCalls(msg, results)...)
			i += len(results)
		case msg.Role == content.RoleTool: // its call is not in the history
			out = append(out, toldResult(msg, msg.ToolName))
		default:
			out = append(out, msg)
		}
	}
	return out
}

// resultsBehind are the results at the beginning of msgs.
func resultsBehind(msgs []content.Message) []content.Message {
	n := slices.IndexFunc(msgs, func(m content.Message) bool { return m.Role != content.RoleTool })
	if n < 0 {
		return msgs
	}
	return msgs[:n]
}

func toldCalls(msg content.Message, results []content.Message) []content.Message {
	var out []content.Message
	used := make([]bool, len(results))
	for i, c := range msg.ToolCalls {
		answer := content.Message{Role: content.RoleAssistant}
		if i == 0 {
			answer = content.Message{Role: msg.Role, Parts: slices.Clone(msg.Parts), Reasoning: msg.Reasoning, Extra: withoutCalls(msg.Extra)}
		}
		answer.Parts = append(answer.Parts, content.Text(render(c)))
		result := content.Message{Parts: []content.Part{content.Text(noResult)}}
		for j, r := range results {
			if !used[j] && r.ToolCallID == c.ID {
				result, used[j] = r, true
				break
			}
		}
		out = append(out, answer, toldResult(result, c.Name))
	}
	for j, r := range results {
		if !used[j] {
			out = append(out, toldResult(r, r.ToolName))
		}
	}
	return out
}

// toldResult renders a result; its images stay images.
func toldResult(msg content.Message, tool string) content.Message {
	parts := []content.Part{content.Text(resultOf(tool) + msg.Text())}
	for _, p := range msg.Parts {
		if p.Type == content.TypeImage {
			parts = append(parts, p)
		}
	}
	return content.Message{Role: content.RoleUser, Parts: parts}
}

func withoutCalls(extra map[string]json.RawMessage) map[string]json.RawMessage {
	extra = maps.Clone(extra)
	delete(extra, callFields)
	return extra
}

// instructed adds what the model must know of the tools to its instructions.
func instructed(msgs []content.Message, text string) []content.Message {
	part := content.Text(text)
	i := slices.IndexFunc(msgs, func(m content.Message) bool { return m.Role == content.RoleSystem })
	if i < 0 {
		return append([]content.Message{{Role: content.RoleSystem, Parts: []content.Part{part}}}, msgs...)
	}
	msgs[i].Parts = append(slices.Clone(msgs[i].Parts), part)
	return msgs
}
