// Package agentserver is the agent-server protocol: what SDKs and UIs speak with
// the agent of one sandbox. It is an encoder and decoder over the engine, mounted
// at /agent/{sandbox_id} and, for clients that present a sandbox session key but
// drop path prefixes, at the root. Every operation sees the conversations of one
// sandbox only. openapi.yaml defines what is built; known routes of the protocol
// that are not answer 501.
package agentserver

import (
	"cmp"
	"context"
	_ "embed" // the document
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/profiles"
	"parley/internal/bash"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/fernet"
	"parley/internal/llm"
	"parley/internal/store"
	"parley/internal/stream"
	"parley/internal/tool"
)

//go:embed openapi.yaml
var document []byte

// Engine is what the protocol needs of the application service.
type Engine interface {
	Create(ctx context.Context, req engine.StartRequest) (*engine.View, error)
	Fork(ctx context.Context, owner string, id conversation.ID, req engine.ForkRequest) (*engine.View, error)
	Navigate(ctx context.Context, owner string, id conversation.ID, event string) error
	SetPolicy(ctx context.Context, owner string, id conversation.ID, p conversation.ConfirmationPolicy) error
	AddSecrets(ctx context.Context, owner string, id conversation.ID, add map[string]account.CustomSecret) error
	SetAnalyzer(ctx context.Context, owner string, id conversation.ID, a *conversation.Analyzer) error
	Ask(ctx context.Context, owner string, id conversation.ID, question string) (string, error)
	Condense(ctx context.Context, owner string, id conversation.ID) error
	Goal(ctx context.Context, owner string, id conversation.ID, objective string, maxIterations int) error
	StopGoal(ctx context.Context, owner string, id conversation.ID) error
	ResumeGoal(ctx context.Context, owner string, id conversation.ID) error
	Send(ctx context.Context, owner string, id conversation.ID, m engine.Message) error
	Run(ctx context.Context, owner string, id conversation.ID) error
	Remind(owner string, id conversation.ID)
	Pause(ctx context.Context, owner string, id conversation.ID) error
	Interrupt(ctx context.Context, owner string, id conversation.ID) error
	Confirm(ctx context.Context, owner string, id conversation.ID, accept bool, reason string) error
	DeleteInside(ctx context.Context, owner string, id conversation.ID) error
	Patch(ctx context.Context, owner string, id conversation.ID,
		change func(*conversation.Conversation) error) (*engine.View, error)
	View(ctx context.Context, owner string, id conversation.ID) (*engine.View, error)
	Views(ctx context.Context, owner string, ids []conversation.ID) ([]*engine.View, error)
	Search(ctx context.Context, q store.ConversationQuery) (store.Page[*engine.View], error)
	Count(ctx context.Context, q store.ConversationQuery) (int, error)
	SwitchProfile(ctx context.Context, owner string, id conversation.ID, name string) error
	SwitchLLM(ctx context.Context, owner string, id conversation.ID, l account.LLM) error
	Probe(ctx context.Context, owner string, l account.LLM) engine.ProbeResult
	Children(ctx context.Context, owner string, parents []conversation.ID) (map[conversation.ID][]conversation.ID, error)
	Extensions(ctx context.Context, owner string, id conversation.ID) (engine.Extensions, error)
	Hooks(ctx context.Context, owner string, id conversation.ID) ([]engine.NamedHooks, error)
	Trust(ctx context.Context, owner string, id conversation.ID, subject, hash string, trusted bool) error
	Project(ctx context.Context, owner, sandboxID, dir string) (extension.Bundle, error)
	Shared(ctx context.Context, owner string) ([]extension.Bundle, error)
	TestServer(ctx context.Context, owner, sandboxID string, server tool.Server, call *tool.ServerCall) (tool.ServerReport, error)
	ReportAgent(ctx context.Context, owner, name string) (*engine.AgentReport, error)
	ToolNames() []string
	// MaskOf hides the secrets that a conversation knows now.
	MaskOf(ctx context.Context, owner string, id conversation.ID) (func(string) string, error)
	Log() store.Events
	Follow(ctx context.Context, owner string, id conversation.ID, after int64) (*stream.Follower, error)
}

// Sandboxes tells whose a sandbox is, and gives its hands, waking it.
type Sandboxes interface {
	Ensure(ctx context.Context, owner, id string, wake bool) (tool.Hands, error)
	Batch(ctx context.Context, owner string, ids []string) ([]*store.Sandbox, error)
}

// Commands runs what clients give to sandboxes.
type Commands interface {
	Start(ctx context.Context, owner, sandboxID string, req bash.Request) (json.RawMessage, error)
	Execute(ctx context.Context, owner, sandboxID string, req bash.Request) (json.RawMessage, error)
	Search(ctx context.Context, q store.CommandQuery) (events []store.CommandEvent, next string, err error)
	Batch(ctx context.Context, sandboxID string, ids []string) ([]*store.CommandEvent, error)
	Clear(ctx context.Context, sandboxID string) (int, error)
	Follow(ctx context.Context, sandboxID string, all bool) (*bash.Follower, error)
}

// Config makes a Server.
type Config struct {
	Engine    Engine
	Sandboxes Sandboxes
	Commands  Commands
	Places    Places
	Settings  profiles.Store
	Auth      *httpkit.Authenticator
	Streams   *httpkit.Streams
	Log       *slog.Logger
	// Ready says why the server cannot take work, nil if it can.
	Ready func(ctx context.Context) error
	// ServerInfo is the body of /server_info.
	ServerInfo func() any
	Models     func() []llm.Offer // that users can choose, sorted by id; nil = none
	OAuth      httpkit.Logins     // at MCP servers; nil = 501
	MaxBody    int64              // bytes, 0 = httpkit.DefaultMaxBody
	MaxUpload  int64              // bytes of one file, 0 = 1 GiB
	Previews   PreviewConfig      // of what programs inside serve
	ChatWait   time.Duration      // for a run behind /v1/chat/completions, 0 = 120 s
	AuthWait   time.Duration      // for a socket's first frame, 0 = 10 s
	Ping       time.Duration      // of idle sockets, 0 = 20 s
	// Cipher is what secrets are shown to an owner encrypted with; nil = they are not.
	Cipher func(owner string) *fernet.Cipher
	// OwnerKeys lets sandbox keys do what else needs their owner's: both are one, where
	// the server serves one sandbox and its only user.
	OwnerKeys bool
	// Home is where clients that ask for the home directory are to begin; "" = the
	// sandbox's own home.
	Home      string
	Heartbeat time.Duration // of event streams, 0 = 10 s
}

// Server serves the protocol.
type Server struct {
	cfg    Config
	api    *httpkit.API
	mux    *httpkit.Mux
	socket *httpkit.Schema // of client frames
	bash   *httpkit.Schema // of those on the bash socket
	open   openPreviews
	shared *sharing
}

// New makes a server.
func New(cfg Config) (*Server, error) {
	p := &cfg.Previews
	p.Connections, p.FirstByte = cmp.Or(p.Connections, previewConnections), cmp.Or(p.FirstByte, previewFirstByte)
	s := &Server{cfg: cfg, shared: newSharing(), open: openPreviews{most: p.Connections, count: map[string]int{}}}
	var err error
	s.api, err = httpkit.NewAPI(httpkit.APIConfig{Name: "agent", Document: document, Handlers: s.handlers(),
		Encode: httpkit.AgentErrors, Encoders: map[string]httpkit.ErrorEncoder{"list_chat_models": chatErrors, "create_chat_completion": chatErrors},
		Authorize: s.authorize, MaxBody: cfg.MaxBody})
	if err != nil {
		return nil, err
	}
	s.socket = s.api.Document().Schema("SocketMessage")
	s.bash = s.api.Document().Schema("ExecuteBashRequest")
	if s.mux, err = httpkit.NewMux(s.api); err != nil {
		return nil, err
	}
	if err := s.mux.Handle(http.MethodGet, "/sockets/events/{conversation_id}", s.serveSocket); err != nil {
		return nil, err
	}
	for path, serve := range map[string]http.HandlerFunc{
		"/sockets/bash-events":                                     s.serveBashSocket,
		"/api/conversations/{conversation_id}/workspace":           s.serveWorkspace,
		"/api/conversations/{conversation_id}/workspace/{path...}": s.serveWorkspace,
	} {
		if err := s.mux.Handle(http.MethodGet, path, serve); err != nil {
			return nil, err
		}
	}
	return s, s.mountMissing()
}

// Part is the protocol's part of the merged OpenAPI document, below its prefix.
func (s *Server) Part() httpkit.Part {
	p := s.api.Part()
	p.Prefix = "/agent/{sandbox_id}"
	p.Params = []any{map[string]any{"name": "sandbox_id", "in": "path", "required": true,
		"schema": map[string]any{"type": "string"}}}
	return p
}

// RootPart is the protocol's part of the document of a server that serves nothing
// else.
func (s *Server) RootPart() httpkit.Part { return s.api.Part() }

// Root serves the protocol at the root, whoever asks, and nothing beside it but the
// previews of what programs inside serve.
func (s *Server) Root() http.Handler { return s.Handler(s.mux) }

type mountKey struct{}

// Handler puts the protocol beside the user APIs: below /agent/{sandbox_id}/, at
// /sockets/, and at the root's /api/ and /v1/ for a sandbox's key. V1 keeps its paths
// whatever the credential. Hosts of previews show nothing but these.
func (s *Server) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		at, own := s.ownPlace(r)
		switch {
		case own:
			s.servePreview(w, r, at)
		case strings.HasPrefix(path, "/agent/"):
			s.servePrefixed(w, r, path)
		case strings.HasPrefix(path, "/sockets/"), isWorkspacePath(path), s.bySandboxKey(r, path), cookieKey(r) != "":
			s.mux.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (s *Server) bySandboxKey(r *http.Request, path string) bool {
	if !strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/api/v1/") || strings.HasPrefix(path, "/api/shared-") {
		return false
	}
	p, err := httpkit.PrincipalOf(r.Context())
	return err == nil && p.SandboxID != ""
}

// servePrefixed serves /agent/{sandbox_id}/..., whatever the spelling of the id.
func (s *Server) servePrefixed(w http.ResponseWriter, r *http.Request, path string) {
	segment, rest, _ := strings.Cut(strings.TrimPrefix(path, "/agent/"), "/")
	id, err := url.PathUnescape(segment)
	if err != nil { // an escaped path can be unescaped
		httpkit.WriteDetail(w, http.StatusNotFound, "Not Found")
		return
	}
	if at, ok := s.previewPlace(r, id, rest); ok {
		s.servePreview(w, r, at)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), mountKey{}, id))
	s.mux.ServeHTTP(w, httpkit.WithPath(r, "/"+rest))
}

// authorize lets in the key of the sandbox that the path names (any sandbox's at
// the root), and the key of the sandbox's owner below the prefix.
func (s *Server) authorize(r *http.Request) (httpkit.Principal, error) {
	p, err := httpkit.PrincipalOf(r.Context())
	if key := cookieKey(r); err != nil && key != "" {
		p, err = s.cfg.Auth.Resolve(r.Context(), key)
	}
	if err != nil {
		return p, err
	}
	return s.admit(r.Context(), p)
}

func (s *Server) admit(ctx context.Context, p httpkit.Principal) (httpkit.Principal, error) {
	mount, mounted := ctx.Value(mountKey{}).(string)
	switch {
	case p.SandboxID != "":
		if mounted && mount != p.SandboxID {
			return httpkit.Principal{}, errOtherSandbox()
		}
		return p, nil
	case !mounted:
		return httpkit.Principal{}, errOtherSandbox()
	}
	found, err := s.cfg.Sandboxes.Batch(ctx, p.UserID, []string{mount})
	if err != nil {
		return httpkit.Principal{}, err
	}
	if found[0] == nil {
		return httpkit.Principal{}, httpkit.NotFound("Sandbox")
	}
	return httpkit.Principal{UserID: p.UserID, SandboxID: mount, Owner: p.UserID, Key: p.Key}, nil
}

func errOtherSandbox() error {
	return fault.New(fault.Unauthenticated, "unauthorized", "The key does not open this sandbox.")
}

func (s *Server) alive(w http.ResponseWriter, _ *httpkit.Request) error {
	return httpkit.JSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) ready(w http.ResponseWriter, r *httpkit.Request) error {
	if err := s.cfg.Ready(r.Context()); err != nil {
		return httpkit.JSON(w, http.StatusServiceUnavailable,
			map[string]string{"status": "initializing", "message": fault.PublicText(err)})
	}
	return httpkit.JSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (s *Server) info(w http.ResponseWriter, _ *httpkit.Request) error {
	return httpkit.JSON(w, http.StatusOK, s.cfg.ServerInfo())
}
