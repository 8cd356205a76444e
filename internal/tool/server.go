package tool

import (
	"context"
	"encoding/json"

	"parley/internal/account"
)

// Server is an MCP server as a conversation wants it. One of HTTP and Stdio is set.
type Server struct {
	Name string // unique in a conversation, letters, digits, - and _
	From string // for people: "settings", "plugin review"
	HTTP *account.MCPHTTPServer
	SSE  bool // HTTP speaks the older transport
	// Stdio is started inside the sandbox.
	Stdio *account.MCPStdioServer
	// Dir is where Stdio runs; "" = the conversation's working directory.
	Dir string
}

// States of a server.
const (
	ServerStarting  = "starting"
	ServerConnected = "connected"
	ServerDegraded  = "degraded" // connected; not all that it offers is used, Detail says why
	ServerFailed    = "failed"   // tried again with growing pauses; Detail says why it failed
	ServerLogin     = "needs_login"
	ServerStopped   = "stopped"
)

// ServerStatus is what became of a server.
type ServerStatus struct {
	Name   string `json:"name"`
	From   string `json:"from,omitempty"`
	State  string `json:"state"`
	Tools  int    `json:"tools"`
	Detail string `json:"detail,omitempty"` // secrets masked by the engine
}

// ServerOptions are what the servers of a conversation need.
type ServerOptions struct {
	Owner        string
	Conversation string
	WorkingDir   string
	// Hands returns those of the conversation's sandbox; it may wait for them.
	Hands func(ctx context.Context) (Hands, error)
	// Secret returns the value of a secret of the conversation now. It is called at
	// each start of a server, only for the names that its configuration has in ${}.
	Secret func(name string) (string, bool)
	// Changed is called, on any goroutine and without blocking, when Tools or Status
	// may say something new.
	Changed func()
}

// ServerHost connects to MCP servers.
type ServerHost interface {
	// Open returns at once; the servers start in the background.
	Open(opt ServerOptions, servers []Server) ServerSession
	// Test connects to one server, lists its tools, calls one of them if asked to, and
	// disconnects. It returns when ctx ends at the latest.
	Test(ctx context.Context, opt ServerOptions, server Server, call *ServerCall) ServerReport
}

// ServerSession are the servers of one conversation.
type ServerSession interface {
	// Set replaces the servers. One that is the same, with the same values of its
	// secrets, stays connected; any other is started anew.
	Set(servers []Server)
	// Tools are what the connected servers offer now: a snapshot in an order that does
	// not depend on which server was first.
	Tools() []Tool
	// Status says how each server is, in the order of Set.
	Status() []ServerStatus
	// Settle waits until no server is starting for the first time, or ctx ends.
	Settle(ctx context.Context)
	// Close disconnects, ends what was started, and waits for it a moment.
	Close()
}

// ServerCall is a call for a test.
type ServerCall struct {
	Name      string
	Arguments map[string]any
}

// ServerReport is the result of a test.
type ServerReport struct {
	OK        bool
	Tools     []ServerTool
	Result    json.RawMessage // of the call, as the server gave it; nil = none
	Error     string          // what is wrong and what to do
	ErrorKind string          // "timeout", "connection", "unknown"
}

// ServerTool is a tool as a server describes it.
type ServerTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
}
