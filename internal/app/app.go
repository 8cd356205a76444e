// Package app wires the program: it is the only importer of implementations, and
// it knows the order in which things start and stop.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/internal/bash"
	"parley/internal/collection"
	"parley/internal/config"
	"parley/internal/console"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/forge"
	"parley/internal/llm/scripted"
	"parley/internal/netlog"
	"parley/internal/outbox"
	"parley/internal/sandbox"
	"parley/internal/store/sqlstore"
	"parley/internal/stream"
	"parley/internal/tool"
	"parley/internal/tool/browser"
	"parley/internal/tool/client"
	"parley/internal/tool/invokeskill"
	"parley/internal/tool/mcp"
	"parley/internal/tool/mcp/oauth"
	"parley/internal/tool/task"
	"parley/internal/tool/vision"
	"parley/internal/tool/websearch"
	"parley/internal/vault"
)

// How long the parts of a stop may take; in all it stays below the 10 s that a
// service manager may grant.
const (
	drainTime = 2 * time.Second
	parkTime  = 5 * time.Second
	stopTime  = 9 * time.Second // in all, whatever hangs: the next start picks up
)

// Version of the program.
type Version struct {
	Number string // semantic version
	Commit string // "" = unknown
}

// App is a running server.
type App struct {
	cfg      config.Config
	agent    *AgentMode // nil = all APIs
	log      *slog.Logger
	version  Version
	started  time.Time
	keys     *vault.Vault
	store    *sqlstore.Store
	builder  *builder
	backends []sandbox.Backend // the default one first
	network  *netlog.Log
	outbox   *outbox.Outbox
	commands *bash.Service
	consoles *console.Service
	fleet    *fleet.Fleet
	engine   *engine.Engine
	hub      *stream.Hub
	models   *models
	tools    *tool.Set
	browsers *browser.Browsers
	servers  *mcp.Host
	logins   *oauth.Service
	git      *forge.Service

	collections     *collection.Set
	stopCollections context.CancelFunc // nil = nothing refreshes them
	refreshing      sync.WaitGroup
	web             *web
	lis             net.Listener
	ready           atomic.Bool // recovery was started, requests may come
}

// Serve runs the server until ctx ends, then stops it in order. out gets the URL
// to open, with the key in its fragment, which is never sent to a server.
func Serve(ctx context.Context, cfg config.Config, version Version, out io.Writer, log *slog.Logger) error {
	return serve(ctx, newApp(cfg, nil, version, log), out)
}

func newApp(cfg config.Config, agent *AgentMode, version Version, log *slog.Logger) *App {
	return &App{cfg: cfg, agent: agent, log: log, version: version, started: time.Now()}
}

func serve(ctx context.Context, a *App, out io.Writer) error {
	defer collectLess()()
	if err := a.open(ctx); err != nil {
		return errors.Join(err, a.stop())
	}
	if err := a.announce(out); err != nil {
		return errors.Join(err, a.stop())
	}
	a.web.watch.Go(a.web.streams.Watch)
	failed := make(chan error, 1)
	go func() { failed <- a.web.server.Serve(a.lis) }()
	a.ready.Store(true)
	var err error
	select {
	case <-ctx.Done():
		a.log.Info("stopping", "cause", context.Cause(ctx))
	case err = <-failed:
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
	}
	return errors.Join(err, a.stop())
}

// open starts everything in order: store, fleet, engine, HTTP.
func (a *App) open(ctx context.Context) (err error) {
	if a.models, err = newModels(a.cfg); err != nil {
		return err
	}
	if err := os.MkdirAll(a.cfg.Data, 0o700); err != nil {
		return fault.Wrap(err, fault.Unavailable, "data_directory", "The data directory %s cannot be made: %v.", a.cfg.Data, err)
	}
	if a.keys, err = vault.Open(a.cfg.Data); err != nil {
		return err
	}
	a.store, err = sqlstore.Open(ctx, sqlstore.Options{Path: filepath.Join(a.cfg.Data, "parley.db"), Sealer: a.keys, Logger: a.log})
	if err != nil {
		return err
	}
	if err := a.ensureUser(ctx); err != nil {
		return err
	}
	if a.lis, err = net.Listen("tcp", a.cfg.Listen); err != nil {
		return fault.Wrap(err, fault.Unavailable, "listen", "Cannot listen on %s: %v.", a.cfg.Listen, err).
			WithHint("Stop what uses the address, or choose another with --listen.")
	}
	a.network = netlog.New(netlog.Options{Store: a.store.NetworkLog(), Logger: a.log})
	if a.builder, err = newBuilder(a.cfg, a.log, a.recorder); err != nil {
		return err
	}
	if a.backends, err = a.builder.all(ctx); err != nil {
		return err
	}
	if err := a.openCollections(ctx); err != nil {
		return err
	}
	if err := a.openCommands(ctx); err != nil {
		return err
	}
	if err := a.wire(a.keys); err != nil {
		return err
	}
	if err := a.openOutbox(ctx); err != nil {
		return err
	}
	if a.web, err = newWeb(a); err != nil {
		return err
	}
	if err := a.fleet.Recover(ctx); err != nil {
		return err
	}
	if a.agent != nil {
		if err := a.openAgentSandbox(ctx); err != nil {
			return err
		}
	}
	return a.engine.Recover(ctx)
}

// wire connects fleet and engine, each of which hears of the other.
func (a *App) wire(keys *vault.Vault) error {
	a.hub = stream.NewHub()
	a.git = a.newForge(keys)
	a.browsers = browser.New(browser.Times{})
	a.tools = tools(keys, &a.cfg, a.browsers)
	if err := a.openServers(); err != nil {
		return err
	}
	templates, err := specs(&a.cfg, a.backends, a.started, a.log)
	if err != nil {
		return err
	}
	if a.agent != nil {
		templates = a.agent.specs(templates)
	}
	a.consoles = a.newConsoles()
	a.fleet, err = fleet.New(fleet.Options{Store: a.store.Sandboxes(), Backends: a.backends, Specs: templates,
		MaxLive: a.cfg.MaxSandboxes, Idle: a.cfg.IdleTimeout, Retention: a.cfg.SandboxRetention, Logger: a.log,
		Busy:       func(id string) bool { return a.engine.Busy(id) || a.commands.Busy(id) },
		OnChange:   a.sandboxChanged,
		OnGone:     a.forgetSandbox,
		OnIncident: func(id string, i fleet.Incident) { a.engine.SandboxIncident(id, i) }})
	if err != nil {
		return err
	}
	a.engine = engine.New(engine.Options{Store: a.store, Fleet: a.fleet, Hub: a.hub, Tools: a.tools, DefaultTools: a.defaultTools(),
		PlanTools: planTools(), ToolSets: toolSets(a.browsers), SearchTool: websearch.Name, SearchKeys: searchKeys(a.cfg.WebSearchURL), VisionTool: vision.Name, ClientTool: client.New,
		Servers: a.servers, SkillTool: invokeskill.Name, TaskTool: task.Name, Forge: a.git, Collections: a.collections.Bundles, TrustAll: a.cfg.RepositoryTrust == config.TrustAlways,
		Floor: floor(a.cfg.Confirmation), MaxIterations: a.cfg.MaxIterations, MaxLogEvents: a.cfg.MaxLogEvents, MaxLogBytes: a.cfg.MaxLogBytes,
		Models: a.models.get, DailyBudget: a.dailyBudget(), TaskTokens: a.cfg.UnpricedTaskTokens, DailyTokens: a.cfg.UnpricedDailyTokens, AutoTitle: a.cfg.AutoTitles,
		NewMasker: func(values []string) engine.Masker {
			return vault.NewMasker(append(values, a.cfg.AWSBearerToken.Reveal())...) // the server's own key is sent to models, too
		},
		Holder: "parley", Demo: a.cfg.Demo, DemoModel: scripted.ID,
		HostDirs: a.cfg.HostDirectories == config.HostDirsProof, Private: []string{a.cfg.Data}, Logger: a.log})
	return nil
}

// dailyBudget is the ceiling of one user's day, nil if there is none.
func (a *App) dailyBudget() *conversation.Money {
	if a.cfg.DailyBudget <= 0 {
		return nil
	}
	budget := conversation.MoneyOf(a.cfg.DailyBudget)
	return &budget
}

// announce prints where the server is.
func (a *App) announce(out io.Writer) error {
	a.log.Info("listening", "address", a.lis.Addr().String(), "data", a.cfg.Data, "sandbox", a.backends[0].Name(),
		"demo", a.cfg.Demo, "took", time.Since(a.started).Round(time.Millisecond))
	if a.agent != nil {
		return a.announceAgent(out)
	}
	key, err := a.keyToShow()
	if err != nil {
		return err
	}
	note := ""
	if a.cfg.Demo {
		note = "\nDemo: without an LLM in the settings, the built-in scripted model answers. It is not an AI."
	}
	if slices.ContainsFunc(a.backends, func(b sandbox.Backend) bool { return !b.Caps().Isolated }) {
		a.log.Warn("sandboxes of the process backend are not isolated: agents can do what this user can do")
		note += "\nWarning: the process backend does not isolate anything. Agents can do what this user can do."
	}
	_, err = fmt.Fprintf(out, "Parley is ready: %s/#key=%s%s\n", a.base(), key, note)
	return err
}

// stop closes within a bound: a sandbox that does not let go, or a model that
// does not return, must not keep the process.
func (a *App) stop() error {
	done := make(chan error, 1)
	go func() { done <- a.close() }()
	select {
	case err := <-done:
		return err
	case <-time.After(stopTime):
		return fault.New(fault.Timeout, "stop_timeout", "The server did not stop in time and was left as it is.").
			WithHint("Nothing that was acknowledged is lost; the next start picks up.")
	}
}

// close stops in reverse order: accept no more, drain streams, park runs, leave
// the sandboxes running, close the store.
func (a *App) close() error {
	a.ready.Store(false)
	var errs []error
	if a.web != nil {
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		errs = append(errs, a.web.stop(ctx))
		cancel()
	}
	if a.engine != nil {
		ctx, cancel := context.WithTimeout(context.Background(), parkTime)
		errs = append(errs, a.engine.Close(ctx))
		cancel()
	}
	if a.servers != nil {
		a.servers.Close()
	}
	if a.stopCollections != nil {
		a.stopCollections()
		a.refreshing.Wait()
	}
	if a.commands != nil {
		a.commands.Close()
	}
	if a.consoles != nil {
		a.consoles.Close()
	}
	if a.browsers != nil {
		a.browsers.Close() // they go on inside their sandboxes
	}
	switch {
	case a.fleet != nil:
		errs = append(errs, a.fleet.Close())
	default:
		for _, b := range a.backends {
			errs = append(errs, b.Close())
		}
	}
	if a.builder != nil {
		errs = append(errs, a.builder.close())
	}
	if a.network != nil {
		a.network.Close()
	}
	if a.git != nil {
		a.git.Close()
	}
	if a.outbox != nil {
		a.outbox.Close()
	}
	if a.lis != nil && a.web == nil {
		errs = append(errs, a.lis.Close())
	}
	if a.store != nil {
		errs = append(errs, a.store.Close())
	}
	return errors.Join(errs...)
}
