package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"parley/internal/conversation"
)

// demoPrefix starts the names of models that are scripted.
const demoPrefix = "demo/"

// historyEvents is how many events of a resumed conversation are shown.
const historyEvents = 12

const (
	pollFirst     = 50 * time.Millisecond
	pollMax       = time.Second
	resumeTimeout = time.Minute
	drainTimeout  = 2 * time.Second
)

// Terminal is where a session reads and writes.
type Terminal struct {
	In          io.Reader
	Out, Err    io.Writer
	Interactive bool             // In is a terminal somebody sits at
	OutTTY      bool             // Out is a terminal: answers are shown while they are written
	ErrTTY      bool             // Err is a terminal
	Color       bool             // paint on terminals
	Interrupts  <-chan os.Signal // Ctrl-C
}

// ChatOptions say what a session does.
type ChatOptions struct {
	Message      string // "" = ask for it, or read it from In
	Conversation string // resume this one; "" = start one
	Model        string // "" = the settings'
	Dir          string // directory of this machine to work in; "" = one of the sandbox's own
	JSON         bool   // print events as JSON lines
	Detach       bool   // print the conversation's id and leave
	Once         bool   // leave when the run ends, also on a terminal
	Full         bool   // do not fold long output
	Trust        bool   // whatever wants to run may
	Patience     Patience
}

// Chat runs a session. The exit code says how the run ended; the error, if
// any, is not printed yet.
func Chat(ctx context.Context, client *Client, term Terminal, opts ChatOptions) (Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &session{
		client: client, term: term, opts: opts,
		interactive: term.Interactive && !opts.JSON && !opts.Once && !opts.Detach,
		out:         &printer{out: term.Out, color: term.Color && term.OutTTY, full: opts.Full, cursor: new(cursor)},
		note:        &printer{out: term.Err, color: term.Color && term.ErrTTY, cursor: new(cursor)},
		results:     make(chan error, 1),
	}
	if term.OutTTY && term.ErrTTY {
		s.note.cursor = s.out.cursor
	}
	defer s.background.Wait()
	defer cancel()
	if s.interactive {
		s.lines = newLineReader(term.In)
		defer s.lines.close()
	}
	exit, err := s.run(ctx)
	if err == nil {
		err = errors.Join(s.out.err, s.note.err)
	}
	if err != nil && exit == ExitOK {
		exit = ExitOf(err)
	}
	return exit, err
}

// errLeft says that Ctrl-C came before there was a run to interrupt.
var errLeft = errors.New("interrupted before the conversation was ready")

// session is one terminal at one conversation. One goroutine runs it; the
// follower and the calls that answer a signal run beside it.
type session struct {
	client      *Client
	term        Terminal
	opts        ChatOptions
	interactive bool
	out, note   *printer
	lines       *lineReader // nil unless interactive

	background sync.WaitGroup
	items      chan item
	results    chan error // of calls in the background

	conv          Conversation
	status        conversation.Status
	pending       []*conversation.ActionEvent // tool calls without an answer
	metrics       conversation.Metrics
	seen          int64 // seq of the last stored event
	liveFrom      int64 // events before this seq are history
	asking        question
	prompt        string // what asks it
	want          expectation
	typed         string   // a message typed at the prompt: it is on the screen already
	held          string   // a message to send after the question is answered
	known         []string // questions about trust that were shown
	lastInterrupt time.Time
}

// run is the session from its first call to its last word.
func (s *session) run(ctx context.Context) (Exit, error) {
	message, err := s.firstMessage(ctx)
	if err != nil {
		return ExitUsage, err
	}
	if s.opts.Conversation != "" {
		err = s.resume(ctx)
	} else {
		message, err = s.start(ctx, message)
	}
	if err != nil {
		return s.failed(ctx, err)
	}
	if !s.opts.Detach {
		s.header()
	}
	if err := s.askTrust(ctx); err != nil {
		return s.failed(ctx, err)
	}
	if s.opts.Detach {
		return s.detach(ctx, message)
	}
	return s.converse(ctx, message)
}

// failed maps an error from before the conversation was followed.
func (s *session) failed(ctx context.Context, err error) (Exit, error) {
	if errors.Is(err, errLeft) || ctx.Err() != nil {
		return ExitInterrupted, err
	}
	return ExitOf(err), err
}

// firstMessage is the message of the command line, of the prompt or of the
// input; "" only when a conversation is resumed.
func (s *session) firstMessage(ctx context.Context) (string, error) {
	resuming := s.opts.Conversation != ""
	switch {
	case s.opts.Message != "":
		return s.opts.Message, nil
	case s.term.Interactive && resuming:
		return "", nil
	case s.interactive:
		return s.promptFirst(ctx)
	case s.term.Interactive:
		return "", errors.New("say what to do: parley chat \"...\"")
	}
	data, err := io.ReadAll(io.LimitReader(s.term.In, maxLineBytes))
	if err != nil {
		return "", fmt.Errorf("read the message from standard input: %w", err)
	}
	message := strings.TrimSpace(string(data))
	if message == "" && !resuming {
		return "", errors.New("no message: give it as an argument or on standard input")
	}
	return message, nil
}

func (s *session) promptFirst(ctx context.Context) (string, error) {
	s.note.line(dim, "What should the agent do? (Ctrl-D leaves)")
	for {
		s.note.write("> ")
		select {
		case line, ok := <-s.lines.lines:
			if !ok {
				return "", errors.New("no message")
			}
			s.note.cursor.midLine = false // the terminal has echoed the line's end
			if text := strings.TrimSpace(s.lines.rest(line)); text != "" {
				s.typed = text
				return text, nil
			}
		case <-s.term.Interrupts:
			return "", errLeft
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// start makes the conversation, waits until it is ready, and returns what is left to
// say. A directory may hold what wants to run: the first message waits until the user
// has heard of it.
func (s *session) start(ctx context.Context, message string) (left string, err error) {
	ctx, stop := s.cancelOnInterrupt(ctx)
	defer stop()
	if s.opts.Dir != "" {
		message, left = "", message
	}
	task, err := s.requestStart(ctx, message)
	if err != nil {
		return "", err
	}
	if task, err = s.awaitStart(ctx, task); err != nil {
		return "", err
	}
	conv, found, err := s.client.Conversation(ctx, task.ConversationID)
	if err == nil && !found {
		err = fmt.Errorf("the server does not know the conversation it has just started, %s", CleanLine(task.ConversationID))
	}
	s.conv = conv
	s.seen, s.want = -1, expectation{active: left == ""}
	return left, err
}

// cancelOnInterrupt returns a context that Ctrl-C ends. stop joins its goroutine.
func (s *session) cancelOnInterrupt(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.term.Interrupts:
			cancel(errLeft)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// requestStart sends the start request. The proof of write access exists for
// exactly as long as the request.
func (s *session) requestStart(ctx context.Context, message string) (Task, error) {
	body := StartRequest{LLMModel: s.opts.Model, Trigger: "openhands_api"}
	if message != "" {
		body.InitialMessage = userMessage(message)
	}
	if s.opts.Dir == "" {
		return s.client.Start(ctx, body)
	}
	proof, err := newProof(s.opts.Dir)
	if err != nil {
		return Task{}, err
	}
	body.Workspace = proof.workspace()
	task, err := s.client.Start(ctx, body)
	return task, errors.Join(err, proof.remove())
}

// awaitStart polls the start task. A conversation whose id is shown is ready.
func (s *session) awaitStart(ctx context.Context, task Task) (Task, error) {
	wait := pollFirst
	for shown := task.Status; ; {
		switch {
		case task.Status == conversation.TaskError:
			return task, fmt.Errorf("the conversation could not be started: %s", cut(CleanLine(task.Detail), 2000))
		case task.ConversationID != "":
			return task, nil
		case task.Status != shown && s.term.ErrTTY:
			shown = task.Status
			s.note.line(dim, "("+strings.ToLower(strings.ReplaceAll(CleanLine(string(shown)), "_", " "))+")")
		}
		if err := sleep(ctx, wait); err != nil {
			return task, err
		}
		wait = min(wait*3/2, pollMax)
		next, found, err := s.client.Task(ctx, task.ID)
		if err != nil {
			return task, err
		}
		if !found {
			return task, errors.New("the conversation was deleted while it started")
		}
		task = next
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// resume finds the conversation and its place in the log.
func (s *session) resume(ctx context.Context) error {
	if err := s.refresh(ctx, s.opts.Conversation); err != nil {
		return err
	}
	// In this order: the status is then at least as new as the history.
	var err error
	if s.liveFrom, err = s.client.Count(ctx, s.conv.ID); err != nil {
		return err
	}
	if s.status, err = s.client.Status(ctx, s.conv.ID); err != nil {
		return err
	}
	s.seen = max(-1, s.liveFrom-1-historyEvents)
	if s.opts.JSON {
		s.seen = s.liveFrom - 1
	}
	return nil
}

// refresh reads the conversation anew: its URL and key may change.
func (s *session) refresh(ctx context.Context, id string) error {
	conv, found, err := s.client.Conversation(ctx, id)
	if err == nil && !found {
		err = fmt.Errorf("there is no conversation %s on %s", CleanLine(id), s.client.Base())
	}
	if err == nil {
		s.conv = conv
	}
	return err
}

// send says something and expects a run. A paused sandbox is resumed first.
func (s *session) send(ctx context.Context, message string) error {
	err := s.client.Send(ctx, s.conv.ID, message)
	var api *APIError
	if errors.As(err, &api) && api.Status == http.StatusConflict {
		if err = s.wake(ctx); err == nil {
			err = s.client.Send(ctx, s.conv.ID, message)
		}
	}
	if err != nil {
		return fmt.Errorf("the message was not sent: %w", err)
	}
	s.want = expectation{active: true, needMessage: true}
	return nil
}

// wake resumes the conversation's sandbox and waits until it runs.
func (s *session) wake(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, resumeTimeout, errors.New("the sandbox did not come back in time"))
	defer cancel()
	if err := s.client.ResumeSandbox(ctx, s.conv.SandboxID); err != nil {
		return err
	}
	s.note.line(dim, "(resuming the sandbox)")
	for wait := pollFirst; ; wait = min(wait*3/2, pollMax) {
		if err := s.refresh(ctx, s.conv.ID); err != nil {
			return err
		}
		switch s.conv.SandboxStatus {
		case "RUNNING":
			return nil
		case "ERROR", "MISSING":
			return fmt.Errorf("the sandbox cannot be resumed: it is %s", s.conv.SandboxStatus)
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// detach leaves a conversation to itself.
func (s *session) detach(ctx context.Context, message string) (Exit, error) {
	if message != "" {
		if err := s.send(ctx, message); err != nil {
			return ExitOf(err), err
		}
	}
	if s.opts.JSON {
		s.out.write(fmt.Sprintf("{\"conversation_id\":%q}\n", CleanLine(s.conv.ID)))
	} else {
		s.out.write(CleanLine(s.conv.ID) + "\n")
	}
	return ExitOK, nil
}

// header says which conversation this is.
func (s *session) header() {
	text := "conversation " + CleanLine(s.conv.ID)
	if s.conv.LLMModel != "" {
		text += ", model " + CleanLine(s.conv.LLMModel)
	}
	s.note.line(dim, text)
	if s.demo() {
		s.note.line(yellow, "demo: the built-in scripted model answers; no LLM is involved")
	}
}

func (s *session) demo() bool { return strings.HasPrefix(s.conv.LLMModel, demoPrefix) }
