package imports

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// Bounds of a source. What is beyond them is told and left out.
const (
	maxFile         = 16 << 20  // bytes of one file
	maxConversation = 256 << 20 // bytes of its files
	maxEntries      = 100_000   // of a directory: events, conversations
	maxGaps         = 10_000    // numbers of a conversation without an event
)

var errNotRegular = errors.New("it is no regular file")

// source reads a directory and nothing outside it, wherever its links lead.
type source struct{ root *os.Root }

// read returns a regular file. Pipes and devices are not opened for long enough to
// wait for them.
func (s source) read(name string) ([]byte, error) {
	// Before it is opened: with some devices that alone does something.
	if info, err := s.root.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	case info.Size() > maxFile:
		return nil, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	return raw, err
}

// optional is read, nil if there is no such file.
func (s source) optional(name string) ([]byte, error) {
	raw, err := s.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

// names lists a directory, sorted; none if it is not there.
func (s source) names(dir string) ([]string, error) {
	f, err := s.root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.IsDir() {
		return nil, err
	}
	var names []string
	for {
		part, err := f.Readdirnames(1000)
		names = append(names, part...)
		switch {
		case len(names) > maxEntries:
			return nil, fmt.Errorf("it has more than %d entries", maxEntries)
		case errors.Is(err, io.EOF):
			slices.Sort(names)
			return names, nil
		case err != nil:
			return nil, err
		}
	}
}

// why is an error in words for people, without the directory's own path.
func why(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
