package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"parley/internal/account"
	"parley/internal/api/v0/projection"
	"parley/internal/config"
	"parley/internal/fault"
	"parley/internal/imports"
	"parley/internal/store/sqlstore"
	"parley/internal/vault"
)

// ImportOptions say how to import.
type ImportOptions struct {
	Dir               string // the source
	OverwriteSettings bool
}

// Importing is an import into a data directory that no server uses meanwhile. Close it.
type Importing struct {
	*imports.Importer
	store *sqlstore.Store // nil = there is none yet
	cfg   config.Config
	opt   ImportOptions
}

// OpenImport opens a source and the data directory, as far as it is there: nothing is
// made. Unavailable (sqlstore.CodeInUse) while a server runs on it.
func OpenImport(ctx context.Context, cfg config.Config, opt ImportOptions) (*Importing, error) {
	i := &Importing{cfg: cfg, opt: opt}
	_, err := os.Stat(databaseOf(cfg))
	if err == nil {
		err = i.openStore(ctx)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return i, i.openSource()
}

func databaseOf(cfg config.Config) string { return filepath.Join(cfg.Data, "parley.db") }

// openStore opens the store, and makes it and its first user if need be.
func (i *Importing) openStore(ctx context.Context) error {
	if i.store != nil {
		return nil
	}
	if err := os.MkdirAll(i.cfg.Data, 0o700); err != nil {
		return fault.Wrap(err, fault.Unavailable, "data_directory", "The data directory %s cannot be made: %v.", i.cfg.Data, err)
	}
	keys, err := vault.Open(i.cfg.Data)
	if err != nil {
		return err
	}
	a := &App{cfg: i.cfg, log: slog.New(slog.DiscardHandler), keys: keys}
	a.store, err = sqlstore.Open(ctx, sqlstore.Options{Path: databaseOf(i.cfg), Sealer: keys, Logger: a.log})
	if err != nil {
		return err
	}
	if err := a.ensureUser(ctx); err != nil {
		return errors.Join(err, a.store.Close())
	}
	i.store = a.store
	return nil
}

// openSource opens the source for the store as it is now.
func (i *Importing) openSource() error {
	opt := imports.Options{Owner: account.FirstUserID, Projection: projection.Name, Part: projection.ImportedPart,
		MaxIterations: i.cfg.MaxIterations, OverwriteSettings: i.opt.OverwriteSettings,
		Mask: func(secrets []string) func(string) string { return vault.NewMasker(secrets...).Mask }}
	if i.store != nil {
		opt.Accounts, opt.Conversations, opt.Imports = i.store.Accounts(), i.store.Conversations(), i.store.Imports()
	}
	source, err := imports.Open(i.opt.Dir, opt)
	if err != nil {
		return errors.Join(err, i.Close())
	}
	i.Importer = source
	return nil
}

// Plan hands over what would be done.
func (i *Importing) Plan(ctx context.Context, told func(imports.Item)) error {
	return i.Run(ctx, false, told)
}

// Do imports, and hands over what was done.
func (i *Importing) Do(ctx context.Context, told func(imports.Item)) error {
	if i.store == nil {
		if err := errors.Join(i.Importer.Close(), i.openStore(ctx)); err != nil {
			return err
		}
		if err := i.openSource(); err != nil {
			return err
		}
	}
	return i.Run(ctx, true, told)
}

// Close gives source and store up.
func (i *Importing) Close() error {
	var errs []error
	if i.Importer != nil {
		errs = append(errs, i.Importer.Close())
	}
	if i.store != nil {
		errs = append(errs, i.store.Close())
	}
	i.Importer, i.store = nil, nil
	return errors.Join(errs...)
}
