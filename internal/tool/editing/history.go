package editing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"parley/internal/fault"
	"parley/internal/tool"
)

// MaxHistory is how many edits of a file can be undone.
const MaxHistory = 10

// What the name of an entry says about the file before the edit.
const (
	suffixHad  = ".had"  // the entry is what it held
	suffixNone = ".none" // it did not exist
)

// Edit is what was done to a file.
type Edit struct {
	Before  []byte // what it held
	Existed bool   // before
	After   []byte // what it holds; nothing if it was removed
	// Mode is that of a file that was removed, to bring it back; else 0.
	Mode fs.FileMode
}

// The history of a file is a directory in the sandbox with one entry per edit,
// numbered in their order: it survives a restart of the server, and goes with the
// sandbox. An entry is named number.digest.had, or number.digest.mode.had for a file
// that was removed: the digest is of what the file holds after the edit.
func historyDir(env *tool.Env, name string) string {
	sum := sha256.Sum256([]byte(name))
	return path.Join(env.StateDir(), "undo", hex.EncodeToString(sum[:12]))
}

// Record keeps what undoing an edit that was made needs. An edit that cannot be
// undone stands; the note tells the model.
func Record(ctx context.Context, env *tool.Env, name string, e Edit) (note string) {
	old, err := entries(ctx, env, name)
	if err != nil {
		return " (It cannot be undone.)"
	}
	dir, entry := historyDir(env, name), e.entry(old)
	err = env.Hands.WriteFile(ctx, path.Join(dir, entry), e.Before, tool.WriteOptions{Parents: true, Mode: 0o600})
	if err != nil {
		return " (It cannot be undone.)"
	}
	for ; len(old) >= MaxHistory; old = old[1:] {
		_ = env.Hands.Remove(ctx, path.Join(dir, old[0])) // one too many is no harm
	}
	return ""
}

// entry names the edit after those there are.
func (e *Edit) entry(old []string) string {
	next := 1
	if len(old) > 0 {
		next = sequence(old[len(old)-1]) + 1
	}
	name := fmt.Sprintf("%08d.%s", next, shortDigest(e.After))
	switch {
	case !e.Existed:
		return name + suffixNone
	case e.Mode != 0:
		name += fmt.Sprintf(".%04o", e.Mode.Perm())
	}
	return name + suffixHad
}

// entries returns the names of the file's entries, oldest first.
func entries(ctx context.Context, env *tool.Env, name string) ([]string, error) {
	infos, err := env.Hands.ListDir(ctx, historyDir(env, name), 1, 10*MaxHistory)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, info := range infos {
		if sequence(info.Path) > 0 {
			names = append(names, info.Path)
		}
	}
	slices.Sort(names)
	return names, nil
}

// sequence returns the number in an entry's name, or 0.
func sequence(name string) int {
	for _, suffix := range []string{suffixHad, suffixNone} {
		rest, ok := strings.CutSuffix(name, suffix)
		if digits, _, _ := strings.Cut(rest, "."); ok && len(digits) == 8 {
			n, err := strconv.Atoi(digits)
			if err == nil {
				return max(n, 0)
			}
		}
	}
	return 0
}

func shortDigest(data []byte) string { return hex.EncodeToString(Digest(data)[:8]) }

// leaves reports whether the edit of an entry left data in the file. Entries of
// older versions do not tell.
func leaves(entry string, data []byte) bool {
	parts := strings.Split(entry, ".")
	return len(parts) < 3 || parts[1] == shortDigest(data)
}

// modeOf is the mode of the removed file that an entry holds; 0 if there is none.
func modeOf(entry string) fs.FileMode {
	parts := strings.Split(entry, ".")
	if len(parts) != 4 {
		return 0
	}
	mode, err := strconv.ParseUint(parts[2], 8, 12)
	if err != nil {
		return 0
	}
	return fs.FileMode(mode).Perm()
}

// Undone is what taking back an edit changed.
type Undone struct {
	Before  []byte // what the file held
	After   []byte // what it holds now
	Removed bool   // the edit had made the file
}

// Undo takes the last edit of a file back, unless that would take other changes
// with it: then, and where there is none, the error is for the model.
func Undo(ctx context.Context, env *tool.Env, name string) (Undone, error) {
	if err := Check(ctx, env, name); err != nil {
		return Undone{}, err
	}
	names, err := entries(ctx, env, name)
	if err != nil {
		return Undone{}, err
	}
	if len(names) == 0 {
		return Undone{}, tool.Wrong("There is no edit of %s to undo.", name)
	}
	entry := names[len(names)-1]
	now, err := env.Hands.ReadFile(ctx, name, MaxFile)
	exists := !fault.Is(err, fault.NotFound)
	switch {
	case exists && err != nil:
		return Undone{}, err
	case exists && !leaves(entry, now):
		return Undone{}, tool.Wrong("%s was changed by something else after the last edit; undoing the edit would lose that change. "+
			"View the file and edit it.", name)
	}
	last := path.Join(historyDir(env, name), entry)
	u, err := restore(ctx, env, name, last, now, exists)
	if err != nil {
		return Undone{}, err
	}
	return u, env.Hands.Remove(ctx, last)
}

// restore brings back what an entry holds.
func restore(ctx context.Context, env *tool.Env, name, entry string, now []byte, exists bool) (Undone, error) {
	c := tool.FileChange{Path: name, Mode: modeOf(path.Base(entry))}
	if exists {
		c.Before = Digest(now)
	}
	if strings.HasSuffix(entry, suffixNone) {
		if c.Remove = true; !exists {
			return Undone{Removed: true}, nil
		}
		return Undone{Before: now, Removed: true}, apply(ctx, env, c)
	}
	before, err := env.Hands.ReadFile(ctx, entry, MaxFile)
	if err != nil {
		return Undone{}, err
	}
	c.Data = before
	return Undone{Before: now, After: before}, apply(ctx, env, c)
}
