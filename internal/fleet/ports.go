package fleet

import (
	"context"
	"path"
	"strings"
	"sync"
	"time"

	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/store"
	"parley/internal/tool"
)

// CodeNotRunning is the code of a fault that says a sandbox is neither running nor
// paused.
const CodeNotRunning = "sandbox_not_running"

// Reach returns the hands of a user's sandbox that runs, for its ports. It neither
// wakes the sandbox nor waits for it. Only with use it counts as used, and is not
// paused soon. Errors are Conflict with CodePaused, whoever paused it, Gone if it
// was removed, Unavailable with CodeNotRunning while it starts or after it failed.
func (f *Fleet) Reach(ctx context.Context, owner, id string, use bool) (tool.Hands, error) {
	s, err := f.opt.Store.Get(ctx, owner, id)
	if err != nil {
		return nil, gone(err, id)
	}
	switch s.Status {
	case store.SandboxMissing:
		return nil, errMissing(id)
	case store.SandboxPaused:
		return nil, errAsleep()
	}
	l, frozen := f.running(id, use)
	switch {
	case frozen:
		return nil, errAsleep()
	case l == nil || s.Status != store.SandboxRunning:
		return nil, fault.New(fault.Unavailable, CodeNotRunning, "The sandbox is %s, not RUNNING.", s.Status).
			WithHint("Wait until it runs, or resume it.")
	}
	return l.client, nil
}

func errAsleep() error {
	return fault.New(fault.Conflict, CodePaused, "The sandbox is paused.").
		WithHint("Resume it first; looking at what listens in it does not wake it.")
}

// running returns the box of a sandbox that is attached, and whether it is frozen.
// Unlike entry it makes none for an id that nobody has.
func (f *Fleet) running(id string, use bool) (l *live, frozen bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.entries[id]
	if e == nil || e.live == nil {
		return nil, false
	}
	if use && !e.frozen {
		e.used = time.Now()
	}
	return e.live, e.frozen
}

// EditorPort is where the code editor of a sandbox listens inside.
const EditorPort = 60001

// findEditor finds a program that serves a code editor to browsers, the preferred one
// first.
const findEditor = "command -v openvscode-server || command -v code-server"

// Exposed is what the programs in a sandbox offer.
type Exposed struct {
	// Ports are those that programs listen on, ascending, without EditorPort.
	Ports  []tool.ListeningPort
	Editor string // path inside of a program that serves a code editor; "" = none
}

// How long an answer about ports counts, and how long one is waited for: by who asks
// for many sandboxes at once, and at all.
const (
	portsFresh    = 2 * time.Second
	portsPatience = 200 * time.Millisecond
	portsTimeout  = 5 * time.Second
	portsWidth    = 16   // sandboxes asked at the same time
	portsKept     = 4096 // sandboxes remembered
)

// PortBook knows what programs in the sandboxes listen on. It asks those that run,
// at most every 2 s, and neither wakes nor delays anything. It may be used
// concurrently.
type PortBook struct {
	fleet *Fleet
	slots chan struct{}
	mu    sync.Mutex
	pages map[string]*portPage // by sandbox
}

// portPage is what is known of one sandbox, for as long as its box lives.
type portPage struct {
	of     *live
	asked  time.Time
	done   chan struct{} // closed when what was asked is answered, or will not be
	ok     bool          // it was answered
	looked bool          // for an editor
	Exposed
}

// NewPortBook returns a book of a fleet's sandboxes. What it has under way ends with
// the fleet.
func NewPortBook(f *Fleet) *PortBook {
	return &PortBook{fleet: f, slots: make(chan struct{}, portsWidth), pages: map[string]*portPage{}}
}

// Of returns what programs offer in each of the sandboxes (nil entries are allowed),
// after 200 ms at most: nothing in one that does not run or does not answer.
func (b *PortBook) Of(ctx context.Context, boxes []*store.Sandbox) []Exposed {
	ctx, cancel := context.WithTimeout(ctx, portsPatience)
	defer cancel()
	pages := make([]*portPage, len(boxes))
	for i, s := range boxes {
		if s != nil && s.Status == store.SandboxRunning {
			pages[i] = b.page(s.ID)
		}
	}
	out := make([]Exposed, len(boxes))
	for i, p := range pages {
		if p == nil {
			continue
		}
		select {
		case <-p.done:
		case <-ctx.Done():
		}
		out[i] = b.read(p)
	}
	return out
}

// read returns what a page says. Ports is never written to after it is set.
func (b *PortBook) read(p *portPage) Exposed {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !p.ok {
		return Exposed{}
	}
	return p.Exposed
}

// page returns the newest page of a sandbox, asking for one if there is none that
// counts; nil if it does not run. A question is its own page: who waits for it is
// not given the answer of another.
func (b *PortBook) page(id string) *portPage {
	l, frozen := b.fleet.running(id, false)
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.pages[id]
	if l == nil || frozen {
		delete(b.pages, id)
		return nil
	}
	if p != nil && p.of == l && (time.Since(p.asked) < portsFresh || !p.answered()) {
		return p
	}
	next := &portPage{of: l, asked: time.Now(), done: make(chan struct{})}
	if p != nil && p.of == l {
		next.looked, next.Editor = p.looked, p.Editor
	}
	if !b.fleet.job(func() { b.ask(next) }) {
		return nil
	}
	b.makeRoom()
	b.pages[id] = next
	return next
}

func (p *portPage) answered() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// makeRoom drops pages that do not count any more when there are many.
func (b *PortBook) makeRoom() {
	if len(b.pages) < portsKept {
		return
	}
	for id, p := range b.pages {
		if time.Since(p.asked) > portsTimeout {
			delete(b.pages, id)
		}
	}
}

// ask fills a page in.
func (b *PortBook) ask(p *portPage) {
	defer close(p.done)
	ctx, cancel := context.WithTimeout(b.fleet.ctx, portsTimeout)
	defer cancel()
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return
	}
	list, err := p.of.client.ListeningPorts(ctx)
	if err != nil {
		return
	}
	found := Exposed{Ports: make([]tool.ListeningPort, 0, len(list)), Editor: p.Editor}
	for _, port := range list {
		if port.Port != EditorPort {
			found.Ports = append(found.Ports, port)
		}
	}
	looked := p.looked
	if !looked {
		found.Editor, looked = lookForEditor(ctx, p.of.client)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p.Exposed, p.ok, p.looked = found, true, looked
}

// lookForEditor finds the program that serves a code editor; false if it cannot be
// known now.
func lookForEditor(ctx context.Context, hands tool.Hands) (string, bool) {
	res, err := hands.Exec(ctx, tool.ExecRequest{Argv: []string{"/bin/sh", "-c", findEditor}, Timeout: portsTimeout / 2, MaxOutput: 4 << 10})
	if err != nil || res.TimedOut {
		return "", err == nil
	}
	file := strings.TrimSpace(string(res.Stdout))
	if res.ExitCode != 0 || !path.IsAbs(file) || strings.ContainsAny(file, "\n\x00") {
		return "", true
	}
	return file, true
}

// LimitsOf are the limits that a sandbox was made with; zero is the backend's own.
func (f *Fleet) LimitsOf(s *store.Sandbox) (sandbox.Limits, error) {
	box, _, err := f.boxSpec(s)
	return box.Limits, err
}
