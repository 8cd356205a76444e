// Command bench measures the figures of docs/benchmarks.md: it builds the binary,
// runs it on loopback with real local sandboxes, and prints a table of medians
// with the machine's description. Everything is compared within one run.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// row is one line of the table.
type row struct {
	what, median, p99, goal string
}

func main() {
	out := flag.String("out", "", "also write the table to this Markdown file")
	binary := flag.String("binary", "", "the program to measure; empty = build it")
	sandbox := flag.String("sandbox", "local", "sandbox backend")
	rounds := flag.Int("rounds", 50, "samples per figure")
	only := flag.Bool("scale", false, "measure only what many conversations, followers and runs take")
	web := flag.Bool("webui", false, "measure only the web UI in a browser")
	flag.Parse()
	if err := run(*out, *binary, *sandbox, *rounds, *only, *web); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(out, binary, sandbox string, rounds int, scaleOnly, webOnly bool) error {
	dir, err := os.MkdirTemp("", "pb-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{dir: dir, bin: binary, sandbox: sandbox, rounds: rounds}
	defer b.stop()
	if err := b.build(); err != nil {
		return err
	}
	measures := []func() error{b.binarySize, b.readyAfterExec, b.startToReady, b.stepOverhead,
		b.commitToSocket, b.lastPage, b.idleConversations, b.scale, b.webui, b.adapters, b.sandboxes}
	if scaleOnly {
		measures = []func() error{b.scale}
	}
	if webOnly {
		measures = []func() error{b.webui}
	}
	for _, measure := range measures {
		if err := measure(); err != nil {
			return err
		}
	}
	text := b.table()
	fmt.Print(text)
	if out == "" {
		return nil
	}
	return os.WriteFile(out, []byte(text), 0o644) //nolint:gosec // documentation
}

// table renders the results as Markdown.
func (b *bench) table() string {
	var t strings.Builder
	fmt.Fprintf(&t, "# Benchmarks\n\nThe last run of `make bench`, on %s.\n\n%s\n\n", time.Now().UTC().Format("2006-01-02"), machine())
	fmt.Fprintf(&t, "Sandbox backend `%s`, %d samples per figure unless said otherwise. Machines are shared: compare within one run only.\n\n", b.sandbox, b.rounds)
	t.WriteString("| What | Median | p99 | Goal |\n|---|---|---|---|\n")
	for _, r := range b.rows {
		fmt.Fprintf(&t, "| %s | %s | %s | %s |\n", r.what, r.median, r.p99, r.goal)
	}
	t.WriteString(`
What is measured:

- **start call to READY**: from sending ` + "`POST /api/v1/app-conversations`" + ` (no message) until polling the start task shows READY; includes making the sandbox and preparing its working directory.
- **agent step**: from the last byte of a model answer that calls ` + "`terminal`" + ` with ` + "`true`" + ` until the next model request arrives: interpret, store, run, store, ask again.
- **event to WebSocket**: from the event's own timestamp, taken before it is stored, until a client on loopback has read the frame; includes the commit.
- **idle conversations**: growth of the server's resident memory after 1,000 conversations were started in one sandbox, each answered once by the scripted model, and left alone until they were unloaded. The sandboxes' own memory is not in it.
- **a streamed chunk, a call**: what an adapter does by itself for one piece of a streamed answer (reading, decoding, handing on), and for a whole call with a history of 200 messages (encoding, HTTP on loopback, decoding), against a server in the same process; five runs, median and largest. The guard's row is a call of a model that answers at once, with its reservation and settlement in a real SQLite database.
- **a sandbox backend's rows** (` + "`local`: start" + `, ...): the backend by itself, without the HTTP API: start is from the call until sandboxd answers; exec is /bin/true through sandboxd; snapshots are taken of a running sandbox, of the one with 50,000 files right after they were written. Memory is what the control group of an idle sandbox counts, its sandboxd included. Backends that the machine does not have are named with the reason; docker takes the image of PARLEY_TEST_IMAGE.
- **100,000 conversations**: written straight into the store, then asked for over HTTP.
- **a reconnect**: SSE with a random ` + "`Last-Event-ID`" + ` on a log of 3,000 events and more, to which a message is added every 5 ms; each client reads up to 150 events and fails on a gap or a double.
- **all of 1,000 WebSocket clients**: from the event's own timestamp until the last of them has read it. All clients run in the measuring process, on the same cores.
- **200 conversations running**: from the last byte of a model's answer until the next request of the same conversation; the tool called is ` + "`think`" + `, which the server runs itself. What limits it: each answer takes exactly 100 ms, so that the conversations fall into step and come in bursts, between which the cores rest ([architecture.md](architecture.md#following-one-message) has a trace).
- **web UI**: a conversation of 20,000 events (messages with Markdown, commands with 5 KB of output, edits) in Chromium of the same machine. Opened: from the navigation, in a browser that has loaded nothing of the page, or from the click, until the frame after the last event is there. Scrolling: 300 pixels a frame, up to a minute; the times are those between frames. A message: from the call of the API.
- **last page**: ` + "`events/search?sort_order=TIMESTAMP_DESC&limit=100`" + ` over HTTP.
`)
	return t.String()
}

// add records samples as one row.
func (b *bench) add(what, goal string, samples []time.Duration) {
	slices.Sort(samples)
	b.rows = append(b.rows, row{what, show(samples[len(samples)/2]), show(samples[len(samples)*99/100]), goal})
	fmt.Fprintf(os.Stderr, "%s: %s\n", what, show(samples[len(samples)/2]))
}

func show(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}

// machine describes where this runs.
func machine() string {
	model, cores := "unknown CPU", 0
	for _, line := range lines("/proc/cpuinfo") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model, cores = strings.TrimSpace(value), cores+1
		}
	}
	memory := ""
	for _, line := range lines("/proc/meminfo") {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			memory = f[1] + " KiB"
		}
	}
	kernel := strings.Join(lines("/proc/sys/kernel/osrelease"), "")
	return fmt.Sprintf("Machine: %d x %s, %s memory, Linux %s, %s.", cores, model, memory, kernel, release())
}

func release() string {
	for _, line := range lines("/etc/os-release") {
		if v, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(v, `"`)
		}
	}
	return "unknown distribution"
}

func lines(path string) []string {
	raw, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}
