package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/layer"
)

// Image is an unpacked container image.
type Image struct {
	// Rootfs is a directory with the image's files: its owners are real ones if the
	// server is root, the server's user otherwise. Nobody may write to it while a
	// box stands on it.
	Rootfs string   `json:"rootfs"`
	Env    []string `json:"env"`    // NAME=value
	ID     string   `json:"id"`     // names its content for good
	Digest string   `json:"digest"` // names it in its registry, "sha256:..."; "" = it is not of one
}

// Images unpacks container images.
type Images interface {
	// Get returns the image that ref names, which may be by digest
	// ("name@sha256:..."). It stays until no box needs it any more; see
	// Backend.ImagesInUse.
	Get(ctx context.Context, ref string) (Image, error)
}

// imageFile keeps, in a box's directory, which image the box stands on.
const imageFile = "image.json"

// maxImageEnv bounds the environment that an image brings, in bytes: it travels in
// one message with that of the spec, which hostbox.MaxEnv bounds.
const maxImageEnv = 16 << 10

// ground is what a box's root file system stands on: an image, or what the host
// has.
type ground struct {
	image *Image
	set   *layer.Set
	fresh bool // the box has no files of its own yet
}

// gen names the generation of layers in it.
func (g ground) gen() string {
	if g.set == nil {
		return ""
	}
	return g.set.Gen
}

// checkImage refuses images where boxes cannot stand on them.
func (d *driver) checkImage(spec *sandbox.Spec) error {
	if spec.Image == "" || d.images() {
		return nil
	}
	err := sandbox.Unsupported(Name, "start from container images")
	if d.options.Images != nil {
		return err.WithHint("Ids cannot be mapped here: run the server as an ordinary user, or as root on a kernel from 5.19 on.")
	}
	return err
}

// images reports whether boxes can stand on images. Without id-mapped mounts a
// range of ids sees the files of an image as nobody's.
func (d *driver) images() bool {
	return d.options.Images != nil && (d.mode.idMapped || !d.mode.ranged())
}

// chooseImage gets the image of a new box and remembers it: the box stands on the
// same content at each later start.
func (d *driver) chooseImage(ctx context.Context, dir *hostbox.Dir, spec sandbox.Spec) error {
	if spec.Image == "" {
		return nil
	}
	img, err := d.options.Images.Get(ctx, spec.Image)
	if err != nil {
		return err
	}
	if size := len(strings.Join(img.Env, "=")); size > maxImageEnv {
		return fault.New(fault.Invalid, "sandbox_image", "The environment of the container image has %d bytes, %d are possible.", size, maxImageEnv)
	}
	data, err := json.Marshal(img)
	if err != nil {
		return err
	}
	return os.WriteFile(dir.Path(imageFile), data, 0o600)
}

// chosenImage returns the image of a box.
func chosenImage(dir *hostbox.Dir) (Image, error) {
	var img Image
	data, err := os.ReadFile(dir.Path(imageFile))
	if err != nil {
		return img, err
	}
	return img, json.Unmarshal(data, &img)
}

// ground finds what a box stands on; gen names the layers it stood on before.
func (d *driver) ground(ctx context.Context, dir *hostbox.Dir, spec sandbox.Spec, gen string) (ground, error) {
	if spec.Image == "" {
		set, err := d.layers.of(ctx, gen)
		return ground{set: set}, err
	}
	img, err := chosenImage(dir)
	if err != nil {
		return ground{}, err
	}
	if _, err := os.Lstat(img.Rootfs); err == nil {
		return ground{image: &img}, nil
	}
	if d.options.Images == nil {
		return ground{}, imageLost("The container image that the sandbox stands on is not there any more.")
	}
	again, err := d.options.Images.Get(ctx, pinned(spec.Image, img.Digest))
	if err != nil {
		return ground{}, err
	}
	if again.ID != img.ID {
		return ground{}, imageLost("The container image that the sandbox stands on is not there any more, and its name now means another one.")
	}
	return ground{image: &again}, nil
}

func imageLost(text string) error {
	return fault.New(fault.Unavailable, "sandbox_image", "%s", text).WithHint("Bring the image back, or make a new sandbox.")
}

// pinned names the content that ref meant when a box was made. Files have no such
// names.
func pinned(ref, digest string) string {
	if digest == "" || strings.HasPrefix(ref, "oci:") || strings.HasPrefix(ref, "docker-archive:") {
		return ref
	}
	name, _, _ := strings.Cut(ref, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return name + "@" + digest
}

// ImagesInUse returns the ids of the images that boxes and snapshots stand
// on, so that others can be removed. A box that is being made may be missing.
func (b *Backend) ImagesInUse() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(b.root, "*", imageFile))
	if err != nil {
		return nil, err
	}
	kept, err := filepath.Glob(filepath.Join(b.root, hostbox.SnapshotsDir, "*", imageFile))
	if err != nil {
		return nil, err
	}
	paths = append(paths, kept...)
	seen := map[string]bool{}
	var list []string
	for _, path := range paths {
		var img Image
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err == nil {
			err = json.Unmarshal(data, &img)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if !seen[img.ID] {
			seen[img.ID] = true
			list = append(list, img.ID)
		}
	}
	return list, nil
}

// imageEnv is the environment that an image brings.
func imageEnv(img Image) map[string]string {
	env := map[string]string{}
	for _, entry := range img.Env {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" && !strings.Contains(entry, "\x00") {
			env[name] = value
		}
	}
	return env
}

// programIn reports whether a root file system has a program. Its links lead
// nowhere else.
func programIn(rootfs, path string) bool {
	root, err := unix.Open(rootfs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(root) }()
	fd, err := unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// settle makes what every box has and an image may lack; a fresh one gets our
// settings, too. It runs inside, after the root has been changed: no link of the
// image leads out of the box.
func settle(fresh bool) error {
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{{"/etc", 0o755}, {"/tmp", 0o777 | os.ModeSticky}, {"/var/tmp", 0o777 | os.ModeSticky}, {hostbox.Home, 0o700}} {
		if info, err := os.Stat(dir.path); err == nil && info.IsDir() {
			continue
		}
		if err := makeDir(dir.path); err != nil {
			return err
		}
		if err := os.Chmod(dir.path, dir.mode); err != nil {
			return err
		}
	}
	if !fresh {
		return nil
	}
	for path, text := range layer.Settings(hostname) {
		_ = os.Remove(path) // often a link into a directory that is not there
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// makeDir makes a directory in the place of whatever else is there. Links that
// lead nowhere give way, too.
func makeDir(path string) error {
	err := os.MkdirAll(path, 0o755)
	if err == nil {
		return nil
	}
	for p := path; p != "/"; p = filepath.Dir(p) {
		if info, serr := os.Stat(p); serr == nil && info.IsDir() {
			break
		}
		_ = os.Remove(p) // a directory would have been found
	}
	return os.MkdirAll(path, 0o755)
}
