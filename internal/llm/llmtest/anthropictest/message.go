package anthropictest

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"parley/internal/llm"
	"parley/internal/llm/llmtest"
)

// message is an answer in the API's shape.
type message struct {
	reply  llmtest.Reply
	id     string
	model  string
	blocks []map[string]any
	stop   string
	usage  map[string]any
}

// piece is how much text a delta holds, in bytes.
const piece = 7

func messageOf(reply llmtest.Reply, model string, body []byte) *message {
	m := &message{reply: reply, model: model, id: "msg_" + strings.ToLower(rand.Text()), stop: "end_turn"}
	if reply.Fail == "" {
		m.fill()
	}
	switch {
	case reply.Fail == llm.ClassContentPolicy:
		m.stop = "refusal"
	case reply.Fault == llmtest.OddFinish:
		m.stop = "lost_interest"
	case reply.Finish == "length":
		m.stop = "max_tokens"
	case len(reply.Calls) > 0:
		m.stop = "tool_use"
	}
	m.count(body)
	return m
}

func (m *message) fill() {
	mark := "" // what the ids of signed calls say of the signature
	if m.reply.Reasoning != "" {
		signature := ""
		if m.reply.Signature != "" {
			signature = m.reply.Signature + "." + digest(m.reply.Reasoning)
			mark = signedID + digest(m.model) + "_" + digest(signature) + "_"
		}
		m.blocks = append(m.blocks, map[string]any{"type": "thinking", "thinking": m.reply.Reasoning, "signature": signature})
	}
	if m.reply.Text != "" {
		m.blocks = append(m.blocks, map[string]any{"type": "text", "text": m.reply.Text})
	}
	for _, c := range m.reply.Calls {
		id := c.ID
		if mark != "" {
			id = mark + strings.ToLower(rand.Text()[:8])
		}
		m.blocks = append(m.blocks, map[string]any{"type": "tool_use", "id": id, "name": c.Name, "input": c.Arguments})
	}
}

// signedID begins the ids of calls that must come back with a signed thinking
// block to the model that made them; the digests of the model and of the signature
// follow.
const signedID = "toolu_signed_"

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

func (m *message) count(body []byte) {
	u := m.reply.Usage
	if u.PromptTokens == 0 {
		u.PromptTokens = int64(len(body))/4 + 1
		u.CompletionTokens = int64(len(m.reply.Text)+len(m.reply.Reasoning))/4 + 1
	}
	hour, minutes := int64(0), u.CacheWriteTokens
	if bytes.Contains(body, []byte(`"ttl":"1h"`)) {
		hour, minutes = minutes, 0
	}
	m.usage = map[string]any{
		"input_tokens":                u.PromptTokens - u.CacheReadTokens - u.CacheWriteTokens,
		"cache_read_input_tokens":     u.CacheReadTokens,
		"cache_creation_input_tokens": u.CacheWriteTokens,
		"cache_creation":              map[string]any{"ephemeral_5m_input_tokens": minutes, "ephemeral_1h_input_tokens": hour},
		"output_tokens":               u.CompletionTokens,
		"output_tokens_details":       map[string]any{"thinking_tokens": u.ReasoningTokens},
		"service_tier":                "standard",
	}
	if m.reply.Fault == llmtest.WrongUsage {
		m.usage = map[string]any{"input_tokens": -5, "cache_read_input_tokens": 1e300, "output_tokens": "a few",
			"cache_creation_input_tokens": nil, "output_tokens_details": []int{1}, "cache_creation": "none"}
	}
}

// head is the message without content, as a stream begins with it.
func (m *message) head() map[string]any {
	return map[string]any{"id": m.id, "type": "message", "role": "assistant", "model": m.model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": m.usage}
}

// whole answers with one document.
func (m *message) whole(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	doc := m.head()
	content := []any{}
	for _, b := range m.blocks {
		if args, ok := b["input"].(string); ok {
			b["input"] = json.RawMessage(`{}`)
			if json.Valid([]byte(args)) {
				b["input"] = json.RawMessage(args)
			}
		}
		content = append(content, b)
	}
	doc["content"], doc["stop_reason"] = content, m.stop
	body := encode(doc)
	switch {
	case m.reply.HangAfterText:
		write(w, body[:len(body)/2])
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case m.reply.CutAfterText || m.reply.Fault == llmtest.CutJSON || m.reply.Fault == llmtest.HalfCall:
		write(w, body[:len(body)/2])
		panic(http.ErrAbortHandler)
	case m.reply.Fault == llmtest.ErrorInStream:
		body = errorBody("overloaded_error", "Overloaded")
	case m.reply.Fault == llmtest.Garbage:
		body = "upstream connect error"
	case m.reply.Fault == llmtest.SlowBytes:
		slowly(w, body)
		return
	}
	write(w, body)
}

func write(w http.ResponseWriter, s string) {
	_, _ = io.WriteString(w, s)
	_ = http.NewResponseController(w).Flush()
}

func slowly(w http.ResponseWriter, s string) {
	for i := range len(s) {
		write(w, s[i:i+1])
	}
}

// pieces cuts a text between characters.
func pieces(s string) []string {
	var out []string
	for len(s) > piece {
		n := piece
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return append(out, s)
}
