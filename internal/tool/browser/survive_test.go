package browser_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/internal/tool"
	"parley/internal/tool/browser"
)

// impatient are times for tests that run into them.
var impatient = browser.Times{Step: 2 * time.Second, Commit: 2 * time.Second, Load: time.Second}

func (b *bench) setTimes(times browser.Times) {
	b.Helper()
	b.times = times
	b.restart()
}

// processes are those of the conversation's browser whose command line has all parts.
func (b *bench) processes(parts ...string) []int {
	b.Helper()
	parts = append(parts, b.Env.StateDir()+"/")
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.Fatal(err)
	}
	var found []int
next:
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err != nil || len(line) == 0 {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(string(line), part) {
				continue next
			}
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		found = append(found, pid)
	}
	return found
}

// main is the browser's first process.
func (b *bench) main() int {
	b.Helper()
	for _, pid := range b.processes("--remote-debugging-port=0") {
		if line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); !strings.Contains(string(line), "--type=") {
			return pid
		}
	}
	b.Fatal("no browser runs")
	return 0
}

func (b *bench) signal(sig syscall.Signal, pids ...int) {
	b.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			b.Fatal(err)
		}
	}
}

// stuck serves what never ends: an answer that does not come, or an image that does
// not, and tells when somebody asks for it.
func (b *bench) stuck(path string) <-chan struct{} {
	asked := make(chan struct{}, 100)
	b.mux.HandleFunc("GET "+path, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	return asked
}

func TestPageThatNeverEnds(t *testing.T) {
	b := newBench(t)
	b.setTimes(impatient)
	b.stuck("/never")
	text := b.show(`<title>Half</title><p>there</p><img src="/never">`)
	b.has(text, "Half", "still loading")
	b.has(b.state(), "there")
	b.refused("navigate", args{"url": b.server.URL + "/never"}, "did not answer within 2s")
	b.has(b.state(), "there") // the page before
	b.has(b.show(`<title>Next</title>`), "Next")
}

func TestEndlessScript(t *testing.T) {
	b := newBench(t)
	b.setTimes(impatient)
	b.show(`<title>Loop</title><button onclick="for (;;) {}">Spin</button><p>text</p>`)
	n := b.index("Spin")
	b.ok("click", args{"index": n})
	b.refused("get_state", args{}, "keep the page busy", "stopped")
	b.has(b.state(), "text") // the loop was stopped
	b.ok("click", args{"index": n})
	b.has(b.show(`<title>Away</title>`), "Away")
}

func TestCrashedPage(t *testing.T) {
	b := newBench(t)
	b.setTimes(impatient)
	b.show(`<title>Doomed</title>`)
	b.signal(syscall.SIGKILL, b.processes("--type=renderer")...)
	b.hears("", "crashed")
	b.refused("get_state", args{}, "crashed", "Navigate")
	b.has(b.show(`<title>Again</title>`), "Again")
	if list := b.ok("list_tabs", args{}); strings.Count(list, "\n") > 0 {
		t.Errorf("the tabs are %s", list)
	}
	// In the middle of a call.
	b.page("/crash", `<title>Loop</title><script>for (;;) {}</script>`)
	done := b.begin(context.Background(), "navigate", args{"url": b.server.URL + "/crash"})
	for len(b.processes("--type=renderer")) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	b.signal(syscall.SIGKILL, b.processes("--type=renderer")...)
	if err := <-done; err == nil || !strings.Contains(err.Error(), "it ended") {
		t.Errorf("the navigation: %v", err)
	}
	b.has(b.show(`<title>Third</title>`), "Third")
}

func TestInterrupt(t *testing.T) {
	b := newBench(t)
	asked := b.stuck("/never")
	b.show(`<title>Before</title>`)
	for _, cause := range []error{errors.New("stopped by the user"), tool.ErrDetach} {
		ctx, cancel := context.WithCancelCause(context.Background())
		done := b.begin(ctx, "navigate", args{"url": b.server.URL + "/never"})
		<-asked
		begun := time.Now()
		cancel(cause)
		if err := <-done; !errors.Is(err, cause) {
			t.Errorf("the call ended with %v, want %v", err, cause)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("it took %v", took)
		}
	}
	b.has(b.show(`<title>After</title>`), "After")
	// One that waits for another call.
	ctx, cancel := context.WithCancel(context.Background())
	first := b.begin(ctx, "navigate", args{"url": b.server.URL + "/never"})
	<-asked
	waiting, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	if err := <-b.begin(waiting, "list_tabs", args{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the waiting call: %v", err)
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the first call: %v", err)
	}
}

// A browser belongs to the sandbox: another server finds it as it was.
func TestSurvivesTheServer(t *testing.T) {
	b := newBench(t)
	b.show(`<title>Kept</title><button>Here</button>`)
	b.ok("navigate", args{"url": b.page("/second", "<title>Second</title>"), "new_tab": true})
	pid, old := b.main(), b.browsers
	b.restart()
	b.has(b.state(), "Second", "Kept")
	if b.main() != pid {
		t.Error("the browser was started anew")
	}
	b.refused("click", args{"index": 0}, "no element") // numbers are not carried over
	tl := old.Tools()[0]
	action, err := tl.Parse([]byte(`{"url":"x.org"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tl.Run(context.Background(), b.Env, action); !errors.Is(err, tool.ErrDetach) {
		t.Errorf("a closed set runs: %v", err)
	}
}

func TestStartsAgainAfterItsEnd(t *testing.T) {
	b := newBench(t)
	b.mux.HandleFunc("GET /set", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "login", Value: "kept", MaxAge: 1000})
	})
	b.ok("navigate", args{"url": b.server.URL + "/set"})
	b.signal(syscall.SIGKILL, b.main())
	for len(b.processes("--type=renderer")) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	next := args{"url": b.page("/new", `<title>New</title>`)}
	text, isError := b.Call(b.tools["navigate"], next, nil)
	if isError { // the end was not seen yet
		b.has(text, "The browser ended", "starts it again")
		text = b.ok("navigate", next)
	}
	b.has(text, "New", "was started again")
	b.signal(syscall.SIGKILL, b.main())
	b.restart()
	b.has(b.show(`<title>Newer</title>`), "Newer")
}

// A browser that does not answer is ended after three failures.
func TestEndsAfterFailures(t *testing.T) {
	b := newBench(t)
	b.setTimes(browser.Times{Step: 300 * time.Millisecond})
	b.show(`<title>Frozen</title>`)
	pid := b.main()
	b.signal(syscall.SIGSTOP, pid)
	for i := range 3 {
		parts := []string{"did not respond"}
		if i == 2 {
			parts = append(parts, "number 3 in a row")
		}
		b.refused("list_tabs", args{}, parts...)
	}
	if syscall.Kill(pid, 0) == nil && processState(pid) != "Z" {
		t.Error("the browser still runs")
	}
	b.setTimes(browser.Times{})
	b.has(b.show(`<title>Thawed</title>`), "Thawed")
}

func processState(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "Z"
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[0]
}

// A page that opens tabs without end gets as many as are allowed.
func TestManyTabs(t *testing.T) {
	b := newBench(t)
	b.show(`<title>Bomb</title>`)
	for range 40 {
		text, isError := b.Call(b.tools["navigate"], args{"url": "about:blank", "new_tab": true}, nil)
		if isError {
			b.has(text, "which is the limit", "browser_close_tab")
			return
		}
	}
	t.Error("there is no limit")
}

// otherHands is a sandbox in which the search for browsers finds something else.
type otherHands struct {
	tool.Hands
	programs []string
}

func (h otherHands) Exec(ctx context.Context, req tool.ExecRequest) (tool.ExecResult, error) {
	req.Argv = append(req.Argv[:4:4], h.programs...)
	req.Env = map[string]string{"HOME": "/nonexistent", "CHROME_BIN": "", "CHROME_PATH": ""}
	return h.Hands.Exec(ctx, req)
}

func TestWithoutBrowser(t *testing.T) {
	b := bare(t)
	hands := b.Env.Hands
	b.Env.Hands = otherHands{Hands: hands}
	for name, in := range map[string]args{"navigate": {"url": "example.com"}, "get_state": {}, "click": {"index": 1}, "list_tabs": {}, "start_recording": {}} {
		b.refused(name, in, "no Chromium in the sandbox", "apt-get install -y chromium", "npx playwright install")
	}
	broken := b.Write("broken", "#!/bin/sh\necho error while loading shared libraries: libnss3.so >&2\nexit 127\n")
	if err := os.Chmod(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	b.Env.Hands = otherHands{hands, []string{broken}}
	b.refused("get_state", args{}, "does not start (exit code 127)", "libnss3.so", "install-deps")
	silent := b.Write("silent", "#!/bin/sh\nsleep 1000\n")
	if err := os.Chmod(silent, 0o755); err != nil {
		t.Fatal(err)
	}
	b.setTimes(browser.Times{Init: 200 * time.Millisecond})
	b.Env.Hands = otherHands{hands, []string{silent}}
	b.refused("get_state", args{}, "did not start within")
	b.refused("get_state", args{}, "did not start within") // and is started anew
}

func TestInstalled(t *testing.T) {
	for _, c := range []struct {
		has  string
		want bool
	}{{"chromium", true}, {"/opt/google/chrome/chrome", true}, {"firefox", false}} {
		look := func(name string) (string, error) {
			if name == c.has {
				return "/usr/bin/" + name, nil
			}
			return "", os.ErrNotExist
		}
		if got := browser.Installed(look); got != c.want {
			t.Errorf("%s: %v", c.has, got)
		}
	}
}

// The search prefers programs, and finds the newest download.
func TestFindsDownloads(t *testing.T) {
	b := bare(t)
	for _, dir := range []string{"chromium-999", "chromium-1217"} {
		path := b.Write("cache/"+dir+"/chrome-linux/chrome", "#!/bin/sh\necho 'DevTools: '$0\nexit 3\n")
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b.Env.Hands = cacheHands{otherHands{Hands: b.Env.Hands}, b.Path("cache")}
	b.refused("get_state", args{}, "chromium-999/chrome-linux/chrome does not start (exit code 3)")
}

// cacheHands is a sandbox with browsers that were downloaded.
type cacheHands struct {
	otherHands
	cache string
}

func (h cacheHands) Exec(ctx context.Context, req tool.ExecRequest) (tool.ExecResult, error) {
	req.Argv = []string{req.Argv[0], "-c", "PLAYWRIGHT_BROWSERS_PATH='" + h.cache + "'\n" + req.Argv[2], "sh"}
	return h.otherHands.Exec(ctx, req)
}
