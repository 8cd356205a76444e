package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"parley/internal/api/agentserver"
	"parley/internal/api/device"
	"parley/internal/api/httpkit"
	"parley/internal/api/ops"
	"parley/internal/api/shared"
	v0 "parley/internal/api/v0"
	v1 "parley/internal/api/v1"
	"parley/internal/fault"
	"parley/internal/feedback"
	"parley/internal/fleet"
	"parley/internal/webui"
)

// web is the HTTP side of the server.
type web struct {
	server  *http.Server
	streams *httpkit.Streams
	watch   sync.WaitGroup // over the keys of streams
	live    *live          // nil = the legacy API is not served
}

// newWeb puts the APIs behind one handler.
func newWeb(a *App) (*web, error) {
	urls := &httpkit.URLs{}
	if a.cfg.PublicURL != "" {
		public, err := url.Parse(a.cfg.PublicURL)
		if err != nil {
			return nil, fault.Wrap(err, fault.Invalid, "public_url", "The public URL is not valid.")
		}
		urls.Public = public
	}
	urls.PreviewHost = a.previewHost()
	metrics := httpkit.NewMetrics(a.engine.Live)
	auth, err := a.authenticator()
	if err != nil {
		return nil, err
	}
	streams := httpkit.NewStreams(0, metrics, auth.Users)
	w := &web{streams: streams}
	handler, err := a.handler(urls, metrics, streams, auth, w)
	if err != nil {
		return nil, err
	}
	guard := httpkit.NewGuard(httpkit.GuardConfig{Log: a.log, Metrics: metrics, URLs: urls, Auth: auth,
		Listen: a.lis.Addr().String(), AllowedHosts: a.cfg.AllowedHosts, AllowedOrigins: a.cfg.CORSOrigins, AnyOrigin: w.live.path(),
		Rate: httpkit.NewRateLimit(a.cfg.RateLimit)})
	w.server = &http.Server{Handler: guard.Wrap(handler),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug)}
	return w, nil
}

// authenticator knows the keys of users and sandboxes.
func (a *App) authenticator() (*httpkit.Authenticator, error) {
	if a.agent != nil {
		return a.agentAuth()
	}
	return &httpkit.Authenticator{Users: a.store.Accounts(), Sandbox: a.fleet.BySessionKey}, nil
}

func (a *App) handler(urls *httpkit.URLs, metrics *httpkit.Metrics, streams *httpkit.Streams, auth *httpkit.Authenticator, w *web) (http.Handler, error) {
	about := ops.NewAbout(ops.AboutConfig{ProtocolVersion: a.cfg.AgentProtocolVersion, Version: a.version.Number, Commit: a.version.Commit, Tools: a.usableTools(), Demo: a.cfg.Demo, Dir: a.cfg.Data})
	previews, book := httpkit.NewPreviews(), fleet.NewPortBook(a.fleet)
	agent, err := agentserver.New(agentserver.Config{Engine: a.engine, Sandboxes: a.fleet, Commands: a.commands, Places: a.store.Places(), MaxUpload: a.cfg.MaxUploadBytes, Settings: a.store.Accounts(),
		Auth: auth, Streams: streams, Log: a.log, Ready: a.checkReady, ServerInfo: about.ServerInfo, Models: a.models.offers, OAuth: logins{a.logins}, MaxBody: a.cfg.MaxBodyBytes,
		Cipher: a.cipher, OwnerKeys: a.agent != nil, Home: a.agent.home(),
		Previews: agentserver.PreviewConfig{Register: previews, URLs: urls, Reach: a.fleet.Reach, Exposed: book.Of, SharedOrigin: a.cfg.PreviewSharedOrigin}})
	if err != nil {
		return nil, err
	}
	if a.agent != nil {
		operations, err := a.operations(about, metrics, urls, agent.RootPart())
		if err != nil {
			return nil, err
		}
		mux, err := httpkit.NewMux(operations)
		return touching(about, agentHandler(agent, mux)), err
	}
	one, err := v1.New(v1.Config{Keys: a.store.Accounts(), Engine: a.engine, Fleet: a.fleet, Settings: a.store.Accounts(), URLs: urls, Streams: streams,
		FullState: agentserver.FullState, Models: a.models.offers, Details: a.models.details, DailyBudget: a.dailyBudget(), OAuth: logins{a.logins},
		MaxBody: a.cfg.MaxBodyBytes, Previews: previews, Exposed: book.Of, Network: a.network, Git: a.git, Webhooks: a.outbox,
		Collection: a.collections.Find, Terminals: a.consoles, Auth: auth})
	if err != nil {
		return nil, err
	}
	legacy := v0.Config{Engine: a.engine, Fleet: a.fleet, Settings: a.store.Accounts(), Events: a.store.Events(),
		Projections: a.store.Projections(), Imports: a.store.Imports(), URLs: urls, Models: a.models.offers, Git: a.git, Log: a.log,
		Sandboxes: a.fleet, Exposed: book.Of, Previews: previews, Experiments: a.store.Experiments(),
		Feedback: feedback.New(filepath.Join(a.cfg.Data, "feedback.jsonl")), MaxBody: a.cfg.MaxBodyBytes, MaxUpload: a.cfg.MaxUploadBytes,
		MaxLive: a.cfg.LegacyConversations, ListAge: a.cfg.LegacyListAge}
	w.live = a.newLive(&legacy, auth, streams)
	zero, err := v0.New(legacy)
	if err != nil {
		return nil, err
	}
	open, err := shared.New(shared.Config{Engine: a.engine, URLs: urls})
	if err != nil {
		return nil, err
	}
	devices, err := device.New(device.Config{Keys: a.store.Accounts(), URLs: urls})
	if err != nil {
		return nil, err
	}
	operations, err := a.operations(about, metrics, urls, zero.Part(), one.Part(), open.Part(), devices.Part(), agent.Part())
	if err != nil {
		return nil, err
	}
	mux, err := httpkit.NewMux(zero, one, open, devices, operations)
	if err != nil {
		return nil, err
	}
	if err := v0.MountSecurity(mux); err != nil {
		return nil, err
	}
	ui, err := webui.New()
	if err != nil {
		return nil, err
	}
	return w.live.handler(touching(about, agent.Handler(ui.Wrap(mux)))), nil
}

func (a *App) operations(about *ops.About, metrics *httpkit.Metrics, urls *httpkit.URLs, parts ...httpkit.Part) (*httpkit.API, error) {
	cfg := ops.Config{Ready: a.checkReady, ServerInfo: about.ServerInfo, Metrics: metrics, URLs: urls,
		Parts: parts, Version: a.version.Number, Demo: a.cfg.Demo}
	if a.agent != nil {
		cfg.Authorize = func(r *http.Request) (httpkit.Principal, error) { return httpkit.PrincipalOf(r.Context()) }
	}
	return ops.New(cfg)
}

// inSandbox reports paths whose requests look into a sandbox, whatever the method
// (agent protocol 1.2).
func inSandbox(path string) bool {
	return strings.Contains(path, "/api/git/") || strings.Contains(path, "/api/file/") || strings.Contains(path, "/api/bash/")
}

// previewHost is the domain below which previews have origins of their own. On
// this machine every browser takes names below localhost for it.
func (a *App) previewHost() string {
	host, _, err := net.SplitHostPort(a.cfg.Listen)
	if a.cfg.PreviewHost == "" && a.cfg.PublicURL == "" && err == nil && (host == "localhost" || host == "127.0.0.1") {
		return "localhost"
	}
	return a.cfg.PreviewHost
}

// touching ends the server's idle time at each request that wants something done.
func touching(about *ops.About, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			if inSandbox(r.URL.Path) {
				about.Touch()
			}
		default:
			about.Touch()
		}
		next.ServeHTTP(w, r)
	})
}

// checkReady says why the server cannot take work, nil if it can.
func (a *App) checkReady(ctx context.Context) error {
	if a.web.streams.Draining() {
		return fault.New(fault.Unavailable, ops.CodeDraining, "The server is stopping.")
	}
	if !a.ready.Load() {
		return fault.New(fault.Unavailable, ops.CodeInitializing, "The server is starting.")
	}
	return a.store.Ping(ctx)
}

// stop accepts no more requests, ends streams in a way that clients can resume,
// and waits for the rest until ctx ends.
func (w *web) stop(ctx context.Context) error {
	err := errors.Join(w.streams.Drain(ctx), w.live.close(ctx))
	w.watch.Wait()
	if e := w.server.Shutdown(ctx); e != nil && !errors.Is(e, context.DeadlineExceeded) {
		err = errors.Join(err, e)
	}
	_ = w.server.Close() // what did not end in time
	return err
}
