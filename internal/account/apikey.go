package account

import "time"

// MadeKeyLabel marks the keys that users make, beside those of the configuration.
const MadeKeyLabel = "made"

// MaxKeys bounds the keys that a user can make.
const MaxKeys = 100

// Codes of the faults of keys.
const (
	CodeKeyLimit    = "key_limit"
	CodeKeyNotFound = "key_not_found"
)

// APIKey is a key without its value, which is stored hashed and shown once.
type APIKey struct {
	ID        int64
	UserID    string
	Label     string // MadeKeyLabel, or where the configuration has it from
	Name      string // "" = none
	CreatedAt time.Time
	UsedAt    *time.Time // about, within an hour; nil = never, or nobody noted it
	NotBefore *time.Time // it opens nothing before; nil = from the beginning
	ExpiresAt *time.Time // nor from then on; nil = it lasts
}
