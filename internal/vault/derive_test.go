package vault_test

import (
	"bytes"
	"testing"

	"parley/internal/vault"
)

// What is derived must survive a restart and a rotation: shells that are running
// are recognised by it.
func TestDerivedSecretsSurviveRotation(t *testing.T) {
	dir := t.TempDir()
	open := func() *vault.Vault {
		v, err := vault.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := open().Derive("a")
	if err := vault.Rotate(dir); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, open().Derive("a")) {
		t.Error("a rotation changed what was derived")
	}
	if bytes.Equal(first, open().Derive("b")) || len(first) != 32 {
		t.Error("purposes share a secret")
	}
}
