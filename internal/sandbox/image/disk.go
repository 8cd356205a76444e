package image

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// sweep removes what a killed process left, and what nobody needs.
func (s *Store) sweep() error {
	err := each(s.options.Dir, tmpDir, func(name string) {
		if err := os.RemoveAll(s.path(tmpDir, name)); err != nil {
			s.options.Logger.Warn("rests of an image stay behind", "error", err)
		}
	})
	if err != nil {
		return storeFault(err)
	}
	known := map[string]func(name string) bool{
		layersDir:  func(name string) bool { return s.state.layers[v1.Hash{Algorithm: "sha256", Hex: name}] },
		imagesDir:  func(name string) bool { return s.state.images[v1.Hash{Algorithm: "sha256", Hex: name}].ID.Hex == name },
		refsDir:    func(name string) bool { return s.state.refs[name].Ref != "" },
		holdersDir: func(name string) bool { return usable(s.state.holders[name]) },
	}
	var trash []string
	for dir, knows := range known {
		err = errors.Join(err, each(s.options.Dir, dir, func(name string) {
			if !knows(name) {
				trash = append(trash, s.path(dir, name))
			}
		}))
	}
	more, e := s.collect()
	return storeFault(firstError(err, e, empty(append(trash, more...))))
}

// collect takes out of the store what nobody needs, and returns where it lies now.
// The caller has the mutex, and removes it without.
func (s *Store) collect() (trash []string, err error) {
	images, layers := s.state.unused(s.pinned)
	take := func(dir string, id v1.Hash) {
		to, e := os.MkdirTemp(s.path(tmpDir), "trash-")
		if e == nil {
			e = os.Rename(s.path(dir, id.Hex), filepath.Join(to, id.Hex))
			trash = append(trash, to)
		}
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = firstError(err, e)
		}
	}
	for _, id := range images {
		delete(s.state.images, id)
		take(imagesDir, id)
	}
	for _, id := range layers {
		delete(s.state.layers, id)
		take(layersDir, id)
	}
	return trash, err
}

func empty(trash []string) error {
	var err error
	for _, dir := range trash {
		err = firstError(err, os.RemoveAll(dir))
	}
	return err
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// write stores a small file, all or nothing.
func (s *Store) write(dir, name string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.path(tmpDir), "file-")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = firstError(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.path(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// settle moves a finished directory to its place. Its content reaches the disk
// first: after a power cut a layer is there as a whole or not at all.
func (s *Store) settle(tmp, dir, name string) error {
	f, err := os.Open(tmp)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(f.Fd()))
	_ = f.Close()
	if err != nil {
		return err
	}
	return os.Rename(tmp, s.path(dir, name))
}

// hold writes a hold. The caller has the mutex.
func (s *Store) hold(id v1.Hash, holder string) error {
	if err := s.write(holdersDir, holder, id); err != nil {
		return storeFault(err)
	}
	s.state.holders[holder] = id
	return nil
}

// claim returns the image of a name and holds it; nil if it is not there.
func (s *Store) claim(ref, holder string) (*Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.state.refs[refKey(ref, s.options.Platform.String())]
	if !ok {
		return nil, nil
	}
	if holder != "" {
		if err := s.hold(r.ID, holder); err != nil {
			return nil, err
		}
	}
	return s.image(s.state.images[r.ID], []refRecord{r}), nil
}
