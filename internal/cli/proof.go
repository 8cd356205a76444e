package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// proofPrefix starts the names of the files that prove write access.
const proofPrefix = ".parley-proof-"

// proof is a file in a directory that shows a server on the same machine that
// the client may write there.
type proof struct {
	dir, name, nonce string
}

// newProof makes the file in dir, which may be relative.
func newProof(dir string) (*proof, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	if absolute, err = filepath.EvalSymlinks(absolute); err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	if info, err := os.Stat(absolute); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("--dir: %s is no directory", absolute)
	}
	p := &proof{dir: absolute, name: proofPrefix + rand.Text(), nonce: rand.Text()}
	f, err := os.OpenFile(p.path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--dir: the agent can only work in a directory that you may write to: %w", err)
	}
	_, err = f.WriteString(p.nonce)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("--dir: %w", err), p.remove())
	}
	return p, nil
}

func (p *proof) path() string { return filepath.Join(p.dir, p.name) }

func (p *proof) remove() error {
	if err := os.Remove(p.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// workspace is the proof as the start request carries it.
func (p *proof) workspace() *Workspace {
	return &Workspace{HostDir: p.dir, Proof: p.name, Nonce: p.nonce}
}
