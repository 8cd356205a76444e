// Package responsestest is a server that speaks the OpenAI Responses API: it
// gives scripted answers in the API's wire format, streamed and whole, with the
// faults of real life, and refuses every request that the real API would refuse,
// a thought without its items and an item without its thought included.
//
// It knows nothing of models: it says what it is told to say.
package responsestest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"parley/internal/llm/llmtest"
)

// Kinds of Item.
const (
	Thought = "reasoning"
	Message = "message"
	Call    = "function_call"
)

// Item is one item of an answer.
type Item struct {
	Kind      string
	Text      string // of a message; of a thought: its summary
	Signature string // of a thought: part of what is encrypted
	Phase     string // of a message; "" = none
	CallID    string // of a call
	Name      string
	Arguments string
}

// Handler serves POST .../responses with the answers of next, which is called
// for requests that the API would accept. It is safe for concurrent use.
func Handler(next func(r *http.Request, body []byte) llmtest.Reply) http.Handler {
	return ItemHandler(func(r *http.Request, body []byte) ([]Item, llmtest.Reply) {
		reply := next(r, body)
		return itemsOf(reply), reply
	})
}

// ItemHandler is Handler for answers of any items in any order. Of the reply, its
// text, reasoning, calls and signature count for nothing.
func ItemHandler(next func(r *http.Request, body []byte) ([]Item, llmtest.Reply)) http.Handler {
	s := &server{next: next, signed: map[string]signature{}}
	return http.HandlerFunc(s.serve)
}

func itemsOf(r llmtest.Reply) []Item {
	var items []Item
	if r.Reasoning != "" || r.Signature != "" {
		items = append(items, Item{Kind: Thought, Text: r.Reasoning, Signature: r.Signature})
	}
	if r.Text != "" {
		items = append(items, Item{Kind: Message, Text: r.Text})
	}
	for _, c := range r.Calls {
		items = append(items, Item{Kind: Call, CallID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	return items
}

type server struct {
	next func(*http.Request, []byte) ([]Item, llmtest.Reply)

	mu     sync.Mutex
	signed map[string]signature // by call id
	order  []string             // of signed, oldest first
}

// signature is the encrypted thought that must come with a call, in a request
// for the model that thought it, if what stood between the two comes too: behind a
// gap a thought has no place, because it goes with the item that followed it.
type signature struct {
	sealed, model string
	between       []string // the ids of messages, the call ids of calls
}

// maxBody bounds a request, in bytes.
const maxBody = 64 << 20

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client went away
	}
	if refusal := s.check(r, body); refusal != nil {
		refusal.write(w)
		return
	}
	var req request
	if err := json.Unmarshal(body, &req); err != nil {
		(&Refusal{Status: http.StatusBadRequest, Message: err.Error()}).write(w)
		return
	}
	items, reply := s.next(r, body)
	a := newAnswer(items, reply, &req, len(body))
	s.remember(a)
	a.serve(w, r)
}

// request is what an answer depends on.
type request struct {
	Model     string   `json:"model"`
	Stream    bool     `json:"stream"`
	Include   []string `json:"include"`
	Tools     []any    `json:"tools"`
	Parallel  *bool    `json:"parallel_tool_calls"`
	Reasoning struct {
		Summary string `json:"summary"`
	} `json:"reasoning"`
}

func (r *request) encrypted() bool {
	for _, what := range r.Include {
		if what == "reasoning.encrypted_content" {
			return true
		}
	}
	return false
}

func (s *server) check(r *http.Request, body []byte) *Refusal {
	switch {
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/responses"):
		return &Refusal{Status: http.StatusNotFound, Message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")"}
	case strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") == "" && r.Header.Get("Api-Key") == "":
		return &Refusal{Status: http.StatusUnauthorized, Message: "You didn't provide an API key."}
	}
	if refusal := Check(body); refusal != nil {
		return refusal
	}
	return s.checkSigned(body)
}

// maxSigned bounds how many calls are remembered.
const maxSigned = 4096

// remember notes which thought the calls of a signed answer must come with.
func (s *server) remember(a *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sealed := ""
	var between []string
	for _, it := range a.items {
		switch {
		case it.Kind == Thought && it.Signature != "" && it.sealed != "":
			sealed, between = it.sealed, nil
		case it.Kind == Call && it.CallID != "" && sealed != "":
			s.signed[it.CallID] = signature{sealed: sealed, model: a.model, between: slices.Clone(between)}
			s.order = append(s.order, it.CallID)
			between = append(between, it.CallID)
		default:
			between = append(between, it.id)
		}
	}
	for len(s.order) > maxSigned {
		delete(s.signed, s.order[0])
		s.order = s.order[1:]
	}
}

func (s *server) checkSigned(body []byte) *Refusal {
	var req struct {
		Model string `json:"model"`
		Input []struct {
			ID     string `json:"id"`
			CallID string `json:"call_id"`
			Sealed string `json:"encrypted_content"`
		} `json:"input"`
	}
	if json.Unmarshal(body, &req) != nil {
		return nil // the input is a text
	}
	there := map[string]bool{}
	for _, it := range req.Input {
		there[it.Sealed], there[it.ID], there[it.CallID] = true, true, true
	}
	gap := func(id string) bool { return !there[id] }
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range req.Input {
		if want, ok := s.signed[it.CallID]; ok && want.model == req.Model && !there[want.sealed] && !slices.ContainsFunc(want.between, gap) {
			return &Refusal{Status: http.StatusBadRequest, Param: "input",
				Message: "Item '" + it.CallID + "' of type 'function_call' was provided without its required 'reasoning' item."}
		}
	}
	return nil
}

// seal makes the encrypted content of a thought; opened reads it.
func seal(id, signature string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(sealMark + id + ":" + signature))
}

const sealMark = "sealed:"

// opened returns the id of the thought that was sealed.
func opened(sealed string) (id string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	rest, marked := strings.CutPrefix(string(raw), sealMark)
	id, _, found := strings.Cut(rest, ":")
	return id, err == nil && marked && found
}

// Ids of items tell what they belong to: kind_answer_position, and for messages
// and calls the position of the thought before them, or x.

func newTag() string { return strings.ToLower(rand.Text()[:16]) }

// ties reads an id: the answer, the position in it, and the thought it needs.
func ties(id string) (tag string, at int, thought string) {
	fields := strings.Split(id, "_")
	if len(fields) < 3 {
		return "", -1, ""
	}
	at, err := strconv.Atoi(fields[2])
	if err != nil {
		return "", -1, ""
	}
	if len(fields) > 3 && fields[3] != "x" {
		thought = "rs_" + fields[1] + "_" + fields[3]
	}
	return fields[1], at, thought
}

// Refusal is an error in the API's own shape.
type Refusal struct {
	Status  int
	Message string
	Type    string // "" = invalid_request_error
	Param   string
	Code    string
	Header  http.Header
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

func (r *Refusal) write(w http.ResponseWriter) {
	for k, v := range r.Header {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": r.object()}) // the client may be gone
}

func (r *Refusal) object() map[string]any {
	o := map[string]any{"message": r.Message, "type": "invalid_request_error", "param": nil, "code": nil}
	if r.Type != "" {
		o["type"] = r.Type
	}
	if r.Param != "" {
		o["param"] = r.Param
	}
	if r.Code != "" {
		o["code"] = r.Code
	}
	return o
}
