package terminal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"parley/internal/fault"
	"parley/internal/tool"
)

// phase is what the shell is doing as far as the session has read.
//
//	unknown --attach--> idle --start--> sent --begin marker--> busy --end marker--> idle
//	any --the shell ends, or a read fails in a way that loses the place--> unknown
type phase int

const (
	unknown phase = iota // to be found out from the terminal
	idle                 // at the prompt
	sent                 // a command was typed and has not begun
	busy                 // a command runs
)

// Bounds of a read. One read waits no longer than readWait, so that the time of
// the last output is known to that precision.
const (
	readWait = time.Second
	deafWait = 3 * time.Second // for a command that was typed again
	readMax  = 256 << 10
	// lag is the pause between reads of an output of which most is dropped anyway.
	lag = 10 * time.Millisecond
	// maxBefore bounds what background jobs printed between two commands, in bytes.
	maxBefore = 16 << 10
	// maxWrite bounds one write of typed text, in bytes.
	maxWrite = 256 << 10
)

// session is what is remembered of a conversation's shell. All of it can be found
// out again by attach.
type session struct {
	mu     sync.Mutex // held during a call
	id     string     // of the terminal
	marks  marks
	phase  phase
	pid    int    // of the shell
	offset int64  // of the first byte not read
	nonce  string // of the command that was sent
	again  string // what to type if that was lost; "" once it began or was typed again
	typed  time.Time
	last   status // at the last end marker
	// unsure says that the terminal's modes may be other than the shell needs:
	// it is new, or a program was interrupted or used it interactively.
	unsure bool
	fresh  bool   // the shell has run no command of ours: it shows its own prompt
	before []byte // tail of what was printed since the last command ended
	echoed bool   // before is what the terminal echoed of typed text
	// drawing is what a running full-screen program has drawn so far; nil = none.
	drawing *screen
	note    string // for the next result: what became of the shell
}

// attach finds or starts the shell.
func (s *session) attach(ctx context.Context, env *tool.Env) error {
	if s.phase != unknown {
		return nil
	}
	info, err := s.open(ctx, env)
	if err != nil {
		return err
	}
	s.pid, s.offset, s.before, s.echoed, s.drawing = info.PID, 0, nil, false, nil
	s.last = status{job: -1, cwd: env.WorkingDir}
	s.unsure, s.fresh = true, info.Created
	if info.Created {
		s.phase, s.offset = idle, info.End
		return nil
	}
	return s.readBack(ctx, env.Hands, info)
}

func (s *session) open(ctx context.Context, env *tool.Env) (tool.TerminalInfo, error) {
	req := tool.TerminalRequest{
		ID:   s.id,
		Argv: []string{"bash", "--noprofile", "--norc", "--noediting", "+H", "+o", "history", "-i"},
		Dir:  env.WorkingDir,
		Env: map[string]string{
			"TERM": "xterm-256color", "LC_CTYPE": "C.UTF-8", "HISTFILE": "",
			"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "SYSTEMD_PAGER": "cat",
		},
		Rows: rows, Cols: cols,
	}
	info, err := env.Hands.OpenTerminal(ctx, req)
	if fault.Is(err, fault.NotFound) { // the working directory was removed
		req.Dir = "/"
		info, err = env.Hands.OpenTerminal(ctx, req)
	}
	return info, err
}

// readBack finds out the state of a shell that another server started, from the
// markers in what is left of its output.
func (s *session) readBack(ctx context.Context, hands tool.Hands, info tool.TerminalInfo) error {
	s.nonce = ""
	found := unknown
	begin := int64(0)
	for at := int64(0); at < info.End; {
		out, err := hands.ReadTerminal(ctx, s.id, tool.TerminalRead{Offset: at, Max: readMax})
		if err != nil {
			return err
		}
		at = out.Offset
		for data := out.Data; ; {
			p, ok := s.marks.next(data)
			if !ok {
				break
			}
			data = data[p.size:]
			at += int64(p.size)
			switch {
			case p.end != nil:
				found, begin, s.last = idle, at, *p.end
			case p.nonce != "":
				found, begin, s.nonce = busy, at, p.nonce
			}
		}
		if len(out.Data) == 0 || at == out.Offset {
			break
		}
	}
	return s.settleOn(ctx, hands, found, begin)
}

// settleOn takes over what readBack found. With no marker left to see, the shell
// is at the prompt if it is itself in the foreground.
func (s *session) settleOn(ctx context.Context, hands tool.Hands, found phase, begin int64) error {
	if found == unknown {
		stat, err := s.stat(ctx, hands)
		if err != nil {
			return err
		}
		found = busy
		if stat.group == s.pid {
			found = idle
		}
	}
	s.phase, s.offset = found, begin
	return nil
}

// start types a command.
func (s *session) start(ctx context.Context, env *tool.Env, command string) error {
	var secrets map[string]string
	if env.Secrets != nil {
		secrets = env.Secrets(command)
	}
	s.nonce = newNonce()
	text := script(s.marks, s.nonce, command, secrets, s.last.code, false)
	if s.unsure {
		text = makeSure(s.marks) + text
	}
	s.again = makeSure(s.marks) + script(s.marks, s.nonce, command, secrets, s.last.code, true)
	s.phase, s.unsure, s.before, s.drawing = sent, false, nil, nil
	err := s.write(ctx, env.Hands, []byte(text))
	s.typed = time.Now()
	return err
}

// errDeaf says that the shell does not run what is typed.
var errDeaf = errors.New("the shell runs no commands")

// resend types a command again that was lost: an interrupt that came late, or one
// of a program, made the shell drop its input. That is so if the shell sleeps in
// the foreground before the command has begun, because what is typed before a
// command does not wait for anything. It is given time: typed bytes take a moment
// to reach the shell on a busy machine. If they come after all, the command still
// runs once. A shell that does nothing the second time either is beyond repair (a
// DEBUG trap that skips everything, a function named builtin): errDeaf.
func (s *session) resend(ctx context.Context, hands tool.Hands) error {
	wait := readWait
	if s.again == "" {
		wait = deafWait
	}
	if s.phase != sent || time.Since(s.typed) < wait {
		return nil
	}
	stat, err := s.stat(ctx, hands)
	if err != nil || stat.group != s.pid || !stat.sleeping {
		return err
	}
	if s.again == "" {
		return errDeaf
	}
	text := s.again
	s.again, s.before = "", nil
	err = s.write(ctx, hands, []byte(text))
	s.typed = time.Now()
	return err
}

func newNonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// write types bytes. If it fails, nobody knows how far the shell got; if the
// context ended, that is for the interrupt to find out.
func (s *session) write(ctx context.Context, hands tool.Hands, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), maxWrite)
		if err := hands.WriteTerminal(ctx, s.id, data[:n]); err != nil {
			if ctx.Err() == nil {
				s.phase = unknown
			}
			return err
		}
		data = data[n:]
	}
	return nil
}

// progress is what a read brought.
type progress struct {
	output bool    // the command printed something
	all    int64   // offset after all output there was
	end    *status // the command ended
	exited bool    // the shell ended
	begun  bool    // the command had begun when the shell ended
	code   int     // its exit code
}

// read reads once and takes the output of the command into c.
func (s *session) read(ctx context.Context, hands tool.Hands, wait time.Duration, c *capture) (progress, error) {
	out, err := hands.ReadTerminal(ctx, s.id, tool.TerminalRead{
		Offset: s.offset, Wait: wait, Until: s.marks.until, Max: readMax, Hold: c.spool != nil && !c.spool.full(),
	})
	if err != nil {
		if ctx.Err() == nil && !fault.Is(err, fault.Unavailable) {
			s.phase = unknown // another terminal has this id now, or none
		}
		return progress{}, err
	}
	if out.Offset > s.offset {
		c.lose(out.Offset - s.offset)
		s.offset = out.Offset
	}
	at := s.offset
	p := s.take(out.Data, c)
	p.all = out.End
	// What is left before the end of an ended shell's output is a broken marker.
	if out.Exited && p.end == nil && (s.offset == out.End || s.offset == at) {
		p.exited, p.code, p.begun = true, out.Code, s.phase == busy
		s.phase = unknown
	}
	return p, nil
}

// take sorts a piece of output: what comes before the command's begin marker, what
// it printed, its end. It stops at the end, and before a marker that is not
// complete yet.
func (s *session) take(data []byte, c *capture) (p progress) {
	for {
		part, ok := s.marks.next(data)
		if !ok {
			return p
		}
		data = data[part.size:]
		s.offset += int64(part.size)
		switch {
		case part.end != nil:
			if s.phase != idle && (part.nonce == s.nonce || s.nonce == "") {
				s.ended(part.end, c)
				p.end = part.end
				return p
			}
		case part.nonce != "":
			if part.nonce == s.nonce {
				s.began()
			}
		case s.phase == busy:
			c.add(part.text)
			p.output = true
		default:
			s.print(part.text)
		}
	}
}

// print notes what is printed while no command runs. The echo of a typed command
// holds the markers' secret, and maybe others: none of it is shown.
func (s *session) print(text []byte) {
	s.before = append(s.before, text...)
	s.echoed = s.echoed || bytes.Contains(s.before, []byte(s.marks.secret))
	s.before = s.before[max(0, len(s.before)-maxBefore):]
}

// began notes that the command runs.
func (s *session) began() {
	s.phase, s.again = busy, ""
	s.hush()
}

// hush forgets what was printed if it was an echo or the first prompt of a new
// shell. A terminal that echoes is set right before the next command.
func (s *session) hush() {
	if s.echoed || s.fresh {
		s.before = nil
	}
	s.unsure = s.unsure || s.echoed && !s.fresh
	s.echoed, s.fresh = false, false
}

// ended notes the end of a command. One that never began was refused by the
// shell, which said why.
func (s *session) ended(st *status, c *capture) {
	if s.phase == sent {
		s.hush()
		c.add(s.before)
		s.before = nil
	}
	s.phase, s.last, s.again = idle, *st, ""
}

// drain reads what there is now without waiting for more.
func (s *session) drain(ctx context.Context, hands tool.Hands, c *capture) (progress, error) {
	for all := int64(-1); ; {
		at := s.offset
		p, err := s.read(ctx, hands, 0, c)
		if all < 0 {
			all = p.all
		}
		if err != nil || p.end != nil || p.exited || s.offset == at || s.offset >= all {
			return p, err
		}
	}
}

// background returns what was printed between the last command and this one.
func (s *session) background() []byte {
	if s.fresh || s.echoed {
		return nil
	}
	raw := s.before
	s.before = nil
	return raw
}

// isGone tells that the terminal does not exist any more or that its shell ended.
func isGone(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && (f.Kind == fault.NotFound || f.Kind == fault.Conflict)
}
