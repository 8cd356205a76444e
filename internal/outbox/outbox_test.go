package outbox_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/outbox"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/tool/mcp/egress"
	"parley/internal/vault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const owner = "user"

// office is a store with an outbox over it.
type office struct {
	testing.TB
	db  *sqlstore.Store
	opt outbox.Options
	box *outbox.Outbox
	mu  sync.Mutex // of appends
	n   int
}

func newOffice(t testing.TB, change func(*outbox.Options)) *office {
	t.Helper()
	dir := t.TempDir()
	v, err := vault.Open(dir)
	check(t, err)
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "parley.db"), Sealer: v})
	check(t, err)
	dial, err := egress.Dialer(egress.Config{Allow: []string{"127.0.0.1"}, Key: "webhook_allow_private"})
	check(t, err)
	o := &office{TB: t, db: db, opt: outbox.Options{Store: db.Webhooks(), Log: db.Events(), Dial: dial,
		Backoff: []time.Duration{time.Millisecond, 5 * time.Millisecond}, Timeout: time.Minute}}
	if change != nil {
		change(&o.opt)
	}
	o.open()
	t.Cleanup(func() {
		o.box.Close()
		check(t, db.Close())
	})
	return o
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (o *office) open() {
	o.Helper()
	o.box = outbox.New(o.opt)
	check(o.TB, o.box.Open(o.Context()))
}

// restart is what a server that ends and starts again does.
func (o *office) restart() {
	o.Helper()
	o.box.Close()
	o.open()
}

func (o *office) conversation(who string, tags map[string]string) conversation.ID {
	o.Helper()
	now := time.Now().UTC()
	c := &conversation.Conversation{ID: conversation.NewID(), Owner: who, Origin: conversation.OriginV1, Title: "t", Tags: tags,
		Summary: conversation.Summary{Status: conversation.Idle}, CreatedAt: now, UpdatedAt: now}
	check(o.TB, o.db.Conversations().Create(o.Context(), c))
	return c.ID
}

// append adds messages, each with its number as text, or the given payloads.
func (o *office) append(id conversation.ID, n int, payloads ...conversation.Payload) {
	o.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	c, err := o.db.Conversations().Get(o.Context(), "", id)
	check(o.TB, err)
	now := time.Now().UTC()
	for range n {
		o.n++
		payloads = append(payloads, &conversation.MessageEvent{Header: conversation.Head(conversation.KindMessage, conversation.SourceUser, now),
			LLMMessage: conversation.LLMMessage{Role: content.RoleUser, Content: []content.Part{content.Text(fmt.Sprint(o.n))}}})
	}
	events := make([]conversation.Event, len(payloads))
	for i, p := range payloads {
		events[i], err = conversation.Encode(p)
		check(o.TB, err)
	}
	check(o.TB, o.db.Events().Append(o.Context(), store.Append{Conversation: id, ExpectHead: c.Summary.Head, Generation: c.Generation,
		Events: events, Summary: conversation.Summary{Status: conversation.Idle}, Now: now}))
	o.box.Wake(id)
}

func status(s string) conversation.Payload {
	value, _ := json.Marshal(s)
	return &conversation.StateUpdateEvent{Header: conversation.Head(conversation.KindStateUpdate, conversation.SourceEnvironment, time.Now().UTC()),
		Key: conversation.KeyStatus, Value: value}
}

// register makes an endpoint for a receiver.
func (o *office) register(r *receiver, f store.WebhookFilter) *store.WebhookEndpoint {
	o.Helper()
	e, err := o.box.Create(o.Context(), owner, outbox.Change{URL: &r.server.URL, Filter: &f})
	check(o.TB, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret = e.Secret.Reveal()
	return e
}

// receipt is a message that arrived.
type receipt struct {
	ID   string
	Type string `json:"type"`
	Data struct {
		Conversation conversation.ID `json:"conversation_id"`
		Events       []struct {
			Seq   int64 `json:"seq"`
			Event struct {
				Kind string `json:"kind"`
				Key  string `json:"key"`
			} `json:"event"`
		} `json:"events"`
	} `json:"data"`
	answer int
}

func (r receipt) seqs() []int64 {
	var out []int64
	for _, e := range r.Data.Events {
		out = append(out, e.Seq)
	}
	return out
}

// receiver is an endpoint that checks signatures.
type receiver struct {
	testing.TB
	server *httptest.Server
	answer func(n int, r receipt) int // the status of the n-th request

	mu     sync.Mutex
	secret string
	got    []receipt
	bytes  []int
}

func newReceiver(t testing.TB, answer func(n int, r receipt) int) *receiver {
	t.Helper()
	if answer == nil {
		answer = func(int, receipt) int { return http.StatusNoContent }
	}
	r := &receiver{TB: t, answer: answer}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender left
	}
	r.mu.Lock()
	secret, n := r.secret, len(r.got)
	r.mu.Unlock()
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	id, stamp := req.Header.Get("webhook-id"), req.Header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); secret != "" && req.Header.Get("webhook-signature") != want {
		r.Errorf("signature %q, want %q", req.Header.Get("webhook-signature"), want)
	}
	if at, err := strconv.ParseInt(stamp, 10, 64); err != nil || time.Since(time.Unix(at, 0)).Abs() > time.Minute {
		r.Errorf("timestamp %q", stamp)
	}
	m := receipt{ID: id}
	if err := json.Unmarshal(body, &m); err != nil || req.Method != "POST" || req.Header.Get("Content-Type") != "application/json" {
		r.Errorf("%s %v: %.200s", req.Method, err, body)
	}
	m.answer = r.answer(n, m)
	r.mu.Lock()
	r.got = append(r.got, m)
	r.bytes = append(r.bytes, len(body))
	r.mu.Unlock()
	w.WriteHeader(m.answer)
}

func (r *receiver) all() []receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// accepted lists the seqs of a conversation that were taken, as they came.
func (r *receiver) accepted(id conversation.ID) (seqs []int64) {
	for _, m := range r.all() {
		if m.answer/100 == 2 && m.Data.Conversation == id {
			seqs = append(seqs, m.seqs()...)
		}
	}
	return seqs
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

func count(from, n int64) (out []int64) {
	for i := range n {
		out = append(out, from+i)
	}
	return out
}

func TestEventsArriveInOrderOnce(t *testing.T) {
	o, r := newOffice(t, nil), newReceiver(t, nil)
	old := o.conversation(owner, nil)
	o.append(old, 3)
	o.register(r, store.WebhookFilter{})
	a, b, foreign := o.conversation(owner, nil), o.conversation(owner, nil), o.conversation("somebody else", nil)
	for range 40 {
		for _, id := range []conversation.ID{a, b, foreign, old} {
			o.append(id, 3)
		}
	}
	until(t, "all", func() bool {
		return len(r.accepted(a)) >= 120 && len(r.accepted(b)) >= 120 && len(r.accepted(old)) >= 120
	})
	for id, want := range map[conversation.ID][]int64{a: count(0, 120), b: count(0, 120), old: count(3, 120), foreign: nil} {
		if got := r.accepted(id); !slices.Equal(got, want) {
			t.Errorf("%s: %v", id, got)
		}
	}
}

// An endpoint that refuses, and a server that ends and starts again, lose nothing and
// change no order.
func TestNothingIsLost(t *testing.T) {
	o := newOffice(t, nil)
	r := newReceiver(t, func(n int, _ receipt) int { return []int{500, 200, 503, 404, 200}[n%5] })
	o.register(r, store.WebhookFilter{})
	ids := []conversation.ID{o.conversation(owner, nil), o.conversation(owner, nil), o.conversation(owner, nil)}
	for i := range 60 {
		o.append(ids[i%3], 1+i%4)
		if i%10 == 9 {
			o.restart()
		}
	}
	for _, id := range ids {
		c, err := o.db.Conversations().Get(t.Context(), "", id)
		check(t, err)
		want := count(0, c.Summary.Head)
		first := func() (seqs []int64) { // each at its first arrival
			for _, seq := range r.accepted(id) {
				if !slices.Contains(seqs, seq) {
					seqs = append(seqs, seq)
				}
			}
			return seqs
		}
		until(t, "all", func() bool { return len(first()) == len(want) })
		if got := first(); !slices.Equal(got, want) {
			t.Errorf("%v", got)
		}
	}
}

// A message that failed is sent again as it was, however the log has grown.
func TestARetryIsTheSameMessage(t *testing.T) {
	o := newOffice(t, func(p *outbox.Options) { p.Backoff = []time.Duration{time.Hour} })
	back := make(chan struct{})
	r := newReceiver(t, func(n int, _ receipt) int {
		select {
		case <-back:
			return 200
		default:
			return 500
		}
	})
	e := o.register(r, store.WebhookFilter{})
	id := o.conversation(owner, nil)
	o.append(id, 2)
	until(t, "the first attempt", func() bool { return len(r.all()) == 1 })
	o.append(id, 5)
	until(t, "its record", func() bool { d := o.deliveries(e.ID); return len(d) == 1 && !d[0].RetryAt.IsZero() })
	close(back)
	o.restart()
	if n := len(r.all()); n != 1 {
		t.Errorf("%d requests before the hour is over", n)
	}
	_, err := o.box.Update(t.Context(), owner, e.ID, outbox.Change{}) // tries again at once
	check(t, err)
	until(t, "all", func() bool { return len(r.accepted(id)) == 7 })
	got := r.all()
	if len(got) != 3 || got[0].ID != got[1].ID || !slices.Equal(got[1].seqs(), []int64{0, 1}) || got[2].ID == got[1].ID || !slices.Equal(got[2].seqs(), count(2, 5)) {
		t.Errorf("%+v", got)
	}
	until(t, "the record", func() bool { return len(o.deliveries(e.ID)) == 2 })
	if d := o.deliveries(e.ID)[1]; !d.Delivered || d.FirstSeq != 0 || d.LastSeq != 1 || d.Events != 2 || d.Status != 200 || d.Error != "" {
		t.Errorf("%+v", d)
	}
}

func (o *office) deliveries(endpoint string) []store.WebhookDelivery {
	o.Helper()
	p, err := o.box.Deliveries(o.Context(), store.WebhookQuery{Owner: owner, Endpoint: endpoint})
	check(o.TB, err)
	return p.Items
}

func TestFilters(t *testing.T) {
	o := newOffice(t, nil)
	a, b := o.conversation(owner, map[string]string{"team": "x", "more": "y"}), o.conversation(owner, map[string]string{"team": "z"})
	type seqs map[conversation.ID][]int64
	cases := map[string]struct {
		f    store.WebhookFilter
		want seqs
	}{
		"all":          {store.WebhookFilter{}, seqs{a: count(0, 4), b: count(0, 4)}},
		"ids":          {store.WebhookFilter{Conversations: []conversation.ID{b}}, seqs{b: count(0, 4)}},
		"a tag":        {store.WebhookFilter{Tags: map[string]string{"team": "x"}}, seqs{a: count(0, 4)}},
		"all tags":     {store.WebhookFilter{Tags: map[string]string{"team": "z", "more": "y"}}, nil},
		"kinds":        {store.WebhookFilter{Kinds: []string{conversation.KindMessage}}, seqs{a: {1, 3}, b: {1, 3}}},
		"status only":  {store.WebhookFilter{StatusOnly: true}, seqs{a: {0, 2}, b: {0, 2}}},
		"both":         {store.WebhookFilter{StatusOnly: true, Tags: map[string]string{"team": "z"}}, seqs{b: {0, 2}}},
		"no such kind": {store.WebhookFilter{Kinds: []string{"Nothing"}}, nil},
	}
	got := map[string]*receiver{}
	for name, c := range cases {
		got[name] = newReceiver(t, nil)
		o.register(got[name], c.f)
	}
	for _, id := range []conversation.ID{a, b} {
		o.append(id, 1, status("running"))
		o.append(id, 0, status("finished"))
		o.append(id, 1)
	}
	for name, c := range cases {
		for _, id := range []conversation.ID{a, b} {
			until(t, name, func() bool { return len(got[name].accepted(id)) >= len(c.want[id]) })
		}
	}
	o.box.Close() // nothing more comes
	for name, c := range cases {
		for _, id := range []conversation.ID{a, b} {
			if have := got[name].accepted(id); !slices.Equal(have, c.want[id]) {
				t.Errorf("%s: %v, want %v", name, have, c.want[id])
			}
		}
	}
}

// What an endpoint does not want is not read again and again.
func TestSkippedEventsMoveTheCursor(t *testing.T) {
	o, r := newOffice(t, nil), newReceiver(t, nil)
	e := o.register(r, store.WebhookFilter{StatusOnly: true})
	id := o.conversation(owner, nil)
	for range 30 {
		o.append(id, 100)
	}
	until(t, "a cursor", func() bool {
		c, err := o.db.Webhooks().Cursor(t.Context(), e.ID, id)
		return err == nil && c.Next >= 3000-64
	})
	o.append(id, 0, status("finished"))
	until(t, "the status", func() bool { return slices.Equal(r.accepted(id), []int64{3000}) })
}

func TestMessagesAreBounded(t *testing.T) {
	o, r := newOffice(t, nil), newReceiver(t, nil)
	id := o.conversation(owner, nil)
	long := func(n int) conversation.Payload {
		return &conversation.MessageEvent{Header: conversation.Head(conversation.KindMessage, conversation.SourceUser, time.Now().UTC()),
			LLMMessage: conversation.LLMMessage{Role: content.RoleUser, Content: []content.Part{content.Text(strings.Repeat("x", n))}}}
	}
	o.append(id, 120, long(700<<10), long(700<<10), long(3<<20), long(1))
	e := o.register(r, store.WebhookFilter{})
	zero := int64(0)
	_, err := o.box.Replay(t.Context(), owner, e.ID, outbox.Replay{Conversation: id, FromSeq: &zero})
	check(t, err)
	until(t, "all", func() bool { return len(r.accepted(id)) == 124 })
	if got := r.accepted(id); !slices.Equal(got, count(0, 124)) {
		t.Errorf("%v", got)
	}
	for i, m := range r.all() {
		if len(m.Data.Events) > 50 || len(m.Data.Events) > 1 && r.bytes[i] > 1<<20+64<<10 {
			t.Errorf("%d events, %d bytes", len(m.Data.Events), r.bytes[i])
		}
	}
}

func TestASlowEndpointDelaysNobody(t *testing.T) {
	o, release := newOffice(t, nil), make(chan struct{})
	slow := newReceiver(t, func(int, receipt) int { <-release; return 200 })
	fast := newReceiver(t, nil)
	o.register(slow, store.WebhookFilter{})
	o.register(fast, store.WebhookFilter{})
	id := o.conversation(owner, nil)
	for range 200 {
		o.append(id, 1)
	}
	until(t, "all at the other", func() bool { return len(fast.accepted(id)) == 200 })
	close(release)
	until(t, "all", func() bool { return len(slow.accepted(id)) == 200 })
	if !slices.Equal(slow.accepted(id), count(0, 200)) {
		t.Errorf("%v", slow.accepted(id))
	}
}

// One conversation that an endpoint does not take holds up none of the others.
func TestOneConversationFails(t *testing.T) {
	o := newOffice(t, nil)
	bad := o.conversation(owner, nil)
	r := newReceiver(t, func(_ int, m receipt) int {
		if m.Data.Conversation == bad {
			return 400
		}
		return 200
	})
	o.register(r, store.WebhookFilter{})
	good := o.conversation(owner, nil)
	for range 20 {
		o.append(bad, 1)
		o.append(good, 1)
	}
	until(t, "the good one", func() bool { return len(r.accepted(good)) == 20 })
}

func TestAnEndpointThatFailsForLongIsSwitchedOff(t *testing.T) {
	o := newOffice(t, func(p *outbox.Options) { p.GiveUp = 30 * time.Millisecond })
	back := make(chan struct{})
	r := newReceiver(t, func(int, receipt) int {
		select {
		case <-back:
			return 200
		default:
			return 502
		}
	})
	e := o.register(r, store.WebhookFilter{})
	id := o.conversation(owner, nil)
	o.append(id, 3)
	var now *store.WebhookEndpoint
	until(t, "the end", func() bool {
		var err error
		now, err = o.box.Get(t.Context(), owner, e.ID)
		check(t, err)
		return !now.Active
	})
	if !strings.Contains(now.Reason, string(id)) || !strings.Contains(now.Reason, "502 Bad Gateway") || now.FailingSince.IsZero() || now.LastError == "" {
		t.Errorf("%+v", now)
	}
	if d := o.deliveries(e.ID); len(d) != 1 || d[0].Delivered || !d[0].RetryAt.IsZero() || d[0].Attempts < 2 {
		t.Errorf("%+v", d)
	}
	o.append(id, 2)
	o.restart()
	close(back)
	yes := true
	now, err := o.box.Update(t.Context(), owner, e.ID, outbox.Change{Active: &yes})
	check(t, err)
	if !now.Active || now.Reason != "" {
		t.Errorf("%+v", now)
	}
	until(t, "all", func() bool { return slices.Equal(r.accepted(id), count(0, 5)) })
}

func TestGoneSwitchesOff(t *testing.T) {
	o, r := newOffice(t, nil), newReceiver(t, func(int, receipt) int { return http.StatusGone })
	e := o.register(r, store.WebhookFilter{})
	o.append(o.conversation(owner, nil), 1)
	until(t, "the end", func() bool {
		now, err := o.box.Get(t.Context(), owner, e.ID)
		check(t, err)
		return !now.Active && strings.Contains(now.Reason, "410")
	})
}

func TestWhatIsNotAllowed(t *testing.T) {
	inner := newReceiver(t, nil)
	redirect := httptest.NewServer(http.RedirectHandler(inner.server.URL, http.StatusTemporaryRedirect))
	defer redirect.Close()
	strict, err := egress.Dialer(egress.Config{Key: "webhook_allow_private"})
	check(t, err)
	o, closed := newOffice(t, nil), newOffice(t, func(p *outbox.Options) { p.Dial = strict })
	for _, c := range []struct {
		o         *office
		url, want string
		status    int
	}{
		{o, redirect.URL, "redirects are not followed", 307},
		{closed, inner.server.URL, "webhook_allow_private", 0},
		{closed, "http://169.254.169.254/latest/meta-data", "webhook_allow_private", 0},
		{closed, "http://[::ffff:10.0.0.1]/", "webhook_allow_private", 0},
		{closed, "http://localhost:1/", "webhook_allow_private", 0},
	} {
		e, err := c.o.box.Create(t.Context(), owner, outbox.Change{URL: &c.url})
		check(t, err)
		d, err := c.o.box.Test(t.Context(), owner, e.ID)
		check(t, err)
		if d.Delivered || d.Status != c.status || !strings.Contains(d.Error, c.want) {
			t.Errorf("%s: %+v", c.url, d)
		}
	}
	if n := len(inner.all()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestTestMessages(t *testing.T) {
	o, r := newOffice(t, nil), newReceiver(t, nil)
	e := o.register(r, store.WebhookFilter{Kinds: []string{"Nothing"}})
	d, err := o.box.Test(t.Context(), owner, e.ID)
	check(t, err)
	got := r.all()
	if !d.Delivered || d.Status != 204 || len(got) != 1 || got[0].Type != "test" || got[0].ID != d.ID || len(o.deliveries(e.ID)) != 1 {
		t.Errorf("%+v %+v", d, got)
	}
	if _, err := o.box.Test(t.Context(), "other", e.ID); err == nil {
		t.Error("of another user")
	}
}

func TestReplay(t *testing.T) {
	o, r := newOffice(t, nil), newReceiver(t, nil)
	before := o.conversation(owner, nil)
	o.append(before, 2)
	e := o.register(r, store.WebhookFilter{})
	id, foreign := o.conversation(owner, nil), o.conversation("other", nil)
	o.append(id, 4)
	o.append(foreign, 1)
	until(t, "all", func() bool { return len(r.accepted(id)) == 4 })
	two, late := int64(2), int64(100)
	_, err := o.box.Replay(t.Context(), owner, e.ID, outbox.Replay{Conversation: id, FromSeq: &two})
	check(t, err)
	until(t, "from a seq", func() bool { return slices.Equal(r.accepted(id), []int64{0, 1, 2, 3, 2, 3}) })
	_, err = o.box.Replay(t.Context(), owner, e.ID, outbox.Replay{From: time.Now().Add(-time.Hour)})
	check(t, err)
	until(t, "from a time", func() bool {
		return slices.Equal(r.accepted(id), []int64{0, 1, 2, 3, 2, 3, 0, 1, 2, 3}) && len(r.accepted(before)) == 2
	})
	_, err = o.box.Replay(t.Context(), owner, e.ID, outbox.Replay{Conversation: before, From: time.Now().Add(-time.Hour)})
	check(t, err)
	until(t, "one from a time", func() bool { return slices.Equal(r.accepted(before), []int64{0, 1, 0, 1}) })
	seen := map[string]bool{}
	for _, m := range r.all() {
		if seen[m.ID] {
			t.Errorf("%s twice", m.ID)
		}
		seen[m.ID] = true
	}
	_, err = o.box.Replay(t.Context(), owner, e.ID, outbox.Replay{Conversation: id, FromSeq: &late}) // beyond the log
	check(t, err)
	for name, p := range map[string]outbox.Replay{"nothing": {}, "both": {Conversation: id, FromSeq: &two, From: time.Now()}, "seq of all": {FromSeq: &two},
		"future": {From: time.Now().Add(time.Hour)}, "foreign": {Conversation: foreign, FromSeq: &two}, "none": {Conversation: "x", FromSeq: &two}} {
		if _, err := o.box.Replay(t.Context(), owner, e.ID, p); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// blocked is a store that cannot record outcomes for a while.
type blocked struct {
	store.Webhooks
	mu   sync.Mutex
	fail int
}

func (b *blocked) Record(ctx context.Context, c *store.WebhookCursor, d store.WebhookDelivery, keep int) error {
	b.mu.Lock()
	b.fail--
	fails := b.fail >= 0
	b.mu.Unlock()
	if fails {
		return io.ErrShortWrite
	}
	return b.Webhooks.Record(ctx, c, d, keep)
}

// While outcomes cannot be stored nothing is sent over and over.
func TestAFullStoreDoesNotFloodTheEndpoint(t *testing.T) {
	o := newOffice(t, func(p *outbox.Options) { p.Store = &blocked{Webhooks: p.Store, fail: 1} })
	r := newReceiver(t, nil)
	e := o.register(r, store.WebhookFilter{})
	id := o.conversation(owner, nil)
	o.append(id, 2)
	until(t, "the record", func() bool { return len(o.deliveries(e.ID)) == 1 })
	if got := r.accepted(id); !slices.Equal(got, []int64{0, 1}) {
		t.Errorf("%v", got)
	}
}

// Deleting what a delivery is about, in the middle of it, hurts nothing else.
func TestDeletes(t *testing.T) {
	o, release := newOffice(t, nil), make(chan struct{})
	gone := o.conversation(owner, nil)
	r := newReceiver(t, func(_ int, m receipt) int {
		if m.Data.Conversation == gone {
			<-release
		}
		return 200
	})
	o.register(r, store.WebhookFilter{})
	other := newReceiver(t, nil)
	e := o.register(other, store.WebhookFilter{})
	o.append(gone, 1)
	until(t, "one", func() bool { return len(other.accepted(gone)) == 1 })
	check(t, o.db.Conversations().Delete(t.Context(), gone))
	check(t, o.box.Delete(t.Context(), owner, e.ID))
	if err := o.box.Delete(t.Context(), owner, e.ID); err == nil {
		t.Error("deleted twice")
	}
	close(release)
	id := o.conversation(owner, nil)
	o.append(id, 1)
	until(t, "the rest", func() bool { return len(r.accepted(id)) == 1 })
	if n := len(other.accepted(id)); n != 0 {
		t.Errorf("%d at an endpoint that was deleted", n)
	}
}

// metered is a log that notes the largest answer.
type metered struct {
	outbox.EventLog
	largest atomic.Int64 // bytes
}

func (m *metered) Search(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	page, err := m.EventLog.Search(ctx, q)
	size := int64(0)
	for _, e := range page.Items {
		size += int64(len(e.Raw))
	}
	if size > m.largest.Load() {
		m.largest.Store(size)
	}
	return page, err
}

// Large events, such as images, are not held in memory by the hundred.
func TestLargeEventsAreReadAFewAtATime(t *testing.T) {
	log := &metered{}
	o := newOffice(t, func(opt *outbox.Options) { log.EventLog, opt.Log = opt.Log, log })
	r := newReceiver(t, nil)
	id := o.conversation(owner, nil)
	o.register(r, store.WebhookFilter{})
	var images []conversation.Payload
	for range 8 {
		images = append(images, &conversation.MessageEvent{Header: conversation.Head(conversation.KindMessage, conversation.SourceUser, time.Now().UTC()),
			LLMMessage: conversation.LLMMessage{Role: content.RoleUser, Content: []content.Part{content.Text(strings.Repeat("x", 5<<20))}}})
	}
	o.append(id, 0, images...)
	o.append(id, 1)
	until(t, "all events", func() bool { return len(r.accepted(id)) == 9 })
	if n := log.largest.Load(); n > store.MaxEventPage {
		t.Errorf("%d bytes were read at once", n)
	}
}
