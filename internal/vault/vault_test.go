package vault_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"parley/internal/fault"
	"parley/internal/vault"
)

func open(t *testing.T, dir string) *vault.Vault {
	t.Helper()
	v, err := vault.Open(dir)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return v
}

func seal(t *testing.T, v *vault.Vault, aad, plain string) []byte {
	t.Helper()
	blob, err := v.Seal(aad, []byte(plain))
	if err != nil {
		t.Fatalf("seal: %v", err)
	}
	return blob
}

func TestSealedComesBackAfterReopen(t *testing.T) {
	dir := t.TempDir()
	for _, plain := range []string{"", "x", "sk-test-1234567890", strings.Repeat("long ", 100_000)} {
		blob := seal(t, open(t, dir), "settings/user-1", plain)
		if len(plain) > 8 && bytes.Contains(blob, []byte(plain)) { // a short one may be there by chance
			t.Errorf("the blob holds the value in clear")
		}
		got, err := open(t, dir).Unseal("settings/user-1", blob)
		if err != nil || string(got) != plain {
			t.Errorf("unseal = %.20q, %v; want %.20q", got, err, plain)
		}
	}
}

func TestSealingTwiceDiffers(t *testing.T) {
	v := open(t, t.TempDir())
	if bytes.Equal(seal(t, v, "a", "same"), seal(t, v, "a", "same")) {
		t.Error("two blobs of one value are equal")
	}
}

func TestUnsealRefuses(t *testing.T) {
	v := open(t, t.TempDir())
	blob := seal(t, v, "settings/user-1", "secret")
	check := func(name, aad string, blob []byte, by *vault.Vault) {
		t.Helper()
		_, err := by.Unseal(aad, blob)
		if fault.CodeOf(err) != vault.CodeUnseal {
			t.Errorf("%s: error %v, want code %s", name, err, vault.CodeUnseal)
		}
		if strings.Contains(fault.PublicText(err), "secret\x00") || !strings.Contains(fault.PublicText(err), vault.KeyFile) {
			t.Errorf("%s: public text %q does not name the key file", name, fault.PublicText(err))
		}
	}
	check("another row", "settings/user-2", blob, v)
	check("another key", "settings/user-1", blob, open(t, t.TempDir()))
	check("empty", "settings/user-1", nil, v)
	for i := range blob {
		changed := bytes.Clone(blob)
		changed[i] ^= 0x40
		check("changed byte", "settings/user-1", changed, v)
		check("cut", "settings/user-1", blob[:i], v)
	}
}

func TestRotationKeepsOldBlobsReadable(t *testing.T) {
	dir := t.TempDir()
	before := open(t, dir)
	old := seal(t, before, "a", "old")
	if err := vault.Rotate(dir); err != nil {
		t.Fatal(err)
	}
	after := open(t, dir)
	if after.Keys() != 2 || after.Current(old) {
		t.Errorf("keys %d, old blob current: %v; want 2, false", after.Keys(), after.Current(old))
	}
	got, err := after.Unseal("a", old)
	if err != nil || string(got) != "old" {
		t.Errorf("old blob: %q, %v", got, err)
	}
	fresh := seal(t, after, "a", "new")
	if !after.Current(fresh) {
		t.Error("a fresh blob is not sealed with the newest key")
	}
	if _, err := before.Unseal("a", fresh); fault.CodeOf(err) != vault.CodeUnseal {
		t.Errorf("a vault without the new key: %v, want code %s", err, vault.CodeUnseal)
	}
	assertMode(t, filepath.Join(dir, vault.KeyFile))
}

func assertMode(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %#o, want 0600", info.Mode().Perm())
	}
}

func TestKeyFileIsPrivateAndAlone(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	assertMode(t, filepath.Join(dir, vault.KeyFile))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("directory holds %v (%v), want the key file only", entries, err)
	}
}

func TestConcurrentFirstOpensAgree(t *testing.T) {
	dir := t.TempDir()
	vaults := make([]*vault.Vault, 8)
	var wg sync.WaitGroup
	for i := range vaults {
		wg.Go(func() {
			v, err := vault.Open(dir)
			if err != nil {
				t.Errorf("open: %v", err)
			}
			vaults[i] = v
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	blob := seal(t, vaults[0], "a", "value")
	for _, v := range vaults {
		if got, err := v.Unseal("a", blob); err != nil || string(got) != "value" {
			t.Errorf("unseal: %q, %v", got, err)
		}
	}
}

func TestUnusableKeyFiles(t *testing.T) {
	cases := []struct {
		name string
		size int
		mode os.FileMode
		hint string
	}{
		{"empty", 0, 0o600, "backup"},
		{"short", 31, 0o600, "backup"},
		{"between keys", 40, 0o600, "backup"},
		{"huge", 32 * 65, 0o600, "backup"},
		{"group readable", 32, 0o640, "chmod 600"},
		{"world readable", 32, 0o604, "chmod 600"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, vault.KeyFile)
			if err := os.WriteFile(path, make([]byte, c.size), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := vault.Open(dir)
			if fault.CodeOf(err) != vault.CodeKeyUnusable || !strings.Contains(fault.PublicText(err), c.hint) {
				t.Errorf("open: %v (public %q), want code %s and a hint with %q",
					err, fault.PublicText(err), vault.CodeKeyUnusable, c.hint)
			}
		})
	}
}

func TestKeyFileThatIsADirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, vault.KeyFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := vault.Open(dir); fault.CodeOf(err) != vault.CodeKeyUnusable {
		t.Errorf("open: %v, want code %s", err, vault.CodeKeyUnusable)
	}
}

func TestOpenWithoutDirectory(t *testing.T) {
	_, err := vault.Open(filepath.Join(t.TempDir(), "absent"))
	if fault.CodeOf(err) != vault.CodeKeyUnusable {
		t.Errorf("open: %v, want code %s", err, vault.CodeKeyUnusable)
	}
}

func FuzzUnseal(f *testing.F) {
	v, err := vault.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	blob, err := v.Seal("a", []byte("value"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a", []byte{})
	f.Add("b", blob)
	f.Add("a", blob[:30])
	f.Fuzz(func(t *testing.T, aad string, data []byte) {
		if aad == "a" && bytes.Equal(data, blob) {
			return
		}
		if plain, err := v.Unseal(aad, data); err == nil {
			t.Errorf("a forged blob was accepted: %q", plain)
		}
	})
}

func BenchmarkSealUnseal(b *testing.B) {
	v, err := vault.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	plain := bytes.Repeat([]byte("x"), 2000)
	for b.Loop() {
		blob, err := v.Seal("a", plain)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := v.Unseal("a", blob); err != nil {
			b.Fatal(err)
		}
	}
}
