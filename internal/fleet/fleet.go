package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/sandboxd"
	"parley/internal/store"
	"parley/internal/tool"
)

// CodePaused is the code of a fault that says a sandbox is paused.
const CodePaused = "sandbox_paused"

// Options wire a fleet.
type Options struct {
	Store      store.Sandboxes
	Backends   []sandbox.Backend
	Specs      []Spec                      // the first is the default; their backends are among Backends
	MaxLive    int                         // running at the same time; beyond it the longest unused idle one is paused, and without one a start waits. 0 = no bound
	Idle       time.Duration               // unused that long, a sandbox is paused; 0 = never
	Retention  time.Duration               // paused that long, a sandbox is deleted; 0 = never
	Busy       func(id string) bool        // reports sandboxes that must not be paused unasked; nil = none
	OnChange   func(id string)             // called after a sandbox's status changed; must not block
	OnIncident func(id string, i Incident) // a sandbox ran into a limit; must not block
	OnGone     func(id string)             // called after a sandbox was deleted; must not block
	Logger     *slog.Logger
}

// Fleet owns the sandboxes. Operations on one sandbox are serialised by its
// entry; different sandboxes never wait for each other.
type Fleet struct {
	opt      Options
	backends map[string]sandbox.Backend
	specs    []Spec
	room     *room
	pools    map[string]*pool // by spec
	ctx      context.Context  // ends at Close; boots run under it
	stop     context.CancelFunc
	jobs     sync.WaitGroup
	mu       sync.Mutex
	entries  map[string]*entry
	homes    map[string]string    // the sandbox that a box belongs to, where the ids differ
	making   bool                 // somebody makes room
	pausing  map[string]time.Time // sandboxes that are paused for room at the moment, since when
	closed   bool
}

// entry is one sandbox. mu serialises its lifecycle operations.
type entry struct {
	id string
	mu turn
	// guarded by Fleet.mu
	live      *live // nil while no box is attached
	used      time.Time
	frozen    bool          // it is, or is about to be: no short cut to its hands
	usage     sandbox.Usage // as it was looked at last
	looked    time.Time
	incidents []Incident // the latest, oldest first
	// guarded by mu
	deaths []time.Time // unasked, lately
}

// live is an attached box.
type live struct {
	box    sandbox.Box
	client *sandboxd.Client
}

// New returns a fleet without starting anything; see Recover. It fails if a spec
// cannot be served.
func New(opt Options) (*Fleet, error) {
	f := &Fleet{opt: opt, specs: slices.Clone(opt.Specs), backends: map[string]sandbox.Backend{}, room: newRoom(opt.MaxLive),
		pools: map[string]*pool{}, entries: map[string]*entry{}, homes: map[string]string{}, pausing: map[string]time.Time{}}
	for _, b := range opt.Backends {
		f.backends[b.Name()] = b
	}
	if err := checkSpecs(f.specs, f.backends); err != nil {
		return nil, err
	}
	for i, s := range f.specs {
		if s.WorkingDir == "" {
			f.specs[i].WorkingDir = sandbox.WorkingDir
		}
		if b := f.backends[s.Backend]; s.Warm > 0 {
			f.pools[s.ID] = newPool(f.specs[i], b, opt.Logger)
		}
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f, nil
}

// Close detaches from all sandboxes; they keep running.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.stop()
	f.jobs.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.entries {
		if e.live != nil {
			e.live.client.Close()
		}
	}
	var errs []error
	for _, b := range f.backends {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// Start makes a sandbox in the background and returns its record, STARTING.
func (f *Fleet) Start(ctx context.Context, req StartRequest) (*store.Sandbox, error) {
	spec, err := f.spec(req.SpecID)
	if err != nil {
		return nil, err
	}
	if err := f.Check(req); err != nil {
		return nil, err
	}
	return f.start(ctx, spec, req, wanted{Changes: req.Changes})
}

// start stores the record of a new sandbox and makes it in the background.
func (f *Fleet) start(ctx context.Context, spec Spec, req StartRequest, want wanted) (*store.Sandbox, error) {
	if req.ID == "" {
		req.ID = "sb-" + string(conversation.NewID())
	}
	now := time.Now().UTC()
	s := &store.Sandbox{ID: req.ID, Owner: req.Owner, SpecID: spec.ID,
		Backend: spec.Backend, Status: store.SandboxStarting, SessionKey: account.NewSecret(account.NewKey("sk-sandbox-")),
		WorkingDir: spec.WorkingDir, HostDir: req.HostDir, Wanted: want.encode(), CreatedAt: now, UpdatedAt: now}
	e := f.entry(s.ID)
	if err := e.mu.LockContext(ctx); err != nil { // held until the boot is done, so that whoever needs the sandbox waits
		return nil, err
	}
	there, err := f.register(ctx, s)
	if err != nil || there != nil {
		e.mu.Unlock()
		return there, err
	}
	booting := *s
	if !f.job(func() { defer e.mu.Unlock(); f.boot(e, &booting) }) {
		e.mu.Unlock()
		return nil, errClosing()
	}
	return s, nil
}

// register stores a new record, or returns the one that has the id already.
func (f *Fleet) register(ctx context.Context, s *store.Sandbox) (*store.Sandbox, error) {
	there, err := f.opt.Store.Get(ctx, s.Owner, s.ID)
	if err == nil || !fault.Is(err, fault.NotFound) {
		return there, err
	}
	if err := f.opt.Store.Save(ctx, s); err != nil {
		f.forget(s.ID)
		return nil, err
	}
	return nil, nil
}

// forget drops the entry of a sandbox without a record.
func (f *Fleet) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.entries, id)
}

func errClosing() error {
	return fault.New(fault.Unavailable, "stopping", "The server is stopping.").WithHint("Try again in a moment.")
}

// job runs work that Close waits for.
func (f *Fleet) job(work func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.jobs.Go(work)
	return true
}

func (f *Fleet) entry(id string) *entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.entries[id]
	if e == nil {
		e = &entry{id: id, mu: make(turn, 1)}
		f.entries[id] = e
	}
	return e
}

// attached returns the live box of an entry, nil if there is none or it is dead.
func (f *Fleet) attached(e *entry) *live {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.live != nil {
		select {
		case <-e.live.box.Done(): // watch has not come to it yet
			return nil
		default:
		}
	}
	return e.live
}

// deathTime bounds how long a box that stopped answering may take to be dead.
const deathTime = 2 * time.Second

// AwaitEnd returns when a sandbox that broke off a call is known to be dead, so
// that the next Ensure starts it again; at once if it answers after all.
func (f *Fleet) AwaitEnd(ctx context.Context, id string) {
	l := f.attached(f.entry(id))
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deathTime)
	defer cancel()
	if _, err := l.client.Health(ctx); err == nil {
		return
	}
	select {
	case <-l.box.Done():
	case <-ctx.Done():
	}
}

// boot creates the box of a record. e.mu is held.
func (f *Fleet) boot(e *entry, s *store.Sandbox) {
	err := f.findRoom(f.ctx, s)
	var box sandbox.Box
	if err == nil {
		box, err = f.create(s)
	}
	if err != nil && f.ctx.Err() != nil {
		return // stays STARTING; the next start of the server makes it again
	}
	f.settle(e, s, box, err)
	if err == nil {
		f.command(f.ctx, e, s)
	}
}

// create returns a new box for a record: a warm one if there is one that fits.
func (f *Fleet) create(s *store.Sandbox) (sandbox.Box, error) {
	backend, err := f.backendOf(s)
	if err != nil {
		return nil, err
	}
	spec, want, err := f.boxSpec(s)
	if err != nil {
		return nil, err
	}
	if p := f.pools[s.SpecID]; p != nil && want.plain() && s.HostDir == "" {
		if box := p.take(); box != nil {
			return box, nil
		}
	}
	box, err := backend.Create(f.ctx, spec)
	if fault.CodeOf(err) == codeExists && len(s.Handle) == 0 {
		// Half-made by a server that was killed: nobody else makes boxes of this id.
		if err = f.destroy(f.ctx, s); err == nil {
			box, err = backend.Create(f.ctx, spec)
		}
	}
	if err != nil || want.From == nil {
		return box, err
	}
	s.Wanted = wanted{Changes: want.Changes}.encode()
	f.dropSnapshot(backend, *want.From)
	return box, nil
}

// codeExists is the code of a box that is there already.
const codeExists = "sandbox_exists"

// home remembers whose a box is that has another id than its sandbox. f.mu is held.
func (f *Fleet) home(box, id string) {
	if box != id {
		f.homes[box] = id
	}
}

// SandboxOf returns the sandbox that a box belongs to.
func (f *Fleet) SandboxOf(box string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id, ok := f.homes[box]; ok {
		return id
	}
	return box
}

// specCommand names the terminal that a spec's command runs in.
const specCommand = "parley-spec-command"

// command starts the program that the sandbox's spec wants in it. That it fails
// leaves the sandbox usable.
func (f *Fleet) command(ctx context.Context, e *entry, s *store.Sandbox) {
	spec, err := f.spec(s.SpecID)
	l := f.attached(e)
	if err != nil || len(spec.Command) == 0 || l == nil {
		return
	}
	_, err = l.client.OpenTerminal(ctx, tool.TerminalRequest{ID: specCommand, Argv: spec.Command, Dir: s.WorkingDir, Rows: 24, Cols: 80})
	if err != nil {
		f.opt.Logger.Warn("the command of the sandbox's spec was not started", "sandbox", s.ID, "spec", spec.ID, "error", err)
	}
}

// settle records how a create, adopt or restart ended.
func (f *Fleet) settle(e *entry, s *store.Sandbox, box sandbox.Box, err error) {
	if err != nil {
		f.room.leave(s.ID)
		if fault.Is(err, fault.NotFound) && len(s.Handle) > 0 {
			f.lost(s)
			return
		}
		f.opt.Logger.Error("sandbox failed", "sandbox", s.ID, "error", err)
		f.note(s, store.SandboxError, fault.PublicText(err))
		return
	}
	f.room.take(s.ID)
	f.attach(e, box)
	describe(s, box)
	f.note(s, store.SandboxRunning, "") // if that fails, whoever needs the sandbox does it
}

// lost records that somebody else removed a sandbox.
func (f *Fleet) lost(s *store.Sandbox) {
	f.opt.Logger.Warn("sandbox was removed from outside", "sandbox", s.ID)
	f.note(s, store.SandboxMissing, "The sandbox was removed from outside of Parley, with its files.")
}

// describe writes down in a record how to find its box again.
func describe(s *store.Sandbox, box sandbox.Box) {
	if h, err := json.Marshal(box.Handle()); err == nil {
		s.Handle = h
	}
	if w, ok := box.(interface{ WorkingDir() string }); ok && w.WorkingDir() != "" {
		s.WorkingDir = w.WorkingDir()
	}
}

// attach makes a box usable and watches for its death.
func (f *Fleet) attach(e *entry, box sandbox.Box) {
	l := &live{box: box, client: sandboxd.NewClient(box.Dial)}
	f.mu.Lock()
	f.home(box.Handle().ID, e.id)
	if e.live != nil {
		e.live.client.Close()
	}
	e.live, e.used, e.frozen, e.usage = l, time.Now(), false, sandbox.Unknown()
	closed := f.closed
	if !closed {
		f.jobs.Go(func() { f.watch(e, l) })
	}
	f.mu.Unlock()
}

// watch waits for the end of a box that nobody asked to end.
func (f *Fleet) watch(e *entry, l *live) {
	select {
	case <-f.ctx.Done():
		return
	case <-l.box.Done():
	}
	f.mu.Lock()
	current := e.live == l
	if current {
		e.live = nil
	}
	f.mu.Unlock()
	if !current {
		return // paused, deleted or restarted on purpose
	}
	l.client.Close()
	f.room.leave(e.id)
	f.opt.Logger.Warn("sandbox died", "sandbox", e.id)
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := f.opt.Store.Get(f.ctx, "", e.id)
	if err != nil || f.attached(e) != nil {
		return
	}
	f.mend(e, s)
}

const died = "The sandbox's processes ended unexpectedly (killed from outside, or out of memory). "

// mend starts the processes of a dead sandbox again over its files, so that its
// users go on. One that was paused waits for its use, and one that dies again and
// again is left for its next use. e.mu is held.
func (f *Fleet) mend(e *entry, s *store.Sandbox) {
	switch {
	case s.Status == store.SandboxPaused:
		f.note(s, store.SandboxPaused, died+"Its files are kept; it starts again when it is used.")
	case e.diesTooOften(time.Now()):
		f.note(s, store.SandboxError, died+"It was started again several times. Its files are kept; it starts again when it is used.")
	default: // it stays RUNNING meanwhile: what is STARTING at a restart of the server is made anew
		f.reattach(f.ctx, e, s)
	}
}

// How often a sandbox is started again by itself.
const (
	maxDeaths  = 3
	deathsSpan = 5 * time.Minute
)

// diesTooOften notes a death and reports whether there were too many lately.
func (e *entry) diesTooOften(now time.Time) bool {
	e.deaths = slices.DeleteFunc(e.deaths, func(t time.Time) bool { return now.Sub(t) > deathsSpan })
	e.deaths = append(e.deaths, now)
	return len(e.deaths) > maxDeaths
}

// save stores a new status. The caller's context may be gone already: what
// happened must be recorded all the same.
func (f *Fleet) save(s *store.Sandbox, status store.SandboxStatus, detail string) error {
	s.Status, s.Detail, s.UpdatedAt = status, detail, time.Now().UTC()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), 10*time.Second)
	defer cancel()
	if err := f.opt.Store.Save(ctx, s); err != nil {
		return err
	}
	if f.opt.OnChange != nil {
		f.opt.OnChange(s.ID)
	}
	return nil
}

// note is save where nobody waits for the outcome.
func (f *Fleet) note(s *store.Sandbox, status store.SandboxStatus, detail string) {
	if err := f.save(s, status, detail); err != nil {
		f.opt.Logger.Error("sandbox status not stored", "sandbox", s.ID, "status", status, "error", err)
	}
}

// Ensure returns the hands of a sandbox, waiting for its start and starting its
// processes again if they died. One that its user paused is resumed if wake is
// set, otherwise the error is Conflict with CodePaused. One that was paused
// unasked is always resumed.
func (f *Fleet) Ensure(ctx context.Context, owner, id string, wake bool) (tool.Hands, error) {
	e := f.entry(id)
	if l := f.attached(e); l != nil && wake {
		if hands, ok := f.fast(ctx, e, l, owner); ok {
			return hands, nil
		}
	}
	if err := e.mu.LockContext(ctx); err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	s, err := f.opt.Store.Get(ctx, owner, id)
	if err != nil {
		if _, err := f.opt.Store.Get(ctx, "", id); fault.Is(err, fault.NotFound) && f.attached(e) == nil {
			f.forget(id) // nobody's: the look-up above must not leave an entry behind
		}
		return nil, gone(err, id)
	}
	return f.ensure(ctx, e, s, wake)
}

// fast answers without waiting for the entry's lock.
func (f *Fleet) fast(ctx context.Context, e *entry, l *live, owner string) (tool.Hands, bool) {
	s, err := f.opt.Store.Get(ctx, owner, e.id)
	if err != nil || s.Status != store.SandboxRunning {
		return nil, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e.used = time.Now()
	return l.client, e.live == l && !e.frozen
}

func (f *Fleet) touch(e *entry) {
	f.mu.Lock()
	e.used = time.Now()
	f.mu.Unlock()
}

func (f *Fleet) ensure(ctx context.Context, e *entry, s *store.Sandbox, wake bool) (tool.Hands, error) {
	if s.Status == store.SandboxMissing {
		return nil, errMissing(s.ID)
	}
	if s.Status == store.SandboxPaused {
		if !wake && byUser(s) {
			return nil, fault.New(fault.Conflict, CodePaused, "The sandbox is paused.").WithHint("Resume it first.")
		}
		if err := f.thaw(ctx, e, s); err != nil {
			return nil, err
		}
	}
	if f.attached(e) == nil {
		f.reattach(ctx, e, s)
	}
	l := f.attached(e)
	if l == nil {
		return nil, fault.New(fault.Unavailable, "sandbox_failed", "The sandbox does not start: %s", s.Detail).
			WithHint("`parley doctor` checks what this machine can do.")
	}
	if s.Status != store.SandboxRunning {
		// It runs, but the store refused to keep that. As STARTING it would be made
		// again at the next start of the server, and its files would be lost.
		describe(s, l.box)
		if err := f.save(s, store.SandboxRunning, ""); err != nil {
			return nil, err
		}
	}
	f.touch(e)
	return l.client, nil
}

// reattach adopts the box of a record, or starts it again. e.mu is held.
func (f *Fleet) reattach(ctx context.Context, e *entry, s *store.Sandbox) {
	h, err := handle(s)
	if err != nil { // none was stored
		f.boot(e, s)
		return
	}
	backend, err := f.backendOf(s)
	if err != nil {
		f.settle(e, s, nil, err)
		return
	}
	box, err := backend.Adopt(ctx, h)
	again := fault.Is(err, fault.Gone)
	if again {
		if err = f.findRoom(ctx, s); err == nil {
			box, err = backend.Restart(ctx, h)
		}
	}
	if ctx.Err() != nil {
		return // the caller left; that says nothing about the sandbox
	}
	f.settle(e, s, box, err)
	if again && err == nil {
		f.command(ctx, e, s)
	}
}

func gone(err error, id string) error {
	if fault.Is(err, fault.NotFound) {
		return errMissing(id)
	}
	return err
}

func errMissing(id string) error {
	return fault.New(fault.Gone, "sandbox_missing", "The sandbox %s does not exist any more.", id).
		WithHint("Start a new conversation; this one stays readable.")
}

// turn is a mutex that can be waited for with a context.
type turn chan struct{}

func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

// LockContext takes the turn unless ctx ends first.
func (t turn) LockContext(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Get returns a sandbox's record.
func (f *Fleet) Get(ctx context.Context, owner, id string) (*store.Sandbox, error) {
	return f.opt.Store.Get(ctx, owner, id)
}

// Batch returns records in the order of ids, nil where there is none.
func (f *Fleet) Batch(ctx context.Context, owner string, ids []string) ([]*store.Sandbox, error) {
	return f.opt.Store.Batch(ctx, owner, ids)
}

// Search pages through a user's sandboxes, newest first.
func (f *Fleet) Search(ctx context.Context, q store.SandboxQuery) (store.Page[*store.Sandbox], error) {
	return f.opt.Store.Search(ctx, q)
}

// BySessionKey returns the sandbox a session key opens, or Unauthenticated.
func (f *Fleet) BySessionKey(ctx context.Context, key string) (*store.Sandbox, error) {
	s, err := f.opt.Store.BySessionKey(ctx, account.HashKey(key))
	if fault.Is(err, fault.NotFound) {
		return nil, fault.New(fault.Unauthenticated, "bad_key", "Unauthorized")
	}
	return s, err
}
