// Package fernet makes and reads Fernet tokens: what clients of the agent-server
// protocol carry encrypted settings in (agent protocol 1.1). The format is version
// 0x80 of the public specification: time, AES-128 in CBC mode, HMAC-SHA256 over all
// of it. Tokens do not expire here: they are kept by whoever was given one.
package fernet

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"
)

// Prefix begins every token of this century; clients and servers know one by it.
const Prefix = "gAAAAA"

const (
	version  = 0x80
	header   = 1 + 8 + aes.BlockSize // version, seconds, initialization vector
	overhead = header + sha256.Size
)

// ErrToken says that a text is no token of this key, whatever the reason.
var ErrToken = errors.New("not a Fernet token of this key")

// Cipher encrypts and decrypts with one key. It is safe for concurrent use.
type Cipher struct{ signing, encryption [16]byte }

// New makes a cipher of a key of 32 bytes.
func New(key [32]byte) *Cipher {
	return &Cipher{signing: [16]byte(key[:16]), encryption: [16]byte(key[16:])}
}

// Of makes the cipher of a configured secret, whose SHA-256 is the key (agent
// protocol 1.1).
func Of(secret string) *Cipher { return New(sha256.Sum256([]byte(secret))) }

// IsToken reports whether a text looks like a token, of whatever key.
func IsToken(text string) bool { return strings.HasPrefix(text, Prefix) }

// Encrypt makes a token.
func (c *Cipher) Encrypt(plain string) string {
	var iv [aes.BlockSize]byte
	_, _ = rand.Read(iv[:]) // never fails since Go 1.24
	return c.encrypt(plain, time.Now(), iv)
}

func (c *Cipher) encrypt(plain string, now time.Time, iv [aes.BlockSize]byte) string {
	pad := aes.BlockSize - len(plain)%aes.BlockSize
	token := make([]byte, header, overhead+len(plain)+pad)
	token[0] = version
	binary.BigEndian.PutUint64(token[1:], uint64(max(now.Unix(), 0)))
	copy(token[9:], iv[:])
	token = append(token, plain...)
	for range pad {
		token = append(token, byte(pad))
	}
	cipher.NewCBCEncrypter(c.block(), iv[:]).CryptBlocks(token[header:], token[header:])
	return base64.URLEncoding.EncodeToString(append(token, c.mac(token)...))
}

// Decrypt reads a token, or returns ErrToken.
func (c *Cipher) Decrypt(token string) (string, error) {
	raw, err := base64.URLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < overhead+aes.BlockSize || raw[0] != version || (len(raw)-overhead)%aes.BlockSize != 0 {
		return "", ErrToken
	}
	signed, mac := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	if !hmac.Equal(mac, c.mac(signed)) {
		return "", ErrToken
	}
	text := signed[header:]
	cipher.NewCBCDecrypter(c.block(), signed[9:header]).CryptBlocks(text, text)
	pad := int(text[len(text)-1])
	if pad == 0 || pad > aes.BlockSize {
		return "", ErrToken
	}
	for _, b := range text[len(text)-pad:] {
		if int(b) != pad {
			return "", ErrToken
		}
	}
	return string(text[:len(text)-pad]), nil
}

func (c *Cipher) block() cipher.Block {
	block, err := aes.NewCipher(c.encryption[:])
	if err != nil { // only for keys of another length
		panic(err)
	}
	return block
}

func (c *Cipher) mac(signed []byte) []byte {
	h := hmac.New(sha256.New, c.signing[:])
	h.Write(signed)
	return h.Sum(nil)
}
