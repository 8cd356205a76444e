package vault

import (
	"crypto/hkdf"
	"crypto/sha256"
)

// Derive returns a secret of 32 bytes for a purpose of the server's own. It stays
// the same when keys are rotated: it comes from the oldest one.
func (v *Vault) Derive(purpose string) []byte {
	key, err := hkdf.Key(sha256.New, v.keys[0].secret, nil, "parley derive: "+purpose, sha256.Size)
	if err != nil { // only for lengths that are too long
		panic(err)
	}
	return key
}
