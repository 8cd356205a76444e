package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"parley/internal/account"
	"parley/internal/agent/policy"
	"parley/internal/conversation"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/llm"
	"parley/internal/spend"
	"parley/internal/store"
	"parley/internal/stream"
	"parley/internal/tool"
)

// The causes with which work is cancelled. They are different things: only the
// first is the user's doing.
var (
	ErrInterrupted = errors.New("interrupted by the user")
	ErrLeaving     = fmt.Errorf("the server is leaving: %w", tool.ErrDetach)
	ErrLeaseLost   = fmt.Errorf("another server took the conversation over: %w", tool.ErrDetach)
	ErrDeleted     = errors.New("the conversation was deleted")
	errMoved       = errors.New("the log moved under its writer")
)

// Models makes the model of a configuration. It calls nothing.
type Models func(l account.LLM, opt ModelOptions) (llm.Model, error)

// ModelOptions are what one use of a model wants. All members are optional.
type ModelOptions struct {
	// OnRetry hears what a call waits for, before each wait, on the goroutine of Do.
	OnRetry func(context.Context, llm.Retry)
	// Guard is put around every single model, fallbacks included, inside the
	// retries: it sees each attempt with the model that makes it.
	Guard func(llm.Model) llm.Model
	// Fallbacks are asked in turn when the model does not answer for a reason that
	// another one may not have.
	Fallbacks []account.LLM
}

// Masker hides secret values in a text.
type Masker interface {
	Mask(text string) string
	// Hold returns how many bytes at the end of a text that goes on may be the
	// beginning of a secret value.
	Hold(text string) int
}

// Options wire an engine. All members are required unless said otherwise.
type Options struct {
	Store store.Store
	Spend *spend.Keeper // nil = one over the store's ledger
	Fleet *fleet.Fleet
	Hub   *stream.Hub
	Tools *tool.Set
	// DefaultTools are the names of the tools of conversations that name none; nil =
	// all.
	DefaultTools []string
	PlanTools    []string            // the same for agents that only plan
	ToolSets     map[string][]string // names that stand for several tools
	// SearchTool and VisionTool name the tools that conversations have by themselves
	// where they are of use: the first if the user has a key for the web search, the
	// second if the model does not see and one of the user's profiles does; "" = none.
	SearchTool, VisionTool string
	// SearchKeys is what keys of the web search begin with; "" = anything.
	SearchKeys string
	// Floor is what waits for the user at least, whatever the conversations say; nil =
	// nothing.
	Floor *policy.Rule
	// ClientTool makes the tool that stands for one of a client's; nil = there are none.
	ClientTool func(conversation.ClientTool) (tool.Tool, error)
	// Servers connects to MCP servers; nil = conversations have none.
	Servers tool.ServerHost
	// SkillTool and TaskTool name the tools that open skills and that give tasks to
	// sub-agents; "" = none.
	SkillTool, TaskTool string
	// Forge asks git hosting services for repositories before they are cloned; nil =
	// nobody does.
	Forge Forge
	// Collections are what the server's configuration adds to all conversations; nil =
	// nothing.
	Collections func() []extension.Bundle
	// TrustAll runs what repositories and plugins bring without asking.
	TrustAll  bool
	Models    Models
	NewMasker func(values []string) Masker
	Holder    string // names this server as owner of leases; stable for a data directory
	Demo      bool   // users without a model get the scripted one
	DemoModel string // its id
	HostDirs  bool   // directories of this machine may be mounted, with a proof
	// Private are directories of this machine that no sandbox may see: the data
	// directory. Nothing in them, and nothing that contains them, is mounted.
	Private   []string
	IdleAfter time.Duration
	LeaseTTL  time.Duration
	// MaxIterations is the bound on steps per run where settings give none.
	MaxIterations int
	// MaxLogEvents and MaxLogBytes bound a conversation's log, give or take what one step
	// adds; 0 = no bound. A conversation that is full can be read, forked and deleted.
	MaxLogEvents, MaxLogBytes int64
	// DailyBudget bounds what one user's model calls cost on one day (UTC); nil =
	// no bound. TaskTokens and DailyTokens, of a conversation with all below it and
	// of a user's day, take the place of a ceiling in dollars where the price of a
	// model is unknown; 0 = no bound.
	DailyBudget *conversation.Money
	TaskTokens  int64
	DailyTokens int64
	// AutoTitle lets a model name conversations after their first message; it costs
	// one call. Without it the message itself is the title, shortened.
	AutoTitle bool
	Logger    *slog.Logger
}

// Engine is the application service.
type Engine struct {
	opt       Options
	ctx       context.Context // cancelled with ErrLeaving at Close
	leave     context.CancelCauseFunc
	jobs      sync.WaitGroup
	mu        sync.Mutex
	live      map[conversation.ID]*live
	tasks     map[string]*conversation.StartTask // unfinished start tasks, fresher than the store
	closed    bool
	drained   chan struct{}
	unloaded  int      // conversations, since memory was given back
	toolboxes sync.Map // of *toolbox, by their tools' names
	sessions  map[conversation.ID]*session
	hooks     map[conversation.ID]map[*context.CancelCauseFunc]struct{} // that runHooks runs
	tended    map[conversation.ID]bool                                  // sub-agents that somebody waits for
	couriers  couriers                                                  // of pending messages
	typed     map[string]conversation.ID                                // commands of users that run, by their message
	unindexed chan struct{}                                             // something is missing in the full-text index
}

// New returns an engine; Recover picks up what an earlier life left.
func New(opt Options) *Engine {
	if opt.IdleAfter <= 0 {
		opt.IdleAfter = time.Minute
	}
	if opt.LeaseTTL <= 0 {
		opt.LeaseTTL = 45 * time.Second
	}
	if opt.MaxIterations <= 0 {
		opt.MaxIterations = 500
	}
	if opt.Spend == nil {
		opt.Spend = spend.New(spend.Options{Ledger: opt.Store.Ledger(), Holder: opt.Holder, Logger: opt.Logger})
	}
	ctx, leave := context.WithCancelCause(context.Background())
	e := &Engine{opt: opt, ctx: ctx, leave: leave, live: map[conversation.ID]*live{},
		tasks: map[string]*conversation.StartTask{}, sessions: map[conversation.ID]*session{},
		hooks:  map[conversation.ID]map[*context.CancelCauseFunc]struct{}{},
		tended: map[conversation.ID]bool{}, unindexed: make(chan struct{}, 1), drained: make(chan struct{})}
	e.job(e.renewLeases)
	return e
}

// Close parks all runs and waits for what is under way, at most until ctx ends.
// Sandboxes keep running, and nothing is written as the user's doing: the next
// owner resumes.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		go func() { e.jobs.Wait(); close(e.drained) }()
	}
	e.mu.Unlock()
	e.leave(ErrLeaving)
	defer e.closeSessions()
	select {
	case <-e.drained:
		return nil
	case <-ctx.Done():
		return fault.Wrap(context.Cause(ctx), fault.Timeout, "engine_close", "Some work did not end in time.")
	}
}

// job runs work that Close waits for; false if the engine is closing.
func (e *Engine) job(work func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.jobs.Go(work)
	return true
}

// Live returns how many conversations are loaded, for metrics.
func (e *Engine) Live() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.live)
}

func errStopping() error {
	return fault.New(fault.Unavailable, "stopping", "The server is stopping.").WithHint("Try again in a moment.")
}

// do runs a command in the conversation's goroutine, loading the conversation if
// need be, and returns its error.
func (e *Engine) do(ctx context.Context, owner string, id conversation.ID, run func(*live) error) error {
	if _, err := e.opt.Store.Conversations().Get(ctx, owner, id); err != nil {
		return err
	}
	cmd := command{run: run, reply: make(chan error, 1)}
	for {
		l, err := e.load(id)
		if err != nil {
			return err
		}
		select {
		case l.mailbox <- cmd:
			return await(ctx, l, cmd)
		case <-l.closed: // evicted meanwhile: load it again
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func await(ctx context.Context, l *live, cmd command) error {
	select {
	case err := <-cmd.reply:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.closed:
		select {
		case err := <-cmd.reply:
			return err
		default:
			return errStopping()
		}
	}
}

// load returns the live conversation, starting its goroutine if there is none.
func (e *Engine) load(id conversation.ID) (*live, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errStopping()
	}
	l := e.live[id]
	if l == nil {
		l = newLive(e, id)
		e.live[id] = l
		e.jobs.Go(l.run)
	}
	return l, nil
}

// unload forgets a live conversation; its goroutine calls it last.
func (e *Engine) unload(l *live) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.live, l.id)
	close(l.closed)
	if e.unloaded++; e.unloaded >= releaseAfter && e.unloaded > len(e.live) && !e.closed {
		e.unloaded = 0
		e.jobs.Go(debug.FreeOSMemory)
	}
}

// releaseAfter is how many conversations are unloaded before their memory is given
// back to the system. A server that does nothing does not collect its garbage for
// minutes, and keeps what it collected for longer.
const releaseAfter = 100

// Busy reports whether a conversation of the sandbox is running or starting: a
// clone or a set-up script must not be frozen in the middle.
func (e *Engine) Busy(sandboxID string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.tasks {
		if t.SandboxID == sandboxID && !t.Status.Done() {
			return true
		}
	}
	for _, l := range e.live {
		if l.sandbox.Load() == sandboxID && l.running.Load() {
			return true
		}
	}
	return false
}

// SandboxChanged wakes the conversations of a sandbox: one that was held while
// it was paused goes on.
func (e *Engine) SandboxChanged(sandboxID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.live {
		if l.sandbox.Load() == sandboxID {
			l.nudge()
		}
	}
}

// Log is the event log, for reading.
func (e *Engine) Log() store.Events { return e.opt.Store.Events() }

// Follow joins a conversation's log after the event with seq after.
func (e *Engine) Follow(ctx context.Context, owner string, id conversation.ID, after int64) (*stream.Follower, error) {
	if _, err := e.opt.Store.Conversations().Get(ctx, owner, id); err != nil {
		return nil, err
	}
	return e.opt.Hub.Follow(e.opt.Store.Events(), id, after), nil
}
