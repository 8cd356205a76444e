package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/internal/agent/condense"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/tool"
)

const (
	maxUserCommand  = 64 << 10        // bytes of a command that a user runs
	userCommandTime = 2 * time.Minute // for it to end
	maxUserOutput   = 30_000          // bytes that are kept of what it writes
	maxTyped        = 16              // commands of users that run in a conversation at a time
)

// userShell runs a command with its errors among its output, in the better shell that
// there is.
const userShell = `exec 2>&1
if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; fi
exec sh -c "$1"`

// RunForUser runs a command of the user's in the conversation's sandbox, without the
// agent, which reads of it in its history unless it is hidden. It returns once the
// command is in the log; what came of it follows in the log, also when the command
// could not be run. Conflict (code "not_ready") before the start is through.
func (e *Engine) RunForUser(ctx context.Context, owner string, id conversation.ID, command string, hidden bool) error {
	if len(command) > maxUserCommand {
		return fault.New(fault.TooLarge, "command_too_long", "The command has more than %d bytes.", maxUserCommand)
	}
	return e.do(ctx, owner, id, func(l *live) error {
		if err := l.writable(); err != nil {
			return err
		}
		if !l.prepared() || l.conv.SandboxID == "" {
			return fault.New(fault.Conflict, "not_ready", "The conversation is still starting. Run the command when it is ready.")
		}
		said := conversation.UserCommand{Command: command, Hidden: hidden}.Message()
		if !e.typing(id, said.ID) {
			return fault.New(fault.RateLimited, "too_many_commands", "%d commands of yours run in this conversation already.", maxTyped).
				WithHint("Wait until one has ended.")
		}
		if err := l.append(said); err != nil {
			e.ran(said.ID)
			return err
		}
		req := l.forUser(command)
		conv := *l.conv
		if !e.job(func() { e.runForUser(&conv, said.ID, hidden, req) }) {
			e.ran(said.ID)
			return errStopping()
		}
		return nil
	})
}

// forUser is the request that runs a command of the user's.
func (l *live) forUser(command string) tool.ExecRequest {
	return tool.ExecRequest{Argv: []string{"/bin/sh", "-c", userShell, "sh", command}, Dir: l.conv.Options.WorkingDir,
		Env: commandSecrets(l.conv, l.secrets, command), Timeout: userCommandTime, MaxOutput: 1 << 20}
}

// execForUser runs a command; why it could not be run is its output.
func (e *Engine) execForUser(ctx context.Context, conv *conversation.Conversation, req tool.ExecRequest) (output string, code int) {
	hands, err := e.opt.Fleet.Ensure(ctx, conv.Owner, conv.SandboxID, true)
	if err == nil {
		var res tool.ExecResult
		if res, err = hands.Exec(ctx, req); err == nil {
			return outputOf(res), res.ExitCode
		}
	}
	return "The command could not be run: " + fault.PublicText(err), -1
}

// typing notes that a command of a user's runs; false if too many do.
func (e *Engine) typing(id conversation.ID, message string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, in := range e.typed {
		if in == id {
			n++
		}
	}
	if n >= maxTyped {
		return false
	}
	if e.typed == nil {
		e.typed = map[string]conversation.ID{}
	}
	e.typed[message] = id
	return true
}

// ran notes that a command of a user's does not run any more.
func (e *Engine) ran(message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.typed, message)
}

// runForUser runs a command and records what came of it. If the server leaves, the
// next one records that nobody knows.
func (e *Engine) runForUser(conv *conversation.Conversation, message string, hidden bool, req tool.ExecRequest) {
	defer e.ran(message)
	result := conversation.UserCommand{Answers: message, Hidden: hidden}
	if result.Output, result.ExitCode = e.execForUser(e.ctx, conv, req); e.ctx.Err() != nil {
		return
	}
	err := e.persist(func() error {
		return e.do(e.ctx, conv.Owner, conv.ID, func(l *live) error {
			if err := l.storable(); err != nil || l.answered(message) {
				return err // a server that had the conversation meanwhile may have given it up
			}
			return l.append(result.Message())
		})
	})
	if err != nil && e.ctx.Err() == nil && !fault.Is(err, fault.NotFound) {
		e.opt.Logger.Error("result of a user's command not stored", "conversation", conv.ID, "error", err)
	}
}

// answered reports whether the log has what came of a command of the user's.
func (l *live) answered(message string) bool {
	for _, p := range slices.Backward(l.state.Branch.Path()) {
		said, ok := p.(*conversation.MessageEvent)
		if !ok {
			continue
		}
		if said.ID == message {
			return false
		}
		if c, ok := conversation.UserCommandOf(said); ok && c.Answers == message {
			return true
		}
	}
	return false
}

func outputOf(res tool.ExecResult) string {
	text := strings.ToValidUTF8(string(res.Stdout)+string(res.Stderr), "\uFFFD")
	text = condense.Clip(text, maxUserOutput)
	if res.TimedOut {
		text += fmt.Sprintf("\n[The command was stopped after %s.]", userCommandTime)
	}
	return text
}

// lostCommands answers commands of the user's that nobody runs any more.
func (l *live) lostCommands() []conversation.Payload {
	var lost []conversation.UserCommand
	for _, p := range l.state.Branch.Path() {
		said, ok := p.(*conversation.MessageEvent)
		if !ok {
			continue
		}
		c, ok := conversation.UserCommandOf(said)
		switch {
		case !ok:
		case c.Answers == "":
			lost = append(lost, conversation.UserCommand{Answers: said.ID, Hidden: c.Hidden, ExitCode: -1,
				Output: "The server was stopped while the command ran, so nobody knows what it did."})
		default:
			lost = slices.DeleteFunc(lost, func(o conversation.UserCommand) bool { return o.Answers == c.Answers })
		}
	}
	var events []conversation.Payload
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	for _, c := range lost {
		if _, runs := l.e.typed[c.Answers]; !runs {
			events = append(events, c.Message())
		}
	}
	return events
}
