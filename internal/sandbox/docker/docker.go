// Package docker makes boxes that are containers of an engine with the Docker
// Engine API on this machine: Docker, or Podman's socket.
//
// Any Linux image will do. This program is bind-mounted read-only into every
// container and is its first process, so an image needs no shell, no libc and
// nothing of ours. The engine isolates: namespaces, control groups, its default
// system call filter, masked /proc and /sys. On top of it the first process
// installs our filter, and gives up every capability that installing packages
// does not need before anything of the image runs.
//
// Containers have no network of the engine's. Unless a box is offline its first
// process makes a network device and hands it to the server, which is the way
// out: the same user-space stack, policy and log as for local boxes. Where that
// is impossible a box that needs it is refused; it never falls back to a bridge.
//
// The server reaches sandboxd over a unix socket in the box's directory that the
// first process was handed; its path does not exist inside. What comes back from
// a box or from the engine is not trusted: sizes, times and kinds are checked.
//
// Everything made carries labels with the installation and the box's id, so that
// a lost answer of the engine leaves nothing for ever: List finds it.
package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
)

// Name is the backend's name in handles and configuration.
const Name = "docker"

// handleVersion is raised when handles of older servers cannot be read any more.
const handleVersion = 1

// Labels of containers and images.
const (
	labelInstallation = "parley.installation"
	labelBox          = "parley.sandbox"
	labelSnapshot     = "parley.snapshot" // of images: its id
	labelVersion      = "parley.version"  // handleVersion
)

const (
	codeNotFound = "sandbox_not_found"
	codeRuntime  = "sandbox_runtime"
)

// Backend makes boxes that are containers.
type Backend struct {
	options Options
	engine  *engine
	waits   waits
	machine machine
	disk    bool // the engine limits the disk of a container

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // followers of boxes
	turns  hostbox.Turns  // operations on boxes and snapshots

	mu    sync.Mutex
	boxes map[string]*Box // attached and not known dead
}

var _ sandbox.Backend = (*Backend)(nil)

// New connects to the engine. Unavailable, with what to do about it, if there is
// none that can be used.
func New(ctx context.Context, o Options) (*Backend, error) { return open(ctx, o, defaultWaits()) }

func open(ctx context.Context, o Options, w waits) (*Backend, error) {
	socket, err := socketOf(o.Host)
	if err != nil {
		return nil, err
	}
	if o, err = o.withDefaults(); err == nil {
		err = os.MkdirAll(o.Dir, 0o700)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	b := &Backend{options: o, engine: newEngine(socket, w.call), waits: w,
		boxes: map[string]*Box{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	if err := b.meet(ctx); err != nil {
		b.cancel()
		b.engine.close()
		return nil, err
	}
	b.sweep(ctx)
	return b, nil
}

// meet finds out what the engine is and can do.
func (b *Backend) meet(ctx context.Context) error {
	if err := b.engine.negotiate(ctx); err != nil {
		return err
	}
	m, err := b.engine.info(ctx)
	if err != nil {
		return b.engine.fault(err, "The container engine cannot be used.")
	}
	if m.OSType != "" && m.OSType != runtime.GOOS {
		return fault.New(fault.Unavailable, "sandbox_unavailable", "The container engine runs %s containers, sandboxes are Linux.", quotable(m.OSType))
	}
	b.machine = m
	b.disk = b.probeDisk(ctx)
	return nil
}

func unavailable(err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	return fault.Wrap(err, fault.Unavailable, "sandbox_unavailable", "Sandboxes cannot be started in containers.").
		WithHint("Is the data directory writable, and is the program a file that can be read?")
}

// sweep removes what is left of boxes whose containers were removed behind the
// back of a former server.
func (b *Backend) sweep(ctx context.Context) {
	boxes, err := b.List(ctx)
	if err != nil {
		return
	}
	b.sweepBases(ctx, boxes)
	entries, err := os.ReadDir(b.options.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		known := slices.ContainsFunc(boxes, func(h sandbox.Handle) bool { return h.ID == e.Name() })
		if known || !e.IsDir() || !hostbox.ValidID(e.Name()) {
			continue
		}
		if err := b.place(e.Name()).remove(); err != nil {
			b.options.Logger.WarnContext(ctx, "the directory of a removed sandbox stays", "sandbox", e.Name(), "error", err)
		}
	}
}

// Name returns the backend's name.
func (b *Backend) Name() string { return Name }

// container names a box's container.
func (b *Backend) container(id string) string { return "parley-" + b.options.Installation + "-" + id }

func (b *Backend) place(id string) place { return place{filepath.Join(b.options.Dir, id)} }

func (b *Backend) handle(id string) sandbox.Handle {
	return sandbox.Handle{Backend: Name, ID: id, Version: handleVersion}
}

// Create makes a box and returns when its sandboxd answers.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if !hostbox.ValidID(spec.ID) {
		return nil, hostbox.BadID()
	}
	if err := b.check(&spec); err != nil {
		return nil, err
	}
	ctx, done, err := b.begin(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	defer done()
	img, err := b.imageOf(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err := b.vacant(ctx, spec.ID); err != nil {
		return nil, err
	}
	box, err := b.create(ctx, spec, img)
	if err == nil {
		return box, nil
	}
	if fault.Is(err, fault.Conflict) {
		return nil, err // it is another's
	}
	return nil, errors.Join(b.engine.fault(err, "The sandbox could not be created."), b.erase(spec.ID))
}

// vacant makes sure that an id is free. A directory without a container is what
// is left of a box that was removed behind our back.
func (b *Backend) vacant(ctx context.Context, id string) error {
	_, err := b.engine.inspect(ctx, b.container(id))
	switch {
	case refused(err, 404):
		return nil
	case err == nil:
		return taken()
	}
	return b.engine.fault(err, "The sandbox could not be created.")
}

func taken() error {
	return fault.New(fault.Conflict, "sandbox_exists", "A sandbox with this id exists already.")
}

func (b *Backend) create(ctx context.Context, spec sandbox.Spec, img image) (*Box, error) {
	r, err := newRecord(spec, img)
	if err != nil {
		return nil, err
	}
	p := b.place(spec.ID)
	if err := p.make(); err != nil {
		return nil, err
	}
	if err := p.save(r); err != nil {
		return nil, err
	}
	if spec.From != nil {
		if err := b.hold(ctx, spec.ID, img); err != nil {
			return nil, err
		}
	}
	c, err := b.config(p, r, img)
	if err != nil {
		return nil, err
	}
	if err := b.engine.create(ctx, b.container(spec.ID), c); err != nil {
		return nil, b.notCreated(err, c)
	}
	return b.start(ctx, r)
}

// notCreated says what an engine's refusal to make a container means.
func (b *Backend) notCreated(err error, c config) error {
	var no *refusal
	if !errors.As(err, &no) {
		return err
	}
	text := strings.ToLower(no.message)
	switch {
	case no.status == 409:
		return taken()
	case c.HostConfig.Runtime != "" && strings.Contains(text, "runtime"):
		return badRuntime(err, c.HostConfig.Runtime)
	}
	return err
}

func badRuntime(err error, name string) error {
	return fault.Wrap(err, fault.Unsupported, codeRuntime, "The container engine does not run sandboxes with the runtime %q: %s.", quotable(name), words(err)).
		WithHint("Install the runtime and list it in the engine's configuration (runtimes in /etc/docker/daemon.json).")
}

// Adopt attaches to a box that runs or is paused.
func (b *Backend) Adopt(ctx context.Context, h sandbox.Handle) (sandbox.Box, error) {
	ctx, done, err := b.find(ctx, h)
	if err != nil {
		return nil, err
	}
	defer done()
	if box := b.attached(h.ID); box != nil {
		return box, nil
	}
	c, err := b.look(ctx, h.ID)
	if err != nil {
		return nil, err
	}
	if !c.State.Running {
		return nil, hostbox.Gone(nil)
	}
	p := b.place(h.ID)
	r, err := p.load()
	if err != nil {
		return nil, hostbox.Gone(err)
	}
	conn, err := p.dial(ctx, serveSock)
	if err != nil {
		return nil, hostbox.Gone(err)
	}
	_ = conn.Close()
	box := b.attach(r.Spec, c, nil)
	if !c.State.Paused {
		box.awaitNetwork(ctx)
	}
	return box, nil
}

// look inspects a box's container. NotFound if there is none.
func (b *Backend) look(ctx context.Context, id string) (container, error) {
	c, err := b.engine.inspect(ctx, b.container(id))
	if refused(err, 404) || err == nil && c.Config.Labels[labelBox] != id {
		return c, notFound()
	}
	return c, b.engine.fault(err, "The sandbox could not be looked at.")
}

// Restart starts the processes of a dead box again over its kept files. Conflict
// if they run.
func (b *Backend) Restart(ctx context.Context, h sandbox.Handle) (sandbox.Box, error) {
	ctx, done, err := b.find(ctx, h)
	if err != nil {
		return nil, err
	}
	defer done()
	c, err := b.look(ctx, h.ID)
	if err != nil {
		return nil, err
	}
	r, err := b.place(h.ID).load()
	if err != nil {
		return nil, err
	}
	if c.State.Running {
		return nil, fault.New(fault.Conflict, "sandbox_running", "The sandbox runs already.")
	}
	b.detach(h.ID)
	box, err := b.start(ctx, r)
	if err != nil {
		return nil, errors.Join(b.engine.fault(err, "The sandbox could not be started again."), b.stop(h.ID))
	}
	return box, nil
}

// Destroy kills everything inside and removes every trace. Idempotent.
func (b *Backend) Destroy(ctx context.Context, h sandbox.Handle) error {
	_, done, err := b.find(ctx, h)
	if err != nil {
		return err
	}
	defer done()
	return b.erase(h.ID)
}

// erase removes a box, half-made or whole. It is not cancelled half-way.
func (b *Backend) erase(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), b.waits.erase)
	defer cancel()
	name := b.container(id)
	c, err := b.engine.inspect(ctx, name)
	if err == nil {
		err = b.kill(ctx, c.ID)
	}
	if err != nil && !refused(err, 404) {
		return b.engine.fault(err, "The sandbox could not be removed.")
	}
	b.bury(id)
	if r, err := b.place(id).load(); err != nil || r.Spec.From != nil {
		if err := b.untag(ctx, b.baseRef(id)); err != nil {
			return b.engine.fault(err, "The snapshot that the sandbox stood on could not be let go.")
		}
	}
	if err := b.place(id).remove(); err != nil {
		return fault.Wrap(err, fault.Unavailable, "sandbox_failed", "The sandbox's files could not be removed.")
	}
	return nil
}

// kill removes a container and returns when it is gone; that somebody else is
// removing it counts.
func (b *Backend) kill(ctx context.Context, container string) error {
	err := b.engine.remove(ctx, container)
	for pause := 5 * time.Millisecond; refused(err, 409); pause = min(2*pause, time.Second) {
		if err := rest(ctx, pause); err != nil {
			return err
		}
		if _, err = b.engine.inspect(ctx, container); err == nil {
			err = b.engine.remove(ctx, container)
		}
	}
	return err
}

// stop ends what is left of a start that failed; the files stay.
func (b *Backend) stop(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), b.waits.erase)
	defer cancel()
	err := b.engine.post(ctx, "/containers/"+b.container(id)+"/kill", nil, nil, nil)
	if refused(err, 404) || refused(err, 409) { // nothing runs
		return nil
	}
	return b.engine.fault(err, "What was started of the sandbox could not be stopped.")
}

// rest waits for a while.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// List returns every box of this installation that the engine has, running or not.
func (b *Backend) List(ctx context.Context) ([]sandbox.Handle, error) {
	all, err := b.engine.containers(ctx, labelInstallation+"="+b.options.Installation)
	if err != nil {
		return nil, b.engine.fault(err, "The sandboxes could not be listed.")
	}
	var handles []sandbox.Handle
	for _, c := range all {
		// Labels of an image are those of whatever is made of it: the name decides.
		id := c.Labels[labelBox]
		if hostbox.ValidID(id) && slices.Contains(c.Names, "/"+b.container(id)) {
			handles = append(handles, b.handle(id))
		}
	}
	slices.SortFunc(handles, func(x, y sandbox.Handle) int { return strings.Compare(x.ID, y.ID) })
	return handles, nil
}

// Close detaches from all boxes; they keep running.
func (b *Backend) Close() error {
	b.turns.Close()
	b.mu.Lock()
	boxes := slices.Collect(maps.Values(b.boxes))
	b.mu.Unlock()
	b.cancel()
	for _, box := range boxes {
		box.leave()
	}
	b.wg.Wait()
	b.engine.close()
	return nil
}

// find checks a handle and begins an operation on its box.
func (b *Backend) find(ctx context.Context, h sandbox.Handle) (context.Context, func(), error) {
	if h.Backend != Name || h.Version != handleVersion {
		return nil, nil, fault.New(fault.Invalid, "sandbox_handle", "The handle is not of this backend.")
	}
	if !hostbox.ValidID(h.ID) {
		return nil, nil, hostbox.BadID()
	}
	return b.begin(ctx, h.ID)
}

// begin serialises the operations on one id. The context it returns also ends
// when the backend closes.
func (b *Backend) begin(ctx context.Context, id string) (context.Context, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	done, err := b.turns.Take(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(b.ctx, cancel)
	return ctx, func() { unhook(); cancel(); done() }, nil
}

func notFound() error {
	return fault.New(fault.NotFound, codeNotFound, "There is no sandbox with this id.")
}

var errDied = errors.New("the first process died")

// died is the error of a first process that ended before it served.
func died(log string) error {
	if log == "" {
		return errDied
	}
	return fmt.Errorf("%w: %s", errDied, log)
}
