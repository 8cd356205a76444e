// Package workertest is a model that works on a long task: it counts in a file of
// the sandbox, one number after the other. It keeps nothing in mind: what to do
// next it knows from what it reads, as a real model does, so that a history that
// lost something, or summaries that lose what the user wants, show in the file.
//
// It speaks several wires, refuses strictly what the real APIs refuse (Refusals),
// has a context window, fails now and then, and keeps books of what it charges.
package workertest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"parley/internal/conversation"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/anthropictest"
	"parley/test/testkit/openaitest"
)

// The wires.
const (
	Chat      = "chat"
	Anthropic = "anthropic"
)

// Prices of all wires, in USD per token.
const (
	InputPrice  = 1e-6
	OutputPrice = 4e-6
)

// Config says what the worker is like.
type Config struct {
	Target int // the number to count to
	// Window is how many tokens a prompt may have, by wire; 0 = any number. A token
	// is BytesPerToken bytes of the request.
	Window map[string]int
}

// BytesPerToken is how the worker counts.
const BytesPerToken = 4

// Worker is the model.
type Worker struct {
	cfg  Config
	urls map[string]string
	done chan struct{} // closed at the end of the test

	mu       sync.Mutex
	calls    int // made so far, for their ids
	asked    map[string]int
	once     map[string]bool // what is done only once
	gates    map[int]*Gate
	billed   conversation.Money
	refusals []string
	problems []string
}

// New starts the worker's servers, which end with the test.
func New(t testing.TB, cfg Config) *Worker {
	t.Helper()
	w := &Worker{cfg: cfg, urls: map[string]string{}, done: make(chan struct{}), asked: map[string]int{},
		once: map[string]bool{}, gates: map[int]*Gate{}}
	w.serve(t, Chat, openaitest.Handler, readChat)
	w.serve(t, Anthropic, anthropictest.Handler, readAnthropic)
	t.Cleanup(func() { close(w.done) }) // before the servers end, which wait for their requests
	return w
}

// URL is the base URL of a wire, as a profile has it.
func (w *Worker) URL(wire string) string {
	if wire == Chat {
		return w.urls[wire] + "/v1"
	}
	return w.urls[wire]
}

// accepted is the key of a request's mark that the strict server took it.
type accepted struct{}

func (w *Worker) serve(t testing.TB, wire string, strict func(func(*http.Request, []byte) llmtest.Reply) http.Handler, read reader) {
	inner := strict(func(r *http.Request, body []byte) llmtest.Reply {
		*r.Context().Value(accepted{}).(*bool) = true
		return w.reply(r, wire, body, read)
	})
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var ok bool
		kept := &keeper{ResponseWriter: rw}
		defer func() { // also when a reply breaks the connection
			if !ok && r.Context().Err() == nil {
				w.refuse(wire, kept.text)
			}
		}()
		inner.ServeHTTP(kept, r.WithContext(context.WithValue(r.Context(), accepted{}, &ok)))
	}))
	w.urls[wire] = srv.URL
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
}

// keeper keeps the beginning of an answer.
type keeper struct {
	http.ResponseWriter
	text []byte
}

const kept = 2000 // bytes

func (k *keeper) Write(p []byte) (int, error) {
	k.text = append(k.text, p[:min(len(p), max(kept-len(k.text), 0))]...)
	return k.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController flush.
func (k *keeper) Unwrap() http.ResponseWriter { return k.ResponseWriter }

func (w *Worker) refuse(wire string, text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals = append(w.refusals, fmt.Sprintf("%s: %s", wire, text))
}

// Refusals are the requests that no provider would have taken, with the reason.
func (w *Worker) Refusals() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.refusals)
}

// Problems are what the worker missed in its histories.
func (w *Worker) Problems() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.problems)
}

// Billed is what the worker charged.
func (w *Worker) Billed() conversation.Money {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.billed
}

// Counts are the replies so far, by what they were.
func (w *Worker) Counts() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.asked)
}

func (w *Worker) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// Gate is a place in the task that a test waits for.
type Gate struct {
	// Reached is closed when the worker is asked for what comes after the number.
	Reached chan struct{}
	release chan struct{}
	command string
	over    bool
}

// Release lets the worker answer.
func (g *Gate) Release() { close(g.release) }

// Hold makes the worker wait, once, with the answer that would write n.
func (w *Worker) Hold(n int) *Gate {
	g := &Gate{Reached: make(chan struct{}), release: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gates[n] = g
	return g
}

// Block makes the worker write n with a command that goes on with command, once.
func (w *Worker) Block(n int, command string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gates[n] = &Gate{command: command}
}

// gate takes the gate of a number; nil if there is none, or it was taken.
func (w *Worker) gate(n int) *Gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.gates[n]
	if g == nil || g.over {
		return nil
	}
	g.over = true
	return g
}

// first reports whether this is the first time.
func (w *Worker) first(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.once[what]
	w.once[what] = true
	return !before
}

// note counts a reply of a kind, and returns how many there were before.
func (w *Worker) note(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked[what]++
	return w.asked[what] - 1
}

// reply answers one request that no strict provider would refuse.
func (w *Worker) reply(r *http.Request, wire string, body []byte, read reader) llmtest.Reply {
	tokens := len(body)/BytesPerToken + 1
	if most := w.cfg.Window[wire]; most > 0 && tokens > most {
		w.note("too long")
		return llmtest.Reply{Fail: llm.ClassContext}
	}
	h, err := read(body)
	if err != nil {
		w.problem("%s: a request that cannot be read: %v", wire, err)
		return llmtest.Reply{Fail: llm.ClassBadRequest}
	}
	out := w.think(r, wire, h)
	if out.Fail != "" {
		return out
	}
	words := len(out.Text) + len(out.Reasoning)
	for _, c := range out.Calls {
		words += len(c.Name) + len(c.Arguments)
	}
	out.Usage = conversation.Usage{PromptTokens: int64(tokens), CompletionTokens: int64(words/BytesPerToken + 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.billed += conversation.MoneyOf(float64(out.Usage.PromptTokens)*InputPrice + float64(out.Usage.CompletionTokens)*OutputPrice)
	return out
}
