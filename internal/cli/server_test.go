package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/cli"
)

const (
	testKey  = "user-key"
	boxKey   = "box-key"
	testConv = "0123456789abcdef0123456789abcdef"
	testTask = "fedcba9876543210fedcba9876543210"
)

// entry is one frame of the stream: a stored event, or a live one.
type entry struct {
	raw  string
	live bool
}

func stored(raws ...string) []entry {
	var entries []entry
	for _, raw := range raws {
		entries = append(entries, entry{raw: raw})
	}
	return entries
}

func live(raw string) entry { return entry{raw: raw, live: true} }

// server speaks the wire format of the parts of the API that the client uses,
// from a script: it holds a log, and hooks add to it.
type server struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	wake     chan struct{} // closed and replaced when the script moved on
	entries  []entry
	cuts     map[int]bool // hang up before the entry of this index, once
	calls    []string     // "METHOD path body"
	cursors  []string     // Last-Event-ID of each connection
	sandbox  string       // sandbox_status
	model    string
	metrics  string
	mute     bool // accept streams and send nothing
	override map[string]http.HandlerFunc

	onMessage func(text string) []entry
	onConfirm func(accept bool) []entry
	onCancel  func() []entry
}

func newServer(t *testing.T, entries ...entry) *server {
	s := &server{t: t, wake: make(chan struct{}), entries: entries, cuts: map[int]bool{}, sandbox: "RUNNING",
		model: "openai/test-model", override: map[string]http.HandlerFunc{},
		metrics: `{"model_name":"m","accumulated_cost":0.0123,"max_budget_per_task":null,"accumulated_token_usage":{"prompt_tokens":12345,"completion_tokens":67}}`}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *server) add(entries ...entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries, entries...)
	close(s.wake)
	s.wake = make(chan struct{})
}

func (s *server) called() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.calls...)
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.mu.Lock()
	s.calls = append(s.calls, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
	handler := s.override[r.Method+" "+r.URL.Path]
	s.mu.Unlock()
	key := testKey
	if strings.HasPrefix(r.URL.Path, "/agent/") {
		key = boxKey
	}
	switch {
	case handler != nil:
		handler(w, r)
	case r.Header.Get("X-Session-API-Key") != key:
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"detail":"Unauthorized"}`)
	default:
		s.route(w, r, body)
	}
}

func (s *server) route(w http.ResponseWriter, r *http.Request, body []byte) {
	const conv = "/api/v1/conversation/" + testConv
	switch r.Method + " " + r.URL.Path {
	case "POST /api/v1/app-conversations":
		_, _ = fmt.Fprintf(w, `{"id":%q,"status":"WORKING","detail":null,"app_conversation_id":null}`, testTask)
	case "GET /api/v1/app-conversations/start-tasks":
		_, _ = fmt.Fprintf(w, `[{"id":%q,"status":"READY","detail":null,"app_conversation_id":%q}]`, testTask, testConv)
	case "GET /api/v1/app-conversations":
		s.conversation(w, r)
	case "GET " + conv + "/events/count":
		_, _ = fmt.Fprint(w, len(s.log()))
	case "GET " + conv + "/events/search":
		s.search(w, r)
	case "GET " + conv + "/events/stream":
		s.stream(w, r)
	case "POST /api/v1/app-conversations/" + testConv + "/send-message":
		s.message(w, body)
	case "POST /api/v1/sandboxes/sb1/resume":
		s.mu.Lock()
		s.sandbox = "RUNNING"
		s.mu.Unlock()
		_, _ = io.WriteString(w, `{"success":true}`)
	case "POST /agent/sb1/api/conversations/" + testConv + "/interrupt":
		s.add(s.onCancel()...)
		_, _ = io.WriteString(w, `{"success":true}`)
	case "POST /agent/sb1/api/conversations/" + testConv + "/events/respond_to_confirmation":
		var verdict struct {
			Accept bool `json:"accept"`
		}
		_ = json.Unmarshal(body, &verdict)
		s.add(s.onConfirm(verdict.Accept)...)
		_, _ = io.WriteString(w, `{"success":true}`)
	default:
		http.NotFound(w, r)
	}
}

func (s *server) conversation(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Query().Get("ids") != testConv {
		_, _ = io.WriteString(w, `[null]`)
		return
	}
	_, _ = fmt.Fprintf(w, `[{"id":%q,"title":"T","sandbox_id":"sb1","sandbox_status":%q,"execution_status":null,"llm_model":%q,
		"conversation_url":"%s/agent/sb1/api/conversations/%s","session_api_key":%q,"metrics":%s}]`,
		testConv, s.sandbox, s.model, s.URL, testConv, boxKey, s.metrics)
}

// log returns the stored events.
func (s *server) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var log []string
	for _, e := range s.entries {
		if !e.live {
			log = append(log, e.raw)
		}
	}
	return log
}

func (s *server) search(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sort_order") != "TIMESTAMP_DESC" {
		s.t.Errorf("search with %s", r.URL.RawQuery)
	}
	var items []string
	for _, raw := range s.log() {
		if strings.Contains(raw, r.URL.Query().Get("kind__eq")) {
			items = append([]string{raw}, items...)
		}
	}
	_, _ = fmt.Fprintf(w, `{"items":[%s],"next_page_id":null}`, strings.Join(items, ","))
}

func (s *server) message(w http.ResponseWriter, body []byte) {
	s.mu.Lock()
	paused := s.sandbox != "RUNNING"
	s.mu.Unlock()
	if paused {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"detail":"the sandbox is paused"}`)
		return
	}
	var m struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	_ = json.Unmarshal(body, &m)
	s.add(s.onMessage(m.Content[0].Text)...)
	_, _ = io.WriteString(w, `{"success":true,"sandbox_status":"RUNNING","message":""}`)
}

// stream serves the entries after the cursor, and then waits for more.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	after := -1
	cursor := r.Header.Get("Last-Event-ID")
	if cursor != "" {
		after, _ = strconv.Atoi(cursor)
	}
	s.mu.Lock()
	s.cursors = append(s.cursors, cursor)
	mute := s.mute
	s.mute = false
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	if mute {
		<-r.Context().Done()
		return
	}
	for next := 0; ; {
		s.mu.Lock()
		entries, wake := s.entries, s.wake
		s.mu.Unlock()
		for ; next < len(entries); next++ {
			if s.cut(next) {
				_, _ = io.WriteString(w, "id: 99\ndata: {\"kind\":\"Messa") // a frame torn in the middle
				return
			}
			s.frame(w, entries, next, after)
		}
		w.(http.Flusher).Flush()
		select {
		case <-wake:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *server) cut(index int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	cut := s.cuts[index]
	delete(s.cuts, index)
	return cut
}

// frame writes an entry, and stored ones only if they come after the cursor. The
// last event before the cursor is repeated, as a careless server might.
func (s *server) frame(w io.Writer, entries []entry, index, after int) {
	if entries[index].live {
		_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", entries[index].raw)
		return
	}
	seq := -1
	for _, e := range entries[:index+1] {
		if !e.live {
			seq++
		}
	}
	if seq >= after {
		_, _ = fmt.Fprintf(w, ": beat\n\nid: %d\ndata: %s\n\n", seq, entries[index].raw)
	}
}

// screen is a writer that tests can wait on.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// waitFor polls until the screen has shown text count times.
func (s *screen) waitFor(t *testing.T, text string, count int) {
	t.Helper()
	eventually(t, func() bool { return strings.Count(s.String(), text) >= count },
		func() string { return fmt.Sprintf("%q was not shown %d time(s):\n%s", text, count, s) })
}

func eventually(t *testing.T, ok func() bool, otherwise func() string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal(otherwise())
		}
		<-time.After(2 * time.Millisecond)
	}
}

// chat is a session under test.
type chat struct {
	t          *testing.T
	out, err   *screen
	keys       *io.PipeWriter // what the user types
	interrupts chan os.Signal
	exit       chan cli.Exit
	failure    error // after exit
}

func testClient(s *server) *cli.Client {
	return cli.NewClient(s.URL, account.NewSecret(testKey), "the test", "test")
}

func quick() cli.Patience {
	return cli.Patience{MinWait: time.Millisecond, MaxWait: 10 * time.Millisecond, GiveUp: 300 * time.Millisecond, Silence: 10 * time.Second}
}

// startChat runs a session in the background; one screen shows both outputs.
func startChat(t *testing.T, s *server, opts cli.ChatOptions, term cli.Terminal) *chat {
	t.Helper()
	if opts.Patience == (cli.Patience{}) {
		opts.Patience = quick()
	}
	in, keys := io.Pipe()
	c := &chat{t: t, out: &screen{}, keys: keys, interrupts: make(chan os.Signal), exit: make(chan cli.Exit, 1)}
	c.err = c.out
	if term.Out != nil {
		c.err = &screen{}
	}
	if term.In == nil {
		term.In = in
	}
	if term.Out == nil {
		term.Out = c.out
	}
	term.Err, term.Interrupts = c.err, c.interrupts
	client := testClient(s)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); _ = keys.Close() })
	go func() {
		defer client.Close()
		exit, err := cli.Chat(ctx, client, term, opts)
		c.failure = err
		_ = keys.Close()
		c.exit <- exit
	}()
	return c
}

func (c *chat) wait() cli.Exit {
	c.t.Helper()
	select {
	case exit := <-c.exit:
		return exit
	case <-time.After(15 * time.Second):
		c.t.Fatalf("the session does not end:\n%s", c.out)
		return 0
	}
}

func (c *chat) typeLine(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.keys, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}
