package browser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"parley/internal/fault"
	"parley/internal/lazyre"
	"parley/internal/tool"
	"parley/internal/tool/browser/cdp"
)

const (
	maxOutput   = 64 << 10 // of a starting browser that is looked at, in bytes
	viewWidth   = 1280
	viewHeight  = 800
	maxFailures = 3 // in a row, after which a browser is started anew
)

// switches are the browser's arguments. Pages of different sites share a process, so
// that all frames of a page can be read through one session.
var switches = []string{
	"--headless=new", "--remote-debugging-port=0", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
	"--no-first-run", "--no-default-browser-check", "--noerrdialogs", "--test-type", "--mute-audio",
	"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-breakpad",
	"--disable-client-side-phishing-detection", "--metrics-recording-only", "--password-store=basic", "--use-mock-keychain",
	"--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
	"--disable-hang-monitor", "--disable-prompt-on-repost", "--deny-permission-prompts", "--hide-crash-restore-bubble",

	"--disable-site-isolation-trials",
	"--disable-features=IsolateOrigins,site-per-process,IsolateSandboxedIframes,Translate,MediaRouter,OptimizationHints,HttpsUpgrades,DialMediaRouteProvider",
	"--enable-blink-features=ComputedAccessibilityInfo",
	fmt.Sprintf("--window-size=%d,%d", viewWidth, viewHeight),
}

// browser is a conversation's browser.
type browser struct {
	times    Times
	lock     chan struct{} // held during a call
	id       string        // of its terminal
	env      *tool.Env     // of the call
	hands    tool.Hands    // the connection's
	conn     *cdp.Conn     // nil = not connected
	tabs     *tabs         // of the connection
	failures int           // in a row
	starts   int           // of the browser, by us
	next     int           // number of the next element
	owners   map[int]place // of numbered elements
}

// place is where a numbered element is.
type place struct{ target, frame string }

func newBrowser(env *tool.Env, times Times) *browser {
	return &browser{times: times, lock: make(chan struct{}, 1), id: "b-" + env.Label(), env: env, owners: map[int]place{}}
}

// errNoBrowser: there is none in the sandbox.
var errNoBrowser = tool.Wrong("%s", missing)

func (b *browser) dir() string { return path.Join(b.env.StateDir(), "browser") }

func (b *browser) profile() string { return path.Join(b.dir(), "profile") }

// leave ends the connection, when the running call is over.
func (b *browser) leave() {
	b.lock <- struct{}{}
	defer func() { <-b.lock }()
	b.disconnect()
}

// disconnect forgets what was known of the browser.
func (b *browser) disconnect() {
	if b.conn == nil {
		return
	}
	b.conn.Close()
	b.conn, b.tabs = nil, nil
	clear(b.owners)
}

// kill ends the browser, with all its processes.
func (b *browser) kill(ctx context.Context) error {
	b.disconnect()
	b.failures = 0
	return b.env.Hands.CloseTerminal(ctx, b.id)
}

// connect makes sure that there is a browser and a connection to it. fresh says that
// the browser was started just now.
func (b *browser) connect(ctx context.Context) (fresh bool, err error) {
	if b.conn != nil && b.hands == b.env.Hands {
		select {
		case <-b.conn.Done():
		default:
			return false, nil
		}
	}
	b.disconnect()
	ctx, cancel := within(ctx, b.times.Init, "The browser did not start")
	defer cancel()
	if found, err := b.adopt(ctx); found || err != nil {
		return false, err
	}
	paths, err := candidates(ctx, b.env.Hands)
	if err != nil {
		return false, err
	}
	err = errNoBrowser
	for _, program := range paths {
		if err = b.start(ctx, program); err == nil || ctx.Err() != nil {
			return true, err
		}
	}
	return false, err
}

// adopt connects to a browser that runs already. One that cannot be reached is killed.
func (b *browser) adopt(ctx context.Context) (found bool, err error) {
	out, err := b.env.Hands.ReadTerminal(ctx, b.id, tool.TerminalRead{Max: 1})
	if isGone(err) || err == nil && out.Exited {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	port, endpoint, ok := 0, "", false
	if data, err := b.env.Hands.ReadFile(ctx, path.Join(b.profile(), "DevToolsActivePort"), 4096); err == nil {
		port, endpoint, ok = parsePortFile(string(data))
	}
	if ok && b.dial(ctx, port, endpoint) == nil {
		return true, nil
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return false, b.env.Hands.CloseTerminal(ctx, b.id)
}

// start starts a program and connects to it.
func (b *browser) start(ctx context.Context, program string) error {
	// What a killed browser leaves: a lock that speaks of a process of another life.
	for _, name := range []string{"DevToolsActivePort", "SingletonLock", "SingletonSocket", "SingletonCookie"} {
		if err := b.env.Hands.Remove(ctx, path.Join(b.profile(), name)); err != nil && !isGone(err) {
			return err
		}
	}
	argv := append([]string{program}, switches...)
	argv = append(argv, "--user-data-dir="+b.profile(), "about:blank")
	if _, err := b.env.Hands.OpenTerminal(ctx, tool.TerminalRequest{ID: b.id, Argv: argv, Dir: "/", Rows: 24, Cols: 500}); err != nil {
		return err
	}
	port, endpoint, err := b.listening(ctx, program)
	if err == nil {
		err = b.dial(ctx, port, endpoint)
	}
	if err != nil { // an interrupted start is taken up by the next call, if it comes to be
		if ctx.Err() == nil {
			err = errors.Join(err, b.env.Hands.CloseTerminal(ctx, b.id))
		}
		return err
	}
	return nil
}

// listening waits until a starting browser says where it can be reached.
func (b *browser) listening(ctx context.Context, program string) (port int, endpoint string, err error) {
	var output []byte
	for {
		out, err := b.env.Hands.ReadTerminal(ctx, b.id, tool.TerminalRead{Offset: int64(len(output)), Wait: b.times.Init, Max: maxOutput})
		if err != nil {
			return 0, "", err
		}
		output = append(output, out.Data...)
		if port, endpoint, ok := parseAnnouncement(string(output)); ok {
			return port, endpoint, nil
		}
		if out.Exited && len(out.Data) == 0 || len(output) > maxOutput {
			text := strings.TrimSpace(string(output[max(0, len(output)-2000):]))
			return 0, "", startFailed(program, text, out.Code)
		}
	}
}

func startFailed(program, output string, code int) error {
	text := fmt.Sprintf("The browser %s does not start (exit code %d).", program, code)
	if output != "" {
		text += " It said:\n" + strings.ToValidUTF8(output, "\ufffd")
	}
	if strings.Contains(output, "shared libraries") {
		text += "\nIt lacks system libraries: `apt-get install -y chromium` or `npx playwright install-deps chromium` brings them."
	}
	return tool.Wrong("%s", text)
}

// announced is the line that a browser prints when it is ready.
var announced = lazyre.MustCompile(`DevTools listening on ws://[^\s/]+:(\d{1,5})(/devtools/browser/[0-9A-Za-z-]{1,100})\s`)

func parseAnnouncement(output string) (port int, endpoint string, ok bool) {
	m := announced.FindStringSubmatch(output)
	if m == nil {
		return 0, "", false
	}
	return parsePortFile(m[1] + "\n" + m[2])
}

// parsePortFile reads the file that says where a running browser can be reached: the
// port, then the path.
func parsePortFile(data string) (port int, endpoint string, ok bool) {
	first, rest, _ := strings.Cut(strings.TrimSpace(data), "\n")
	n, err := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
	endpoint = strings.TrimSpace(rest)
	if err != nil || n == 0 || !endpointForm.MatchString(endpoint) {
		return 0, "", false
	}
	return int(n), endpoint, true
}

var endpointForm = lazyre.MustCompile(`^/devtools/browser/[0-9A-Za-z-]{1,100}$`)

// dial connects and learns which pages there are.
func (b *browser) dial(ctx context.Context, port int, endpoint string) error {
	hands := b.env.Hands
	tabs := newTabs()
	conn, err := cdp.Dial(ctx, func(ctx context.Context) (net.Conn, error) { return hands.DialPort(ctx, port) }, port, endpoint,
		func(conn *cdp.Conn, e cdp.Event) { tabs.handle(conn, e) })
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fault.Wrap(err, fault.Unavailable, "browser_unreachable", "The browser cannot be reached.")
	}
	b.conn, b.tabs, b.hands = conn, tabs, hands
	if err := b.setUp(ctx); err != nil {
		b.disconnect()
		return err
	}
	return nil
}

// setUp attaches to all pages, those to come included, and chooses one.
func (b *browser) setUp(ctx context.Context) error {
	pages := []map[string]any{{"type": "page"}}
	for _, step := range []struct {
		method string
		params map[string]any
	}{
		{"Target.setDiscoverTargets", map[string]any{"discover": true, "filter": pages}},
		{"Target.setAutoAttach", map[string]any{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": pages}},
		{"Browser.setDownloadBehavior", map[string]any{"behavior": "allow", "downloadPath": b.downloadDir(), "eventsEnabled": true}},
	} {
		if err := b.command(ctx, step.method, step.params, nil); err != nil {
			return err
		}
	}
	return b.chooseTab(ctx)
}

// chooseTab makes the tab active that is in front, and opens one if there is none.
func (b *browser) chooseTab(ctx context.Context) error {
	all, _ := b.tabs.snapshot()
	for _, x := range all {
		var page about
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		err := b.eval(ctx, x, "about", nil, &page)
		cancel()
		if err == nil && page.Visible {
			b.tabs.update(func() { b.tabs.active = x.target })
			return nil
		}
	}
	if len(all) > 0 {
		return b.show(ctx, all[0])
	}
	_, err := b.open(ctx)
	return err
}

// show brings a tab to the front and makes it the active one.
func (b *browser) show(ctx context.Context, x tab) error {
	b.tabs.update(func() { b.tabs.active = x.target })
	return b.command(ctx, "Target.activateTarget", map[string]any{"targetId": x.target}, nil)
}

// open opens an empty tab and makes it the active one.
func (b *browser) open(ctx context.Context) (tab, error) {
	ctx, cancel := within(ctx, b.times.Step, "The browser did not open a tab")
	defer cancel()
	var made struct {
		Target string `json:"targetId"`
	}
	if err := b.command(ctx, "Target.createTarget", map[string]any{"url": "about:blank"}, &made); err != nil {
		return tab{}, err
	}
	err := b.tabs.wait(ctx, func() bool { return b.tabs.byTargetLocked(made.Target) != nil })
	if err != nil {
		return tab{}, err
	}
	all, _ := b.tabs.snapshot()
	for _, x := range all {
		if x.target == made.Target {
			return x, b.show(ctx, x)
		}
	}
	return tab{}, cdp.ErrDetached
}
