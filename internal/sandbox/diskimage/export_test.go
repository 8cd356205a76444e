package diskimage

import (
	"context"
	"os"
)

// Freeze freezes the file system as a server does that is killed in the middle of a
// copy.
func (m *Mount) Freeze() error {
	if err := os.WriteFile(m.path+frozenSuffix, nil, 0o600); err != nil {
		return err
	}
	return freeze(m.root())
}

// WhileFrozen calls f while nothing in the file system changes.
func (m *Mount) WhileFrozen(ctx context.Context, f func(context.Context) error) error {
	return m.whileFrozen(ctx, f)
}

// NeedsCheck reads the superblock.
func NeedsCheck(path string) (bool, error) { return needsCheck(path) }

// ParseSuper reads a superblock.
func ParseSuper(data []byte) (blocks, inodes uint32, dirty bool, err error) {
	s, err := parseSuper(data)
	return s.blocks, s.inodes, s.dirty, err
}
