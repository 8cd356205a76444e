package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"parley/internal/config"
	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/docker"
	"parley/internal/sandbox/gvisor"
	"parley/internal/sandbox/image"
	"parley/internal/sandbox/local"
	"parley/internal/sandbox/process"
)

// connect is how a backend gives a box its network.
type connect func(ctx context.Context, device int, boxID string, policy sandbox.Network) (io.Closer, error)

// builder makes the backends of an installation.
type builder struct {
	cfg    config.Config
	exe    string // what runs inside; "" = the running program
	log    *slog.Logger
	record func(boxID string) func(sandbox.Connection) // nil = nobody hears of connections
	images *image.Store                                // nil = not opened yet
}

func newBuilder(cfg config.Config, log *slog.Logger, record func(boxID string) func(sandbox.Connection)) (*builder, error) {
	exe, err := insideProgram(dist, cfg.Data)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "data_directory", "The program for sandboxes cannot be written below %s: %v.", cfg.Data, err)
	}
	return &builder{cfg: cfg, exe: exe, log: log, record: record}, nil
}

// backendName is the backend of templates that name none. Running without
// isolation is never chosen by itself.
func backendName(cfg *config.Config) string {
	if cfg.Sandbox == config.SandboxAuto {
		return config.SandboxLocal
	}
	return cfg.Sandbox
}

// all makes every backend that a template needs; the default one comes first.
func (b *builder) all(ctx context.Context) ([]sandbox.Backend, error) {
	var names []string
	for _, s := range b.cfg.Templates(backendName(&b.cfg)) {
		if !slices.Contains(names, s.Backend) {
			names = append(names, s.Backend)
		}
	}
	var made []sandbox.Backend
	for _, name := range names {
		backend, err := b.open(ctx, name)
		if err != nil {
			for _, earlier := range made {
				_ = earlier.Close() // the first error is the one to tell
			}
			return nil, err
		}
		made = append(made, backend)
	}
	return made, nil
}

// open makes one backend.
func (b *builder) open(ctx context.Context, name string) (sandbox.Backend, error) {
	switch name {
	case config.SandboxProcess:
		return process.New(process.Options{Dir: b.dir("sandboxes"), Exe: b.exe, InitArgs: []string{InitCommand, process.Name},
			Env: config.Environ(), Logger: b.log})
	case config.SandboxDocker:
		return opened(docker.New(ctx, docker.Options{Host: b.cfg.DockerHost, Dir: b.dir("docker"), Exe: b.exe, InitArgs: []string{InitCommand, docker.Name},
			DefaultImage: b.cfg.SandboxImage, Hidden: []string{b.cfg.Data}, Homes: homes(), Network: network(b.log, b.record, false), Logger: b.log}))
	case config.SandboxGVisor:
		return b.openGVisor(ctx)
	}
	return b.openLocal()
}

// opened makes a nil backend of a failed one a nil interface.
func opened[B sandbox.Backend](backend B, err error) (sandbox.Backend, error) {
	if err != nil {
		return nil, err
	}
	return backend, nil
}

func (b *builder) dir(name string) string { return filepath.Join(b.cfg.Data, name) }

func (b *builder) openLocal() (sandbox.Backend, error) {
	shelf, err := b.shelf(local.Name)
	if err != nil {
		return nil, err
	}
	opt := localOptions(b.cfg)
	opt.Exe, opt.Network, opt.Images, opt.Logger = b.exe, network(b.log, b.record, false), localImages{shelf}, b.log
	made, err := local.New(opt)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "no_isolation", "Sandboxes cannot be isolated on this machine: %s", fault.PublicText(err)).
			WithHint("`parley doctor` says what is missing. --sandbox process runs without any isolation, if you accept that.")
	}
	used, err := made.ImagesInUse()
	if err == nil {
		err = shelf.reconcile(used)
	}
	if err != nil {
		b.log.Warn("container images that nobody uses were not looked for", "error", err)
	}
	return made, nil
}

func (b *builder) openGVisor(ctx context.Context) (sandbox.Backend, error) {
	shelf, err := b.shelf(gvisor.Name)
	if err != nil {
		return nil, err
	}
	made, err := gvisor.New(ctx, gvisor.Options{Dir: b.dir("gvisor"), Runsc: b.cfg.Runsc, Exe: b.exe, InitArgs: []string{InitCommand, gvisor.Name},
		Path: config.SearchPath(), Hidden: []string{b.cfg.Data}, Homes: homes(), Images: gvisorImages{shelf},
		Network: network(b.log, b.record, true), Logger: b.log})
	if err != nil {
		return nil, err
	}
	used, err := made.ImagesInUse()
	if err == nil {
		err = shelf.reconcile(slices.Collect(maps.Keys(used)))
	}
	if err != nil {
		b.log.Warn("container images that nobody uses were not looked for", "error", err)
	}
	return made, nil
}

// close ends what the backends share; they are closed already.
func (b *builder) close() error {
	if b.images == nil {
		return nil
	}
	return b.images.Close()
}

func localOptions(cfg config.Config) local.Options {
	return local.Options{Dir: filepath.Join(cfg.Data, "sandboxes"), InitArgs: []string{InitCommand},
		Path: config.SearchPath(), Hidden: []string{cfg.Data}, Homes: homes()}
}

// homes are the directories that show in a sandbox only if a part of them is
// mounted on purpose.
func homes() []string {
	if home := config.ProcessEnv()["HOME"]; filepath.IsAbs(home) && home != "/" {
		return []string{home}
	}
	return nil
}

// imageOptions configure the store of container images.
func imageOptions(cfg config.Config, log *slog.Logger) image.Options {
	o := image.Options{Proxy: http.ProxyFromEnvironment, Dir: filepath.Join(cfg.Data, "images"), AllowHosts: cfg.ImageRegistries, Credentials: cfg.ImageCredentials, Logger: log}
	for _, host := range cfg.ImageRegistries {
		name, _, _ := strings.Cut(host, ":")
		if name == "localhost" || strings.HasPrefix(name, "127.") {
			o.Insecure = append(o.Insecure, host)
		}
	}
	return o
}

// shelf is the part of the image store that one backend holds.
func (b *builder) shelf(backend string) (*shelf, error) {
	if b.images == nil {
		var err error
		if b.images, err = image.Open(imageOptions(b.cfg, b.log)); err != nil {
			return nil, err
		}
	}
	return &shelf{store: b.images, prefix: backend + "-"}, nil
}

// shelf holds the images that the boxes of one backend stand on, each once, until
// a start of the server finds that none stands on it any more.
type shelf struct {
	store  *image.Store
	prefix string
}

func (s *shelf) get(ctx context.Context, ref string) (*image.Image, error) {
	img, err := s.store.Get(ctx, image.Request{Ref: ref})
	if err != nil {
		return nil, err
	}
	if err := s.store.Hold(img.ID, s.holder(img.ID)); err != nil {
		return nil, fmt.Errorf("hold the image: %w", err)
	}
	return img, nil
}

func (s *shelf) holder(id string) string {
	return s.prefix + strings.TrimPrefix(id, "sha256:")
}

func (s *shelf) reconcile(used []string) error {
	live := make([]string, len(used))
	for i, id := range used {
		live[i] = s.holder(id)
	}
	return s.store.Reconcile(s.prefix, live)
}

type localImages struct{ *shelf }

// Get implements local.Images.
func (s localImages) Get(ctx context.Context, ref string) (local.Image, error) {
	img, err := s.get(ctx, ref)
	if err != nil {
		return local.Image{}, err
	}
	return local.Image{ID: img.ID, Digest: img.Digest, Rootfs: img.Rootfs, Env: img.Env}, nil
}

type gvisorImages struct{ *shelf }

// Get implements gvisor.Images.
func (s gvisorImages) Get(ctx context.Context, ref string) (gvisor.Image, error) {
	img, err := s.get(ctx, ref)
	if err != nil {
		return gvisor.Image{}, err
	}
	return gvisor.Image{Rootfs: img.Rootfs, Env: img.Env, WorkingDir: img.WorkingDir, Digest: img.ID}, nil
}

// OpenBackend makes one backend by itself, for measurements. exe runs inside if this
// program carries none for it.
func OpenBackend(ctx context.Context, cfg config.Config, name, exe string, log *slog.Logger) (sandbox.Backend, error) {
	b, err := newBuilder(cfg, log, nil)
	if err != nil {
		return nil, err
	}
	b.exe = cmp.Or(b.exe, exe)
	return b.open(ctx, name)
}
