package fake

import (
	"context"
	"net/http"
	"sync"
	"syscall"

	"parley/internal/sandbox"
	"parley/internal/sandbox/sandboxtest"
)

// machine is what a box is made of: files that outlive its runs, and one run at a
// time.
type machine struct {
	spec sandbox.Spec

	mu      sync.Mutex
	changed sync.Cond // frozen or alive has changed
	files   *tree
	run     *run // the last one
	frozen  bool
	// Counted since the start of the run.
	processes, forksRefused int64
}

// run is the time from a start to a death.
type run struct {
	ctx    context.Context // ends with the run
	kill   context.CancelFunc
	conns  *sandboxtest.Conns
	done   chan struct{} // closed when nothing of it runs any more
	shells sync.WaitGroup
}

func newMachine(spec sandbox.Spec, files *tree) *machine {
	m := &machine{spec: spec, files: files}
	m.changed.L = &m.mu
	return m
}

// start begins a run; the former one is over.
func (m *machine) start() *run {
	r := &run{conns: sandboxtest.NewConns(), done: make(chan struct{})}
	r.ctx, r.kill = context.WithCancel(context.Background())
	m.mu.Lock()
	m.run, m.frozen, m.processes, m.forksRefused = r, false, 0, 0
	m.mu.Unlock()
	server := &http.Server{Handler: sandboxtest.Handler(
		func(ctx context.Context, argv []string) sandboxtest.Output { return m.exec(ctx, r, argv) }, r.kill)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(r.conns) // ends with the run
	}()
	go func() {
		defer close(r.done)
		<-r.ctx.Done()
		m.wake()
		_ = r.conns.Close()
		_ = server.Close()
		<-served
		r.shells.Wait()
	}()
	return r
}

func (m *machine) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed.Broadcast()
}

// alive returns the run that goes on, nil if the box is dead.
func (m *machine) alive() *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil || m.run.ctx.Err() != nil {
		return nil
	}
	return m.run
}

// freeze stops or lets go on everything inside. When it returns, nothing changes
// any more.
func (m *machine) freeze(frozen bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = frozen
	m.changed.Broadcast()
}

// act does something inside a run: not while the box is frozen, and not after its
// death.
func (m *machine) act(r *run, f func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.frozen && r.ctx.Err() == nil {
		m.changed.Wait()
	}
	if r.ctx.Err() != nil {
		return syscall.ESRCH
	}
	return f()
}

// fork counts a process, unless the box has too many already.
func (m *machine) fork(r *run) (ended func(), err error) {
	err = m.act(r, func() error {
		if limit := m.spec.Limits.Processes; limit > 0 && m.processes >= limit {
			m.forksRefused++
			return syscall.EAGAIN
		}
		m.processes++
		r.shells.Add(1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func() {
		defer r.shells.Done()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.run == r {
			m.processes--
		}
	}, nil
}

// snapshot copies the files, also of a frozen or dead box.
func (m *machine) snapshot() *tree {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.files.clone()
}

// usage is what can be counted.
func (m *machine) usage() sandbox.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := sandbox.Unknown()
	u.Processes, u.ForksRefused = m.processes, m.forksRefused
	u.DiskBytes, u.Inodes, u.DiskFull = m.files.bytes, m.files.count, m.files.full()
	return u
}
