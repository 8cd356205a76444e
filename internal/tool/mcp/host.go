// Package mcp connects conversations to MCP servers: programs inside the sandbox, and
// servers on the network, over the official SDK.
//
// A server is a stranger. Everything it says is bounded (lines, bodies, tools, schemas,
// results, the rate of its messages), none of what it says about itself makes a call
// look safer than any other, and whatever it does ends in its status and in the answers
// of its own tools: a conversation goes on without it.
//
// # Names
//
// A tool has the name that its server gave it, with letters that models cannot write
// replaced by _. It becomes <server>_<tool> where two servers of the conversation offer
// the same name, for each of them, and where the name is one of Config.Reserved. Which
// names clash depends on what the connected servers offer, never on who was first. What
// still clashes then is numbered in the order of the servers' names.
package mcp

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"parley/internal/account"
	"parley/internal/tool"
)

// Kinds of what MCP tools leave in a log (agent protocol 3).
const (
	DefinitionKind  = "MCPToolDefinition"
	ActionKind      = "MCPToolAction"
	ObservationKind = "MCPToolObservation"
)

// Config is what a host needs. Zero values of numbers and durations are the defaults.
type Config struct {
	// Dial opens the connections to servers on the network: the egress policy. nil =
	// the system's dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// OAuth returns who authorizes the calls of a server with OAuth; nil = nobody, such
	// servers need a login.
	OAuth func(owner string, s *account.MCPHTTPServer) (auth.OAuthHandler, error)
	// Name and Version are what servers are told of this program; "" = parley, 0.
	Name, Version string
	// Reserved are names that no tool of a server gets; one that ends in * is a prefix.
	Reserved []string
	Logger   *slog.Logger // nil = no log

	ConnectTimeout time.Duration // start, handshake and list of tools; 0 = 30 s
	CallTimeout    time.Duration // of a call to a server without its own; 0 = 300 s
	MinBackoff     time.Duration // before the first restart; 0 = 1 s
	MaxBackoff     time.Duration // 0 = 60 s
	Healthy        time.Duration // after so long the backoff starts again; 0 = 1 min
	RelistPause    time.Duration // between two lists that a server asks for; 0 = 5 s
	CloseTimeout   time.Duration // that Close waits; 0 = 5 s
	PerSession     int           // servers of one session that start at a time; 0 = 8
	PerHost        int           // servers that start at a time; 0 = 32
}

func (c Config) withDefaults() Config {
	orDefault(&c.ConnectTimeout, 30*time.Second)
	orDefault(&c.CallTimeout, 300*time.Second)
	orDefault(&c.MinBackoff, time.Second)
	orDefault(&c.MaxBackoff, time.Minute)
	orDefault(&c.Healthy, time.Minute)
	orDefault(&c.RelistPause, 5*time.Second)
	orDefault(&c.CloseTimeout, 5*time.Second)
	orDefault(&c.PerSession, 8)
	orDefault(&c.PerHost, 32)
	orDefault(&c.Name, "parley")
	orDefault(&c.Version, "0")
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: c.ConnectTimeout}).DialContext
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func orDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Host is a tool.ServerHost over the MCP SDK.
type Host struct {
	cfg   Config
	slots chan struct{} // for starts

	mu       sync.Mutex
	closed   bool
	sessions map[*session]struct{}
}

var _ tool.ServerHost = (*Host)(nil)

// New makes a host. Close ends it.
func New(cfg Config) *Host {
	cfg = cfg.withDefaults()
	return &Host{cfg: cfg, slots: make(chan struct{}, cfg.PerHost), sessions: map[*session]struct{}{}}
}

// Open implements tool.ServerHost. After Close all servers of the session are stopped.
func (h *Host) Open(opt tool.ServerOptions, servers []tool.Server) tool.ServerSession {
	s := newSession(h, opt)
	h.mu.Lock()
	closed := h.closed
	if !closed {
		h.sessions[s] = struct{}{}
	}
	h.mu.Unlock()
	s.Set(servers)
	if closed {
		s.Close()
	}
	return s
}

// Close closes all sessions and waits for them, each as long as its own Close does.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	var open []*session
	for s := range h.sessions {
		open = append(open, s)
	}
	h.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range open {
		wg.Go(s.Close)
	}
	wg.Wait()
}

func (h *Host) forget(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, s)
}
