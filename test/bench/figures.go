package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/vault"
)

func (b *bench) binarySize() error {
	info, err := os.Stat(b.bin)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{"binary (stripped, static)", fmt.Sprintf("%.1f MiB", float64(info.Size())/(1<<20)), "", "≤ 60 MiB"})
	return nil
}

func (b *bench) readyAfterExec() error {
	var samples []time.Duration
	for range 10 {
		took, err := b.start()
		if err != nil {
			return err
		}
		samples = append(samples, took)
		b.stop()
	}
	b.add("server ready after exec (10 samples)", "≤ 300 ms", samples)
	return nil
}

func (b *bench) startToReady() error {
	if _, err := b.start(); err != nil {
		return err
	}
	defer b.stop()
	var samples []time.Duration
	for i := range b.rounds + 1 {
		begin := time.Now()
		_, sandboxID, err := b.conversation(map[string]any{})
		if err != nil {
			return err
		}
		if i > 0 { // the first one warms up
			samples = append(samples, time.Since(begin))
		}
		if err := b.deleteSandbox(sandboxID); err != nil {
			return err
		}
	}
	b.add("start call to READY", "≤ 50 ms", samples)
	return nil
}

// stepper is a model that asks for a trivial command again and again and notes when.
type stepper struct {
	mu       sync.Mutex
	answered time.Time
	samples  []time.Duration
	left     int
}

func (s *stepper) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.answered.IsZero() {
		s.samples = append(s.samples, time.Since(s.answered))
	}
	s.left--
	delta := map[string]any{"content": "done"}
	if s.left > 0 {
		delta = map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": fmt.Sprintf("call_%d", s.left), "type": "function",
			"function": map[string]any{"name": "terminal", "arguments": fmt.Sprintf(`{"command":"true %d"}`, s.left)}}}} // the same call over and over would be stopped
	}
	raw, err := json.Marshal(map[string]any{"id": fmt.Sprintf("r%d", s.left), "choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": nil}}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", raw)
	_ = http.NewResponseController(w).Flush()
	s.answered = time.Now()
}

func (b *bench) stepOverhead() error {
	model := &stepper{left: 4*b.rounds + 2}
	provider := httptest.NewServer(model)
	defer provider.Close()
	if _, err := b.start(); err != nil {
		return err
	}
	defer b.stop()
	err := b.call("POST", "/api/settings", map[string]any{"llm_model": "openai/bench", "llm_api_key": "k-123456", "llm_base_url": provider.URL + "/v1",
		"enable_default_condenser": false}, nil) // steps only
	if err != nil {
		return err
	}
	id, sandboxID, err := b.conversation(map[string]any{"initial_message": message("go")})
	if err != nil {
		return err
	}
	if err := b.waitFinished(id); err != nil {
		return err
	}
	model.mu.Lock()
	b.add(fmt.Sprintf("overhead of one agent step (%d samples)", len(model.samples)-1), "≤ 6 ms", model.samples[1:]) // the first opens the shell
	model.mu.Unlock()
	if err := b.deleteSandbox(sandboxID); err != nil {
		return err
	}
	return b.call("POST", "/api/settings", map[string]any{"llm_model": "demo/scripted", "llm_api_key": "", "llm_base_url": ""}, nil)
}

func (b *bench) waitFinished(id string) error {
	for {
		var list []struct {
			Status string `json:"execution_status"`
		}
		if err := b.call("GET", "/api/v1/app-conversations?ids="+id, nil, &list); err != nil {
			return err
		}
		switch list[0].Status {
		case "finished":
			return nil
		case "error", "stuck":
			return fmt.Errorf("conversation %s is %s", id, list[0].Status)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (b *bench) commitToSocket() error {
	if _, err := b.start(); err != nil {
		return err
	}
	defer b.stop()
	id, _, err := b.conversation(map[string]any{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(b.url, "http")+"/sockets/events/"+id+"?session_api_key="+key, nil) //nolint:bodyclose // the library owns it
	if err != nil {
		return fmt.Errorf("%w (%v)", err, resp)
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	var samples []time.Duration
	for range b.rounds * 2 {
		m := message("hello")
		m["run"] = false
		if err := b.call("POST", "/api/v1/app-conversations/"+id+"/send-message", m, nil); err != nil {
			return err
		}
		took, err := readUserMessage(ctx, conn)
		if err != nil {
			return err
		}
		samples = append(samples, took)
	}
	b.add(fmt.Sprintf("event stamped, stored and received by a WebSocket client (%d samples)", len(samples)), "≤ 3 ms", samples)
	return nil
}

// readUserMessage reads frames until a user's message and returns its age. The
// REST answer may come first: the frame's own arrival time is not known then, so
// the age is an upper bound.
func readUserMessage(ctx context.Context, conn *websocket.Conn) (time.Duration, error) {
	for {
		_, raw, err := conn.Read(ctx)
		now := time.Now().UTC()
		if err != nil {
			return 0, err
		}
		var e struct{ Kind, Source, Timestamp string }
		if err := json.Unmarshal(raw, &e); err != nil {
			return 0, err
		}
		if e.Kind != conversation.KindMessage || e.Source != conversation.SourceUser {
			continue
		}
		at, err := time.Parse(conversation.TimeLayout, e.Timestamp)
		return now.Sub(at), err
	}
}

// lastPage compares the last page of a short and of a long log.
func (b *bench) lastPage() error {
	short, long, err := b.seed()
	if err != nil {
		return err
	}
	if _, err := b.start(); err != nil {
		return err
	}
	defer b.stop()
	for _, c := range []struct {
		what string
		id   conversation.ID
	}{{"last page of a 100-event conversation", short}, {"last page of a 100,000-event conversation", long}} {
		var samples []time.Duration
		for range b.rounds * 2 {
			begin := time.Now()
			if err := b.call("GET", "/api/v1/conversation/"+string(c.id)+"/events/search?limit=100&sort_order=TIMESTAMP_DESC", nil, nil); err != nil {
				return err
			}
			samples = append(samples, time.Since(begin))
		}
		b.add(c.what, "the same", samples)
	}
	return nil
}

// seed writes a short and a long log straight into the store.
func (b *bench) seed() (short, long conversation.ID, err error) {
	dir := filepath.Join(b.dir, "d")
	keys, err := vault.Open(dir)
	if err != nil {
		return "", "", err
	}
	ctx := context.Background()
	s, err := sqlstore.Open(ctx, sqlstore.Options{Path: filepath.Join(dir, "parley.db"), Sealer: keys})
	if err != nil {
		return "", "", err
	}
	defer func() { _ = s.Close() }()
	if short, err = seedLog(ctx, s, 100); err != nil {
		return "", "", err
	}
	long, err = seedLog(ctx, s, 100_000)
	return short, long, err
}

func seedLog(ctx context.Context, s store.Store, n int) (conversation.ID, error) {
	now := time.Now().UTC()
	c := &conversation.Conversation{ID: conversation.NewID(), Owner: account.FirstUserID, Origin: conversation.OriginV1, Title: "seed",
		AgentKind: "openhands", Summary: conversation.Summary{Status: conversation.Idle}, CreatedAt: now, UpdatedAt: now}
	if err := s.Conversations().Create(ctx, c); err != nil {
		return "", err
	}
	gen, err := s.Leases().Acquire(ctx, c.ID, "bench", now, time.Minute)
	if err != nil {
		return "", err
	}
	text := string(bytes.Repeat([]byte("word "), 40))
	for head := 0; head < n; {
		var events []conversation.Event
		for ; len(events) < 1000 && head+len(events) < n; now = now.Add(time.Millisecond) {
			e, err := conversation.Encode(&conversation.MessageEvent{Header: conversation.Head(conversation.KindMessage, conversation.SourceUser, now),
				LLMMessage: conversation.LLMMessage{Role: content.RoleUser, Content: []content.Part{content.Text(text)}}})
			if err != nil {
				return "", err
			}
			events = append(events, e)
		}
		err := s.Events().Append(ctx, store.Append{Conversation: c.ID, ExpectHead: int64(head), Generation: gen, Events: events, Now: now,
			Summary: conversation.Summary{Status: conversation.Idle, Head: int64(head + len(events))}})
		if err != nil {
			return "", err
		}
		head += len(events)
	}
	return c.ID, s.Leases().Release(ctx, c.ID, "bench", gen)
}

// idleConversations measures what 1,000 conversations leave in the server.
func (b *bench) idleConversations() error {
	const n = 1000
	if _, err := b.start(); err != nil {
		return err
	}
	defer b.stop()
	_, sandboxID, err := b.conversation(map[string]any{"initial_message": message("say: hello")})
	if err != nil {
		return err
	}
	before, err := resident(b.cmd.Process.Pid)
	if err != nil {
		return err
	}
	for range n {
		if _, _, err := b.conversation(map[string]any{"sandbox_id": sandboxID, "initial_message": message("say: hello")}); err != nil {
			return err
		}
	}
	time.Sleep(75 * time.Second) // longer than a conversation stays loaded
	after, err := resident(b.cmd.Process.Pid)
	if err != nil {
		return err
	}
	b.rows = append(b.rows, row{"1,000 idle conversations (growth of the server's resident memory)",
		fmt.Sprintf("%.1f MiB", float64(after-before)/(1<<20)), "", "≤ 60 MiB"})
	return nil
}
