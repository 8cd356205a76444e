package soak_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/anthropictest"
	"parley/internal/llm/llmtest/bedrocktest"
	"parley/internal/llm/llmtest/geminitest"
	"parley/internal/llm/llmtest/responsestest"
	"parley/test/testkit/openaitest"
)

// The prices of all models here, in USD per token.
const (
	inputPrice  = 1e-6
	outputPrice = 4e-6
)

// models is a server that speaks the wire of every provider, answers what an
// agent could, and fails as providers do. It keeps its own books: what it would
// put on the bill of each conversation.
type models struct {
	urls   map[string]string // by wire
	calm   atomic.Bool       // no faults any more, every answer ends the task
	mu     sync.Mutex
	rand   *rand.Rand
	billed map[int]conversation.Money // by conversation number
	counts map[string]int             // replies by kind
}

// bound is an answer's limit that the request states, whatever the wire calls it.
var bound = regexp.MustCompile(`"(?:max_tokens|max_completion_tokens|max_output_tokens|maxOutputTokens|maxTokens)":\s*(\d+)`)

// marker names the conversation in the first message of its history.
var marker = regexp.MustCompile(`soak-(\d+)\.`)

// serveModels starts a server for each wire.
func serveModels(t *testing.T, seed uint64) *models {
	m := &models{rand: rand.New(rand.NewPCG(seed, 1)), billed: map[int]conversation.Money{}, counts: map[string]int{}, urls: map[string]string{}}
	for wire, handler := range map[string]func(func(*http.Request, []byte) llmtest.Reply) http.Handler{
		"chat": openaitest.Handler, "responses": responsestest.Handler, "anthropic": anthropictest.Handler,
		"gemini": geminitest.Handler, "bedrock": bedrocktest.Handler,
	} {
		srv := httptest.NewServer(handler(m.reply))
		m.urls[wire] = srv.URL
		t.Cleanup(func() {
			srv.CloseClientConnections()
			srv.Close()
		})
	}
	return m
}

// reply decides what one request gets, and bills it.
func (m *models) reply(req *http.Request, body []byte) llmtest.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, kind := m.choose()
	m.counts[kind]++
	prompt := int64(len(body) / 4)
	words := len(r.Text) + len(r.Reasoning)
	for _, c := range r.Calls {
		words += len(c.Name) + len(c.Arguments)
	}
	completion := int64(words/4 + 1)
	if limit := bound.FindSubmatch(body); limit != nil {
		if n, err := strconv.ParseInt(string(limit[1]), 10, 64); err == nil {
			completion = min(completion, n)
		}
	}
	r.Usage = conversation.Usage{PromptTokens: prompt, CompletionTokens: completion}
	// Gemini reports an error that comes while it makes a whole answer by an HTTP
	// status, and charges nothing then.
	refused := r.Fault == llmtest.ErrorInStream && strings.HasSuffix(req.URL.Path, ":generateContent")
	if r.Fail == "" && !refused {
		m.bill(body, prompt, completion)
	}
	return r
}

func (m *models) bill(body []byte, prompt, completion int64) {
	n := -1
	if found := marker.FindSubmatch(body); found != nil {
		n, _ = strconv.Atoi(string(found[1]))
	}
	m.billed[n] += conversation.MoneyOf(float64(prompt)*inputPrice + float64(completion)*outputPrice)
}

// choose picks an answer or a fault at random.
func (m *models) choose() (llmtest.Reply, string) {
	if m.calm.Load() {
		return llmtest.Reply{Text: "All is done."}, "calm"
	}
	if m.rand.IntN(100) < 30 {
		return m.fault()
	}
	return m.answer()
}

func (m *models) answer() (llmtest.Reply, string) {
	if m.rand.IntN(4) == 0 {
		return llmtest.Reply{Text: m.prose(), Reasoning: "I think."}, "text"
	}
	r := llmtest.Reply{Calls: m.calls(1 + m.rand.IntN(3))}
	if m.rand.IntN(2) == 0 {
		r.Text, r.Reasoning = m.prose(), "Let me see."
	}
	if m.rand.IntN(3) == 0 {
		r.Signature = "c2lnbmF0dXJl"
	}
	return r, "calls"
}

func (m *models) prose() string {
	return strings.Repeat("Some words about the work. ", 1+m.rand.IntN(20))
}

func (m *models) calls(n int) []content.ToolCall {
	var calls []content.ToolCall
	for range n {
		c := content.ToolCall{ID: fmt.Sprintf("call_%d", m.rand.Uint32()), Name: "think", Arguments: `{"thought":"hm"}`}
		switch m.rand.IntN(12) {
		case 0:
			c.Name, c.Arguments = "terminal", `{"command":"echo $((6*7))"}`
		case 1:
			c.Name, c.Arguments = "finish", `{"message":"done"}`
		case 2:
			c.Name = "no_such_tool"
		case 3:
			c.Arguments = `{"thought": 5, "unknown": [1,2]}`
		case 4:
			c.Arguments = `{}`
		}
		calls = append(calls, c)
	}
	return calls
}

// fault picks one of everything that goes wrong.
func (m *models) fault() (llmtest.Reply, string) {
	classes := []llm.Class{llm.ClassAuth, llm.ClassQuota, llm.ClassRateLimit, llm.ClassRateLimit, llm.ClassOverloaded, llm.ClassOverloaded,
		llm.ClassTimeout, llm.ClassContext, llm.ClassContentPolicy, llm.ClassMalformed, llm.ClassBadRequest, llm.ClassNetwork, llm.ClassNoResponse}
	faults := []llmtest.Fault{llmtest.OddFinish, llmtest.WrongUsage, llmtest.DuplicateIDs, llmtest.LongName, llmtest.KeepAlives,
		llmtest.SlowBytes, llmtest.HalfCall, llmtest.ErrorInStream, llmtest.CutJSON, llmtest.Garbage}
	switch n := m.rand.IntN(len(classes) + len(faults) + 4); {
	case n < len(classes):
		r := llmtest.Reply{Fail: classes[n]}
		if r.Fail == llm.ClassRateLimit {
			r.RetryAfter = time.Duration(m.rand.IntN(2)) * time.Second
		}
		return r, "fail " + string(r.Fail)
	case n < len(classes)+len(faults):
		r := llmtest.Reply{Text: m.prose(), Fault: faults[n-len(classes)]}
		switch r.Fault {
		case llmtest.HalfCall, llmtest.DuplicateIDs:
			r.Calls = m.calls(2)
		case llmtest.LongName:
			r.Calls = []content.ToolCall{{ID: fmt.Sprintf("long_%d", m.rand.Uint32()), Name: strings.Repeat("terminal_", 3400), Arguments: `{}`}}
		}
		return r, "fault " + string(r.Fault)
	case n%4 == 0:
		return llmtest.Reply{Hang: true}, "hang"
	case n%4 == 1:
		return llmtest.Reply{Text: m.prose(), HangAfterText: true}, "hang after text"
	}
	return llmtest.Reply{Text: m.prose(), CutAfterText: true}, "cut after text"
}

// bills returns what was billed by conversation.
func (m *models) bills() map[int]conversation.Money {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[int]conversation.Money{}
	for n, sum := range m.billed {
		out[n] = sum
	}
	return out
}
