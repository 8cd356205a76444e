package outbox

import (
	"context"
	"sync"
	"time"

	"parley/internal/conversation"
	"parley/internal/store"
)

const (
	parallel   = 4                // deliveries of an endpoint that are under way, of different conversations
	scanPage   = 200              // conversations that are looked up at once
	maxLanes   = 5000             // conversations that wait; more are found by looking again
	storeAgain = 2 * time.Second  // after a failure of the store
	longQuiet  = time.Minute      // the longest that a failing endpoint is left alone
	saveTime   = 10 * time.Second // to store an outcome while the server stops
)

// runner delivers to one endpoint. What is not guarded by mu is of run alone.
type runner struct {
	o      *Outbox
	e      *store.WebhookEndpoint
	key    []byte
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
	signal chan struct{}

	mu    sync.Mutex
	fresh map[conversation.ID]store.WebhookLog // logs that have grown
	again bool                                 // look at all conversations

	lanes    map[conversation.ID]*lane
	jobs     sync.WaitGroup
	busy     int
	results  chan outcome
	scanning bool
	scanned  conversation.ID // the last one that was looked at
	scanAt   time.Time       // not before
	failures int             // one after the other, of all conversations
	quiet    time.Time       // nothing is sent before
}

// lane is a conversation that may have something to deliver.
type lane struct {
	log   store.WebhookLog
	due   time.Time
	busy  bool
	again bool // it grew while it was busy
}

// outcome is what became of a lane's turn.
type outcome struct {
	id      conversation.ID
	sent    bool      // a message arrived
	failed  bool      // one did not
	more    bool      // there may be more to send
	end     bool      // the endpoint was switched off
	retryAt time.Time // zero = now
}

func newRunner(o *Outbox, e *store.WebhookEndpoint) *runner {
	key, _ := keyOf(e.Secret.Reveal()) // what is stored was checked
	ctx, cancel := context.WithCancel(o.ctx)
	return &runner{o: o, e: e, key: key, ctx: ctx, cancel: cancel, ended: make(chan struct{}), signal: make(chan struct{}, 1),
		fresh: map[conversation.ID]store.WebhookLog{}, lanes: map[conversation.ID]*lane{}, results: make(chan outcome, parallel), scanning: true}
}

// offer tells of a log that has grown. It never waits.
func (r *runner) offer(l store.WebhookLog) {
	if l.Owner != r.e.Owner || !matches(&r.e.Filter, l) {
		return
	}
	r.mu.Lock()
	if len(r.fresh) < maxLanes {
		r.fresh[l.ID] = l
	} else {
		r.again = true
	}
	r.mu.Unlock()
	poke(r.signal)
}

// lookAgain lets the endpoint find by itself what it has not delivered.
func (r *runner) lookAgain() {
	r.mu.Lock()
	r.again = true
	r.mu.Unlock()
	poke(r.signal)
}

// run delivers until the runner is cancelled or the endpoint switched off.
func (r *runner) run() {
	defer func() { r.cancel(); r.jobs.Wait() }()
	for r.ctx.Err() == nil {
		r.takeFresh()
		r.scan()
		r.launch()
		timer := time.NewTimer(r.untilNext())
		select {
		case <-r.ctx.Done():
		case <-r.signal:
		case <-timer.C:
		case result := <-r.results:
			if r.settle(result) {
				timer.Stop()
				return
			}
		}
		timer.Stop()
	}
}

func (r *runner) takeFresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.fresh {
		if !r.add(l) {
			r.again = true
		}
	}
	clear(r.fresh)
	if r.again && len(r.lanes) < maxLanes/2 {
		r.again, r.scanning, r.scanned = false, true, ""
	}
}

// add makes a lane due; false if there are too many.
func (r *runner) add(l store.WebhookLog) bool {
	if have := r.lanes[l.ID]; have != nil {
		have.log, have.again = l, have.busy
		return true
	}
	if len(r.lanes) >= maxLanes {
		return false
	}
	r.lanes[l.ID] = &lane{log: l, due: r.o.opt.Now()}
	return true
}

// scan finds conversations that the endpoint is behind in, some at a time.
func (r *runner) scan() {
	for r.scanning && len(r.lanes) < scanPage && !r.o.opt.Now().Before(r.scanAt) {
		found, err := r.o.opt.Store.Behind(r.ctx, r.e.ID, r.scanned, scanPage)
		if err != nil {
			r.scanAt = r.o.opt.Now().Add(storeAgain)
			return
		}
		for _, l := range found {
			if r.scanned = l.ID; matches(&r.e.Filter, l) {
				r.add(l)
			}
		}
		r.scanning = len(found) == scanPage
	}
}

// launch begins what is due. While the endpoint fails, one delivery at a time tries
// whether it is back.
func (r *runner) launch() {
	now, most := r.o.opt.Now(), parallel
	if r.failures > 0 {
		most = 1
	}
	for r.busy < most && !now.Before(r.quiet) {
		l := r.next()
		if l == nil || l.due.After(now) {
			return
		}
		l.busy, l.again = true, false
		r.busy++
		log := l.log
		r.jobs.Go(func() { r.results <- r.turn(log) })
	}
}

// next returns the lane that has been due for longest, nil if none waits.
func (r *runner) next() (first *lane) {
	for _, l := range r.lanes {
		if !l.busy && (first == nil || l.due.Before(first.due)) {
			first = l
		}
	}
	return first
}

// untilNext is how long nothing is to be done, if nothing happens.
func (r *runner) untilNext() time.Duration {
	wait, now := time.Hour, r.o.opt.Now()
	if l := r.next(); l != nil && r.busy == 0 {
		wait = min(wait, max(l.due.Sub(now), r.quiet.Sub(now)))
	} else if l != nil && r.failures == 0 && r.busy < parallel {
		wait = min(wait, l.due.Sub(now))
	}
	if r.scanning && len(r.lanes) < scanPage {
		wait = min(wait, r.scanAt.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// settle takes the outcome of a lane's turn; true if the endpoint was switched off.
func (r *runner) settle(done outcome) (end bool) {
	l := r.lanes[done.id]
	l.busy = false
	r.busy--
	now := r.o.opt.Now()
	switch {
	case done.end:
		return true
	case done.failed:
		r.failures++
		r.quiet = now.Add(min(r.backoff(r.failures), longQuiet))
	case done.sent:
		r.failures, r.quiet = 0, time.Time{}
	}
	switch {
	case !done.retryAt.IsZero():
		l.due = done.retryAt
	case done.more || l.again:
		l.due = now
	default:
		delete(r.lanes, done.id)
	}
	return false
}

// backoff is how long to wait after n failures.
func (r *runner) backoff(n int) time.Duration {
	list := r.o.opt.Backoff
	return list[min(max(n, 1), len(list))-1]
}
