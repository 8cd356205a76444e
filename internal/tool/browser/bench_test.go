package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/internal/content"
	"parley/internal/tool"
	"parley/internal/tool/browser"
	"parley/internal/tool/tooltest"
)

// bench is a sandbox with a browser in it, and pages.
type bench struct {
	*tooltest.Box
	browsers *browser.Browsers
	tools    map[string]tool.Tool
	times    browser.Times
	mux      *http.ServeMux
	server   *httptest.Server
}

// needChromium skips a test where there is nothing to test with.
func needChromium(t testing.TB) {
	t.Helper()
	if !browser.Installed(exec.LookPath) {
		t.Skip("no Chromium: install it (apt-get install chromium) to run this test")
	}
	if testing.Short() {
		t.Skip("short: the browser is not started")
	}
}

func newBench(t testing.TB) *bench {
	t.Helper()
	needChromium(t)
	return bare(t)
}

func bare(t testing.TB) *bench {
	t.Helper()
	b := &bench{Box: tooltest.New(t), mux: http.NewServeMux()}
	b.server = httptest.NewServer(b.mux)
	t.Cleanup(func() {
		b.server.CloseClientConnections() // the browser goes on until its sandbox ends
		b.server.Close()
	})
	b.restart()
	return b
}

// restart is a server that ended and started again.
func (b *bench) restart() {
	b.Helper()
	if b.browsers != nil {
		b.browsers.Close()
	}
	b.browsers = browser.New(b.times)
	b.Cleanup(b.browsers.Close)
	b.tools = map[string]tool.Tool{}
	for _, tl := range b.browsers.Tools() {
		b.tools[strings.TrimPrefix(tl.Spec().Name, "browser_")] = tl
	}
}

// inBox is a bench on a sandbox of another kind.
func inBox(t testing.TB, browsers *browser.Browsers, env *tool.Env) *bench {
	b := &bench{Box: &tooltest.Box{TB: t, Env: env}, browsers: browsers, tools: map[string]tool.Tool{}}
	for _, tl := range browsers.Tools() {
		b.tools[strings.TrimPrefix(tl.Spec().Name, "browser_")] = tl
	}
	return b
}

// hears waits until what the calls say has a part in it. said is what they said so far.
func (b *bench) hears(said, part string) {
	b.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(said, part); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%q never came:\n%s", part, said[:min(len(said), 3000)])
		}
		said = b.ok("list_tabs", args{})
	}
}

// page serves a page and returns its address.
func (b *bench) page(path, body string) string {
	b.Helper()
	b.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(body))
	})
	return b.server.URL + path
}

type args = map[string]any

// ok runs a tool that must succeed.
func (b *bench) ok(name string, in args) string {
	b.Helper()
	return b.OK(b.tools[name], in, nil)
}

// refused runs a tool that must fail with a text that has all parts in it.
func (b *bench) refused(name string, in args, parts ...string) {
	b.Helper()
	b.Refused(b.tools[name], in, parts...)
}

// show serves a page and opens it.
func (b *bench) show(body string) string {
	b.Helper()
	path := fmt.Sprintf("/p%d", time.Now().UnixNano())
	return b.ok("navigate", args{"url": b.page(path, body)})
}

func (b *bench) state() string {
	b.Helper()
	return b.ok("get_state", args{})
}

// index finds the number of the element whose line in the state has a text.
func (b *bench) index(text string) int {
	b.Helper()
	state := b.state()
	m := regexp.MustCompile(`(?m)^\[(\d+)\] .*` + regexp.QuoteMeta(text)).FindStringSubmatch(state)
	if m == nil {
		b.Fatalf("%q is not in\n%s", text, state)
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

func (b *bench) click(text string) string {
	b.Helper()
	return b.ok("click", args{"index": b.index(text)})
}

// has checks that a text has all parts in it.
func (b *bench) has(text string, parts ...string) {
	b.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			b.Errorf("%q is missing in\n%s", part, text)
		}
	}
}

// begin runs a tool beside the test.
func (b *bench) begin(ctx context.Context, name string, in args) <-chan error {
	b.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		b.Fatal(err)
	}
	action, err := b.tools[name].Parse(raw)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		result, err := b.tools[name].Run(ctx, b.Env, action)
		if err == nil {
			err = fmt.Errorf("it ended: %s", content.JoinText(result.Parts))
		}
		done <- err
	}()
	return done
}
