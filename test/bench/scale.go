package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/store/sqlstore"
	"parley/internal/vault"
)

const (
	manyConversations = 100_000
	manyFollowers     = 1000
	manyRunning       = 200
	manyReconnects    = 5000
)

// scale measures a server that holds and does much, over a data directory of its own.
func (b *bench) scale() error {
	b.data = "scale"
	defer func() { b.data = "" }()
	ids, err := b.seedMany()
	if err != nil {
		return err
	}
	if _, err := b.start(); err != nil {
		return err
	}
	defer b.stop()
	for _, measure := range []func() error{
		func() error { return b.lists(ids) },
		b.reconnects, b.followers, b.running,
	} {
		if err := measure(); err != nil {
			return err
		}
	}
	return nil
}

// seedMany writes conversations straight into the store.
func (b *bench) seedMany() (ids []string, err error) {
	dir := filepath.Join(b.dir, b.data)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	keys, err := vault.Open(dir)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	s, err := sqlstore.Open(ctx, sqlstore.Options{Path: filepath.Join(dir, "parley.db"), Sealer: keys})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	begin := time.Now().UTC().Add(-manyConversations * time.Second)
	ids = make([]string, manyConversations)
	err = each(256, len(ids), func(i int) error { // side by side, so that they share commits
		id, at := conversation.NewID(), begin.Add(time.Duration(i)*time.Second)
		ids[i] = string(id)
		return s.Conversations().Create(ctx, &conversation.Conversation{ID: id, Owner: account.FirstUserID, Origin: conversation.OriginV1,
			Title: fmt.Sprintf("Conversation %d", i), AgentKind: "openhands", Tags: map[string]string{"n": strconv.Itoa(i)},
			Summary: conversation.Summary{Status: conversation.Idle}, Options: conversation.Options{MaxIterations: 1}, CreatedAt: at, UpdatedAt: at})
	})
	return ids, err
}

// each calls do for 0..n-1 from several goroutines, and returns the first error.
func each(parallel, n int, do func(i int) error) error {
	var all sync.WaitGroup
	errs := make(chan error, parallel)
	for p := range parallel {
		all.Go(func() {
			for i := p; i < n; i += parallel {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// lists measures what UIs ask for when they open.
func (b *bench) lists(ids []string) error {
	batch := func() string {
		var q []string
		for range 100 {
			q = append(q, "ids="+ids[rand.IntN(len(ids))]) //nolint:gosec // a sample
		}
		return "/api/v1/app-conversations?" + strings.Join(q, "&")
	}
	for _, c := range []struct {
		what, goal string
		path       func() string
	}{
		{"batch get of 100 conversations of 100,000", "≤ 10 ms", batch},
		{"search page of 100 among 100,000 conversations", "≤ 10 ms", func() string { return "/api/v1/app-conversations/search?limit=100" }},
		{"the same, the last changed first", "≤ 10 ms", func() string { return "/api/v1/app-conversations/search?limit=100&sort_order=UPDATED_AT_DESC" }},
		{"count of 100,000 conversations", "", func() string { return "/api/v1/app-conversations/count" }},
	} {
		var samples []time.Duration
		for range b.rounds * 2 {
			path := c.path()
			begin := time.Now()
			if err := b.call("GET", path, nil, nil); err != nil {
				return err
			}
			samples = append(samples, time.Since(begin))
		}
		b.add(c.what, c.goal, samples)
	}
	return nil
}

// reconnects lets clients join a log that grows, at random places, and checks that
// none of them sees a gap or an event twice.
func (b *bench) reconnects() error {
	const length = 3000
	id, _, err := b.conversation(map[string]any{})
	if err != nil {
		return err
	}
	say := func() error {
		m := message("more")
		m["run"] = false
		return b.call("POST", "/api/v1/app-conversations/"+id+"/send-message", m, nil)
	}
	if err := each(16, length, func(int) error { return say() }); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	wrote := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := say(); err != nil {
				wrote <- err
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		wrote <- nil
	}()
	samples := make([]time.Duration, manyReconnects)
	err = each(32, manyReconnects, func(i int) (err error) {
		samples[i], err = b.reconnect(id, rand.Int64N(length), 1+rand.IntN(150)) //nolint:gosec // a sample
		return err
	})
	cancel()
	if err := errors.Join(err, <-wrote); err != nil {
		return err
	}
	b.add(fmt.Sprintf("a reconnect with a cursor, until the first event (%d, 32 at a time, no gap, no double)", manyReconnects), "", samples)
	return nil
}

// reconnect follows a log from a cursor on for some events and returns how long the
// first one took.
func (b *bench) reconnect(id string, after int64, n int) (first time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/api/v1/conversation/"+id+"/events/stream", nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Session-API-Key", key)
	req.Header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
	begin := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewReaderSize(resp.Body, 64<<10)
	for next := after + 1; next <= after+int64(n); {
		line, err := lines.ReadString('\n')
		if err != nil {
			return 0, fmt.Errorf("after %d: %w", next-1, err)
		}
		seq, ok := strings.CutPrefix(strings.TrimSpace(line), "id: ")
		if !ok {
			continue
		}
		if seq != strconv.FormatInt(next, 10) {
			return 0, fmt.Errorf("event %s where %d comes next", seq, next)
		}
		if next == after+1 {
			first = time.Since(begin)
		}
		next++
	}
	return first, nil
}

// followers measures how long it takes until all followers of a conversation have an
// event.
func (b *bench) followers() error {
	id, _, err := b.conversation(map[string]any{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conns := make([]*websocket.Conn, manyFollowers)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.CloseNow()
			}
		}
	}()
	err = each(32, manyFollowers, func(i int) (err error) {
		conns[i], _, err = websocket.Dial(ctx, "ws"+strings.TrimPrefix(b.url, "http")+"/sockets/events/"+id+"?session_api_key="+key, nil) //nolint:bodyclose // the library owns it
		return err
	})
	if err != nil {
		return err
	}
	ages := make(chan time.Duration, manyFollowers)
	failed := make(chan error, manyFollowers)
	for _, c := range conns {
		c.SetReadLimit(1 << 20)
		go func() {
			for {
				age, err := readUserMessage(ctx, c)
				if err != nil {
					failed <- err
					return
				}
				ages <- age
			}
		}()
	}
	var samples []time.Duration
	for i := range b.rounds + 1 {
		m := message("hello")
		m["run"] = false
		if err := b.call("POST", "/api/v1/app-conversations/"+id+"/send-message", m, nil); err != nil {
			return err
		}
		var slowest time.Duration
		for range manyFollowers {
			select {
			case age := <-ages:
				slowest = max(slowest, age)
			case err := <-failed:
				return err
			}
		}
		if i > 0 { // until then some still join
			samples = append(samples, slowest)
		}
	}
	b.add(fmt.Sprintf("event stamped, stored and received by all of %d WebSocket clients", manyFollowers), "p99 ≤ 60 ms", samples)
	return nil
}

// pacer is a model for many conversations at once: each answer takes 100 ms and asks
// for a tool of the server's.
type pacer struct {
	mu       sync.Mutex
	answered map[string]time.Time
	steps    map[string]int
	samples  []time.Duration
	last     chan struct{} // has an element for every conversation that got its last answer
}

const (
	pace       = 100 * time.Millisecond
	pacerSteps = 30
	pacerMark  = "bench-conversation-"
)

func (p *pacer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	raw, err := io.ReadAll(r.Body)
	at := strings.Index(string(raw), pacerMark)
	if err != nil || at < 0 {
		http.Error(w, "no mark", http.StatusBadRequest)
		return
	}
	who := string(raw[at+len(pacerMark) : at+len(pacerMark)+4])
	p.mu.Lock()
	if last, ok := p.answered[who]; ok {
		p.samples = append(p.samples, now.Sub(last))
	}
	p.steps[who]++
	step := p.steps[who]
	p.mu.Unlock()
	time.Sleep(pace)
	delta := map[string]any{"content": "done"}
	if step < pacerSteps {
		delta = map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": fmt.Sprintf("call_%s_%d", who, step), "type": "function",
			"function": map[string]any{"name": "think", "arguments": fmt.Sprintf(`{"thought":"step %d"}`, step)}}}}
	}
	out, err := json.Marshal(map[string]any{"id": fmt.Sprintf("r%s%d", who, step), "choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": nil}}})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", out)
	_ = http.NewResponseController(w).Flush()
	p.mu.Lock()
	p.answered[who] = time.Now()
	p.mu.Unlock()
	if step == pacerSteps {
		p.last <- struct{}{}
	}
}

// running measures the steps of many conversations that run at once.
func (b *bench) running() error {
	model := &pacer{answered: map[string]time.Time{}, steps: map[string]int{}, last: make(chan struct{}, manyRunning)}
	provider := httptest.NewServer(model)
	defer provider.Close()
	err := b.call("POST", "/api/settings", map[string]any{"llm_model": "openai/bench", "llm_api_key": "k-123456", "llm_base_url": provider.URL + "/v1",
		"enable_default_condenser": false}, nil)
	if err != nil {
		return err
	}
	_, sandboxID, err := b.conversation(map[string]any{})
	if err != nil {
		return err
	}
	ids := make([]string, manyRunning)
	err = each(8, manyRunning, func(i int) (err error) {
		ids[i], _, err = b.conversation(map[string]any{"sandbox_id": sandboxID})
		return err
	})
	if err != nil {
		return err
	}
	err = each(manyRunning, manyRunning, func(i int) error {
		return b.call("POST", "/api/v1/app-conversations/"+ids[i]+"/send-message", message(fmt.Sprintf("%s%04d", pacerMark, i)), nil)
	})
	if err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for range ids { // nobody asks for them meanwhile: that would be measured as well
		select {
		case <-model.last:
		case <-patience.Done():
		}
	}
	for _, id := range ids { // which tells of those that failed
		if err := b.waitFinished(id); err != nil {
			return err
		}
	}
	model.mu.Lock()
	defer model.mu.Unlock()
	b.add(fmt.Sprintf("overhead of one agent step, %d conversations running, an answer takes 100 ms (%d samples)", manyRunning, len(model.samples)), "p99 ≤ 100 ms", model.samples)
	return nil
}
