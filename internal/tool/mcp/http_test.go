package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"parley/internal/account"
	"parley/internal/tool"
	"parley/internal/tool/mcp"
	"parley/internal/tool/mcp/mcptest"
	login "parley/internal/tool/mcp/oauth"
)

// sdkServer is a well-behaved server.
func sdkServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "sdk", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "greet", Description: "Greets"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
		Name string `json:"name"`
	}) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "Hello " + in.Name}}}, nil, nil
	})
	s.AddResource(&sdk.Resource{URI: "file:///notes", Name: "notes", MIMEType: "text/plain"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "file:///notes", Text: "remember the milk"}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "review", Description: "Reviews code", Arguments: []*sdk.PromptArgument{{Name: "lang", Required: true}}},
		func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Review this " + req.Params.Arguments["lang"]}}}}, nil
		})
	return s
}

func streamable(t testing.TB, s *sdk.Server, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	h := http.Handler(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	if wrap != nil {
		h = wrap(h)
	}
	url := listen(t, h)
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
	})
	return url
}

// seen records what requests carry.
func seen(log *sync.Map) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			log.Store("last", r.Header.Clone())
			h.ServeHTTP(w, r)
		})
	}
}

func TestServersOnTheNetwork(t *testing.T) {
	sse := sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return sdkServer() }, nil)
	for name, server := range map[string]func(t *testing.T) tool.Server{
		"streamable HTTP": func(t *testing.T) tool.Server { return remote("r", streamable(t, sdkServer(), nil)) },
		"SSE":             func(t *testing.T) tool.Server { s := remote("r", listen(t, sse)); s.SSE = true; return s },
		"SSE at the address of HTTP": func(t *testing.T) tool.Server {
			return remote("r", listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && !r.URL.Query().Has("sessionid") {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				sse.ServeHTTP(w, r)
			})))
		},
		"without a handshake": func(t *testing.T) tool.Server {
			return remote("r", listen(t, (&mcptest.Server{Mode: mcptest.Modern, Tools: []string{"greet"}}).Handler()))
		},
		"by hand": func(t *testing.T) tool.Server {
			return remote("r", listen(t, (&mcptest.Server{Tools: []string{"greet"}}).Handler()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			s := b.open(server(t))
			b.wantStatus(s, tool.ServerConnected)
			for range 3 {
				if text := b.OK(find(t, s, "greet"), map[string]any{"name": "Ann"}, nil); !strings.Contains(text, "Ann") {
					t.Error(text)
				}
			}
		})
	}
}

func TestResourcesAndPrompts(t *testing.T) {
	b := newBench(t)
	s := b.open(remote("r", streamable(t, sdkServer(), nil)), remote("plain", listen(t, (&mcptest.Server{}).Handler())))
	for name, c := range map[string]struct {
		args map[string]any
		part string
	}{
		"mcp_list_resources": {nil, "MCP server r:\n- file:///notes | notes | text/plain"},
		"mcp_read_resource":  {map[string]any{"server": "r", "uri": "file:///notes"}, "remember the milk"},
		"mcp_list_prompts":   {map[string]any{"server": "r"}, "- review | Reviews code | arguments: lang (required)"},
		"mcp_get_prompt":     {map[string]any{"server": "r", "name": "review", "arguments": map[string]any{"lang": "Go"}}, "[user]\nReview this Go"},
	} {
		if text := b.OK(find(t, s, name), c.args, nil); !strings.Contains(text, c.part) {
			t.Errorf("%s: %q", name, text)
		}
	}
	b.Refused(find(t, s, "mcp_read_resource"), map[string]any{"server": "plain", "uri": "x"}, "Those that have: r")
	b.Refused(find(t, s, "mcp_read_resource"), map[string]any{"server": "r", "uri": "file:///none"}, "answers with an error")
	plain := b.open(remote("plain", listen(t, (&mcptest.Server{}).Handler())))
	for _, name := range names(plain) {
		if strings.HasPrefix(name, "mcp_") {
			t.Errorf("%s without anything to list", name)
		}
	}
}

func TestCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*account.MCPHTTPServer)
		want   map[string]string
	}{
		"bearer": {func(s *account.MCPHTTPServer) { s.APIKey = account.NewSecret("k") },
			map[string]string{"Authorization": "Bearer k", "S": "k", "X-Session-API-Key": "k"}},
		"api key": {func(s *account.MCPHTTPServer) {
			s.Auth = &account.MCPAuth{Strategy: account.MCPAuthAPIKey, Value: account.NewSecret("${KEY}")}
		}, map[string]string{"X-API-Key": "from the vault"}},
		"basic": {func(s *account.MCPHTTPServer) {
			s.Auth = &account.MCPAuth{Strategy: account.MCPAuthBasic, Username: "u", Value: account.NewSecret("p")}
		}, map[string]string{"Authorization": "Basic dTpw"}},
		"header": {func(s *account.MCPHTTPServer) {
			s.Auth = &account.MCPAuth{Strategy: account.MCPAuthHeader, Headers: map[string]account.Secret{"X-Token": account.NewSecret("v")}}
			s.Headers = map[string]account.Secret{"X-More": account.NewSecret("${NONE:-d}"), "Accept": account.NewSecret("text/html")}
		}, map[string]string{"X-Token": "v", "X-More": "d", "User-Agent": "parley/9"}},
	} {
		t.Run(name, func(t *testing.T) {
			var log sync.Map
			b := newBench(t, func(cfg *mcp.Config) { cfg.Version = "9" })
			b.secrets["KEY"] = "from the vault"
			server := remote("r", streamable(t, sdkServer(), seen(&log)))
			c.change(server.HTTP)
			b.OK(find(t, b.open(server), "greet"), map[string]any{"name": "x"}, nil)
			last, _ := log.Load("last")
			for name, want := range c.want {
				if got := last.(http.Header).Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if got := last.(http.Header).Get("X-OpenHands-ServerConversation-ID"); got != "c-1" {
				t.Errorf("conversation %q", got)
			}
		})
	}
}

func TestCredentialsStayWithTheirHost(t *testing.T) {
	var stolen atomic.Int64
	thief := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { stolen.Add(1) }))
	thief = strings.Replace(thief, "127.0.0.1", "localhost", 1)
	for name, h := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, thief, http.StatusTemporaryRedirect) },
		"endpoint": func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "event: endpoint\ndata: %s/steal\n\n", thief)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			server := remote("r", listen(t, h))
			server.HTTP.APIKey = account.NewSecret("k")
			server.SSE = name == "endpoint"
			b.wantStatus(b.open(server), tool.ServerFailed, "another host")
		})
	}
	if stolen.Load() != 0 {
		t.Error("credentials left their host")
	}
}

func TestServersOnTheNetworkThatDoNotStart(t *testing.T) {
	answer := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		h    http.Handler
		part string
	}{
		"a web page":    {answer(200, "text/html", "<html>hi"), "does not speak MCP"},
		"broken JSON":   {answer(200, "application/json", "{"), "does not speak MCP"},
		"unauthorized":  {answer(401, "text/plain", "who are you"), "HTTP 401 Unauthorized (who are you)"},
		"not found":     {answer(404, "text/plain", "nothing here"), "HTTP 404 Not Found (nothing here)"},
		"broken":        {answer(500, "text/plain", "oops"), "HTTP 500"},
		"hangs":         {(&mcptest.Server{Mode: mcptest.Hang}).Handler(), "did not answer in time"},
		"hangs later":   {(&mcptest.Server{Mode: mcptest.HangList}).Handler(), "did not answer in time"},
		"endless":       {http.HandlerFunc(endless), "more than 4 MiB"},
		"deeply nested": {answer(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":`+strings.Repeat("[", 1<<20)), "does not speak MCP"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(cfg *mcp.Config) {
				if strings.HasPrefix(name, "hangs") {
					cfg.ConnectTimeout = 200 * time.Millisecond
				}
			})
			b.wantStatus(b.open(remote("r", listen(t, c.h))), tool.ServerFailed, c.part)
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		b := newBench(t)
		b.wantStatus(b.open(remote("r", "http://127.0.0.1:1/?key=secret")), tool.ServerFailed, "cannot be reached", "refused")
	})
	t.Run("forbidden by the policy", func(t *testing.T) {
		b := newBench(t, func(cfg *mcp.Config) {
			cfg.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("policy") }
		})
		b.wantStatus(b.open(remote("r", "http://example.com")), tool.ServerFailed, "policy")
	})
	t.Run("a header that cannot be sent", func(t *testing.T) {
		b := newBench(t)
		server := remote("r", "http://example.com")
		server.HTTP.Headers = map[string]account.Secret{"X-A": account.NewSecret("a\r\nX-B: b")}
		b.wantStatus(b.open(server), tool.ServerFailed, `"X-A" cannot be sent`)
	})
	t.Run("WebSocket", func(t *testing.T) {
		b := newBench(t)
		b.wantStatus(b.open(remote("r", "wss://example.com")), tool.ServerFailed, "wss://", "http")
	})
}

func endless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for r.Context().Err() == nil {
		if _, err := w.Write(make([]byte, 1<<16)); err != nil {
			return
		}
	}
}

func TestManyToolsOnTheNetwork(t *testing.T) {
	b := newBench(t)
	s := b.open(remote("r", listen(t, (&mcptest.Server{Mode: mcptest.ManyTools}).Handler())))
	b.wantStatus(s, tool.ServerDegraded, "9878 tools more")
}

func TestConnectionBreaksInACall(t *testing.T) {
	server := &mcptest.Server{Mode: mcptest.Die}
	b := newBench(t)
	s := b.open(remote("r", listen(t, server.Handler())))
	b.Refused(find(t, s, "echo"), nil, `"r" ended while this ran; its outcome is unknown`)
	if n := server.Calls(); n != 1 {
		t.Errorf("the call was made %d times", n)
	}
	b.wantStatus(s, tool.ServerConnected)
}

func TestFloodInACall(t *testing.T) {
	b := newBench(t)
	s := b.open(remote("r", listen(t, (&mcptest.Server{Mode: mcptest.Flood}).Handler())))
	b.Refused(find(t, s, "echo"), nil, "its outcome is unknown", "floods")
	b.wantStatus(s, tool.ServerConnected)
}

func TestSlowCallOnTheNetwork(t *testing.T) {
	server := &mcptest.Server{}
	seconds := 1
	b := newBench(t)
	config := remote("r", listen(t, server.Handler()))
	config.HTTP.Timeout = &seconds
	s := b.open(config)
	b.Refused(find(t, s, "slow"), nil, "longer than 1s")
	until(t, "the server hears of it", func() bool { return server.Cancelled() > 0 })
	b.OK(find(t, s, "echo"), nil, nil)
}

func TestListChanges(t *testing.T) {
	server := sdkServer()
	b := newBench(t)
	var changes atomic.Int64
	b.opt.Changed = func() { changes.Add(1) }
	s := b.open(remote("r", streamable(t, server, nil)))
	before := changes.Load()
	server.AddTool(&sdk.Tool{Name: "later", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	until(t, "the new tool", func() bool { return strings.Contains(strings.Join(names(s), " "), "later") })
	if changes.Load() == before {
		t.Error("nobody was told")
	}
	if text := b.OK(find(t, s, "later"), nil, nil); !strings.Contains(text, "The answer is empty") {
		t.Error(text)
	}
}

// deletes counts what a server answers to DELETE.
func deletes(answers *sync.Map) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodDelete {
				h.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, r)
			w.WriteHeader(rec.Code)
			n, _ := answers.LoadOrStore(rec.Code, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		})
	}
}

func answered(answers *sync.Map, code int) int64 {
	if n, ok := answers.Load(code); ok {
		return n.(*atomic.Int64).Load()
	}
	return 0
}

func TestCloseEndsTheSessionAtTheServer(t *testing.T) {
	server := sdkServer()
	b := newBench(t)
	var answers sync.Map
	s := b.open(remote("r", streamable(t, server, deletes(&answers))))
	sessions := func() (n int) {
		for range server.Sessions() {
			n++
		}
		return n
	}
	if sessions() != 1 {
		t.Fatalf("%d sessions", sessions())
	}
	s.Close()
	until(t, "no session is left", func() bool { return sessions() == 0 })
	until(t, "its end is answered", func() bool { return answered(&answers, http.StatusNoContent) == 1 })
}

// TestHandshakesThatFailLeaveNoSession: the server opens the session and then never
// answers the request for its stream, so every attempt is given up.
func TestHandshakesThatFailLeaveNoSession(t *testing.T) {
	b := newBench(t, func(cfg *mcp.Config) { cfg.ConnectTimeout = 200 * time.Millisecond })
	var answers sync.Map
	s := b.open(remote("r", streamable(t, sdkServer(), func(h http.Handler) http.Handler {
		h = deletes(&answers)(h)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				<-r.Context().Done()
				return
			}
			h.ServeHTTP(w, r)
		})
	})))
	b.wantStatus(s, tool.ServerFailed, "in time")
	until(t, "three sessions ended", func() bool { return answered(&answers, http.StatusNoContent) >= 3 })
}

// oauth is a handler with or without a token.
type oauth struct {
	token  string
	asked  atomic.Int64
	logins atomic.Int64
}

func (o *oauth) TokenSource(context.Context) (oauth2.TokenSource, error) {
	o.asked.Add(1)
	if o.token == "" {
		return nil, nil
	}
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: o.token}), nil
}

func (o *oauth) Authorize(context.Context, *http.Request, *http.Response) error {
	o.logins.Add(1)
	return fmt.Errorf("nobody is logged in: %w", login.ErrLogin)
}

func TestLogin(t *testing.T) {
	guarded := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer good" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	h := &oauth{}
	b := newBench(t, func(cfg *mcp.Config) {
		cfg.OAuth = func(owner string, s *account.MCPHTTPServer) (auth.OAuthHandler, error) {
			if owner != "u" || s.Auth == nil {
				t.Errorf("owner %q", owner)
			}
			return h, nil
		}
	})
	config := remote("r", streamable(t, sdkServer(), guarded))
	config.HTTP.Auth = &account.MCPAuth{Strategy: account.MCPAuthOAuth}
	var changes atomic.Int64
	b.opt.Changed = func() { changes.Add(1) }
	s := b.open(config, remote("gone", "http://127.0.0.1:1"))
	b.wantStatus(s, tool.ServerLogin, "log in")
	until(t, "another server was tried ten times", func() bool { return changes.Load() > 12 })
	if n := h.logins.Load(); n != 1 {
		t.Errorf("%d attempts", n)
	}
	h.token = "good"
	s.Set([]tool.Server{config})
	b.wantStatus(s, tool.ServerConnected)
	b.OK(find(t, s, "greet"), map[string]any{"name": "x"}, nil)

	nobody := newBench(t)
	nobody.wantStatus(nobody.open(config), tool.ServerLogin, "log in")
}
