package sandboxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/sandbox"
	"parley/internal/sandbox/hostbox"
	"parley/internal/sandboxd"
)

// command is what the test daemon runs.
type command struct {
	Argv []string
}

// Output is what a command left.
type Output struct {
	Text string // standard output and standard error, the last 64 KiB
	Code int    // exit code; -1: killed by a signal or not started
	Err  string // why it was not started
}

// Serve is a small daemon for boxes under test: it runs one command per request, and
// hands connections over to the real daemon (sandboxd).
// env is the whole environment of commands.
func Serve(ctx context.Context, lis net.Listener, env []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", Handler(func(ctx context.Context, argv []string) Output { return run(ctx, argv, env) }, func() { os.Exit(1) }))
	mux.HandleFunc("POST /connect", serveConnect)
	real := NewConns()
	mux.HandleFunc("GET /hands", func(w http.ResponseWriter, r *http.Request) { handOver(w, r, real) })
	var served sync.WaitGroup
	served.Go(func() {
		_ = sandboxd.Serve(ctx, real, sandboxd.Options{WorkingDir: dir, Env: environment(env)}) // ends with its listener
	})
	defer func() {
		_ = real.Close()
		served.Wait()
	}()
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	// Programs that lose their parent become ours: without it they would count
	// against the limit of processes for ever.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	return server.Serve(lis)
}

// Handler answers Exec and Crash: the daemon of boxes that Serve cannot run in.
func Handler(run func(ctx context.Context, argv []string) Output, crash func()) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		var c command
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil || len(c.Argv) == 0 {
			http.Error(w, "no command", http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(run(r.Context(), c.Argv))
	})
	mux.HandleFunc("POST /crash", func(http.ResponseWriter, *http.Request) {
		crash()
		panic(http.ErrAbortHandler) // a crash has no answer
	})
	return mux
}

// ServeInside is Serve for backends of this machine.
func ServeInside(ctx context.Context, lis net.Listener, in hostbox.Inside) error {
	var env []string
	for name, value := range in.Env {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return Serve(ctx, lis, env)
}

func environment(env []string) map[string]string {
	byName := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		byName[name] = value
	}
	return byName
}

func run(ctx context.Context, argv, env []string) Output {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	cmd.WaitDelay = time.Second
	if path, err := lookPath(argv[0], cmd.Env); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err := cmd.Run()
	out := Output{Text: tail(text.String()), Code: -1}
	if cmd.ProcessState != nil {
		out.Code = cmd.ProcessState.ExitCode()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		out.Err = err.Error()
	}
	return out
}

// lookPath finds a program by the PATH of env: the daemon's own is empty.
func lookPath(name string, env []string) (string, error) {
	for _, dir := range pathOf(env) {
		path := dir + "/" + name
		if unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func pathOf(env []string) []string {
	for _, kv := range env {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			return strings.Split(list, ":")
		}
	}
	return nil
}

func tail(s string) string {
	const most = 64 << 10
	return s[max(0, len(s)-most):]
}

// Exec runs a command in a box whose daemon is Serve.
func Exec(ctx context.Context, box sandbox.Box, argv ...string) (Output, error) {
	res, err := post(ctx, box, "/run", command{Argv: argv})
	if err != nil {
		return Output{}, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return Output{}, fmt.Errorf("test daemon: %s", res.Status)
	}
	var out Output
	return out, json.NewDecoder(res.Body).Decode(&out)
}

// Crash ends the first process of a box whose daemon is Serve.
func Crash(ctx context.Context, box sandbox.Box) error {
	res, err := post(ctx, box, "/crash", nil)
	if err == nil {
		_ = res.Body.Close()
		return errors.New("the daemon survived")
	}
	return ctx.Err()
}

func post(ctx context.Context, box sandbox.Box, path string, v any) (*http.Response, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return box.Dial(ctx) },
	}}
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://box"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}
