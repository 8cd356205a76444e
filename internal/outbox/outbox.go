// Package outbox sends events to the addresses that users registered: signed, at
// least once, and in order for each endpoint and conversation. The event log is the
// truth and holds what is sent; the outbox keeps only how far each endpoint has come
// in each conversation, so that a server that was killed goes on where it was. Every
// endpoint has a goroutine of its own, so that a slow one delays nobody.
//
// What a message looks like is in message.go, docs/webhooks.md says it to users.
package outbox

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

const (
	keepDeliveries = 1000             // of each endpoint
	maxEndpoints   = 20               // of a user
	attemptTime    = 15 * time.Second // for one attempt, from dialling to the answer's end
	giveUpAfter    = 24 * time.Hour   // of failures, then an endpoint is switched off
)

// EventLog is what the outbox needs of the log.
type EventLog interface {
	Search(ctx context.Context, q store.EventQuery) (store.EventPage, error)
}

// Options configure an Outbox.
type Options struct {
	Store store.Webhooks
	Log   EventLog
	// Dial makes the connections; it refuses addresses that users must not reach.
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	Logger *slog.Logger
	// Backoff is how long to wait after the first, second, ... failure of a delivery;
	// the last one goes on for ever. nil = 5 s to 1 h.
	Backoff []time.Duration
	GiveUp  time.Duration // 0 = a day
	Timeout time.Duration // of an attempt, 0 = 15 s
	// Now is the clock, nil = time.Now.
	Now func() time.Time
}

// Outbox is the service. Open it once, Close it before the store.
type Outbox struct {
	opt    Options
	client *http.Client
	ctx    context.Context
	stop   context.CancelFunc
	done   sync.WaitGroup

	changing chan struct{} // a lock: changes of endpoints, one at a time
	active   atomic.Int64  // runners; without any, wake-ups cost nothing

	mu      sync.Mutex
	runners map[string]*runner // by endpoint
	woken   map[conversation.ID]struct{}
	signal  chan struct{} // something was woken
}

// New makes an outbox that does nothing before Open.
func New(o Options) *Outbox {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if len(o.Backoff) == 0 {
		o.Backoff = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}
	}
	if o.GiveUp <= 0 {
		o.GiveUp = giveUpAfter
	}
	if o.Timeout <= 0 {
		o.Timeout = attemptTime
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	ctx, stop := context.WithCancel(context.Background())
	transport := &http.Transport{DialContext: o.Dial, TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: time.Minute,
		MaxIdleConnsPerHost: 2, MaxIdleConns: 100, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &Outbox{opt: o, client: client, ctx: ctx, stop: stop, changing: make(chan struct{}, 1), runners: map[string]*runner{},
		woken: map[conversation.ID]struct{}{}, signal: make(chan struct{}, 1)}
}

// Open starts to deliver. Errors are the store's.
func (o *Outbox) Open(ctx context.Context) error {
	endpoints, err := o.opt.Store.Active(ctx)
	if err != nil {
		return err
	}
	o.done.Go(o.route)
	for _, e := range endpoints {
		o.start(e)
	}
	return nil
}

// Close ends all deliveries. What was under way is sent again after the next Open.
func (o *Outbox) Close() {
	o.stop()
	o.done.Wait()
	o.client.CloseIdleConnections()
}

// Wake tells that a log has grown. It never waits.
func (o *Outbox) Wake(id conversation.ID) {
	if o.active.Load() == 0 {
		return
	}
	o.mu.Lock()
	o.woken[id] = struct{}{}
	o.mu.Unlock()
	poke(o.signal)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// route hands logs that have grown to the endpoints of their owners.
func (o *Outbox) route() {
	for {
		select {
		case <-o.ctx.Done():
			return
		case <-o.signal:
		}
		ids := o.takeWoken()
		logs, err := o.opt.Store.Logs(o.ctx, ids)
		if err != nil {
			if o.ctx.Err() == nil {
				o.opt.Logger.Warn("webhooks: grown logs were not looked up, all are looked at again", "error", err)
			}
			o.each(func(r *runner) { r.lookAgain() })
			continue
		}
		for _, l := range logs {
			o.each(func(r *runner) { r.offer(l) })
		}
	}
}

func (o *Outbox) takeWoken() []conversation.ID {
	o.mu.Lock()
	defer o.mu.Unlock()
	ids := make([]conversation.ID, 0, len(o.woken))
	for id := range o.woken {
		ids = append(ids, id)
	}
	clear(o.woken)
	return ids
}

func (o *Outbox) each(f func(*runner)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.runners {
		f(r)
	}
}

// start runs an endpoint, if it is active and the outbox is open.
func (o *Outbox) start(e *store.WebhookEndpoint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !e.Active || o.ctx.Err() != nil {
		return
	}
	r := newRunner(o, e)
	o.runners[e.ID] = r
	o.active.Add(1)
	o.done.Go(func() {
		defer close(r.ended)
		r.run()
		o.remove(r)
	})
}

func (o *Outbox) remove(r *runner) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runners[r.e.ID] == r {
		delete(o.runners, r.e.ID)
	}
	o.active.Add(-1)
}

// halt ends the runner of an endpoint, if it has one, and waits for it.
func (o *Outbox) halt(id string) {
	o.mu.Lock()
	r := o.runners[id]
	o.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.ended
	}
}

// change stops an endpoint, lets do change it, and starts it as it is then. Changes
// come one after the other.
func (o *Outbox) change(ctx context.Context, owner, id string, do func() error) (*store.WebhookEndpoint, error) {
	select {
	case o.changing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-o.changing }()
	if _, err := o.opt.Store.Get(ctx, owner, id); err != nil {
		return nil, err
	}
	o.halt(id)
	if err := do(); err != nil {
		o.resume(ctx, id)
		return nil, err
	}
	return o.resume(ctx, id), nil
}

// resume starts an endpoint as it is now, and returns nil if it is gone.
func (o *Outbox) resume(ctx context.Context, id string) *store.WebhookEndpoint {
	now, err := o.opt.Store.Get(context.WithoutCancel(ctx), "", id)
	if err != nil {
		if !fault.Is(err, fault.NotFound) {
			o.opt.Logger.Error("webhooks: an endpoint cannot be started again before the server is", "endpoint", id, "error", err)
		}
		return nil
	}
	o.start(now)
	return now
}

// stopped reports whether an attempt has no outcome because the endpoint is being
// stopped.
func stopped(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || fault.Is(err, fault.Canceled))
}
