package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"parley/internal/fault"
)

// maxGroup bounds the writes of one commit, so that none waits long.
const maxGroup = 256

// The states of a write.
const (
	writeWaiting int32 = iota
	writeTaken
	writeGivenUp
)

// write is one caller's change.
type write struct {
	op    string
	fn    func(*tx) error
	state atomic.Int32
	done  chan struct{} // closed when err and panic are final
	err   error
	panic any
}

// writer commits the changes of many callers as groups. There is no goroutine:
// of the callers that wait, one leads. It takes all changes that have been
// handed in, also those that arrive while it works, runs each in a savepoint of
// one transaction, commits, answers everybody, and the next one leads. While
// the disk syncs, the next group gathers. The fewer goroutines a commit has to
// pass, the less it waits for busy readers on a small machine.
type writer struct {
	db   *sql.DB
	path string
	log  *slog.Logger
	lead chan struct{} // holds one token while somebody leads

	mu     sync.Mutex
	queue  []*write
	closed bool

	tx *tx // only the leader touches it; nil until needed and after a failure
}

func newWriter(db *sql.DB, path string, log *slog.Logger) *writer {
	return &writer{db: db, path: path, log: log, lead: make(chan struct{}, 1)}
}

// do runs fn in a transaction and returns when its changes are durable, or with
// the reason why nothing of it was done. fn runs on any goroutine, must not use
// the store and may be run at most once. A panic of fn is the caller's.
func (w *writer) do(ctx context.Context, op string, fn func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	r := &write{op: op, fn: fn, done: make(chan struct{})}
	if !w.enqueue(r) {
		return closedFault(op)
	}
	w.await(ctx, r)
	if r.panic != nil {
		panic(r.panic)
	}
	return classify(op, w.path, r.err)
}

// await returns when r is answered, and leads if nobody else does.
func (w *writer) await(ctx context.Context, r *write) {
	for {
		select {
		case <-r.done:
			return
		case <-ctx.Done():
			if r.state.CompareAndSwap(writeWaiting, writeGivenUp) {
				r.err = ctx.Err()
				return
			}
			<-r.done
			return
		case w.lead <- struct{}{}:
			w.takeLead()
		}
	}
}

// takeLead commits one group and lets the next waiter lead, even if a change
// ends this goroutine (a test's FailNow).
func (w *writer) takeLead() {
	defer func() { <-w.lead }()
	w.commitGroup()
}

func (w *writer) enqueue(r *write) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.queue = append(w.queue, r)
	return true
}

// take removes up to n waiting writes from the queue.
func (w *writer) take(n int) []*write {
	w.mu.Lock()
	defer w.mu.Unlock()
	n = min(n, len(w.queue))
	taken := w.queue[:n:n]
	w.queue = w.queue[n:]
	if len(w.queue) == 0 {
		w.queue = nil
	}
	return taken
}

// commitGroup runs one group from begin to answers.
func (w *writer) commitGroup() {
	group, err := w.runGroup()
	if err == nil && len(group) > 0 {
		err = w.tx.exec(`COMMIT`)
	}
	if err != nil {
		w.reset()
		w.log.Warn("group commit failed", "writes", len(group), "error", err)
	}
	for _, r := range group {
		if err != nil {
			r.err = fmt.Errorf("group commit: %w", err)
		}
		close(r.done)
	}
}

// runGroup runs all writes it can get in one transaction. The error is one that
// spoils the whole transaction.
func (w *writer) runGroup() (group []*write, err error) {
	for len(group) < maxGroup {
		taken := w.take(maxGroup - len(group))
		if len(taken) == 0 {
			return group, err
		}
		for _, r := range taken {
			if !r.state.CompareAndSwap(writeWaiting, writeTaken) {
				continue
			}
			if len(group) == 0 {
				err = w.begin()
			}
			group = append(group, r)
			if err == nil {
				err = w.runOne(r)
			}
		}
	}
	return group, err
}

// begin starts a transaction, on a fresh connection if there is none.
func (w *writer) begin() error {
	if w.tx == nil {
		conn, err := w.db.Conn(context.Background())
		if err != nil {
			return err
		}
		w.tx = &tx{conn: conn, stmts: map[string]*sql.Stmt{}}
	}
	return w.tx.exec(begin)
}

// runOne runs one write in its savepoint. The write's own failure undoes the
// savepoint only; an error of the savepoint is returned.
func (w *writer) runOne(r *write) error {
	if err := w.tx.exec(`SAVEPOINT one`); err != nil {
		return err
	}
	r.call(w.tx)
	if r.err != nil || r.panic != nil {
		// A full disk may have undone the whole transaction; then this fails.
		if err := w.tx.exec(`ROLLBACK TO SAVEPOINT one`); err != nil {
			return errors.Join(r.err, err)
		}
	}
	return w.tx.exec(`RELEASE SAVEPOINT one`)
}

func (r *write) call(t *tx) {
	defer func() { r.panic = recover() }()
	r.err = r.fn(t)
}

// reset throws the connection away, whatever state it is in; closing it undoes
// what was not committed.
func (w *writer) reset() {
	if w.tx == nil {
		return
	}
	_ = w.tx.conn.Raw(func(any) error { return driver.ErrBadConn }) // always "fails": it drops the connection
	_ = w.tx.conn.Close()                                           // gone already
	w.tx = nil
}

// stop refuses new writes and finishes those in the queue. It reports whether
// this call did so.
func (w *writer) stop() bool {
	w.mu.Lock()
	first := !w.closed
	w.closed = true
	w.mu.Unlock()
	if !first {
		return false
	}
	w.lead <- struct{}{} // from now on nobody else leads
	for w.pending() {
		w.commitGroup()
	}
	return true
}

func (w *writer) pending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue) > 0
}

func (w *writer) close() error {
	if w.tx != nil {
		w.tx.closeStatements()
		_ = w.tx.conn.Close() // back to the pool, which closes it
		w.tx = nil
	}
	return w.db.Close()
}

func closedFault(op string) error {
	return fault.New(fault.Unavailable, CodeClosed, "The server is stopping.").WithOp(op)
}
