package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const key = "bench-key-0123456789"

// bench is one run.
type bench struct {
	dir     string
	data    string // directory below dir; "" = d
	bin     string
	sandbox string
	rounds  int
	url     string
	cmd     *exec.Cmd
	done    chan struct{}
	rows    []row
}

func (b *bench) build() error {
	if b.bin != "" {
		return nil
	}
	b.bin = filepath.Join(b.dir, "parley")
	if err := os.Chmod(b.dir, 0o755); err != nil { //nolint:gosec // sandboxes execute the binary as another user
		return err
	}
	if out, err := exec.Command("scripts/build", b.bin).CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// start runs a server and returns how long it took until it was ready.
func (b *bench) start() (time.Duration, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	address := lis.Addr().String()
	if err := lis.Close(); err != nil {
		return 0, err
	}
	b.url = "http://" + address
	b.cmd = exec.Command(b.bin, "serve", "--listen", address, "--data", filepath.Join(b.dir, cmp.Or(b.data, "d")),
		"--sandbox", b.sandbox, "--max-sandboxes", "2000", "--demo")
	b.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "SESSION_API_KEY=" + key, "PARLEY_LOG_LEVEL=warn",
		"PARLEY_LLM_CONCURRENCY=1000"} // models here are not what is measured
	b.cmd.Stderr = os.Stderr
	begin := time.Now()
	if err := b.cmd.Start(); err != nil {
		return 0, err
	}
	b.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) { _ = cmd.Wait(); close(done) }(b.cmd, b.done)
	for deadline := begin.Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		resp, err := http.Get(b.url + "/ready")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return time.Since(begin), nil
		}
	}
	return 0, errors.New("the server does not become ready")
}

func (b *bench) stop() {
	if b.cmd == nil || b.cmd.Process == nil {
		return
	}
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-b.done:
	case <-time.After(15 * time.Second):
		_ = b.cmd.Process.Kill()
		<-b.done
	}
	b.cmd = nil
}

// call makes a request; out may be nil.
func (b *bench) call(method, path string, body, out any) error {
	var r io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, b.url+path, r)
	if err != nil {
		return err
	}
	req.Header.Set("X-Session-API-Key", key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}

// conversation starts one and waits until it is READY.
func (b *bench) conversation(body map[string]any) (id, sandboxID string, err error) {
	var task struct {
		ID string `json:"id"`
	}
	if err := b.call("POST", "/api/v1/app-conversations", body, &task); err != nil {
		return "", "", err
	}
	for {
		var tasks []struct {
			Status    string  `json:"status"`
			Detail    *string `json:"detail"`
			ID        *string `json:"app_conversation_id"`
			SandboxID *string `json:"sandbox_id"`
		}
		if err := b.call("GET", "/api/v1/app-conversations/start-tasks?ids="+task.ID, nil, &tasks); err != nil {
			return "", "", err
		}
		switch t := tasks[0]; t.Status {
		case "READY":
			return *t.ID, *t.SandboxID, nil
		case "ERROR":
			return "", "", errors.New(*t.Detail)
		}
		time.Sleep(500 * time.Microsecond)
	}
}

// deleteSandbox removes a sandbox, so that samples do not pile up.
func (b *bench) deleteSandbox(id string) error {
	return b.call("DELETE", "/api/v1/sandboxes/"+id, nil, nil)
}

func message(text string) map[string]any {
	return map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": text}}}
}

// resident returns a process's resident memory in bytes.
func resident(pid int) (int64, error) {
	for _, line := range lines(fmt.Sprintf("/proc/%d/status", pid)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			var kib int64
			_, err := fmt.Sscan(f[1], &kib)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no memory figure of process %d", pid)
}
