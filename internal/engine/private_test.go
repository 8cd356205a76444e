package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"parley/internal/engine"
	"parley/internal/fault"
)

// A sandbox that sees the data directory sees every key.
func TestTheServersOwnDirectoryIsNeverMounted(t *testing.T) {
	top := must(filepath.EvalSymlinks(t.TempDir()))
	data := filepath.Join(top, "a", "data")
	if err := os.MkdirAll(filepath.Join(data, "sandboxes"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := newWorldWith(t, func(o *engine.Options) { o.Private = []string{data} })
	const nonce = "0123456789abcdef0123"
	for _, dir := range []string{top, filepath.Join(top, "a"), data, filepath.Join(data, "sandboxes")} {
		proof := filepath.Join(dir, ".parley-proof-x")
		if err := os.WriteFile(proof, []byte(nonce), 0o600); err != nil {
			t.Fatal(err)
		}
		h := engine.HostDir{Path: dir, Proof: filepath.Base(proof), Nonce: nonce}
		if _, err := w.engine.Start(t.Context(), engine.StartRequest{Owner: owner, HostDir: &h}); fault.CodeOf(err) != "host_dir_refused" {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
