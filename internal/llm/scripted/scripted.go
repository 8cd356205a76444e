// Package scripted is the demo model that ships in the binary: it does what the
// user's message says, line by line, and so drives real tools without a key.
//
// Its answers are a pure function of the request and of the attempt number that
// a retrying caller put into the context: no state, no clock, no chance. It says
// of itself that it is a demo.
package scripted

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm"
)

// ID is the id of the model.
const ID = "demo/scripted"

// defaultDir is used when the prompt does not name the working directory.
const defaultDir = "/workspace/project"

// Model is the scripted model. The zero value streams without pauses.
type Model struct {
	Pace time.Duration // between two pieces of streamed text
}

var _ llm.Model = (*Model)(nil)

// Info implements llm.Model.
func (m *Model) Info() llm.Info {
	return llm.Info{Model: ID, Vision: true, NativeTools: true, Price: &llm.Price{}, Demo: true}
}

// Do implements llm.Model.
func (m *Model) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	t := due(req)
	if err := sleep(ctx, t.delay); err != nil {
		return nil, err
	}
	attempt := llm.Attempt(ctx)
	if failing := t.failing(attempt); failing != nil {
		return nil, m.fail(ctx, req, t, failing, attempt)
	}
	if err := m.emit(ctx, req, t, t.text); err != nil {
		return nil, err
	}
	return respond(req, t), nil
}

// due finds the turn for a request.
func due(req *llm.Request) turn {
	user, since := lastUser(req.Messages)
	if len(req.Tools) == 0 { // a title or a summary is wanted, not the steps
		return turn{text: titleOf(user)}
	}
	steps := Parse(user)
	if len(steps) == 0 {
		return turn{text: Help}
	}
	return next(plan(steps, workingDir(req.Messages), offers(req.Tools, toolFinish)), since)
}

// lastUser returns the text of the last user message and what follows it.
func lastUser(msgs []content.Message) (string, []content.Message) {
	for i := len(msgs) - 1; i >= 0; i-- {
		if msgs[i].Role == content.RoleUser {
			return msgs[i].Text(), msgs[i+1:]
		}
	}
	return "", nil
}

// workingDir reads the line "Working directory: /..." of the system prompt.
func workingDir(msgs []content.Message) string {
	for _, msg := range msgs {
		if msg.Role != content.RoleSystem {
			continue
		}
		for line := range strings.Lines(msg.Text()) {
			_, dir, ok := strings.Cut(line, "Working directory:")
			if dir = strings.Trim(strings.TrimSpace(dir), "`"); ok && strings.HasPrefix(dir, "/") {
				return dir
			}
		}
	}
	return defaultDir
}

func offers(tools []llm.Tool, name string) bool {
	for _, t := range tools {
		if t.Name == name {
			return true
		}
	}
	return false
}

// titleOf shortens the first line of a message.
func titleOf(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	const longest = 50
	if runes := []rune(line); len(runes) > longest {
		line = string(runes[:longest-3]) + "..."
	}
	return orElse(strings.TrimSpace(line), "Demo")
}

func (m *Model) fail(ctx context.Context, req *llm.Request, t turn, s *Step, attempt int) error {
	e := errorFor(s, attempt)
	if s.Cut {
		if err := m.emit(ctx, req, t, orElse(t.text, "This answer breaks off in the")); err != nil {
			return err
		}
		e.Streamed = req.OnDelta != nil
	}
	return e
}

// emit streams reasoning and text in small pieces, with the pauses of the turn.
func (m *Model) emit(ctx context.Context, req *llm.Request, t turn, text string) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	pace := max(m.Pace, t.pace)
	for _, piece := range pieces(t.reasoning) {
		if err := deliver(ctx, req, llm.Delta{Reasoning: piece}, pace); err != nil {
			return err
		}
	}
	for _, piece := range pieces(text) {
		if err := deliver(ctx, req, llm.Delta{Text: piece}, pace); err != nil {
			return err
		}
	}
	return nil
}

func deliver(ctx context.Context, req *llm.Request, d llm.Delta, pace time.Duration) error {
	if req.OnDelta != nil {
		req.OnDelta(d)
	}
	return sleep(ctx, pace)
}

// pieces cuts a text after each word.
func pieces(s string) []string {
	if s == "" {
		return nil
	}
	return strings.SplitAfter(s, " ")
}

// sleep waits; it returns ctx's cause when ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func respond(req *llm.Request, t turn) *llm.Response {
	hash, size := fingerprint(req)
	msg := content.Message{Role: content.RoleAssistant, Reasoning: t.reasoning}
	if t.text != "" {
		msg.Parts = []content.Part{content.Text(t.text)}
	}
	finish, said := "stop", len(t.text)+len(t.reasoning)
	for i, c := range t.calls {
		finish, said = "tool_calls", said+len(c.args)+len(c.name)
		msg.ToolCalls = append(msg.ToolCalls, content.ToolCall{ID: fmt.Sprintf("call_%s_%d", hash, i),
			Name: c.name, Arguments: c.args, Origin: "completion"})
	}
	free := 0.0
	id := "demo-" + hash
	usage := conversation.Usage{Model: ID, PromptTokens: estimate(size), CompletionTokens: estimate(said), ResponseID: id}
	usage.PerTurnToken = usage.PromptTokens + usage.CompletionTokens
	return &llm.Response{ID: id, Message: msg, Usage: usage, Cost: &free, FinishReason: finish}
}

// estimate guesses tokens from bytes, at least one.
func estimate(bytes int) int64 { return int64(bytes)/4 + 1 }

// fingerprint returns a hash of what the model was told, and its size in bytes.
func fingerprint(req *llm.Request) (string, int) {
	told, err := json.Marshal([]any{req.SessionID, req.Messages})
	if err != nil { // a broken Extra
		told = fmt.Append(nil, req.SessionID, req.Messages)
	}
	sum := sha256.Sum256(told)
	return hex.EncodeToString(sum[:8]), len(told)
}
