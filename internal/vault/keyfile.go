package vault

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"parley/internal/fault"
)

// KeyFile is the name of the key file in the data directory. It holds one or
// more keys of 32 random bytes, oldest first.
const KeyFile = "vault.key"

// maxKeys bounds the file: a larger one is something else.
const maxKeys = 64

// Open reads the key file of dir, and makes one with a fresh key if there is
// none. dir must exist. Internal (CodeKeyUnusable) if the file has a wrong size
// or can be read by others.
func Open(dir string) (*Vault, error) {
	path := filepath.Join(dir, KeyFile)
	keys, err := readKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createKeys(dir, path); err != nil {
			return nil, keyFault(err, "The key file cannot be created.").
				WithHint("Make %s writable for the server's user.", dir)
		}
		keys, err = readKeys(path)
	}
	if err != nil {
		return nil, err
	}
	return newVault(keys)
}

// Rotate adds a fresh key to the key file of dir: a vault that is opened
// afterwards seals with it and opens what older keys sealed. The change is
// atomic. Two rotations at the same time are not supported.
func Rotate(dir string) error {
	path := filepath.Join(dir, KeyFile)
	keys, err := readKeys(path)
	if err != nil {
		return err
	}
	if len(keys) >= maxKeys*keySize {
		return fault.New(fault.Conflict, CodeKeyUnusable, "The key file holds %d keys already.", maxKeys)
	}
	tmp, err := writeTemp(dir, append(keys, freshKey()...))
	if err != nil {
		return keyFault(err, "The new key cannot be written.")
	}
	if err := os.Rename(tmp, path); err != nil {
		return keyFault(errors.Join(err, os.Remove(tmp)), "The key file cannot be replaced.")
	}
	return syncDir(dir)
}

// readKeys checks and reads the file; an absent one is fs.ErrNotExist.
func readKeys(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, keyFault(err, "The key file cannot be read.").
			WithHint("Make %s readable for the server's user.", path)
	}
	defer func() { _ = f.Close() }() // only read
	if err := checkFile(f, path); err != nil {
		return nil, err
	}
	keys, err := io.ReadAll(io.LimitReader(f, maxKeys*keySize+1))
	if err != nil {
		return nil, keyFault(err, "The key file cannot be read.")
	}
	if n := len(keys); n == 0 || n%keySize != 0 || n > maxKeys*keySize {
		return nil, keyFault(nil, "The key file has a wrong size: it must be a multiple of %d bytes.", keySize).
			WithHint("Restore %s from a backup. Only if nothing has been stored yet, delete it.", path)
	}
	return keys, nil
}

func checkFile(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return keyFault(err, "The key file cannot be read.")
	}
	if !info.Mode().IsRegular() {
		return keyFault(nil, "The key file is not a regular file.").WithHint("Look at %s.", path)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return keyFault(nil, "The key file can be read by other users (mode %#o).", perm).
			WithHint("Run: chmod 600 %s", path)
	}
	return nil
}

// createKeys makes the file in one step: written and synced under another name,
// then linked, which fails if another process was first. A crash leaves either
// no key file or a whole one.
func createKeys(dir, path string) error {
	tmp, err := writeTemp(dir, freshKey())
	if err != nil {
		return err
	}
	err = os.Link(tmp, path)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err := errors.Join(err, os.Remove(tmp)); err != nil {
		return err
	}
	return syncDir(dir)
}

// writeTemp writes data to a new file (O_EXCL, 0600) of dir and syncs it.
func writeTemp(dir string, data []byte) (string, error) {
	f, err := os.CreateTemp(dir, "."+KeyFile+"-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

func freshKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails since Go 1.24
	return key
}

func keyFault(err error, format string, args ...any) *fault.Error {
	return fault.Wrap(err, fault.Internal, CodeKeyUnusable, format, args...).WithOp("vault.open")
}
