package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync"
)

// maxStatements bounds the prepared statements of a connection; queries beyond
// are prepared anew each time.
const maxStatements = 200

// querier reads, inside or outside of a write.
type querier interface {
	query(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	row(ctx context.Context, text string, args ...any) row
}

// row is a query's only row.
type row interface{ Scan(dest ...any) error }

// failedRow is a row of a query that could not be run.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

// tx is the writer's transaction. Its statements never see a caller's context:
// interrupting one would undo the whole group.
type tx struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

var _ querier = (*tx)(nil)

func (t *tx) prepare(text string) (*sql.Stmt, error) {
	if s, ok := t.stmts[text]; ok {
		return s, nil
	}
	s, err := t.conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	if len(t.stmts) >= maxStatements {
		t.closeStatements()
	}
	t.stmts[text] = s
	return s, nil
}

func (t *tx) closeStatements() {
	for text, s := range t.stmts {
		_ = s.Close() // only frees memory
		delete(t.stmts, text)
	}
}

func (t *tx) exec(text string, args ...any) error {
	_, err := t.affected(text, args...)
	return err
}

// affected returns the number of changed rows.
func (t *tx) affected(text string, args ...any) (int64, error) {
	s, err := t.prepare(text)
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t *tx) query(_ context.Context, text string, args ...any) (*sql.Rows, error) {
	s, err := t.prepare(text)
	if err != nil {
		return nil, err
	}
	return s.QueryContext(context.Background(), args...)
}

func (t *tx) row(_ context.Context, text string, args ...any) row {
	s, err := t.prepare(text)
	if err != nil {
		return failedRow{err}
	}
	return s.QueryRowContext(context.Background(), args...)
}

var errPoolClosed = errors.New("the store is closed")

// pool is the readers' connections with prepared statements.
type pool struct {
	db   *sql.DB
	path string

	mu     sync.Mutex
	stmts  map[string]*sql.Stmt
	closed bool
}

var _ querier = (*pool)(nil)

func newPool(db *sql.DB, path string) *pool {
	return &pool{db: db, path: path, stmts: map[string]*sql.Stmt{}}
}

// prepared returns the statement for text, nil if there are too many.
func (p *pool) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	p.mu.Lock()
	s, n, closed := p.stmts[text], len(p.stmts), p.closed
	p.mu.Unlock()
	if closed {
		return nil, errPoolClosed
	}
	if s != nil || n >= maxStatements {
		return s, nil
	}
	s, err := p.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return p.keep(text, s), nil
}

// keep stores s, unless another caller was first.
func (p *pool) keep(text string, s *sql.Stmt) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.stmts[text]; old != nil {
		_ = s.Close() // only frees memory
		return old
	}
	p.stmts[text] = s
	return s
}

func (p *pool) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	s, err := p.prepared(ctx, text)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return p.db.QueryContext(ctx, text, args...)
	}
	return s.QueryContext(ctx, args...)
}

func (p *pool) row(ctx context.Context, text string, args ...any) row {
	s, err := p.prepared(ctx, text)
	if err != nil {
		return failedRow{err}
	}
	if s == nil {
		return p.db.QueryRowContext(ctx, text, args...)
	}
	return s.QueryRowContext(ctx, args...)
}

func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	return p.db.Close()
}

// yieldEvery is the number of rows after which a reader lets others run. On a
// machine with few cores busy readers would otherwise hold each commit up for
// whole time slices.
const yieldEvery = 8

// collect reads all rows. It returns an empty, not a nil, slice for none.
func collect[T any](ctx context.Context, q querier, scan func(row) (T, error), text string, args ...any) ([]T, error) {
	return collectUntil(ctx, q, scan, func(T) bool { return false }, text, args...)
}

// collectUntil is collect that ends with the first row that is the last: rows behind it
// are not read.
func collectUntil[T any](ctx context.Context, q querier, scan func(row) (T, error), last func(T) bool, text string, args ...any) (out []T, err error) {
	rows, err := q.query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = []T{}
	for rows.Next() {
		item, err := scan(rows)
		if err != nil {
			return nil, err
		}
		if out = append(out, item); last(item) {
			return out, nil
		}
		if len(out)%yieldEvery == 0 {
			runtime.Gosched()
		}
	}
	return out, rows.Err()
}
