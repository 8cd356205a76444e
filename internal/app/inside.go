package app

import (
	"bytes"
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"parley/internal/sandbox/inside"
)

// InitCommand is the hidden command that becomes a sandbox's first process.
const InitCommand = inside.Command

// SandboxInit is the life of a sandbox's first process; it never returns.
func SandboxInit(args []string) { inside.Init(args) }

//go:embed dist
var dist embed.FS

// insideProgram unpacks the small program for the inside of sandboxes below the data
// directory and returns its path, "" if from has none, because the server was built
// without scripts/build: then it runs itself there. One file serves all versions: containers of former ones start
// the newest again, as if the server had been replaced in place.
func insideProgram(from fs.ReadFileFS, data string) (string, error) {
	program, err := from.ReadFile("dist/parley-inside")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	path := filepath.Join(data, "programs", "parley-inside")
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, program) { //nolint:gosec // the server's own directory
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // sandboxes execute it as other users
		return "", err
	}
	return path, replaceProgram(path, program)
}

// replaceProgram writes an executable beside its place and moves it there: whoever
// starts it meanwhile gets the old one or the new one. What a crash leaves is compared at
// the next start, so nobody waits for the disk.
func replaceProgram(path string, program []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(program)
	if err = errors.Join(err, f.Chmod(0o755), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}
