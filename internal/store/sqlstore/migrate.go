package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"parley/internal/fault"
)

//go:embed migrations
var migrations embed.FS

// migrate brings the schema to this version. A database of a newer version is
// refused and left as it is.
func migrate(ctx context.Context, db *sql.DB) error {
	files, err := fs.Sub(migrations, "migrations/sqlite")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if have > want {
		return fault.New(fault.Internal, CodeTooNew,
			"The database was written by a newer version (schema %d, this one knows %d).", have, want).
			WithHint("Install that version again, or restore a backup from before the upgrade.").WithOp("store.open")
	}
	if have == want {
		return nil
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}
