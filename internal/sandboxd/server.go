package sandboxd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"parley/internal/fault"
)

// Options configure a daemon. The zero value works.
type Options struct {
	// WorkingDir is where programs start; absolute; "" = "/". It must exist when
	// the first program starts, not before.
	WorkingDir string
	// Env is the whole base environment of every program: nothing of the daemon's
	// own environment is added. PATH gets a default if it is missing.
	Env map[string]string
	// Shell runs in terminals without a program; "" = /bin/bash or else /bin/sh.
	Shell string
	// Version is what Health reports.
	Version string
	// Logger gets defects and what the machine refuses; nil discards.
	Logger *slog.Logger
	// PID1 says that the process is the daemon's alone: it reaps orphans (as child
	// subreaper if it is not PID 1), ends on SIGTERM and SIGINT, survives other
	// signals, bounds its own memory and processors, and kills all that is left of
	// its children when it ends. Without it Serve touches nothing process-wide.
	PID1 bool
	// MaxTerminals bounds terminals, ended ones included until they are needed; 0 = 64.
	MaxTerminals int
	// MaxConnections bounds connections; more wait to be accepted; 0 = 512.
	MaxConnections int
	// MaxPorts bounds connections to ports; more are refused, so that they leave room
	// for everything else; 0 = half of MaxConnections.
	MaxPorts int
	// TerminalBuffer is the output kept per terminal in bytes, rounded up to a power
	// of two; 0 = 4 MiB. Memory is taken as output comes.
	TerminalBuffer int
	// InputWait bounds how long typing waits for a program that does not read; 0 = 10 s.
	InputWait time.Duration
}

const (
	defaultMaxTerminals   = 64
	defaultMaxConnections = 512
	defaultTerminalBuffer = 4 << 20
	defaultInputWait      = 10 * time.Second
	minTerminalBuffer     = 4 << 10
)

func (o Options) withDefaults() (Options, error) {
	if o.WorkingDir == "" {
		o.WorkingDir = "/"
	}
	if !filepath.IsAbs(o.WorkingDir) {
		return o, fmt.Errorf("sandboxd: working directory %q is not absolute", o.WorkingDir)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxTerminals <= 0 {
		o.MaxTerminals = defaultMaxTerminals
	}
	if o.MaxConnections <= 0 {
		o.MaxConnections = defaultMaxConnections
	}
	if o.MaxPorts <= 0 {
		o.MaxPorts = max(1, o.MaxConnections/2)
	}
	if o.TerminalBuffer <= 0 {
		o.TerminalBuffer = defaultTerminalBuffer
	}
	if o.InputWait <= 0 {
		o.InputWait = defaultInputWait
	}
	if o.Shell == "" {
		o.Shell = findShell()
	}
	return o, nil
}

// Serve answers requests on lis until ctx ends, or SIGTERM with Options.PID1. It
// then closes lis, kills every program and terminal it started, waits for all
// handlers and returns nil. It returns an error if the options are wrong or the
// listener breaks.
func Serve(ctx context.Context, lis net.Listener, opt Options) error {
	defer func() { _ = lis.Close() }()
	opt, err := opt.withDefaults()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d := newDaemon(ctx, opt)
	d.own = portOf(lis.Addr())
	if opt.PID1 {
		release := d.children.takeProcess(opt.Logger, stop)
		defer release()
	}
	return d.serve(ctx, stop, lis)
}

// daemon is one Serve.
type daemon struct {
	opt       Options
	stopping  <-chan struct{}
	started   time.Time
	children  *children
	launch    launcher
	terminals *terminals
	ports     chan struct{} // has an element per connection to a port
	own       int           // TCP port that the daemon itself listens on; 0 = none
	programs  chan struct{} // has an element per program with pipes
	// changing is held while files are changed together: a change that fits what a
	// file held is not made after another one.
	changing sync.Mutex
	// live is read-locked by every handler; serve takes it for good at the end.
	live sync.RWMutex
}

func newDaemon(ctx context.Context, opt Options) *daemon {
	kids := newChildren()
	launch := launcher{base: opt.Env, dir: opt.WorkingDir}
	return &daemon{
		opt:       opt,
		stopping:  ctx.Done(),
		started:   time.Now(),
		children:  kids,
		launch:    launch,
		terminals: newTerminals(kids, launch, opt),
		ports:     make(chan struct{}, opt.MaxPorts),
		programs:  make(chan struct{}, maxPrograms),
	}
}

func (d *daemon) serve(ctx context.Context, stop context.CancelFunc, lis net.Listener) error {
	// No read or idle time-outs: a frozen sandbox would come back to find all of
	// them expired and cut connections that are in use. MaxConnections is the bound.
	srv := &http.Server{
		Handler:        d.routes(),
		MaxHeaderBytes: maxHeaderBytes,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ErrorLog:       slog.NewLogLogger(d.opt.Logger.Handler(), slog.LevelWarn),
	}
	unhook := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer unhook()
	err := srv.Serve(newLimited(lis, d.opt.MaxConnections))
	ended := ctx.Err() != nil
	stop()
	_ = srv.Close()
	d.live.Lock()
	d.terminals.closeAll()
	if ended || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("sandboxd: %w", err)
}

func (d *daemon) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /health":                 d.health,
		"POST /exec":                  d.exec,
		"PUT /terminals/{id}":         d.openTerminal,
		"POST /terminals/{id}/input":  d.writeTerminal,
		"GET /terminals/{id}/output":  d.readTerminal,
		"POST /terminals/{id}/signal": d.signalTerminal,
		"POST /terminals/{id}/size":   d.resizeTerminal,
		"DELETE /terminals/{id}":      d.closeTerminal,
		"GET /files/stat":             d.statFile,
		"GET /files/list":             d.listDir,
		"GET /files/content":          d.readFile,
		"PUT /files/content":          d.writeFile,
		"POST /files/content":         d.appendFile,
		"DELETE /files":               d.removeFile,
		"POST /files/change":          d.changeFiles,
		"POST /search":                d.search,
		"GET /tar":                    d.getTar,
		"PUT /tar":                    d.putTar,
		"GET /ports":                  d.listenPorts,
		"GET /ports/{port}":           d.dialPort,
		"POST /programs":              d.startProgram,
		"POST /commands":              d.startCommand,
		"POST /consoles":              d.startConsole,
	} {
		mux.HandleFunc(pattern, d.handle(h))
	}
	return mux
}

// handler answers a request or returns an error before it wrote anything.
type handler func(w http.ResponseWriter, r *http.Request) error

func (d *daemon) handle(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !d.live.TryRLock() { // fails only once serve has begun to end
			writeFault(w, errStopping())
			return
		}
		defer d.live.RUnlock()
		if err := h(w, r); err != nil {
			d.note(r, err)
			writeFault(w, err)
		}
	}
}

// note logs what is nobody's fault but ours; all else is the caller's to report.
func (d *daemon) note(r *http.Request, err error) {
	if fault.KindOf(err) == fault.Internal {
		d.opt.Logger.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
}

func errStopping() error {
	return fault.New(fault.Unavailable, CodeStopping, "The sandbox is stopping.")
}

func (d *daemon) health(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, Health{
		Version:    d.opt.Version,
		PID:        os.Getpid(),
		Uptime:     time.Since(d.started),
		WorkingDir: d.opt.WorkingDir,
		Terminals:  d.terminals.count(),
	})
}
