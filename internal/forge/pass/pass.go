// Package pass makes and checks access tokens: what opens one of a user's git tokens
// for a while, for programs that must not have the user's key (V1 7.1, 8). They are
// JSON Web Signatures with HMAC-SHA-256 (RFC 7515, RFC 7519), and nothing else is taken.
package pass

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"parley/internal/fault"
)

// Lifetime of an access token.
const Lifetime = 14 * 24 * time.Hour

// Claims are what a token says.
type Claims struct {
	UserID   string `json:"user_id"`
	Provider string `json:"provider_type"`
	IssuedAt int64  `json:"iat"` // seconds since the epoch
	Expires  int64  `json:"exp"`
}

type header struct {
	Algorithm string   `json:"alg"`
	KeyID     string   `json:"kid"`
	Type      string   `json:"typ,omitempty"`
	Critical  []string `json:"crit,omitempty"`
}

const algorithm = "HS256"

// Signer makes and checks tokens with one key. It is safe for concurrent use.
type Signer struct {
	key []byte
	id  string
}

// New returns a signer. The key has at least 32 bytes.
func New(key []byte) *Signer {
	sum := sha256.Sum256(append([]byte("kid:"), key...))
	return &Signer{key: key, id: hex.EncodeToString(sum[:8])}
}

// Issue makes a token that opens a user's git token of one provider until it expires.
func (s *Signer) Issue(userID, provider string, now time.Time) (token string, expires time.Time, err error) {
	expires = now.Add(Lifetime).Truncate(time.Second)
	head, err := part(header{Algorithm: algorithm, KeyID: s.id, Type: "JWT"})
	if err != nil {
		return "", expires, err
	}
	claims, err := part(Claims{UserID: userID, Provider: provider, IssuedAt: now.Unix(), Expires: expires.Unix()})
	if err != nil {
		return "", expires, err
	}
	signed := head + "." + claims
	return signed + "." + base64.RawURLEncoding.EncodeToString(s.sum(signed)), expires, nil
}

func (s *Signer) sum(text string) []byte {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func part(v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode token: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

const maxToken = 4096

// Verify returns what a token says. Every token that is not ours, or not of this time,
// is Unauthenticated; why is not told.
func (s *Signer) Verify(token string, now time.Time) (Claims, error) {
	bad := fault.New(fault.Unauthenticated, "bad_access_token", "The access token is not valid, or has expired.")
	signed, signature, ok := cutLast(token)
	mac, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if !ok || len(token) > maxToken || err != nil || !hmac.Equal(mac, s.sum(signed)) {
		return Claims{}, bad
	}
	head, body, _ := strings.Cut(signed, ".")
	var h header
	var c Claims
	if read(head, &h) != nil || read(body, &c) != nil || h.Algorithm != algorithm || h.KeyID != s.id || h.Critical != nil {
		return Claims{}, bad
	}
	if c.UserID == "" || c.Provider == "" || now.Unix() >= c.Expires || now.Add(time.Minute).Unix() < c.IssuedAt {
		return Claims{}, bad
	}
	return c, nil
}

func cutLast(text string) (before, after string, ok bool) {
	at := strings.LastIndexByte(text, '.')
	if at < 0 {
		return "", "", false
	}
	return text[:at], text[at+1:], true
}

func read(part string, v any) error {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}
