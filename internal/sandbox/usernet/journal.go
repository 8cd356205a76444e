package usernet

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"parley/internal/sandbox"
)

// Bounds of what is told of a box's connections. A program that makes more of them
// is told of in one entry, which counts the rest.
const (
	maxPending = 4096             // that the recorder has not taken yet
	sameAgain  = time.Minute      // a name or datagram refused once more is the same attempt
	maxAgain   = 1024             // names and addresses that are known to be refused
	showAgain  = 10 * time.Second // between figures of a connection that is used
	newExcess  = 10 * time.Minute // of quiet, after which an excess is another one
)

// journal tells the recorder of connections. It never waits for it: what happens
// meanwhile is kept, the latest state of each connection, within bounds.
type journal struct {
	record func(sandbox.Connection) // nil = nobody wants to know
	log    *slog.Logger
	prefix string // of ids: unique for each stack
	done   sync.WaitGroup

	mu        sync.Mutex
	last      uint64             // number of the latest id
	order     []*notice          // not yet taken by the recorder
	pending   map[string]*notice // the same by id
	telling   bool               // a goroutine hands order to the recorder
	again     map[string]time.Time
	made, not quota // a flood of refused attempts must not hide a connection that was made
}

// quota is how many connections of a kind are told of one by one, and the entry
// that stands for the rest.
type quota struct {
	burst, perSecond float64
	tokens           float64 // connections that may be told of now
	filled           time.Time
	excess           sandbox.Connection
	beyond           int // connections that excess stands for
	latest           time.Time
}

func newQuota(burst, perSecond float64) quota {
	return quota{burst: burst, perSecond: perSecond, tokens: burst, filled: time.Now()}
}

// take reports whether one more may be told of.
func (q *quota) take(now time.Time) bool {
	q.tokens = min(q.burst, q.tokens+now.Sub(q.filled).Seconds()*q.perSecond)
	q.filled = now
	if q.tokens < 1 {
		return false
	}
	q.tokens--
	return true
}

type notice struct{ conn sandbox.Connection }

func newJournal(record func(sandbox.Connection), log *slog.Logger) *journal {
	return &journal{record: record, log: log, prefix: rand.Text()[:16], made: newQuota(1000, 100), not: newQuota(200, 10),
		pending: map[string]*notice{}, again: map[string]time.Time{}}
}

// entry is a connection that is open.
type entry struct {
	j              *journal
	conn           sandbox.Connection // as it opened
	told           bool
	shown          atomic.Int64 // when the bytes were last told, since it began
	sent, received atomic.Int64 // bytes out of the box and into it
}

// opened tells of a connection that was made.
func (j *journal) opened(protocol, host string, to netip.AddrPort) *entry {
	e := &entry{j: j, conn: attempt(protocol, host, to)}
	e.conn.Open, e.conn.Verdict = true, sandbox.VerdictAllowed
	e.told = j.tell(&e.conn)
	return e
}

// moved tells from time to time how much has passed. It may be called concurrently,
// but not beside ended.
func (e *entry) moved() {
	if !e.told {
		return
	}
	now, shown := time.Since(e.conn.Began), e.shown.Load()
	if now-time.Duration(shown) >= showAgain && e.shown.CompareAndSwap(shown, int64(now)) {
		e.tell(true, 0)
	}
}

// ended tells how the connection ended.
func (e *entry) ended() {
	if e.told {
		e.tell(false, time.Since(e.conn.Began))
	}
}

func (e *entry) tell(open bool, lasted time.Duration) {
	c := e.conn
	c.Open, c.Lasted, c.Sent, c.Received = open, lasted, e.sent.Load(), e.received.Load()
	e.j.mu.Lock()
	defer e.j.mu.Unlock()
	e.j.put(c)
}

// failed tells of a connection that was not made.
func (j *journal) failed(protocol, host string, to netip.AddrPort, verdict sandbox.Verdict, reason string) {
	c := attempt(protocol, host, to)
	c.Verdict, c.Reason = verdict, reason
	j.log.Debug("connection not made", "protocol", protocol, "host", host, "to", to, "verdict", verdict, "reason", reason)
	if protocol != "tcp" && j.isAgain(protocol+" "+host+" "+to.String()) {
		return
	}
	j.tell(&c)
}

func attempt(protocol, host string, to netip.AddrPort) sandbox.Connection {
	c := sandbox.Connection{Began: time.Now(), Protocol: protocol, Host: host, Port: to.Port()}
	if to.Addr().IsValid() {
		c.Address = to.Addr().String()
	}
	return c
}

// isAgain reports what was refused a moment ago: programs ask for a name several
// times, and send a datagram again and again.
func (j *journal) isAgain(what string) bool {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if at, known := j.again[what]; known && now.Sub(at) < sameAgain {
		return true
	}
	if len(j.again) >= maxAgain {
		clear(j.again)
	}
	j.again[what] = now
	return false
}

// tell gives the connection its id and tells of it, or counts it if there are too
// many.
func (j *journal) tell(c *sandbox.Connection) bool {
	if j.record == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	q := &j.made
	if c.Verdict != sandbox.VerdictAllowed {
		q = &j.not
	}
	if len(j.order) >= maxPending || !q.take(c.Began) {
		j.tooMany(q, *c)
		return false
	}
	c.ID = j.newID()
	j.put(*c)
	return true
}

func (j *journal) newID() string {
	j.last++
	return j.prefix + "-" + strconv.FormatUint(j.last, 36)
}

// tooMany updates the entry that stands for the connections nobody is told of.
func (j *journal) tooMany(q *quota, c sandbox.Connection) {
	if q.beyond == 0 || c.Began.Sub(q.latest) > newExcess {
		c.ID, q.beyond = j.newID(), 0
		j.log.Warn("a sandbox makes more connections than are listed", "protocol", c.Protocol, "host", c.Host, "address", c.Address)
	} else {
		c.ID, c.Began, c.Lasted = q.excess.ID, q.excess.Began, c.Began.Sub(q.excess.Began)
	}
	q.latest = time.Now()
	q.beyond++
	c.Open = false
	c.Reason = fmt.Sprintf("%d connections were made too fast to list each; this is the latest of them", q.beyond)
	q.excess = c
	j.put(c)
}

// put hands a state of a connection over, in the place of one that still waits.
func (j *journal) put(c sandbox.Connection) {
	if n := j.pending[c.ID]; n != nil {
		n.conn = c
		return
	}
	n := &notice{c}
	j.pending[c.ID] = n
	j.order = append(j.order, n)
	if !j.telling {
		j.telling = true
		j.done.Go(j.run)
	}
}

// run hands over what waits, then ends: an idle box needs no goroutine.
func (j *journal) run() {
	for {
		j.mu.Lock()
		if len(j.order) == 0 {
			j.order, j.telling = nil, false
			j.mu.Unlock()
			return
		}
		n := j.order[0]
		j.order = j.order[1:]
		delete(j.pending, n.conn.ID)
		j.mu.Unlock()
		j.record(n.conn)
	}
}

// close waits until the recorder knows everything. Nothing is told of afterwards.
func (j *journal) close() { j.done.Wait() }
