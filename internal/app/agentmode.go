package app

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"

	"parley/internal/account"
	"parley/internal/api/agentserver"
	"parley/internal/api/httpkit"
	"parley/internal/config"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandbox/layer"
	"parley/internal/store"
)

// AgentMode is a server that is nothing but the agent-server of one directory: the
// agent protocol alone, at the root, with one sandbox in which that directory is
// mounted at its own path.
type AgentMode struct {
	Workspace string           // absolute, without links; it exists
	Keys      []account.Secret // any of them opens everything; none = the key file's
	Open      bool             // no key is asked for
}

// agentSandbox is the id of the sandbox.
const agentSandbox = "agent-server"

// ServeAgent is Serve in agent mode.
func ServeAgent(ctx context.Context, cfg config.Config, mode AgentMode, version Version, out io.Writer, log *slog.Logger) error {
	cfg.MaxSandboxes, cfg.IdleTimeout, cfg.SandboxRetention = 1, 0, 0
	if !hostbox.ValidTarget(mode.Workspace) {
		return fault.New(fault.Invalid, "workspace", "%s cannot be the workspace: the sandbox has a directory of its own there.", mode.Workspace).
			WithHint("Choose a directory of the project's own, below a home or /srv.")
	}
	return serve(ctx, newApp(cfg, &mode, version, log), out)
}

// home is where clients begin: what they make elsewhere is not on this machine.
func (m *AgentMode) home() string {
	if m == nil {
		return ""
	}
	return m.Workspace
}

// specs turns the first template into that of the only sandbox.
func (m *AgentMode) specs(list []fleet.Spec) []fleet.Spec {
	only := list[0]
	only.WorkingDir, only.Warm = m.Workspace, 0
	return []fleet.Spec{only}
}

// checkData refuses a workspace with the server's own data in or around it: whatever
// works there could read all keys. Not every backend keeps them from it.
func (m *AgentMode) checkData(data string) error {
	data, err := filepath.Abs(data)
	if err == nil {
		data, err = filepath.EvalSymlinks(data)
	}
	if err != nil {
		return err
	}
	if layer.Within(data, m.Workspace) || layer.Within(m.Workspace, data) {
		return fault.New(fault.Invalid, "workspace", "%s cannot be the workspace: the server keeps its own data in or around it, in %s.", m.Workspace, data).
			WithHint("Choose a directory of the project's own, or another one with --data.")
	}
	return nil
}

// openAgentSandbox starts the sandbox, or takes up that of an earlier life. It comes
// up in the background; conversations wait for it.
func (a *App) openAgentSandbox(ctx context.Context) error {
	if err := a.agent.checkData(a.cfg.Data); err != nil {
		return err
	}
	old, err := a.fleet.Batch(ctx, account.FirstUserID, []string{agentSandbox})
	if err != nil {
		return err
	}
	if s := old[0]; s != nil && s.HostDir != a.agent.Workspace { // it still works in the other one
		return fault.New(fault.Invalid, "workspace", "The data in %s belongs to the workspace %s, not to %s.", a.cfg.Data, s.HostDir, a.agent.Workspace).
			WithHint("Each workspace needs data of its own: leave --data out, or choose another directory.")
	}
	if s := old[0]; s != nil && (s.Status == store.SandboxMissing || s.Status == store.SandboxError) {
		if err := a.fleet.Delete(ctx, s.Owner, s.ID); err != nil {
			return err
		}
	}
	_, err = a.fleet.Start(ctx, fleet.StartRequest{ID: agentSandbox, Owner: account.FirstUserID, HostDir: a.agent.Workspace})
	return err
}

// agentAuth lets in who has one of the keys, as who may use the sandbox and is its
// owner.
func (a *App) agentAuth() (*httpkit.Authenticator, error) {
	keys := a.agent.Keys
	if len(keys) == 0 && !a.agent.Open {
		key, err := a.sessionKey()
		if err != nil {
			return nil, err
		}
		keys = []account.Secret{account.NewSecret(key)}
	}
	auth := &httpkit.Authenticator{Users: nobody{}, Sandbox: func(ctx context.Context, key string) (*store.Sandbox, error) {
		if !holds(keys, key) {
			return nil, fault.New(fault.Unauthenticated, "unauthorized", "Unauthorized")
		}
		return &store.Sandbox{ID: agentSandbox, Owner: account.FirstUserID}, nil
	}}
	if a.agent.Open {
		auth.Everybody = httpkit.Principal{SandboxID: agentSandbox, Owner: account.FirstUserID}
	}
	return auth, nil
}

// holds compares hashes of equal length, so that its time says nothing of a key.
func holds(keys []account.Secret, key string) bool {
	given, found := account.HashKey(key), 0
	for _, k := range keys {
		known := account.HashKey(k.Reveal())
		found |= subtle.ConstantTimeCompare(known[:], given[:])
	}
	return found == 1
}

// nobody has no users: in agent mode there is no user API.
type nobody struct{}

// UserByKey implements httpkit.Keys.
func (nobody) UserByKey(context.Context, account.KeyHash) (account.User, error) {
	return account.User{}, fault.New(fault.NotFound, "user", "There is no such user.")
}

// agentHandler serves the protocol at the root, with the server's documents and
// metrics beside it.
func agentHandler(agent *agentserver.Server, operations *httpkit.Mux) http.Handler {
	root := agent.Root()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/docs", "/openapi.json", "/metrics":
			operations.ServeHTTP(w, r)
		default:
			root.ServeHTTP(w, r)
		}
	})
}

// announceAgent prints where the server is and which key opens it.
func (a *App) announceAgent(out io.Writer) error {
	key := "the key that is configured"
	switch {
	case a.agent.Open:
		key = "none: whoever reaches this address rules the sandbox"
	case len(a.agent.Keys) == 0:
		made, err := a.sessionKey()
		if err != nil {
			return err
		}
		key = made
	}
	_, err := fmt.Fprintf(out, "Parley's agent server is ready: %s\nWorkspace: %s\nX-Session-API-Key: %s\n",
		strings.TrimRight(a.base(), "/"), a.agent.Workspace, key)
	return err
}
