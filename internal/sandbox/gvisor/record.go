package gvisor

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/cgroup"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/layer"
)

// Files of a box, in its directory.
const (
	recordFile = "record.json"
	diskFile   = "disk.ext4"
	bundleDir  = "bundle"
	stateDir   = "state"
	pidFile    = "pid"
	imageDir   = "image" // of a snapshot: what runsc checkpoint wrote
)

// ground is what the files and processes of a box stand on. It is the same for all
// that is made from its snapshots.
type ground struct {
	Program string `json:"program"`         // in programsDir; a restored process has it mapped
	Layer   string `json:"layer,omitempty"` // generation of the host's layers; "" = an image
	Image   Image  `json:"image,omitzero"`
	Token   string `json:"token"` // opens sandboxd to the server, see Box.Dial
}

// record is all that is known of a box. It is written before the box's processes
// are let go, so that none is without it.
type record struct {
	Spec    sandbox.Spec  `json:"spec"`
	Ground  ground        `json:"ground"`
	Group   *cgroup.Group `json:"group,omitempty"`
	Process hostbox.Ident `json:"process"` // the sentry
	Paused  bool          `json:"paused,omitempty"`
	Moving  bool          `json:"moving,omitempty"` // tasks may run or stand still, whatever Paused says: see Box.settle
}

// dir is the directory of a box or a snapshot.
type dir string

func (d dir) path(elem ...string) string {
	return filepath.Join(append([]string{string(d)}, elem...)...)
}

func (b *Backend) box(id string) dir      { return dir(b.path(id)) }
func (b *Backend) snapshot(id string) dir { return dir(b.path(snapshotDir, id)) }

// id is the name of the box or snapshot.
func (d dir) id() string { return filepath.Base(string(d)) }

// groupName is unlike that of any other box on this machine.
func (d dir) groupName() string { return hostbox.NewDir(d.id(), string(d)).GroupName() }

func (d dir) load(v any) error {
	data, err := os.ReadFile(d.path(recordFile))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

func (d dir) save(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.path(recordFile+".new"), data, 0o600); err != nil {
		return err
	}
	return os.Rename(d.path(recordFile+".new"), d.path(recordFile))
}

// ids lists the directories of boxes, or of snapshots.
func ids(parent string) ([]string, error) {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []string
	for _, e := range entries {
		if e.IsDir() && hostbox.ValidID(e.Name()) {
			list = append(list, e.Name())
		}
	}
	return list, err
}

func newToken() string { return rand.Text() + rand.Text() }

// newGround chooses what a new box stands on.
func (b *Backend) newGround(ctx context.Context, spec sandbox.Spec) (ground, error) {
	g := ground{Program: b.program, Token: newToken()}
	if spec.Image != "" {
		var err error
		g.Image, err = b.options.Images.Get(ctx, spec.Image)
		return g, err
	}
	b.building.Lock()
	defer b.building.Unlock()
	set, err := layer.Ensure(ctx, b.layers)
	if err != nil {
		return g, fault.Wrap(err, fault.Unavailable, "sandbox_layers", "The files that sandboxes share could not be built.").
			WithHint("Is the disk of the data directory full or read-only?")
	}
	g.Layer = set.Gen
	return g, nil
}

// keepProgram keeps this program under the name of its content: boxes that run, and
// snapshots, need exactly theirs, also after an upgrade.
func (b *Backend) keepProgram() (string, error) {
	in, err := os.Open(b.options.Exe)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	if err := os.MkdirAll(b.path(programsDir), 0o755); err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	name := hex.EncodeToString(sum.Sum(nil))[:32]
	if _, err := os.Stat(b.path(programsDir, name)); err == nil {
		return name, nil
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	out, err := os.CreateTemp(b.path(programsDir), ".new-")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Chmod(0o755), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), b.path(programsDir, name))
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(out.Name()))
	}
	return name, nil
}

// writeSettings makes the layer of the files that every box on an image has of its
// own.
func (b *Backend) writeSettings() error {
	for path, text := range layer.Settings(hostname) {
		path = b.path(settingsDir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return os.Chmod(b.path(settingsDir), 0o755)
}

// grounds returns what boxes and snapshots stand on.
func (b *Backend) grounds() ([]ground, error) {
	var all []ground
	for _, parent := range []string{b.path(), b.path(snapshotDir)} {
		names, err := ids(parent)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			var rec struct{ Ground ground }
			if dir(filepath.Join(parent, name)).load(&rec) == nil {
				all = append(all, rec.Ground)
			}
		}
	}
	return all, nil
}

// ImagesInUse returns the digests of the images that boxes and snapshots stand on.
func (b *Backend) ImagesInUse() (map[string]bool, error) {
	all, err := b.grounds()
	used := map[string]bool{}
	for _, g := range all {
		if g.Image.Digest != "" {
			used[g.Image.Digest] = true
		}
	}
	return used, err
}

// sweep removes what former servers left that nothing stands on.
func (b *Backend) sweep(ctx context.Context) error {
	all, err := b.grounds()
	if err != nil {
		return err
	}
	layers, programs := map[string]bool{}, map[string]bool{b.program: true}
	for _, g := range all {
		layers[g.Layer], programs[g.Program] = true, true
	}
	if set, err := layer.Ensure(ctx, b.layers); err == nil {
		layers[set.Gen] = true
	}
	errs := []error{layer.Sweep(b.path(layersDir), layers), layer.Sweep(b.path(programsDir), programs)}
	half, err := filepath.Glob(b.path(snapshotDir, "*"+halfMade))
	errs = append(errs, err)
	for _, path := range half {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}
