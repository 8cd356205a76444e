// Package limiter keeps the calls with one key at one endpoint from storming it:
// it bounds how many are under way, and when the provider says that there were
// too many, all callers wait for it together and come back one after the other.
//
// It promises that never more than the limit are under way, that callers are
// served in the order in which they came, and that nobody waits longer than for
// the provider and those before him. It repeats nothing: that is for the retries
// around it, so that every attempt takes its turn. It knows one process only.
package limiter

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	"parley/internal/llm"
)

// DefaultLimit is how many calls may be under way where nothing else was said.
const DefaultLimit = 64

// Bounds of the waits for a provider.
const (
	// MaxPause is the longest wait for all. A provider that wants more has no
	// capacity problem but says "not today": that is for each caller to hear.
	MaxPause = 5 * time.Minute
	// firstPause and lastPause bound the wait after a refusal that names none. It
	// doubles with every further one.
	firstPause = time.Second
	lastPause  = 32 * time.Second
)

// When a wait is told, and told again.
const (
	tellAfter = firstPause + 500*time.Millisecond // the shortest pause is over before it is worth a word
	tellAgain = 30 * time.Second
)

// Limiter bounds the calls with one key at one endpoint. It is safe for
// concurrent use and owns no goroutine.
type Limiter struct {
	limit int

	mu    sync.Mutex
	total int       // calls under way
	queue list.List // of *waiter, the first comes first

	// After a refusal a new round begins: calls of earlier rounds were let in by
	// the provider and finish in peace, the calls of this one grow from one at a
	// time. allowed grows by one per success up to half of what was too much, and
	// slowly from there (as TCP does, for the same reason).
	round     int
	inRound   int
	allowed   float64
	threshold float64

	until    time.Time // nobody starts before; zero = no pause
	refused  int       // refusals in a row
	cause    *llm.Error
	wakeUp   *time.Timer   // at until, while somebody waits
	duration time.Duration // of a call, smoothed; for estimates
}

// waiter is a caller in the queue. turn is closed when it is his.
type waiter struct {
	turn  chan struct{}
	round int
}

// New returns a limiter; limit 0 is DefaultLimit.
func New(limit int) *Limiter {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Limiter{limit: limit, allowed: float64(limit), threshold: float64(limit)}
}

// acquire waits for a turn and returns the round it belongs to. It calls tell
// about a wait of more than tellAfter, from this goroutine.
func (l *Limiter) acquire(ctx context.Context, tell func(llm.Retry)) (round int, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	l.mu.Lock()
	if l.queue.Len() == 0 && l.mayStart(time.Now()) {
		round = l.start()
		l.mu.Unlock()
		return round, nil
	}
	w := &waiter{turn: make(chan struct{})}
	place := l.queue.PushBack(w)
	l.schedule()
	l.mu.Unlock()
	if err := l.await(ctx, w, tell); err != nil {
		l.leave(place)
		return 0, err
	}
	return w.round, nil
}

// await waits until it is w's turn, and tells why it takes so long.
func (l *Limiter) await(ctx context.Context, w *waiter, tell func(llm.Retry)) error {
	next := time.NewTimer(l.firstTold())
	defer next.Stop()
	for {
		select {
		case <-w.turn:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-next.C:
			said := l.describe()
			tell(said)
			next.Reset(max(said.Wait, tellAgain))
		}
	}
}

// firstTold is when a caller hears for the first time: at once if it is clear
// that the wait is long.
func (l *Limiter) firstTold() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Until(l.until) > tellAfter {
		return 0
	}
	return tellAfter
}

// describe says what callers wait for, with an estimate.
func (l *Limiter) describe() llm.Retry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pause := time.Until(l.until); pause > 0 && l.cause != nil {
		e := *l.cause
		e.RetryAfter, e.NotSent = pause, true
		e.Message = "the provider asked to wait, and all calls with this key do: " + l.cause.Message
		return llm.Retry{Wait: pause, Err: &e}
	}
	turns := float64(l.queue.Len()) / l.allowed
	wait := max(tellAfter, time.Duration(turns*float64(l.duration)))
	return llm.Retry{Wait: wait, Err: &llm.Error{Class: llm.ClassRateLimit, NotSent: true,
		Message: fmt.Sprintf("%d calls with this key are under way and %d wait for their turn", l.total, l.queue.Len())}}
}

// leave takes a caller that gave up from the queue; if it was his turn already,
// the next one gets it.
func (l *Limiter) leave(place *list.Element) {
	w := place.Value.(*waiter)
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-w.turn:
		l.end(w.round)
	default:
		l.queue.Remove(place)
	}
	l.schedule()
}

// release ends a call and lets the next ones start.
func (l *Limiter) release(round int, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(round)
	switch refusal := refusalOf(err); {
	case refusal != nil:
		l.refuse(round, refusal)
	case answered(err):
		l.accept(round, took)
	}
	l.schedule()
}

func (l *Limiter) end(round int) {
	l.total--
	if round == l.round {
		l.inRound--
	}
}

// refuse begins a new round after a pause. Refusals of calls that were under way
// at the first one are the same refusal: they can prolong the pause only.
func (l *Limiter) refuse(round int, e *llm.Error) {
	if round == l.round {
		l.threshold = max(1, float64(l.total+1)/2)
		l.round, l.inRound, l.allowed = l.round+1, 0, 1
		l.refused++
	}
	pause := e.RetryAfter
	if pause <= 0 {
		pause = min(firstPause<<min(l.refused-1, 10), lastPause)
	}
	if until := time.Now().Add(pause); pause <= MaxPause && until.After(l.until) {
		l.until, l.cause = until, e
	}
}

// accept lets more calls in after one that was answered.
func (l *Limiter) accept(round int, took time.Duration) {
	if l.duration == 0 {
		l.duration = took
	}
	l.duration += (took - l.duration) / 8
	if round != l.round {
		return
	}
	l.refused = 0
	if l.allowed < l.threshold {
		l.allowed++
	} else {
		l.allowed += 1 / l.allowed
	}
	l.allowed = min(l.allowed, float64(l.limit))
}

// mayStart reports whether one more call may start now.
func (l *Limiter) mayStart(now time.Time) bool {
	return !now.Before(l.until) && l.total < l.limit && l.inRound < int(l.allowed)
}

func (l *Limiter) start() (round int) {
	l.total++
	l.inRound++
	return l.round
}

// schedule lets everybody start who may, and sees to it that somebody does so at
// the end of a pause. It is called after every change.
func (l *Limiter) schedule() {
	now := time.Now()
	for l.queue.Len() > 0 && l.mayStart(now) {
		w := l.queue.Remove(l.queue.Front()).(*waiter)
		w.round = l.start()
		close(w.turn)
	}
	if l.wakeUp != nil {
		l.wakeUp.Stop()
		l.wakeUp = nil
	}
	if l.queue.Len() > 0 && now.Before(l.until) {
		l.wakeUp = time.AfterFunc(l.until.Sub(now), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.schedule()
		})
	}
}

// idle reports whether the limiter has nothing to remember.
func (l *Limiter) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total == 0 && l.queue.Len() == 0 && time.Now().After(l.until) && l.allowed >= float64(l.limit)
}
