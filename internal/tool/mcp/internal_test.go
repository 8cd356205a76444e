package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
)

func TestExpand(t *testing.T) {
	l := lookup(func(name string) (string, bool) {
		return "<" + name + ">", name != "NONE"
	})
	for in, want := range map[string]string{
		"plain": "plain", "${A}": "<A>", "a${A}b${B_2}": "a<A>b<B_2>", "${A:-x}": "<A>", "${NONE:-x y}": "x y", "${NONE:-}": "",
		"$A": "$A", "${A": "${A", "${1}": "${1}", "$$": "$$",
	} {
		if got, err := l.expand(in); err != nil || got != want {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
	if got, err := l.expandArg("$A/$NONE/${B}"); err != nil || got != "<A>/$NONE/<B>" {
		t.Errorf("%q %v", got, err)
	}
	for _, in := range []string{"${NONE}", "x${NONE}${A}"} {
		if got, err := l.expand(in); !fault.Is(err, fault.NotFound) || !strings.Contains(fault.PublicText(err), `"NONE"`) || got != "" {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
	if _, err := lookup(nil).expand("${A}"); err == nil {
		t.Error("no secrets at all")
	}
	// What a secret holds is not looked at again.
	l = func(name string) (string, bool) { return "${B}", name == "A" }
	if got, err := l.expand("${A}"); err != nil || got != "${B}" {
		t.Errorf("%q %v", got, err)
	}
}

// modelName is what models may call a tool.
var modelName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// TestNames: every tool gets a name of its own that models can write, whatever the order.
func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "a_b", "b_c", "terminal", "browser_x", "a.b", "mcp_a_b"}), rapid.StringN(1, 80, 200))
		server := rapid.SampledFrom([]string{"a", "b", "browser", "a_b", "mcp"})
		tools := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) owned { return owned{server.Draw(t, "server"), name.Draw(t, "tool")} }), 0, 40, rapid.ID[owned]).Draw(t, "tools")
		reserved := []string{"terminal", "browser_*"}
		names := nameTools(tools, reserved)
		seen := map[string]bool{}
		for _, o := range tools {
			n := names[o]
			if !modelName.MatchString(n) || seen[n] || isReserved(n, reserved) {
				t.Fatalf("%v is called %q", o, n)
			}
			seen[n] = true
		}
		mixed := rapid.Permutation(tools).Draw(t, "order")
		for o, n := range nameTools(mixed, reserved) {
			if names[o] != n {
				t.Fatalf("%v is called %q or %q", o, names[o], n)
			}
		}
	})
	if names := nameTools([]owned{{"a", "x"}}, []string{"*"}); len(names) != 1 {
		t.Error("everything is reserved")
	}
}

func TestReadLine(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader("one\n"+`{"id":7,"result":"`+strings.Repeat("x", 5000)+"\"}\n"+strings.Repeat("y", 2000)+`,"jsonrpc":"2.0","id":8}`+"\n\nlast"), 16)
	for i, want := range []struct {
		tooLong bool
		id      int64
		err     error
	}{{}, {tooLong: true, id: 7}, {tooLong: true, id: 8}, {}, {err: io.EOF}} {
		line, tooLong, err := readLine(in, 1000)
		if tooLong != want.tooLong || !errors.Is(err, want.err) || len(line) > 1100 {
			t.Errorf("%d: %d bytes %v %v", i, len(line), tooLong, err)
		}
		if id, ok := answered(line); ok != (want.id > 0) || ok && id.Raw() != want.id {
			t.Errorf("%d answers %v", i, id)
		}
	}
}

func TestBucket(t *testing.T) {
	b, now := bucket{rate: 2, most: 3}, time.Now()
	var got []bool
	for range 4 {
		got = append(got, b.take(now))
	}
	got = append(got, b.take(now.Add(500*time.Millisecond)), b.take(now.Add(500*time.Millisecond)), b.take(now.Add(time.Hour)))
	if !slices.Equal(got, []bool{true, true, true, false, true, false, true}) {
		t.Error(got)
	}
}

func TestOwns(t *testing.T) {
	to, err := resolve(remoteAt("http://a.example/mcp"), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]bool{"http://a.example/x": true, "https://a.example/x": true, "http://b.example/": false,
		"http://a.example:81/": false, "https://a.example:444/": false, "http://a.example.b/": false} {
		other, err := resolve(remoteAt(raw), nil, "")
		if err != nil || to.owns(other.url) != want {
			t.Errorf("%s: %v", raw, err)
		}
	}
	to, err = resolve(remoteAt("https://a.example/mcp"), nil, "c\r\nX: y")
	if err != nil || to.header.Get(conversationHeader) != "cX: y" {
		t.Errorf("%v %v", to, err)
	}
	plain, err := resolve(remoteAt("http://a.example/mcp"), nil, "")
	if err != nil || to.owns(plain.url) {
		t.Error("credentials over a connection that is not encrypted")
	}
}

// still is a program that says nothing.
type still struct{ io.Reader }

func (still) Write(p []byte) (int, error) { return len(p), nil }
func (still) Close() error                { return nil }
func (still) CloseWrite() error           { return nil }
func (still) Stderr() string              { return "" }
func (still) ExitCode() int               { return 0 }
func (still) Done() <-chan struct{}       { c := make(chan struct{}); close(c); return c }

// FuzzStdio: whatever a program prints, reading ends, and what comes out are messages.
func FuzzStdio(f *testing.F) {
	f.Add([]byte("hello\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n" + `[{"jsonrpc":"2.0","id":"x","method":"ping"}]`))
	f.Fuzz(func(t *testing.T, out []byte) {
		s := newStdio(still{bytes.NewReader(out)}, func() {})
		defer func() { _ = s.Close(); <-s.ended }()
		for {
			msg, err := s.Read(context.Background())
			if err != nil {
				break
			}
			if _, err := jsonrpc.EncodeMessage(msg); err != nil {
				t.Fatal(err)
			}
		}
		_ = s.trace()
	})
}

// FuzzOffer: whatever a server says of a tool, it is left out or can be offered.
func FuzzOffer(f *testing.F) {
	f.Add([]byte(`{"name":"a","description":"b","inputSchema":{"type":"object","properties":{"x":{"type":"string"}}},"annotations":{"title":"t"}}`))
	f.Add([]byte(`{"name":"\u0000","inputSchema":null,"_meta":{"a":[1e999]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var d sdk.Tool
		if json.Unmarshal(raw, &d) != nil {
			return
		}
		o, problem := newOffer(&d)
		if problem != "" {
			return
		}
		v := newServer(newSession(New(Config{}), tool.ServerOptions{}), tool.Server{Name: "x"}, "")
		spec := newTool(v, o, repair(o.name)).Spec()
		if !json.Valid(spec.Definition()) || !json.Valid(spec.Parameters) || !modelName.MatchString(spec.Name) || len(spec.Description) > maxDescription+100 {
			t.Fatalf("%s becomes %s", raw, spec.Definition())
		}
	})
}

// FuzzResult: whatever a call answers, a model gets something that is bounded.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"a"},{"type":"image","data":"aGVsbG8=","mimeType":"image/png"}],"structuredContent":{"a":1},"isError":true}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var result sdk.CallToolResult
		if json.Unmarshal(raw, &result) != nil {
			return
		}
		r := render(&result, func(text string) string { return text })
		if len(r.parts) == 0 || len(content.JoinText(r.parts)) > maxText+1000 {
			t.Fatalf("%s: %d parts", raw, len(r.parts))
		}
	})
}

// FuzzExpand: expanding ends, and leaves no name behind that it knows.
func FuzzExpand(f *testing.F) {
	f.Add("a${A}b${B:-c}$A")
	f.Fuzz(func(t *testing.T, text string) {
		l := lookup(func(string) (string, bool) { return "", true })
		for _, expand := range []func(string) (string, error){l.expand, l.expandArg} {
			if got, err := expand(text); err != nil || len(got) > len(text) {
				t.Fatalf("%q %v", got, err)
			}
		}
	})
}

func remoteAt(url string) *account.MCPHTTPServer { return &account.MCPHTTPServer{URL: url} }

// TestGuardEndsTheSession: the DELETE comes when everything else of the connection has
// ended, and has a moment of its own.
func TestGuardEndsTheSession(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	to, err := resolve(&account.MCPHTTPServer{URL: server.URL}, nil, "c")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cfg := Config{}.withDefaults()
	g := newGuard(ctx, func(error) {}, to, nil, &cfg)
	defer g.base.CloseIdleConnections()
	do := func(method, path string) (code int, err error) {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := g.client().Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if _, err := do(http.MethodPost, "/"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if code, err := do(http.MethodGet, "/hangs"); err != nil || code != http.StatusMethodNotAllowed {
		t.Errorf("%d, %v", code, err)
	}
	for range 20 {
		if code, err := do(http.MethodDelete, "/"); err != nil || code != http.StatusNoContent {
			t.Fatalf("%d, %v", code, err)
		}
	}
	if _, err := do(http.MethodDelete, "/hangs"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
