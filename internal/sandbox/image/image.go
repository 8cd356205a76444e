// Package image keeps container images without a container engine: it pulls them
// from registries (OCI distribution specification 1.1) or reads them from files,
// checks every digest, and unpacks each into one directory, for backends that make
// boxes over it.
//
// Layers are unpacked once and shared: an image's root file system has its own
// directories, and its files are further names of those of the layers. So nobody may
// write there, not even to change a mode: boxes write into a layer of their own
// above it, or into a copy. Devices and pipes of images are left out. As root,
// owners and modes are those of the image; as an ordinary user everything is the
// user's and readable for it. Links in a root file system lead wherever the image
// says: what looks into it from outside must use os.Root.
//
// A store belongs to one process at a time. Whatever stops it, what is in it is
// complete: unfinished things are removed when it is opened again.
package image

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"parley/internal/fault"
	"parley/internal/lazyre"
)

// Image is an unpacked image. Rootfs is valid while the image is held.
type Image struct {
	ID         string   // "sha256:...", of its configuration: names it in this store, for good
	Digest     string   // of its manifest; "" if it came from a file without one
	Ref        string   // canonical: "docker.io/library/debian:12"; "" if it has lost its name
	Rootfs     string   // directory, read only
	Env        []string // "NAME=value"
	WorkingDir string   // "" = /
	User       string   // "name", "uid", each also with ":group"; "" = root
	Entrypoint []string
	Cmd        []string
}

// Request asks for an image.
type Request struct {
	Ref    string // see Normalize; also oci:/path and docker-archive:/path, each with :NAME
	Holder string // holds the image until Release, [a-zA-Z0-9][a-zA-Z0-9._-]{0,127}; "" = nobody
	Pull   bool   // asks the registry although the image is there: its tag may have moved
	// Progress hears how a pull gets on, a few times a second, in the goroutine of the
	// call. nil = nobody listens.
	Progress func(Progress)
}

// Info is an image of a store.
type Info struct {
	ID       string
	Refs     []string // sorted; empty if only holders keep it
	Platform string   // "linux/amd64"
	Bytes    int64    // of its files, shared ones included
	Files    int64
	Pulled   time.Time // zero without names
	Holders  []string  // sorted
}

// Store is a directory of images. All methods may be called concurrently. Errors
// are faults with the codes of this package, or those of contexts.
type Store struct {
	options Options
	http    *http.Client
	lock    io.Closer
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // pulls
	locks   keyed          // of images and layers that are being made

	mu      sync.Mutex
	closed  bool
	state   *state
	pinned  map[v1.Hash]int // images and layers that pulls need
	flights map[string]*flight
}

// Open opens a store and removes from it what is unfinished or needed by nobody.
// It is Unavailable (CodeStoreInUse) while another process has it.
func Open(o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	lock, err := lockStore(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Store{options: o, http: newClient(&o), lock: lock, locks: keyed{held: map[v1.Hash]chan struct{}{}},
		pinned: map[v1.Hash]int{}, flights: map[string]*flight{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.state, err = loadState(o.Dir); err == nil {
		err = s.sweep()
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends pulls and gives the directory up. Images stay held.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
	s.http.CloseIdleConnections()
	return storeFault(s.lock.Close())
}

// Get returns an image, and pulls it first if it is not there. Callers that want
// the same one wait for one pull. Files are always looked at: what changed in one
// is noticed.
func (s *Store) Get(ctx context.Context, r Request) (*Image, error) {
	ref, err := parseRef(r.Ref)
	if err == nil {
		err = s.options.permitted(ref)
	}
	if err == nil {
		err = checkHolder(r.Holder)
	}
	if err != nil {
		return nil, err
	}
	fresh := !r.Pull && ref.remote != nil
	for {
		if fresh {
			if im, err := s.claim(ref.text, r.Holder); im != nil || err != nil {
				return im, err
			}
		}
		if err := s.fetch(ctx, ref, r.Pull, r.Progress); err != nil {
			return nil, err
		}
		fresh = true // it may have been removed since, then it is pulled again
	}
}

// Find returns an image by its id, for boxes that are started again. NotFound
// (CodeUnknown) if the store does not have it.
func (s *Store) Find(id string) (*Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash, _ := v1.NewHash(id)
	r, ok := s.state.images[hash]
	if !ok {
		return nil, unknown(id)
	}
	return s.image(r, s.names(r.ID)), nil
}

func unknown(name string) error {
	return fault.New(fault.NotFound, CodeUnknown, "There is no image %s in the store.", quote(name)).
		WithHint("`parley images list` shows what there is.")
}

var holderPattern = lazyre.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)

func checkHolder(holder string) error {
	if holder == "" || holderPattern.MatchString(holder) {
		return nil
	}
	return fault.New(fault.Invalid, CodeRef, "%s cannot hold an image: its name has other characters than letters, digits, dots, - and _.", quote(holder))
}

// Hold keeps an image, by its id, until the holder is released. A holder holds one
// image. NotFound if it is not there.
func (s *Store) Hold(id, holder string) error {
	if err := checkHolder(holder); err != nil || holder == "" {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	hash, _ := v1.NewHash(id)
	if _, ok := s.state.images[hash]; !ok {
		return unknown(id)
	}
	return s.hold(hash, holder)
}

// Release ends a hold. What has neither a name nor a holder is removed then.
// Idempotent.
func (s *Store) Release(holder string) error {
	return s.drop(func(h string) bool { return h == holder })
}

// Reconcile releases all holders whose names begin with prefix but those that live:
// a backend calls it when it starts, with the boxes that it knows.
func (s *Store) Reconcile(prefix string, live []string) error {
	return s.drop(func(h string) bool { return strings.HasPrefix(h, prefix) && !slices.Contains(live, h) })
}

func (s *Store) drop(gone func(holder string) bool) error {
	s.mu.Lock()
	var err error
	for holder := range s.state.holders {
		if !gone(holder) {
			continue
		}
		if e := os.Remove(s.path(holdersDir, holder)); e != nil && !os.IsNotExist(e) {
			err = e
			continue
		}
		delete(s.state.holders, holder)
	}
	trash, e := s.collect()
	s.mu.Unlock()
	if err == nil {
		err = e
	}
	return storeFault(firstError(err, empty(trash)))
}

// List returns all images, sorted by their names.
func (s *Store) List() []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Info
	for id, r := range s.state.images {
		info := Info{ID: id.String(), Platform: r.Platform, Bytes: r.Bytes, Files: r.Files, Holders: s.state.holding(id)}
		for _, ref := range s.names(id) {
			info.Refs = append(info.Refs, ref.Ref)
			if ref.Pulled.After(info.Pulled) {
				info.Pulled = ref.Pulled
			}
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b Info) int {
		return strings.Compare(strings.Join(a.Refs, " ")+a.ID, strings.Join(b.Refs, " ")+b.ID)
	})
	return list
}

// Remove takes a name from an image, or all names if it is given by its id, and
// removes the image with its last name. That is a Conflict (CodeInUse) while it is
// held. NotFound (CodeUnknown) if there is no such image.
func (s *Store) Remove(name string) error {
	s.mu.Lock()
	id, keys, err := s.named(name)
	if err == nil {
		err = s.removable(id, len(keys))
	}
	for _, key := range keys {
		if err == nil {
			if err = os.Remove(s.path(refsDir, key)); err == nil {
				delete(s.state.refs, key)
			}
		}
	}
	var trash []string
	if err == nil {
		trash, err = s.collect()
	}
	s.mu.Unlock()
	return storeFault(firstError(err, empty(trash)))
}

// removable refuses to take the last names of an image that is held.
func (s *Store) removable(id v1.Hash, taken int) error {
	holders := s.state.holding(id)
	if len(holders) == 0 || taken < len(s.names(id)) {
		return nil
	}
	return fault.New(fault.Conflict, CodeInUse, "The image is in use by %d sandboxes or snapshots: %s.", len(holders), quoteList(holders)).
		WithHint("Delete them first.")
}

// named finds an image by reference or id, and the keys of the names that are meant.
func (s *Store) named(name string) (id v1.Hash, keys []string, err error) {
	if hash, err := v1.NewHash(name); err == nil {
		if _, ok := s.state.images[hash]; !ok {
			return hash, nil, unknown(name)
		}
		for key, r := range s.state.refs {
			if r.ID == hash {
				keys = append(keys, key)
			}
		}
		return hash, keys, nil
	}
	ref, err := parseRef(name)
	if err != nil {
		return id, nil, err
	}
	key := refKey(ref.text, s.options.Platform.String())
	r, ok := s.state.refs[key]
	if !ok {
		return id, nil, unknown(ref.text)
	}
	return r.ID, []string{key}, nil
}

// Load reads an image from a file (a tar of `docker save`, an OCI layout as
// directory or tar) and stores it under a name. If there are several images in the
// file, the name chooses; "" = the name that the file gives it. progress may be nil.
func (s *Store) Load(ctx context.Context, file, name string, progress func(Progress)) (*Image, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, storeFault(err)
	}
	if name != "" {
		if name, err = Normalize(name); err != nil {
			return nil, err
		}
	}
	return s.load(ctx, file, name, progress)
}

// image makes what callers get of a record.
func (s *Store) image(r imageRecord, names []refRecord) *Image {
	im := &Image{ID: r.ID.String(), Rootfs: s.path(imagesDir, r.ID.Hex, rootfsDir), Env: slices.Clone(r.Env), WorkingDir: r.WorkingDir,
		User: r.User, Entrypoint: slices.Clone(r.Entrypoint), Cmd: slices.Clone(r.Cmd)}
	if len(names) > 0 {
		im.Ref, im.Digest = names[0].Ref, names[0].Digest
	}
	return im
}

// names lists the names of an image, sorted.
func (s *Store) names(id v1.Hash) []refRecord {
	var list []refRecord
	for _, r := range s.state.refs {
		if r.ID == id {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b refRecord) int { return strings.Compare(a.Ref, b.Ref) })
	return list
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.options.Dir}, parts...)...)
}
