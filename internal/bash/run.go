package bash

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"parley/internal/fault"
	"parley/internal/store"
	"parley/internal/tool"
)

const (
	appendAgain = 2 * time.Second  // between attempts at storing an event
	startTime   = 30 * time.Second // for a sandbox to start a command
)

// run is one command. Its goroutine reads what the command writes; a timer shows what
// has come.
type run struct {
	s       *Service
	hands   tool.Hands
	req     Request
	command store.CommandEvent
	live    bool // output is shown while it comes, not only when a piece is full
	done    chan struct{}
	last    json.RawMessage // the last output; valid once done is closed, nil if it could not be stored

	mu             sync.Mutex
	stdout, stderr text
	order          int
	timer          *time.Timer // runs while something waits to be shown
	ended          bool
}

// run runs the command to its end.
func (r *run) run() {
	ctx := r.s.ctx
	cmd, err := r.begin(ctx)
	if err != nil {
		r.end("The command did not start: "+fault.PublicText(err)+"\n", lost())
		return
	}
	defer func() { _ = cmd.Close() }()
	defer context.AfterFunc(ctx, func() { _ = cmd.Close() })()
	for {
		out, err := cmd.Next()
		switch {
		case ctx.Err() != nil:
			r.end("The server was stopped while the command ran.\n", lost())
			return
		case err != nil:
			r.end("The sandbox was stopped while the command ran.\n", lost())
			return
		case out.Ended:
			r.end("", &out.ExitCode)
			return
		}
		r.take(out)
	}
}

func (r *run) begin(ctx context.Context) (tool.Command, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	dir := ""
	if r.req.Cwd != nil {
		dir = *r.req.Cwd
	}
	return r.hands.StartCommand(ctx, tool.CommandRequest{Argv: []string{"/bin/sh", "-c", r.req.Command}, Dir: dir,
		Env: map[string]string{"AI_AGENT": "openhands"}, Without: []string{"SESSION_API_KEY", "OH_SESSION_API_KEYS_0"},
		Timeout: min(time.Duration(min(r.req.Timeout, int(maxTimeout/time.Second)))*time.Second, maxTimeout)})
}

// take adds what the command wrote. While it is stored the command waits.
func (r *run) take(out tool.CommandOutput) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if out.Stderr {
		r.stderr.write(out.Data)
	} else {
		r.stdout.write(out.Data)
	}
	for r.stdout.full() || r.stderr.full() {
		r.show()
	}
	if r.live && r.timer == nil {
		r.timer = time.AfterFunc(r.s.opt.Pause, r.tick)
	}
}

// tick shows what has come.
func (r *run) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = nil
	if !r.ended {
		r.show()
	}
}

// show stores what has come as a piece. mu is held.
func (r *run) show() {
	stdout, stderr := r.stdout.read(false), r.stderr.read(false)
	if stdout == "" && stderr == "" {
		return
	}
	r.store(newOutput(r.command.SandboxID, r.command.ID, r.order, stdout, stderr, nil))
}

// end stores the last piece, with a remark of ours at the end of the standard error.
func (r *run) end(remark string, code *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended = true; r.timer != nil {
		r.timer.Stop()
	}
	r.stderr.write([]byte(remark))
	for {
		stdout, stderr := r.stdout.read(true), r.stderr.read(true)
		final := r.stdout.empty() && r.stderr.empty()
		exit := code
		if !final {
			exit = nil
		}
		e := newOutput(r.command.SandboxID, r.command.ID, r.order, stdout, stderr, exit)
		if stored := r.store(e); final {
			if stored {
				r.last = e.Raw
			}
			return
		}
	}
}

// store keeps an event, however long that takes; when the server stops it tries once
// more, and what is lost then the next server answers.
func (r *run) store(e store.CommandEvent) bool {
	for first := true; ; first = false {
		err := r.s.append(r.s.ctx, e)
		if err == nil {
			break
		}
		if r.s.ctx.Err() != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.s.ctx), lastWords)
			err = r.s.append(ctx, e)
			cancel()
			if err == nil {
				break
			}
		}
		if first {
			r.s.opt.Logger.Warn("output of a command cannot be stored and waits", "sandbox", e.SandboxID, "command", r.command.ID, "error", err)
		}
		if r.s.ctx.Err() != nil {
			return false
		}
		select {
		case <-time.After(appendAgain):
		case <-r.s.ctx.Done():
		}
	}
	r.order++
	return true
}

// text is output that was not shown yet. Characters are never parted; bytes that are
// none are U+FFFD.
type text struct{ buf bytes.Buffer }

func (t *text) write(p []byte) { t.buf.Write(p) }

func (t *text) full() bool { return t.buf.Len() >= maxPiece+utf8.UTFMax }

func (t *text) empty() bool { return t.buf.Len() == 0 }

// read takes the next piece. What may be the beginning of a character stays, unless
// nothing follows.
func (t *text) read(last bool) string {
	data := t.buf.Bytes()
	n := min(len(data), maxPiece)
	if n < len(data) || !last {
		n -= cutShort(data[:n])
	}
	piece := strings.ToValidUTF8(string(t.buf.Next(n)), "\ufffd")
	if t.buf.Len() == 0 {
		t.buf = bytes.Buffer{}
	}
	return piece
}

// cutShort returns how many bytes at the end are the beginning of a character.
func cutShort(data []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(data); n++ {
		if c := data[len(data)-n]; utf8.RuneStart(c) {
			if !utf8.FullRune(data[len(data)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
