// Package judge says how well a run of the agent reached what it was for: it asks
// a model, or looks for plain signs (agent protocol 4.7). It is pure: it makes the
// request and reads the answer; the engine makes the call, pays for it and acts.
//
// A model that judges reads text that may be hostile, and so its words are an
// opinion. They decide whether the agent goes on, never what it may do.
package judge

import (
	_ "embed"
	"encoding/json"
	"strings"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm"
)

//go:embed judge.md
var instructions string

// Bounds of a request.
const (
	// DefaultRecord is how many bytes of the record a judge reads if nothing else is
	// said: about 20,000 tokens.
	DefaultRecord = 60_000
	leastRecord   = 2_000
	maxObjective  = 16_000 // bytes
	maxOutput     = 4_096  // tokens: models that think need room before the few words
)

// Request asks a model how far the objective is reached by what is on a branch.
// record bounds in bytes how much of it the model reads, newest first; 0 =
// DefaultRecord. The caller adds the session's id.
func Request(objective string, path []conversation.Payload, record int) *llm.Request {
	if record <= 0 {
		record = DefaultRecord
	}
	var b strings.Builder
	b.WriteString("The objective:\n\n")
	b.WriteString(clip(clean(objective), maxObjective))
	b.WriteString("\n\nThe record: one JSON object per line, oldest first, up to the line END OF RECORD.\n\n")
	for _, line := range render(path, max(record, leastRecord)) {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	b.WriteString("END OF RECORD\n\nHow far is the objective reached? Answer with the JSON object only.")
	return &llm.Request{MaxOutput: maxOutput, Messages: []content.Message{
		{Role: content.RoleSystem, Parts: []content.Part{content.Text(instructions)}},
		{Role: content.RoleUser, Parts: []content.Part{content.Text(b.String())}},
	}}
}

// Task returns what the user last asked for, "" if nothing: the objective of a
// critic that asks a model. What FollowUp and Refine say in the user's name is not
// what the user asked for.
func Task(path []conversation.Payload) string {
	for i := len(path) - 1; i >= 0; i-- {
		m, ok := path[i].(*conversation.MessageEvent)
		if !ok || m.Source != conversation.SourceUser || IsFollowUp(m) {
			continue
		}
		if text := strings.TrimSpace(content.JoinText(m.LLMMessage.Content)); text != "" {
			return text
		}
	}
	return ""
}

// Result is a model's verdict as the result of a critic.
func Result(v conversation.GoalVerdict) conversation.CriticResult {
	message := v.Missing
	if v.Complete && message == "" {
		message = "Nothing is missing."
	}
	return conversation.CriticResult{Score: v.Score, Message: message,
		Metadata: map[string]any{"critic": conversation.CriticModel, "complete": v.Complete}}
}

// clean makes a text of others fit to be stored and shown: valid, and without
// control characters other than line ends and tabs.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// clip shortens a text to so many bytes: its beginning and its end stay, cut between
// characters.
func clip(s string, most int) string {
	const marker = "\n[... left out ...]\n"
	if len(s) <= most {
		return s
	}
	half := max(most-len(marker), 0) / 2
	return content.Head(s, half) + marker + content.Tail(s, half)
}

// isError reports whether an observation says so of itself.
func isError(observation json.RawMessage) bool {
	var o struct {
		IsError bool `json:"is_error"`
	}
	return json.Unmarshal(observation, &o) == nil && o.IsError
}
