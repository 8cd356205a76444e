package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/agent"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/store"
)

// askTime and askOutput bound a question beside the run.
const (
	askTime   = 5 * time.Minute
	askOutput = 8192 // tokens
)

const askPrompt = "The user asks you something beside the task. Answer from what you know of the conversation, in a few sentences of plain text. " +
	"Do not call a tool, and do not go on with the task: this question and your answer will not be part of the conversation.\n\n<question>\n"

// Ask puts a question about the conversation to its model, with all that the agent
// knows at the moment, also while it runs. Nothing of it enters the log but the
// cost. Errors are those of the model.
func (e *Engine) Ask(ctx context.Context, owner string, id conversation.ID, question string) (string, error) {
	var choice account.LLM
	var tools *toolbox
	var history []conversation.Payload
	var fields agent.ProviderFields
	var masker Masker
	err := e.do(ctx, owner, id, func(l *live) error {
		if err := l.refresh(ctx); err != nil {
			return err
		}
		choice, tools, history, fields, masker = l.choice, l.tools(), l.history(), l.state.ProviderFields, l.masker
		return nil
	})
	if err != nil {
		return "", err
	}
	specs, err := tools.specsFor(masker) // providers refuse calls in a history without them
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	req := &llm.Request{Tools: specs, MaxOutput: askOutput, Messages: withQuestion(agent.View(history, fields), question)}
	resp, err := e.aside(ctx, owner, id, store.UseAsk, choice, req, ModelOptions{})
	if err != nil {
		return "", told(err, masker)
	}
	answer := masker.Mask(resp.Message.Text())
	if strings.TrimSpace(answer) == "" {
		return "", fault.New(fault.Unavailable, llm.ClassNoResponse.Code(), "The model gave no answer.").WithHint("Ask again.")
	}
	return answer, nil
}

// withQuestion puts a question behind a history; providers want roles to alternate.
func withQuestion(messages []content.Message, question string) []content.Message {
	part := content.Text(askPrompt + question + "\n</question>")
	if n := len(messages); n > 0 && messages[n-1].Role == content.RoleUser {
		last := &messages[n-1]
		last.Parts = append(slices.Clip(last.Parts), part)
		return messages
	}
	return append(messages, content.Message{Role: content.RoleUser, Parts: []content.Part{part}})
}
