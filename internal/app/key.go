package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/fault"
)

// keyFile holds the first user's key if the server made it.
const keyFile = "session-key"

// keyLabel marks the key that configuration or the key file gives.
const keyLabel = "session"

// minKey is the shortest key accepted from the configuration, in characters.
const minKey = 8

// ensureUser makes the first user and sets the key that opens its account.
func (a *App) ensureUser(ctx context.Context) error {
	users := a.store.Accounts()
	if err := users.PutUser(ctx, account.User{ID: account.FirstUserID, Name: "first user", CreatedAt: time.Now().UTC()}); err != nil {
		return err
	}
	key, err := a.sessionKey()
	if err != nil {
		return err
	}
	return users.SetKeys(ctx, account.FirstUserID, keyLabel, []account.KeyHash{account.HashKey(key)})
}

// sessionKey returns the configured key, or the one of the key file, which the
// first start makes.
func (a *App) sessionKey() (string, error) {
	if a.cfg.SessionAPIKey.IsSet() {
		key := a.cfg.SessionAPIKey.Reveal()
		if len(key) < minKey {
			return "", fault.New(fault.Invalid, "short_key", "The session API key has fewer than %d characters.", minKey).
				WithHint("Use a long random one: openssl rand -base64 32")
		}
		return key, nil
	}
	path := filepath.Join(a.cfg.Data, keyFile)
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return makeKeyFile(path)
	case err != nil:
		return "", fault.Wrap(err, fault.Unavailable, "key_file", "The key file %s cannot be read: %v.", path, err)
	}
	key := strings.TrimSpace(string(raw))
	if len(key) < minKey {
		return "", fault.New(fault.Invalid, "key_file", "The key file %s holds no usable key.", path).
			WithHint("Remove it; the next start makes a new one.")
	}
	return key, checkPrivate(path)
}

func makeKeyFile(path string) (string, error) {
	key := account.NewKey("pk-")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fault.Wrap(err, fault.Unavailable, "key_file", "The key file %s cannot be made: %v.", path, err)
	}
	_, err = f.WriteString(key + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fault.Wrap(errors.Join(err, os.Remove(path)), fault.Unavailable, "key_file", "The key file %s cannot be written.", path)
	}
	return key, nil
}

// checkPrivate refuses a key file that others can read: whoever could is the user.
func checkPrivate(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fault.New(fault.Forbidden, "key_file", "The key file %s can be read by other users.", path).
			WithHint("chmod 600 %s, and remove the file first if somebody may have read it: the next start makes a new key.", path)
	}
	return nil
}

// keyToShow is the key in the printed URL. One from the configuration is the
// user's own and is not repeated.
func (a *App) keyToShow() (string, error) {
	if a.cfg.SessionAPIKey.IsSet() {
		return "<your session API key>", nil
	}
	return a.sessionKey()
}
