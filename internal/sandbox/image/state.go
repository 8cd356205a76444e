package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"parley/internal/fault"
)

// What is in a store's directory. What is being made is in tmp, and is renamed
// when it is complete.
const (
	lockFile   = "lock"
	layersDir  = "layers" // one directory per diff id: filesDir, infoFile
	imagesDir  = "images" // one directory per image id: rootfsDir, recordFile
	refsDir    = "refs"   // one file per name
	holdersDir = "holders"
	tmpDir     = "tmp"
	filesDir   = "files"
	infoFile   = "layer.json"
	rootfsDir  = "rootfs"
	recordFile = "image.json"
)

// imageRecord is what is stored of an image.
type imageRecord struct {
	ID         v1.Hash   `json:"id"`
	Layers     []v1.Hash `json:"layers"`
	Platform   string    `json:"platform"`
	Bytes      int64     `json:"bytes"`
	Files      int64     `json:"files"`
	Env        []string  `json:"env,omitempty"`
	WorkingDir string    `json:"working_dir,omitempty"`
	User       string    `json:"user,omitempty"`
	Entrypoint []string  `json:"entrypoint,omitempty"`
	Cmd        []string  `json:"cmd,omitempty"`
}

// refRecord is a name of an image.
type refRecord struct {
	Ref      string    `json:"ref"`
	Platform string    `json:"platform"`
	ID       v1.Hash   `json:"id"`
	Digest   string    `json:"digest,omitempty"` // of its manifest
	Pulled   time.Time `json:"pulled"`
}

// state is what the directory has, in memory. The store's mutex guards it.
type state struct {
	images  map[v1.Hash]imageRecord
	refs    map[string]refRecord // by refKey
	holders map[string]v1.Hash   // by what holds an image
	layers  map[v1.Hash]bool
}

// refKey names a reference's file. The platform belongs to it: the same name is
// another image elsewhere.
func refKey(ref, platform string) string {
	sum := sha256.Sum256([]byte(platform + "\x00" + ref))
	return hex.EncodeToString(sum[:])
}

// lockStore takes a store for this process.
func lockStore(dir string) (io.Closer, error) {
	for _, sub := range []string{"", layersDir, imagesDir, refsDir, holdersDir, tmpDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, storeFault(err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, storeFault(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, storeFault(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		owner := make([]byte, 32)
		n, _ := f.ReadAt(owner, 0) // a short read is the normal case
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, storeInUse(strings.TrimSpace(string(owner[:n])))
		}
		return nil, storeFault(err)
	}
	if f.Truncate(0) == nil { // the pid only serves the message
		_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	}
	return f, nil
}

func storeInUse(pid string) error {
	who := "Another process"
	if _, err := strconv.Atoi(pid); err == nil {
		who = "The process " + pid
	}
	return fault.New(fault.Unavailable, CodeStoreInUse, "%s uses the image store of this data directory.", who).
		WithHint("If it is parley serve, stop it first: a running server pulls images by itself when they are needed.")
}

// loadState reads a store's directory. What cannot be read is as if it were not
// there: it will be pulled again.
func loadState(dir string) (*state, error) {
	s := &state{images: map[v1.Hash]imageRecord{}, refs: map[string]refRecord{}, holders: map[string]v1.Hash{}, layers: map[v1.Hash]bool{}}
	err := errors.Join(
		each(dir, layersDir, func(name string) {
			if h, err := v1.NewHash("sha256:" + name); err == nil {
				s.layers[h] = true
			}
		}),
		each(dir, imagesDir, func(name string) {
			var r imageRecord
			if readJSON(filepath.Join(dir, imagesDir, name, recordFile), &r) == nil && r.ID.Hex == name && s.hasLayers(r) {
				s.images[r.ID] = r
			}
		}),
		each(dir, refsDir, func(name string) {
			var r refRecord
			if readJSON(filepath.Join(dir, refsDir, name), &r) == nil && refKey(r.Ref, r.Platform) == name && s.images[r.ID].ID == r.ID {
				s.refs[name] = r
			}
		}),
		each(dir, holdersDir, func(name string) {
			var id v1.Hash
			if readJSON(filepath.Join(dir, holdersDir, name), &id) == nil {
				s.holders[name] = id
			}
		}))
	return s, storeFault(err)
}

// hasLayers reports whether all layers of an image are there.
func (s *state) hasLayers(r imageRecord) bool {
	return usable(r.ID) && !slices.ContainsFunc(r.Layers, func(l v1.Hash) bool { return !s.layers[l] })
}

func each(dir, sub string, do func(name string)) error {
	entries, err := os.ReadDir(filepath.Join(dir, sub))
	for _, e := range entries {
		do(e.Name())
	}
	return err
}

func readJSON(path string, to any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// unused lists the images and layers that nobody needs: no name, no holder, not
// being pulled.
func (s *state) unused(pinned map[v1.Hash]int) (images, layers []v1.Hash) {
	needed := map[v1.Hash]bool{}
	for _, r := range s.refs {
		needed[r.ID] = true
	}
	for _, id := range s.holders {
		needed[id] = true
	}
	used := map[v1.Hash]bool{}
	for id, r := range s.images {
		if !needed[id] && pinned[id] == 0 {
			images = append(images, id)
			continue
		}
		for _, l := range r.Layers {
			used[l] = true
		}
	}
	for l := range s.layers {
		if !used[l] && pinned[l] == 0 {
			layers = append(layers, l)
		}
	}
	return images, layers
}

// holding lists the holders of an image, sorted.
func (s *state) holding(id v1.Hash) []string {
	var list []string
	for holder, held := range s.holders {
		if held == id {
			list = append(list, holder)
		}
	}
	slices.Sort(list)
	return list
}
