package workertest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// kind says what an item of a history is.
type kind string

const (
	said    kind = "said"    // by the user, or in the user's place
	summary kind = "summary" // of what was forgotten
	answer  kind = "answer"  // text of the model's own
	call    kind = "call"    // of a tool, by the model
	result  kind = "result"  // of a call
)

// item is one thing that a model reads.
type item struct {
	kind kind
	text string // of a call: its arguments
	id   string // of a call, or of the call that a result belongs to
	name string // of a call: the tool
}

// history is what a model reads, whatever the wire.
type history struct {
	items []item
	tools []string
}

// reader reads the body of a request of one wire.
type reader func(body []byte) (*history, error)

// summaryText is what stands around the summary of forgotten events.
var summaryText = regexp.MustCompile(`(?s)<conversation_summary>(.*?)</conversation_summary>`)

// say adds the text of a user's message; a summary may be in it.
func (h *history) say(text string) {
	for {
		at := summaryText.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		h.add(item{kind: said, text: text[:at[0]]})
		h.add(item{kind: summary, text: text[at[2]:at[3]]})
		text = text[at[1]:]
	}
	h.add(item{kind: said, text: text})
}

// add adds an item, unless it is a blank text.
func (h *history) add(i item) {
	if (i.kind == said || i.kind == answer) && strings.TrimSpace(i.text) == "" {
		return
	}
	h.items = append(h.items, i)
}

// block is a part of a message, of either wire.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// blocksOf reads content: a text, a list of parts, or nothing.
func blocksOf(raw json.RawMessage) ([]block, error) {
	var text *string
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &text); err == nil {
		if text == nil {
			return nil, nil
		}
		return []block{{Type: "text", Text: *text}}, nil
	}
	var list []block
	return list, json.Unmarshal(raw, &list)
}

func textOf(raw json.RawMessage) (string, error) {
	list, err := blocksOf(raw)
	var texts []string
	for _, b := range list {
		texts = append(texts, b.Text)
	}
	return strings.Join(texts, "\n"), err
}

// readChat reads a request of the chat completions API.
func readChat(body []byte) (*history, error) {
	var w struct {
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		Messages []struct {
			Role      string          `json:"role"`
			Content   json.RawMessage `json:"content"`
			CallID    string          `json:"tool_call_id"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, err
	}
	h := &history{}
	for _, t := range w.Tools {
		h.tools = append(h.tools, t.Function.Name)
	}
	for i, m := range w.Messages {
		text, err := textOf(m.Content)
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		switch m.Role {
		case "user":
			h.say(text)
		case "tool":
			h.add(item{kind: result, id: m.CallID, text: text})
		case "assistant":
			h.add(item{kind: answer, text: text})
			for _, c := range m.ToolCalls {
				h.add(item{kind: call, id: c.ID, name: c.Function.Name, text: c.Function.Arguments})
			}
		}
	}
	return h, nil
}

// readAnthropic reads a request of the Messages API.
func readAnthropic(body []byte) (*history, error) {
	var w struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, err
	}
	h := &history{}
	for _, t := range w.Tools {
		h.tools = append(h.tools, t.Name)
	}
	for i, m := range w.Messages {
		list, err := blocksOf(m.Content)
		for _, b := range list {
			if err == nil {
				err = h.block(m.Role, b)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	return h, nil
}

func (h *history) block(role string, b block) error {
	switch {
	case b.Type == "tool_use":
		h.add(item{kind: call, id: b.ID, name: b.Name, text: string(b.Input)})
	case b.Type == "tool_result":
		text, err := textOf(b.Content)
		h.add(item{kind: result, id: b.ToolUseID, text: text})
		return err
	case b.Type == "text" && role == "user":
		h.say(b.Text)
	case b.Type == "text":
		h.add(item{kind: answer, text: b.Text})
	}
	return nil
}
