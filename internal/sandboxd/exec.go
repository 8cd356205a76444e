package sandboxd

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"parley/internal/tool"
)

const (
	// termGrace is what a program gets between TERM and KILL.
	termGrace = time.Second
	// pipeGrace is how long output is awaited after the program ended, when others
	// that it left behind hold its pipes.
	pipeGrace = 250 * time.Millisecond
)

func (d *daemon) exec(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, maxExecBody)
	if err != nil {
		return err
	}
	req, err := decodeExec(body)
	if err != nil {
		return err
	}
	result, err := d.run(r.Context(), req)
	if err != nil {
		return err
	}
	return writeJSON(w, result)
}

func decodeExec(body []byte) (tool.ExecRequest, error) {
	var req tool.ExecRequest
	if err := decodeJSON(body, &req); err != nil {
		return req, err
	}
	if req.Timeout < 0 || req.MaxOutput < 0 {
		return req, invalid("timeout and max_output must not be negative.")
	}
	if req.MaxOutput == 0 {
		req.MaxOutput = defaultMaxOutput
	}
	req.MaxOutput = min(req.MaxOutput, MaxOutputBytes)
	return req, checkArgv(req.Argv)
}

// run runs a program to its end. It has a session of its own: all of it can be
// found and killed, and it has no terminal to ask for a password on.
func (d *daemon) run(ctx context.Context, req tool.ExecRequest) (tool.ExecResult, error) {
	cmd, err := d.launch.command(req.Argv, req.Dir, req.Env)
	if err != nil {
		return tool.ExecResult{}, err
	}
	stdout, stderr := &head{max: req.MaxOutput}, &head{max: req.MaxOutput}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if len(req.Stdin) > 0 {
		cmd.Stdin = bytes.NewReader(req.Stdin)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = pipeGrace
	if err := d.children.start(cmd); err != nil {
		return tool.ExecResult{}, startFault(err, cmd.Path)
	}
	status, timedOut := d.supervise(ctx, cmd, req.Timeout)
	if ctx.Err() != nil {
		return tool.ExecResult{}, context.Cause(ctx)
	}
	result := tool.ExecResult{
		ExitCode: exitCode(status), Stdout: stdout.buf, Stderr: stderr.buf,
		TimedOut: timedOut, Truncated: stdout.cut || stderr.cut,
	}
	if timedOut {
		result.ExitCode = -1
	}
	return result, nil
}

// supervise waits for a started program and ends it when its time or its
// client's interest is over.
func (d *daemon) supervise(ctx context.Context, cmd *exec.Cmd, timeout time.Duration) (status syscall.WaitStatus, timedOut bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		status = d.children.await(cmd)
	}()
	var expired <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ended:
		return status, false
	case <-expired:
		timedOut = true
	case <-ctx.Done():
	}
	d.terminate(cmd.Process.Pid, ended)
	return status, timedOut
}

// terminate ends a session: TERM, a second, KILL, and returns when ended is closed.
func (d *daemon) terminate(sid int, ended <-chan struct{}) {
	_ = unix.Kill(-sid, unix.SIGTERM)
	grace := time.NewTimer(termGrace)
	defer grace.Stop()
	reaped := false
	select {
	case <-ended:
		reaped = true
	case <-grace.C:
	case <-d.stopping:
	}
	killSession(sid, reaped)
	<-ended
}

// head keeps the first max bytes of what is written to it and drops the rest, so
// that the writer never blocks.
type head struct {
	buf []byte
	max int
	cut bool
}

func (h *head) Write(p []byte) (int, error) {
	n := min(len(p), h.max-len(h.buf))
	h.buf = append(h.buf, p[:n]...)
	h.cut = h.cut || n < len(p)
	return len(p), nil
}

// ReadFrom reads straight into the buffer: most programs print little, and none
// should cost the 32 KiB that io.Copy would take.
func (h *head) ReadFrom(r io.Reader) (total int64, err error) {
	for {
		n, err := r.Read(h.room())
		total += int64(n)
		h.buf = h.buf[:len(h.buf)+n]
		if len(h.buf) == h.max {
			break
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
	dropped, err := io.Copy(io.Discard, r)
	h.cut = dropped > 0
	return total + dropped, err
}

func (h *head) room() []byte {
	if len(h.buf) == cap(h.buf) {
		grown := make([]byte, len(h.buf), min(max(512, 2*cap(h.buf)), h.max))
		copy(grown, h.buf)
		h.buf = grown
	}
	return h.buf[len(h.buf):min(cap(h.buf), h.max)]
}
