package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"parley/internal/fault"
	"parley/internal/store"
)

// begin starts a transaction that has the write lock from the start, so that it
// cannot fail half-way because of another writer.
const begin = `BEGIN IMMEDIATE`

// contains is a condition: the text col has the needle ph in it, byte for byte.
func contains(col, ph string) string { return "instr(" + col + ", " + ph + ") > 0" }

// writerPragmas: WAL lets readers go on beside the writer; FULL syncs every
// commit. The log file is cut back after a burst.
var writerPragmas = []string{"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)",
	"journal_size_limit(67108864)", "temp_store(MEMORY)", "trusted_schema(OFF)", "cache_size(-4096)"}

var readerPragmas = []string{"busy_timeout(5000)", "temp_store(MEMORY)", "trusted_schema(OFF)",
	"query_only(ON)", "cache_size(-2048)"}

func openWriter(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, writerPragmas))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func openReaders(path string, n int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, readerPragmas))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// dsn writes the path as a URL, because it may hold "?" or "%".
func dsn(path string, pragmas []string) string {
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	return u.String()
}

// classify makes a fault of an error of the engine. Faults and errors that are
// no engine's pass.
func classify(op, path string, err error) error {
	var f *fault.Error
	var e *sqlite.Error
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.As(err, &e):
		return classifyCode(op, path, e)
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return full(op, err)
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EIO):
		return readOnly(op, err)
	case errors.Is(err, sql.ErrConnDone), errors.Is(err, errPoolClosed):
		return closedFault(op)
	}
	return fmt.Errorf("%s: %w", op, err)
}

func classifyCode(op, path string, e *sqlite.Error) error {
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL:
		return full(op, e)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		// The engine says FULL only for writes to its main files.
		if outOfSpace(filepath.Dir(path)) {
			return full(op, e)
		}
		return readOnly(op, e)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return readOnly(op, e)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.Wrap(e, fault.Unavailable, CodeBusy, "The database is locked by another program.").
			WithHint("Close the program that has the file open.").WithOp(op)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fault.Wrap(e, fault.Internal, CodeCorrupt, "The database file is damaged or is not a database.").
			WithHint("Restore %s from a backup, or move it away to start empty.", filepath.Base(path)).WithOp(op)
	}
	return fmt.Errorf("%s: %w", op, e)
}

func full(op string, err error) error {
	return fault.Wrap(err, fault.Unavailable, store.CodeStoreFull, "The disk of the data directory is full; nothing was stored.").
		WithHint("Free some space; the server goes on by itself.").WithOp(op)
}

func readOnly(op string, err error) error {
	return fault.Wrap(err, fault.Unavailable, store.CodeStoreReadOnly, "The disk of the data directory refuses writes; nothing was stored.").
		WithHint("Look at the disk, its mount and the directory's owner; the server goes on by itself once it can write.").WithOp(op)
}

// outOfSpace reports whether the file system of dir has no room for a commit.
func outOfSpace(dir string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false
	}
	const least = 256 << 10
	return st.Bavail*uint64(st.Bsize) < least
}

// isDuplicate reports whether err says that a unique key is taken.
func isDuplicate(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// interrupted puts the context's error in place of the engine's report that it
// was interrupted.
func interrupted(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	var e *sqlite.Error
	if errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_INTERRUPT || strings.Contains(err.Error(), "interrupted") {
		return ctx.Err()
	}
	return err
}
