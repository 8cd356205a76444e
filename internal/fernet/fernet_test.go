package fernet

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The specification's key and vectors.
const specKey = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4="

func specCipher(t testing.TB) *Cipher {
	t.Helper()
	raw, err := base64.URLEncoding.DecodeString(specKey)
	if err != nil || len(raw) != 32 {
		t.Fatal(err, len(raw))
	}
	return New([32]byte(raw))
}

const specToken = "gAAAAAAdwJ6wAAECAwQFBgcICQoLDA0ODy021cpGVWKZ_eEwCGM4BLLF_5CV9dOPmrhuVUPgJobwOz7JcbmrR64jVmpU4IwqDA=="

func TestVectorsOfTheSpecification(t *testing.T) {
	c := specCipher(t)
	iv := [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	now := time.Date(1985, 10, 26, 1, 20, 0, 0, time.FixedZone("", -7*3600))
	if got := c.encrypt("hello", now, iv); got != specToken {
		t.Errorf("made %s", got)
	}
	if got, err := c.Decrypt(specToken); err != nil || got != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
}

// The tokens that the specification says are wrong, those that are wrong by their
// age left out: nothing expires here.
func TestWrongTokensAreRefused(t *testing.T) {
	c := specCipher(t)
	for name, token := range map[string]string{
		"incorrect mac":                   "gAAAAAAdwJ6xAAECAwQFBgcICQoLDA0OD3HkMATM5lFqGaerZ-fWPAl1-szkFVzXTuGb4hR8AKtwcaX1YdykQUFBQUFBQUFBQQ==",
		"too short":                       "gAAAAAAdwJ6xAAECAwQFBgcICQoLDA0OD3HkMATM5lFqGaerZ-fWPA==",
		"invalid base64":                  "%%%%%%%%%%%%%AECAwQFBgcICQoLDA0OD3HkMATM5lFqGaerZ-fWPAl1-szkFVzXTuGb4hR8AKtwcaX1YdykRtfsH-p1YsUD2Q==",
		"payload size no multiple of 16":  "gAAAAAAdwJ6xAAECAwQFBgcICQoLDA0OD3HkMATM5lFqGaerZ-fWPOm73QeoCk9uGib28Xe5vz6oxq5nmxbx_v7mrfyudzUm",
		"payload padding error":           "gAAAAAAdwJ6xAAECAwQFBgcICQoLDA0ODz4LEpdELGQAad7aNEHbf-JkLPIpuiYRLQ3RtXatOYREu2FWke6CnJNYIbkuKNqOhw==",
		"incorrect initialization vector": "gAAAAAAdwJ6xBQECAwQFBgcICQoLDA0OD3HkMATM5lFqGaerZ-fWPAnja1xKYyhd-Y6mSkTOyTGJmw2Xc2a6kBd-iX9b_qXQcw==",
		"empty":                           "",
		"another version":                 "gQAA" + specToken[4:],
	} {
		if got, err := c.Decrypt(token); !errors.Is(err, ErrToken) {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
}

func TestKeyOfASecretIsItsHash(t *testing.T) {
	token := Of("a secret").Encrypt("x")
	if got, err := New(sha256.Sum256([]byte("a secret"))).Decrypt(token); err != nil || got != "x" || !IsToken(token) {
		t.Errorf("%q, %v: %s", got, err, token)
	}
	if _, err := Of("another").Decrypt(token); !errors.Is(err, ErrToken) {
		t.Error("another key reads the token")
	}
}

func TestWhatWasEncryptedIsReadBackAndNothingElse(t *testing.T) {
	c := Of("k")
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.String().Draw(t, "plain")
		token := c.Encrypt(plain)
		if got, err := c.Decrypt(token); err != nil || got != plain {
			t.Fatalf("%q became %q, %v", plain, got, err)
		}
		raw, err := base64.URLEncoding.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if _, err := c.Decrypt(base64.URLEncoding.EncodeToString(raw)); err == nil {
			t.Fatal("a changed token is read")
		}
	})
}

func FuzzDecrypt(f *testing.F) {
	c := Of("k")
	for _, seed := range []string{"", Prefix, specToken, c.Encrypt("hello"), strings.Repeat("A", 100)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		plain, err := c.Decrypt(token)
		if err != nil {
			return
		}
		if again, err := c.Decrypt(c.Encrypt(plain)); err != nil || again != plain {
			t.Errorf("%q became %q, %v", plain, again, err)
		}
	})
}
