// Package netlog keeps what sandboxes connected to: it takes connections as they
// come, without ever making anybody wait, and writes them to the store in batches.
// A log that cannot be written loses entries, says so in the server's log, and
// hurts nothing else.
package netlog

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"parley/internal/content"
	"parley/internal/sandbox"
	"parley/internal/store"
)

const (
	defaultKeep = 10_000           // entries of a sandbox
	batchSize   = 256              // entries that are written at once
	batchAge    = time.Second      // the longest that an entry waits
	maxPending  = 16 * 1024        // entries that wait, of all sandboxes; more are lost
	writeTime   = 10 * time.Second // for one batch
	sayAgain    = time.Minute      // between lines about what was lost
	maxText     = 512              // bytes of a host or a reason
)

// Options configure a Log.
type Options struct {
	Store  store.NetworkLog
	Keep   int // the newest entries of each sandbox, 0 = 10,000
	Logger *slog.Logger
}

// Log is the network log of all sandboxes. Close it once, before the store.
type Log struct {
	opt   Options
	stop  chan struct{}
	wake  chan struct{} // there is something to write
	hurry chan struct{} // there is a whole batch
	done  sync.WaitGroup

	writing chan struct{} // a lock: batches reach the store in their order
	ended   bool          // what a former server left open is closed; of who writes

	mu      sync.Mutex
	order   []*store.NetworkEntry // the oldest first
	pending map[key]*store.NetworkEntry
	closed  bool
	lost    int
	said    time.Time // when lost was last logged
}

type key struct{ sandbox, id string }

// New starts a log. What a former server left open in it is closed.
func New(o Options) *Log {
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Log{opt: o, stop: make(chan struct{}), wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
		writing: make(chan struct{}, 1), pending: map[key]*store.NetworkEntry{}}
	l.done.Go(l.run)
	return l
}

// Recorder returns what takes a sandbox's connections. It never waits.
func (l *Log) Recorder(sandboxID string) func(sandbox.Connection) {
	return func(c sandbox.Connection) { l.put(entry(sandboxID, c)) }
}

func entry(sandboxID string, c sandbox.Connection) *store.NetworkEntry {
	return &store.NetworkEntry{SandboxID: sandboxID, ID: c.ID, Began: c.Began, Lasted: c.Lasted, Open: c.Open,
		Protocol: c.Protocol, Host: bounded(c.Host), Address: c.Address, Port: int(c.Port), Sent: c.Sent,
		Received: c.Received, Verdict: string(c.Verdict), Reason: bounded(c.Reason)}
}

func bounded(text string) string {
	return content.Head(strings.ToValidUTF8(text, "\ufffd"), maxText)
}

// put takes an entry in the place of an earlier state of it that still waits.
func (l *Log) put(e *store.NetworkEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := key{e.SandboxID, e.ID}
	if old := l.pending[at]; old != nil {
		*old = *e
		return
	}
	if l.closed || len(l.order) >= maxPending {
		l.lose(1, "too many connections wait to be written")
		return
	}
	l.pending[at] = e
	l.order = append(l.order, e)
	signal(l.wake)
	if len(l.order) >= batchSize {
		signal(l.hurry)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// lose counts entries that nobody will see, and says so from time to time.
func (l *Log) lose(n int, why string) {
	l.lost += n
	if now := time.Now(); now.Sub(l.said) >= sayAgain {
		l.opt.Logger.Warn("entries of the network log are lost", "entries", l.lost, "reason", why)
		l.said, l.lost = now, 0
	}
}

// run writes until Close.
func (l *Log) run() {
	l.flush(context.Background()) // closes what a former server left open
	for {
		select {
		case <-l.stop:
			return
		case <-l.wake:
		}
		age := time.NewTimer(batchAge)
		select {
		case <-l.stop:
		case <-l.hurry:
		case <-age.C:
		}
		age.Stop()
		l.flush(context.Background())
	}
}

// flush writes what has come until now. It gives up when ctx ends, which loses
// nothing.
func (l *Log) flush(ctx context.Context) {
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-l.writing }()
	l.mu.Lock()
	left := len(l.order)
	l.mu.Unlock()
	for ctx.Err() == nil {
		batch := l.take(min(left, batchSize))
		if len(batch) == 0 && l.ended {
			return
		}
		if err := l.write(batch); err != nil && len(batch) > 0 {
			l.mu.Lock()
			l.lose(len(batch), err.Error())
			l.mu.Unlock()
		}
		if left -= len(batch); left <= 0 {
			return
		}
	}
}

func (l *Log) take(n int) []store.NetworkEntry {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, len(l.order))
	batch := make([]store.NetworkEntry, n)
	for i, e := range l.order[:n] {
		batch[i] = *e
		delete(l.pending, key{e.SandboxID, e.ID})
	}
	if l.order = l.order[n:]; len(l.order) == 0 {
		l.order = nil
	}
	return batch
}

// write hands a batch to the store. Nobody's context ends it: what was taken is
// written or lost.
func (l *Log) write(batch []store.NetworkEntry) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	if !l.ended {
		if err := l.opt.Store.CloseOpen(ctx); err != nil {
			return err
		}
		l.ended = true
	}
	if len(batch) == 0 {
		return nil
	}
	return l.opt.Store.Write(ctx, batch, l.opt.Keep)
}

// Search reads the log of a sandbox, with what has happened until now. Errors are
// the store's.
func (l *Log) Search(ctx context.Context, q store.NetworkQuery) (store.Page[store.NetworkEntry], error) {
	l.flush(ctx)
	return l.opt.Store.Search(ctx, q)
}

// Forget removes the log of a sandbox. Call it when the sandbox is gone: what its
// recorder takes later is kept.
func (l *Log) Forget(ctx context.Context, sandboxID string) error {
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.writing }()
	l.drop(sandboxID)
	return l.opt.Store.Delete(ctx, sandboxID)
}

// drop forgets what of a sandbox waits.
func (l *Log) drop(sandboxID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rest []*store.NetworkEntry
	for _, e := range l.order {
		if e.SandboxID == sandboxID {
			delete(l.pending, key{e.SandboxID, e.ID})
		} else {
			rest = append(rest, e)
		}
	}
	l.order = rest
}

// Close writes what is there and ends. Later entries are lost.
func (l *Log) Close() {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.mu.Unlock()
	if again {
		return
	}
	close(l.stop)
	l.done.Wait()
	l.flush(context.Background())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost > 0 {
		l.opt.Logger.Warn("entries of the network log are lost", "entries", l.lost)
	}
}
