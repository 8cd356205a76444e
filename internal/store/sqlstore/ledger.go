package sqlstore

import "parley/internal/store"

// Ledger implements store.Store.
func (s *Store) Ledger() store.Ledger { return nil }
