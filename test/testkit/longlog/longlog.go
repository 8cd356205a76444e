// Package longlog makes a conversation long: it adds events to its log in the store,
// without running an agent, while no server is using it. What it writes varies as what
// agents do: messages with Markdown, commands with output, edits of files, failures.
package longlog

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/vault"
)

// Kind says what is added.
type Kind string

// The kinds.
const (
	Usual Kind = "usual" // turns of a message, nine steps, and an answer
	Large Kind = "large" // single events that are very large, see Writer.large
)

const batch = 500 // events of one transaction

// Grow adds events to a conversation in a data directory that no server uses: n usual
// ones or a few more, or all large ones. It returns the number of the first one and how many there
// are now.
func Grow(ctx context.Context, dir string, id conversation.ID, kind Kind, n int) (first, head int64, err error) {
	keys, err := vault.Open(dir)
	if err != nil {
		return 0, 0, err
	}
	s, err := sqlstore.Open(ctx, sqlstore.Options{Path: filepath.Join(dir, "parley.db"), Sealer: keys})
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if closeErr := s.Close(); err == nil {
			err = closeErr
		}
	}()
	c, err := s.Conversations().Get(ctx, "", id)
	if err != nil {
		return 0, 0, err
	}
	now := time.Now().UTC()
	// Old enough that what is added happened in the past.
	w := &writer{at: now.Add(-time.Duration(n) * time.Second), id: id}
	if kind == Large {
		err = w.large()
	} else {
		err = w.usual(n)
	}
	if err != nil {
		return 0, 0, err
	}
	first = c.Summary.Head
	head, err = w.store(ctx, s, c.Summary, now)
	return first, head, err
}

// writer collects events.
type writer struct {
	id     conversation.ID
	at     time.Time
	events []conversation.Event
	calls  int
	cost   float64
	err    error
}

func (w *writer) store(ctx context.Context, s store.Store, summary conversation.Summary, now time.Time) (int64, error) {
	const holder = "longlog"
	generation, err := s.Leases().Acquire(ctx, w.id, holder, now, 10*time.Minute)
	if err != nil {
		return 0, err
	}
	for len(w.events) > 0 {
		part := w.events[:min(batch, len(w.events))]
		w.events = w.events[len(part):]
		begin := summary.Head
		summary.Head += int64(len(part))
		if err := s.Events().Append(ctx, store.Append{Conversation: w.id, ExpectHead: begin, Generation: generation,
			Events: part, Summary: summary, Now: now}); err != nil {
			return 0, err
		}
	}
	return summary.Head, s.Leases().Release(ctx, w.id, holder, generation)
}

func (w *writer) add(p conversation.Payload) {
	e, err := conversation.Encode(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.events = append(w.events, e)
}

// head is the header of the next event, a little later than the one before.
func (w *writer) head(kind, source string) conversation.Header {
	w.at = w.at.Add(137 * time.Millisecond)
	return conversation.Head(kind, source, w.at)
}

func (w *writer) json(v any) json.RawMessage {
	raw, err := content.Marshal(v)
	if err != nil && w.err == nil {
		w.err = err
	}
	return raw
}

func (w *writer) message(source string, parts ...content.Part) {
	role := content.RoleAssistant
	if source == conversation.SourceUser {
		role = content.RoleUser
	}
	w.add(&conversation.MessageEvent{Header: w.head(conversation.KindMessage, source),
		LLMMessage: conversation.LLMMessage{Role: role, Content: parts}})
}

func (w *writer) state(key string, value any) {
	w.add(&conversation.StateUpdateEvent{Header: w.head(conversation.KindStateUpdate, conversation.SourceEnvironment), Key: key, Value: w.json(value)})
}

// stats tells what the calls of the model have cost so far.
func (w *writer) stats() {
	w.cost += 0.0123
	w.state(conversation.KeyStats, map[string]any{"usage_to_metrics": map[string]any{"agent": map[string]any{
		"model_name": "demo/scripted", "accumulated_cost": w.cost,
		"accumulated_token_usage": map[string]any{"prompt_tokens": w.calls * 9000, "completion_tokens": w.calls * 200}}}})
}

// call adds a step: the action, what it cost, and what came of it.
func (w *writer) call(tool, thought string, action, observation map[string]any) {
	w.calls++
	id := fmt.Sprintf("call_long_%d", w.calls)
	arguments := map[string]any{}
	for name, value := range action {
		if name != "kind" {
			arguments[name] = value
		}
	}
	var said []content.Part
	if thought != "" {
		said = []content.Part{content.Text(thought)}
	}
	h := w.head(conversation.KindAction, conversation.SourceAgent)
	w.add(&conversation.ActionEvent{Header: h, Thought: said, Action: w.json(action), ToolName: tool, ToolCallID: id,
		ToolCall:      content.ToolCall{ID: id, Name: tool, Arguments: string(w.json(arguments)), Origin: "completion"},
		LLMResponseID: fmt.Sprintf("answer-%d", w.calls), SecurityRisk: "LOW"})
	w.stats()
	w.add(&conversation.ObservationEvent{Header: w.head(conversation.KindObservation, conversation.SourceEnvironment),
		ToolName: tool, ToolCallID: id, ActionID: h.ID, Observation: w.json(observation)})
}

func (w *writer) command(line, thought, output string, code int) {
	w.call("terminal", thought, map[string]any{"kind": "TerminalAction", "command": line, "is_input": false, "reset": false},
		map[string]any{"kind": "TerminalObservation", "content": []any{content.Text(output)}, "is_error": false,
			"command": line, "exit_code": code, "timeout": false})
}

func (w *writer) edit(path, thought, before, after string) {
	w.call("file_editor", thought, map[string]any{"kind": "FileEditorAction", "command": "str_replace", "path": path, "old_str": "a", "new_str": "b"},
		map[string]any{"kind": "FileEditorObservation", "content": []any{content.Text("The file " + path + " has been edited.")}, "is_error": false,
			"command": "str_replace", "path": path, "prev_exist": true, "old_content": before, "new_content": after})
}

func (w *writer) finish(said string) {
	w.call("finish", "", map[string]any{"kind": "FinishAction", "message": said},
		map[string]any{"kind": "FinishObservation", "content": []any{content.Text(said)}, "is_error": false})
}

// usual adds whole turns until there are n events or a few more.
func (w *writer) usual(n int) error {
	for turn := 0; len(w.events) < n; turn++ {
		w.message(conversation.SourceUser, content.Text(fmt.Sprintf("Turn %d: please look into the failing part of the build and mend it.", turn)))
		w.state(conversation.KeyStatus, conversation.Running)
		for step := range 9 {
			thought := ""
			if step%3 == 0 {
				thought = fmt.Sprintf("Let me see what `make test` says in **turn %d**, step %d:\n\n- the parser\n- the `lexer`", turn, step)
			}
			switch {
			case step%3 == 2:
				before, after := sources(turn, step)
				w.edit(fmt.Sprintf("/workspace/project/pkg/part%d.go", step), thought, before, after)
			case turn%5 == 4 && step == 4:
				w.command(fmt.Sprintf("go vet ./part%d", turn), thought, output(turn, step), 1)
			default:
				w.command(fmt.Sprintf("go test ./part%d -run Step%d", turn, step), thought, output(turn, step), 0)
			}
		}
		w.finish(answer(turn))
		w.state(conversation.KeyStatus, conversation.Finished)
	}
	w.finish("**The very end** of a long log.")
	return w.err
}

// output is about 5 KB as programs print it, colours included.
func output(turn, step int) string {
	var b strings.Builder
	for i := 0; b.Len() < 5<<10; i++ {
		fmt.Fprintf(&b, "\x1b[32mok\x1b[0m  \tproject/part%d/pkg%d\t0.%03ds  (cached) step %d\n", turn, i, i, step)
	}
	return b.String()
}

func sources(turn, step int) (before, after string) {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "\tvalue%d := compute(%d, %d) // line %d\n", i, turn, step, i)
	}
	before = b.String()
	return before, strings.Replace(strings.Replace(before, "value40 :=", "renamed40, err :=", 1), "\tvalue41", "\tif err != nil {\n\t\treturn err\n\t}\n\tvalue41", 1)
}

func answer(turn int) string {
	return fmt.Sprintf("## Turn %d\n\nThe *build* works again. What changed:\n\n1. `pkg/part2.go` returns its error\n2. the table is right\n\n"+
		"| Part | Before | After |\n|---|---|---|\n| lexer | 12 | 9 |\n| parser | 4 | 4 |\n\n```go\nfunc compute(a, b int) (int, error) {\n\tif b == 0 {\n\t\treturn 0, errors.New(\"zero\")\n\t}\n\treturn a / b, nil\n}\n```\n\n"+
		"See [the notes](https://example.com/notes/%d).\n", turn, turn)
}

// pixel is the smallest PNG.
const pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// large adds one of each kind of large event: an output of 1 MB that failed, so that it
// is open, a message of 200 KB of Markdown and one that is one code block of 200 KB, an
// edit that changes 10,000 lines, a line of 1 MB, and a message with 300 images.
func (w *writer) large() error {
	var out, before, after strings.Builder
	for i := 0; out.Len() < 1<<20; i++ {
		fmt.Fprintf(&out, "\x1b[3%dmline %d\x1b[0m of a large output, with \x1b[1mcolours\x1b[0m that change\n", i%8, i)
	}
	for i := range 10_000 {
		fmt.Fprintf(&before, "old line %d\n", i)
		fmt.Fprintf(&after, "new line %d\n", i)
	}
	w.command("cat large-output", "", out.String(), 1)
	w.edit("/workspace/project/large.txt", "", before.String(), after.String())
	w.command("cat one-line", "", strings.Repeat("0123456789abcdef", 1<<16), 1)
	w.message(conversation.SourceAgent, content.Text("large-code\n\n```go\n"+strings.Repeat("func f(a int) error { return nil } // code\n", 4800)+"```\n"))
	var text strings.Builder
	for i := 0; text.Len() < 200<<10; i++ {
		text.WriteString(answer(i))
	}
	w.message(conversation.SourceAgent, content.Text("large-markdown\n\n"+text.String()))
	images := make([]string, 300)
	for i := range images {
		images[i] = pixel
	}
	w.message(conversation.SourceUser, content.Text("large-images"), content.Image(images...))
	w.finish("after the **large** ones")
	return w.err
}
