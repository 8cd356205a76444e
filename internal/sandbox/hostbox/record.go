// Package hostbox is what the backends of this machine share: boxes that are
// plain processes of the host. It keeps their records on disk, finds them again
// after a restart of the server, watches, freezes, kills and removes them. How a
// box is started and what isolates it is the Driver's business.
//
// All that is needed to find or destroy a box is on disk under its id; nothing
// depends on what a former server process remembered.
package hostbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/cgroup"
	"parley/internal/sandbox/treecopy"
)

const (
	specFile  = "spec.json"
	stateFile = "state.json"
	logFile   = "log"
	sockFile  = "sock"
)

// State is what is known of a started box. It is written before the box's first
// process is let go, so that no running box is without it.
type State struct {
	Process Ident         `json:"process"`
	Group   *cgroup.Group `json:"group,omitempty"`   // nil: no control groups
	Layer   string        `json:"layer,omitempty"`   // the generation of shared layers it stands on
	TunFD   int           `json:"tun_fd,omitempty"`  // its network device's number in Process; 0 = none
	Paused  bool          `json:"paused,omitempty"`  // by signals, where groups cannot freeze
	Stopped []Ident       `json:"stopped,omitempty"` // stopped already when Pause stopped the rest
}

// record is what a box was made from, and by which backend: several may share a
// directory, one after the other.
type record struct {
	Backend string       `json:"backend"`
	Spec    sandbox.Spec `json:"spec"`
}

// Root is the directory that holds the boxes of a backend.
type Root struct{ path, backend string }

// OpenRoot makes the directory if needed, readable by the owner only. Boxes of
// other backends in it are not seen.
func OpenRoot(path, backend string) (*Root, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, err
	}
	return &Root{path: abs, backend: backend}, os.Chmod(abs, 0o700)
}

// Path returns the directory.
func (r *Root) Path() string { return r.path }

// IDs returns the ids of all boxes, half-made ones included, sorted.
func (r *Root) IDs() ([]string, error) {
	entries, err := os.ReadDir(r.path)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if e.IsDir() && ValidID(e.Name()) && r.owns(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// owns reports whether a box is this backend's. One that was never recorded is
// anybody's, so that somebody sweeps it.
func (r *Root) owns(id string) bool {
	var rec record
	return r.dir(id).read(specFile, &rec) != nil || rec.Backend == r.backend
}

// States returns the readable states of all boxes by id.
func (r *Root) States() (map[string]State, error) {
	ids, err := r.IDs()
	if err != nil {
		return nil, err
	}
	states := make(map[string]State, len(ids))
	for _, id := range ids {
		if st, err := r.dir(id).State(); err == nil {
			states[id] = st
		}
	}
	return states, nil
}

func (r *Root) dir(id string) *Dir { return &Dir{id: id, path: filepath.Join(r.path, id)} }

// create makes the directory of a new box and writes its spec. Conflict if the
// id is taken.
func (r *Root) create(spec sandbox.Spec) (*Dir, error) {
	d := r.dir(spec.ID)
	err := os.Mkdir(d.path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil, fault.New(fault.Conflict, "sandbox_exists", "A sandbox with this id exists already.")
	}
	if err != nil {
		return nil, err
	}
	return d, d.write(specFile, record{Backend: r.backend, Spec: spec})
}

// lookup finds a box's directory. NotFound if there is none.
func (r *Root) lookup(id string) (*Dir, error) {
	d := r.dir(id)
	info, err := os.Lstat(d.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.IsDir() || !r.owns(id)) {
		return nil, fault.New(fault.NotFound, "sandbox_not_found", "There is no sandbox with this id.")
	}
	return d, err
}

// Dir is the directory of one box.
type Dir struct{ id, path string }

// ID returns the box's id.
func (d *Dir) ID() string { return d.id }

// GroupName names the box's control groups: groups know no data directories, and
// two servers may have boxes of the same id.
func (d *Dir) GroupName() string {
	sum := sha256.Sum256([]byte(d.path))
	return d.id + "-" + hex.EncodeToString(sum[:4])
}

// Path returns the path of a file or directory of the box.
func (d *Dir) Path(elem ...string) string {
	return filepath.Join(append([]string{d.path}, elem...)...)
}

// Spec reads what the box was made from.
func (d *Dir) Spec() (sandbox.Spec, error) {
	var rec record
	err := d.read(specFile, &rec)
	return rec.Spec, err
}

// State reads the state. The error says that the box was never let go.
func (d *Dir) State() (State, error) {
	var st State
	err := d.read(stateFile, &st)
	return st, err
}

// SaveState replaces the state.
func (d *Dir) SaveState(st State) error { return d.write(stateFile, st) }

// OpenLog opens the empty file that takes what the first process writes by
// itself: start-up failures and crash traces. Programs inside do not reach it.
func (d *Dir) OpenLog() (*os.File, error) {
	return os.OpenFile(d.Path(logFile), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
}

// LogTail returns the end of the log, at most 2 KiB, for error messages.
func (d *Dir) LogTail() string {
	const most = 2 << 10
	f, err := os.Open(d.Path(logFile))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	buf := make([]byte, most)
	n, _ := f.ReadAt(buf, max(0, info.Size()-most))
	return strings.TrimSpace(string(buf[:n]))
}

func (d *Dir) read(name string, v any) error {
	data, err := os.ReadFile(d.Path(name))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

func (d *Dir) write(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	tmp := d.Path(name + ".new")
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, d.Path(name))
}

// forget removes a file, if it is there.
func (d *Dir) forget(name string) error {
	if err := os.Remove(d.Path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// remove deletes the directory and everything below it. The box's processes must
// be dead.
func (d *Dir) remove() error { return treecopy.Remove(d.path) }

// ValidID reports whether id is [a-zA-Z0-9_-]{1,64}.
func ValidID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for _, c := range []byte(id) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// NewDir returns a directory that is not one of a Root's boxes, for trials.
func NewDir(id, path string) *Dir { return &Dir{id: id, path: path} }

// Layers returns the generations of shared layers that boxes and snapshots stand
// on.
func (r *Root) Layers() (map[string]bool, error) {
	states, err := r.States()
	if err != nil {
		return nil, err
	}
	layers := map[string]bool{}
	for _, st := range states {
		layers[st.Layer] = true
	}
	ids, err := r.snapshotIDs()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if known, err := r.readSnapshot(id); err == nil {
			layers[known.Layer] = true
		}
	}
	return layers, nil
}
