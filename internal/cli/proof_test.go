package cli_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkProof checks what a server would: the file is in the directory, is the
// client's, and holds the nonce.
func checkProof(t *testing.T, dir string, r *http.Request) {
	t.Helper()
	var body struct {
		Workspace struct {
			HostDir string `json:"host_dir"`
			Proof   string `json:"proof"`
			Nonce   string `json:"nonce"`
		} `json:"workspace"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		t.Error(err)
	}
	w := body.Workspace
	real, _ := filepath.EvalSymlinks(dir)
	if w.HostDir != real || !strings.HasPrefix(w.Proof, ".parley-proof-") || filepath.Base(w.Proof) != w.Proof || len(w.Nonce) < 16 {
		t.Errorf("workspace is %+v", w)
	}
	have, err := os.ReadFile(filepath.Join(w.HostDir, w.Proof))
	if err != nil || string(have) != w.Nonce {
		t.Errorf("the proof holds %q, %v; want %q", have, err, w.Nonce)
	}
	if info, err := os.Stat(filepath.Join(w.HostDir, w.Proof)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
