// Package editing is what the tools that edit files share: how far a path may lead,
// how a file changes, and how a change is taken back.
//
// It promises that a file is replaced as a whole or not at all and keeps its mode;
// that it is replaced only if it still holds what the edit was computed from; that
// a path inside the working directory is not followed out of it by symbolic links,
// which repositories bring along; and that every change can be undone, also by a
// server that was restarted (history.go). It does not lock files against the
// programs in the sandbox, and a program that swaps links while a file is read can
// have another one read: it could as well write what it wants to be read.
package editing

import (
	"context"
	"crypto/sha256"
	"path"
	"strings"

	"parley/internal/fault"
	"parley/internal/tool"
)

// MaxFile is how many bytes a file may have that is read or edited.
const MaxFile = 10 << 20

// Outside is the refusal of a path that lies in the working directory by its name
// and elsewhere in truth.
type Outside struct {
	Path, Real string
	mistake    error
}

// Error returns the text for the model.
func (o *Outside) Error() string { return o.mistake.Error() }

// Unwrap makes it a mistake of the model.
func (o *Outside) Unwrap() error { return o.mistake }

// Check refuses, as *Outside, an absolute path inside the working directory that
// symbolic links lead out of it, whether it exists or not. Paths that lie outside by
// their name are not its business. A link that leads nowhere passes: nothing can be
// read there, and Create refuses it.
func Check(ctx context.Context, env *tool.Env, name string) error {
	root := path.Clean(env.WorkingDir)
	if !inside(root, name) {
		return nil
	}
	dir, err := env.Hands.Stat(ctx, root)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for at := name; at != root; at = path.Dir(at) {
		info, err := env.Hands.Stat(ctx, at)
		switch {
		case fault.Is(err, fault.NotFound):
			continue
		case err != nil:
			return err
		case inside(dir.Real, info.Real):
			return nil
		}
		return outside(name, path.Join(info.Real, strings.TrimPrefix(name, at)), root)
	}
	return nil
}

func outside(name, real, root string) error {
	return &Outside{Path: name, Real: real, mistake: tool.Wrong(
		"%s is reached through a symbolic link and is really %s, outside the working directory %s. If that is what you mean, use that path.",
		name, real, root)}
}

// inside reports whether a clean path is root or lies below it.
func inside(root, name string) bool {
	return name == root || strings.HasPrefix(name, strings.TrimSuffix(root, "/")+"/")
}

// Read reads a file of at most MaxFile bytes after a Check. TooLarge and NotFound
// are left to the caller to put into words.
func Read(ctx context.Context, env *tool.Env, name string) ([]byte, error) {
	if err := Check(ctx, env, name); err != nil {
		return nil, err
	}
	return env.Hands.ReadFile(ctx, name, MaxFile)
}

// Create makes a file, with missing parent directories. Conflict if the path exists.
// note tells the model if the change cannot be undone.
func Create(ctx context.Context, env *tool.Env, name string, data []byte) (note string, err error) {
	return change(ctx, env, tool.FileChange{Path: name, Data: data}, Edit{After: data})
}

// Replace replaces what a file holds, which is before: Conflict if it holds something
// else meanwhile.
func Replace(ctx context.Context, env *tool.Env, name string, before, after []byte) (note string, err error) {
	c := tool.FileChange{Path: name, Data: after, Before: Digest(before)}
	return change(ctx, env, c, Edit{Before: before, Existed: true, After: after})
}

func change(ctx context.Context, env *tool.Env, c tool.FileChange, e Edit) (note string, err error) {
	if err := apply(ctx, env, c); err != nil {
		return "", err
	}
	return Record(ctx, env, c.Path, e), nil
}

// apply changes one file, no further away than its name says.
func apply(ctx context.Context, env *tool.Env, c tool.FileChange) error {
	if err := Check(ctx, env, c.Path); err != nil {
		return err
	}
	root := path.Clean(env.WorkingDir)
	if !inside(root, c.Path) || c.Path == root {
		root = "/"
	}
	return env.Hands.ChangeFiles(ctx, root, []tool.FileChange{c})
}

// Digest identifies what a file holds, for tool.FileChange.Before.
func Digest(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}
