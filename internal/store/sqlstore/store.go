// Package sqlstore implements the store seam on SQL. SQLite is the engine: one
// file, one process (an exclusive lock on the data directory says so). What is
// special about SQLite is in sqlite.go and migrations/sqlite; everything else
// keeps to SQL that PostgreSQL understands, too.
//
// Writes of all callers share one connection and are committed in groups
// (writer.go). A method that returns nil has been synced to disk; one that
// returns an error has changed nothing that anybody can see. The one exception
// is a disk that fails while it syncs a commit: such a write is reported as
// failed and is not visible, but after a crash of the machine right then it may
// turn out to be there. Reads use other connections and never wait for writes.
//
// A caller whose context ends while its write waits gets the context's error
// and the write is not done. Once the write has begun, the context has no
// effect: the method waits for the commit and reports what became of it.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"parley/internal/fault"
	"parley/internal/store"
)

// Sealer encrypts what is secret. aad names the place of a blob.
type Sealer interface {
	Seal(aad string, plain []byte) ([]byte, error)
	Unseal(aad string, blob []byte) ([]byte, error)
}

// Options say which database to open.
type Options struct {
	Path    string // of the database file; its directory is made (0700) and locked
	Sealer  Sealer // required
	Logger  *slog.Logger
	Readers int // connections for reading, 0 = 4
}

// Fault codes of this package, beside those of the seam.
const (
	CodeInUse   = "store_in_use"     // another process has the data directory
	CodeTooNew  = "store_too_new"    // a newer version wrote the database
	CodeCorrupt = "store_corrupt"    // the file is damaged or no database
	CodeClosed  = "store_closed"     // the server is stopping
	CodeForeign = "store_wrong_key"  // the vault's key does not belong to the database
	CodeBusy    = "store_busy"       // another program holds a lock on the file
	codeMissing = "not_found"        // no such row
	codeBadRow  = "store_bad_record" // the caller's record breaks a rule of the seam
)

const defaultReaders = 4

// Store is an open database. Close it once.
type Store struct {
	seal   Sealer
	log    *slog.Logger
	lock   io.Closer
	reads  *pool
	writes *writer
}

var _ store.Store = (*Store)(nil)

// Open locks the data directory, makes or migrates the database and opens it.
// Errors are faults: Unavailable (CodeInUse, store_readonly, store_full),
// Internal (CodeTooNew, CodeCorrupt, CodeForeign).
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	lock, err := lockDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	s := &Store{seal: o.Sealer, log: o.Logger, lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
		}
	}()
	if err := createFile(path); err != nil {
		return nil, classify("store.open", path, err)
	}
	if err := s.connect(ctx, path, o.Readers); err != nil {
		return nil, classify("store.open", path, err)
	}
	return s, nil
}

func (s *Store) connect(ctx context.Context, path string, readers int) error {
	if readers <= 0 {
		readers = defaultReaders
	}
	db, err := openWriter(path)
	if err != nil {
		return err
	}
	s.writes = newWriter(db, path, s.log)
	if err := migrate(ctx, db); err != nil {
		return err
	}
	rdb, err := openReaders(path, readers)
	if err != nil {
		return err
	}
	s.reads = newPool(rdb, path)
	return s.checkSealer(ctx)
}

// checkSealer keeps a sealed canary, so that a database that has been brought
// together with a wrong key file is refused at the start, not at the first use.
func (s *Store) checkSealer(ctx context.Context) error {
	const name = "sealer_check"
	var blob []byte
	err := s.reads.row(ctx, `SELECT value FROM meta WHERE name = $1`, name).Scan(&blob)
	if errors.Is(err, sql.ErrNoRows) {
		blob, err := s.seal.Seal("meta/"+name, []byte("parley"))
		if err != nil {
			return err
		}
		return s.writes.do(ctx, "store.open", func(t *tx) error {
			return t.exec(`INSERT INTO meta (name, value) VALUES ($1, $2)`, name, blob)
		})
	}
	if err != nil {
		return err
	}
	if _, err := s.seal.Unseal("meta/"+name, blob); err != nil {
		return fault.Wrap(err, fault.Internal, CodeForeign, "The database was encrypted with another key.").
			WithHint("Restore the key file and the database from the same backup.").WithOp("store.open")
	}
	return nil
}

// Conversations returns the records.
func (s *Store) Conversations() store.Conversations { return conversations{s} }

// Events returns the logs.
func (s *Store) Events() store.Events { return events{s} }

// Leases returns the leases of live conversations.
func (s *Store) Leases() store.Leases { return leases{s} }

// StartTasks returns the start tasks.
func (s *Store) StartTasks() store.StartTasks { return startTasks{s} }

// Accounts returns users, keys and settings.
func (s *Store) Accounts() store.Accounts { return accounts{s} }

// Sandboxes returns the records of sandboxes.
func (s *Store) Sandboxes() store.Sandboxes { return sandboxes{s} }

// NetworkLog returns what sandboxes connected to.
func (s *Store) NetworkLog() store.NetworkLog { return networkLog{s} }

// Projections returns the numberings of derived events.
func (s *Store) Projections() store.Projections { return projections{s} }

// Extensions returns what is added to agents.
func (s *Store) Extensions() store.Extensions { return extensions{s} }

// Webhooks returns where events are sent to.
func (s *Store) Webhooks() store.Webhooks { return webhooks{s} }

// Ping writes and commits one small row.
func (s *Store) Ping(ctx context.Context) error {
	return s.writes.do(ctx, "store.ping", func(t *tx) error {
		return t.exec(`INSERT INTO meta (name, value) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, "ping", fmt.Append(nil, time.Now().UnixMicro()))
	})
}

// Close finishes the writes that have been handed in, closes the database and
// gives the data directory free. Later calls of other methods fail with
// Unavailable (CodeClosed).
func (s *Store) Close() error {
	if s.writes.stop() {
		return s.release()
	}
	return nil
}

func (s *Store) release() error {
	var errs []error
	if s.reads != nil {
		errs = append(errs, s.reads.close())
	}
	if s.writes != nil {
		errs = append(errs, s.writes.close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// createFile makes an empty database file that only the owner can read; the
// engine gives its other files the same mode.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Chmod(0o600); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
