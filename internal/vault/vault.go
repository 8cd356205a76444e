// Package vault keeps secrets unreadable at rest and out of outputs.
//
// A Vault seals values with keys from one file of the data directory: whoever
// has the database without that file can neither read nor alter a sealed value,
// nor move it to another place. It does not protect against a reader of the
// whole data directory, and does not hide how long a value is.
//
// A Masker hides known secret values in text.
package vault

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"parley/internal/fault"
)

// Fault codes of this package.
const (
	CodeKeyUnusable = "vault_key_unusable" // the key file cannot be used as it is
	CodeUnseal      = "vault_unseal"       // a blob is damaged, moved, or sealed with a key that is not here
)

const (
	keySize   = 32
	keyIDSize = 8
	saltSize  = 16
	nonceSize = 12
	formatV1  = 1

	infoID   = "parley vault key id"
	infoSeal = "parley vault seal v1"
)

// A blob is: format (1 byte), key id (8), salt (16), nonce (12), ciphertext and
// tag. Every blob has a key of its own, derived from the master key and the
// salt, so that the number of blobs is not bounded by the nonce.
const (
	headerSize = 1 + keyIDSize + saltSize
	overhead   = headerSize + nonceSize + 16
)

type masterKey struct {
	id     [keyIDSize]byte
	secret []byte
}

// Vault seals and unseals. It is safe for concurrent use.
type Vault struct {
	keys []masterKey // the last one seals
}

func newVault(keys []byte) (*Vault, error) {
	v := &Vault{}
	for chunk := range slicesOf(keys, keySize) {
		id, err := hkdf.Key(sha256.New, chunk, nil, infoID, keyIDSize)
		if err != nil {
			return nil, fmt.Errorf("derive key id: %w", err)
		}
		v.keys = append(v.keys, masterKey{id: [keyIDSize]byte(id), secret: chunk})
	}
	return v, nil
}

// slicesOf yields consecutive parts of n bytes; len(b) is a multiple of n.
func slicesOf(b []byte, n int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for ; len(b) >= n; b = b[n:] {
			if !yield(b[:n:n]) {
				return
			}
		}
	}
}

// Seal encrypts plain with the newest key. aad names the place the blob is kept
// at (table and id): Unseal needs the same.
func (v *Vault) Seal(aad string, plain []byte) ([]byte, error) {
	key := v.keys[len(v.keys)-1]
	blob := make([]byte, headerSize+nonceSize, overhead+len(plain))
	blob[0] = formatV1
	copy(blob[1:], key.id[:])
	_, _ = rand.Read(blob[1+keyIDSize:]) // never fails since Go 1.24
	aead, err := key.aead(blob[1+keyIDSize : headerSize])
	if err != nil {
		return nil, err
	}
	return aead.Seal(blob, blob[headerSize:], plain, authenticated(blob, aad)), nil
}

// Unseal decrypts what Seal returned for the same aad. Internal (CodeUnseal) if
// the blob is damaged, belongs elsewhere or was sealed with an unknown key.
func (v *Vault) Unseal(aad string, blob []byte) ([]byte, error) {
	if len(blob) < overhead || blob[0] != formatV1 {
		return nil, unsealFault(fmt.Errorf("not a sealed blob: %d bytes", len(blob)))
	}
	key, ok := v.key(blob[1 : 1+keyIDSize])
	if !ok {
		return nil, unsealFault(fmt.Errorf("unknown key id %x", blob[1:1+keyIDSize]))
	}
	aead, err := key.aead(blob[1+keyIDSize : headerSize])
	if err != nil {
		return nil, err
	}
	nonce := blob[headerSize : headerSize+nonceSize]
	plain, err := aead.Open(nil, nonce, blob[headerSize+nonceSize:], authenticated(blob, aad))
	if err != nil {
		return nil, unsealFault(err)
	}
	return plain, nil
}

// Keys returns how many keys open blobs.
func (v *Vault) Keys() int { return len(v.keys) }

// Current reports whether blob was sealed with the newest key; one that was not
// should be sealed again before its key is retired.
func (v *Vault) Current(blob []byte) bool {
	newest := v.keys[len(v.keys)-1]
	return len(blob) >= overhead && bytes.Equal(blob[1:1+keyIDSize], newest.id[:])
}

func (v *Vault) key(id []byte) (masterKey, bool) {
	for _, k := range v.keys {
		if bytes.Equal(k.id[:], id) {
			return k, true
		}
	}
	return masterKey{}, false
}

func (k masterKey) aead(salt []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, k.secret, salt, infoSeal, keySize)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("make cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

// authenticated returns the bytes that are not secret but must not change.
func authenticated(blob []byte, aad string) []byte {
	return append(bytes.Clone(blob[:headerSize]), aad...)
}

func unsealFault(err error) error {
	return fault.Wrap(err, fault.Internal, CodeUnseal, "A stored secret cannot be decrypted.").
		WithHint("The key file %s does not belong to this database, or the database is damaged: "+
			"restore both from the same backup.", KeyFile).WithOp("vault.unseal")
}
