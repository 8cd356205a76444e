// Package bash runs commands that clients give to sandboxes (agent protocol 1.6) and
// keeps what they wrote as events: the command, then pieces of its output, numbered
// from 0, of which exactly one, the last, has an exit code. An event is stored before
// anybody sees it. A command belongs to the server: it goes on when its client leaves,
// and ends with the server, which then says so in the last output.
package bash

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"parley/internal/fault"
	"parley/internal/store"
	"parley/internal/tool"
)

// Kinds of events.
const (
	KindCommand = "BashCommand"
	KindOutput  = "BashOutput"
)

const (
	defaultTimeout = 300 // seconds
	maxTimeout     = 24 * time.Hour
	maxRunning     = 32        // commands of one sandbox at a time
	keepEvents     = 10_000    // of one sandbox
	keepBytes      = 64 << 20  // of one sandbox
	trimAfter      = 4 << 20   // bytes of events that come between two times of tidying up
	maxPiece       = 1_048_576 // bytes of an output's text, so at most as many characters
	timeLayout     = "2006-01-02T15:04:05.000000Z07:00"
	lastWords      = 5 * time.Second // for storing an event when the server stops
)

// Options configure a Service.
type Options struct {
	Store store.Commands
	// Hands returns the hands of an owner's sandbox, waking it.
	Hands  func(ctx context.Context, owner, sandboxID string) (tool.Hands, error)
	Logger *slog.Logger // nil = none
	// Pause is how long output of a command that nobody waits for is collected before it
	// is shown, 0 = 100 ms.
	Pause time.Duration
	// Events and Bytes bound what is kept of a sandbox, 0 = 10,000 and 64 MiB.
	Events int
	Bytes  int64
}

// Service runs commands. Close it once, before the sandboxes and the store.
type Service struct {
	opt    Options
	ctx    context.Context
	cancel context.CancelFunc
	runs   sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	running   map[string]int                    // commands, by sandbox
	gone      map[string]bool                   // deleted sandboxes in which commands still run
	untrimmed map[string]int                    // bytes since the last tidying up, by sandbox
	followers map[string]map[*Follower]struct{} // by sandbox
}

// New makes a service and ends, in the store, what a former server left open.
func New(ctx context.Context, opt Options) (*Service, error) {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Pause <= 0 {
		opt.Pause = 100 * time.Millisecond
	}
	if opt.Events <= 0 {
		opt.Events = keepEvents
	}
	if opt.Bytes <= 0 {
		opt.Bytes = keepBytes
	}
	s := &Service{opt: opt, running: map[string]int{}, gone: map[string]bool{}, untrimmed: map[string]int{}, followers: map[string]map[*Follower]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, s.recover(ctx)
}

// recover answers commands that a server did not live to answer.
func (s *Service) recover(ctx context.Context) error {
	open, err := s.opt.Store.Open(ctx)
	if err != nil {
		return err
	}
	for _, c := range open {
		e := newOutput(c.SandboxID, c.ID, c.Next, "", "The server was stopped while the command ran.\n", lost())
		if _, err := s.opt.Store.Append(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// Close ends all commands, each with a last output, and waits for that.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.runs.Wait()
}

// Request is a command to run.
type Request struct {
	Command string
	Cwd     *string // nil = the sandbox's working directory
	Timeout int     // seconds, 0 = 300; at most a day counts
}

// commandEvent is a command as clients read it.
type commandEvent struct {
	Kind      string  `json:"kind"`
	ID        string  `json:"id"`
	Timestamp string  `json:"timestamp"`
	Command   string  `json:"command"`
	Cwd       *string `json:"cwd"`
	Timeout   int     `json:"timeout"`
}

// outputEvent is a piece of output as clients read it.
type outputEvent struct {
	Kind      string  `json:"kind"`
	ID        string  `json:"id"`
	Timestamp string  `json:"timestamp"`
	CommandID string  `json:"command_id"`
	Order     int     `json:"order"`
	ExitCode  *int    `json:"exit_code"`
	Stdout    *string `json:"stdout"`
	Stderr    *string `json:"stderr"`
}

// newID makes an id as the protocol writes those of commands: hex without dashes.
func newID() string {
	id := uuid.New()
	return hex.EncodeToString(id[:])
}

// ParseID reads an id in any spelling of a UUID.
func ParseID(raw string) string { return strings.ToLower(strings.ReplaceAll(raw, "-", "")) }

// encode cannot fail on these types.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

func newCommand(sandboxID string, req Request) store.CommandEvent {
	now := time.Now().UTC()
	e := commandEvent{Kind: KindCommand, ID: newID(), Timestamp: now.Format(timeLayout), Command: req.Command, Cwd: req.Cwd, Timeout: req.Timeout}
	return store.CommandEvent{SandboxID: sandboxID, ID: e.ID, Kind: e.Kind, Piece: -1, Open: true, Time: now, Raw: encode(e)}
}

// newOutput makes a piece of output; with an exit code it is the last.
func newOutput(sandboxID, command string, order int, stdout, stderr string, code *int) store.CommandEvent {
	now := time.Now().UTC()
	e := outputEvent{Kind: KindOutput, ID: newID(), Timestamp: now.Format(timeLayout), CommandID: command, Order: order, ExitCode: code,
		Stdout: orNull(stdout), Stderr: orNull(stderr)}
	return store.CommandEvent{SandboxID: sandboxID, ID: e.ID, Kind: e.Kind, CommandID: command, Piece: order, Final: code != nil,
		Time: now, Raw: encode(e)}
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// lost is the exit code of a command whose end nobody saw.
func lost() *int {
	code := -1
	return &code
}

// Start starts a command and returns its event. Its output is shown while it runs.
// RateLimited (code "too_many_commands") if too many run in the sandbox; else errors
// are those of Options.Hands. What goes wrong inside is told in the last output.
func (s *Service) Start(ctx context.Context, owner, sandboxID string, req Request) (json.RawMessage, error) {
	r, err := s.start(ctx, owner, sandboxID, req, true)
	if err != nil {
		return nil, err
	}
	return r.command.Raw, nil
}

// Execute runs a command to its end and returns its last output, which has all of it
// unless that is larger than one event may be. The command goes on if ctx ends.
func (s *Service) Execute(ctx context.Context, owner, sandboxID string, req Request) (json.RawMessage, error) {
	r, err := s.start(ctx, owner, sandboxID, req, false)
	if err != nil {
		return nil, err
	}
	select {
	case <-r.done:
		if r.last == nil {
			return nil, errClosing()
		}
		return r.last, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func errClosing() error {
	return fault.New(fault.Unavailable, "draining", "The server is stopping.")
}

func (s *Service) start(ctx context.Context, owner, sandboxID string, req Request, live bool) (*run, error) {
	if req.Timeout <= 0 {
		req.Timeout = defaultTimeout
	}
	hands, err := s.opt.Hands(ctx, owner, sandboxID)
	if err != nil {
		return nil, err
	}
	if err := s.enter(sandboxID); err != nil {
		return nil, err
	}
	r := &run{s: s, hands: hands, req: req, live: live, done: make(chan struct{}), command: newCommand(sandboxID, req)}
	if err := s.append(ctx, r.command); err != nil {
		s.leave(sandboxID)
		return nil, err
	}
	go func() {
		defer s.leave(sandboxID)
		defer close(r.done)
		r.run()
	}()
	return r, nil
}

// enter takes a place for a command of a sandbox.
func (s *Service) enter(sandboxID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosing()
	}
	if s.running[sandboxID] >= maxRunning {
		f := fault.New(fault.RateLimited, "too_many_commands", "%d commands run in the sandbox, which is the limit.", maxRunning).
			WithHint("Wait until one has ended.")
		f.RetryAfter = time.Second
		return f
	}
	s.running[sandboxID]++
	s.runs.Add(1)
	return nil
}

func (s *Service) leave(sandboxID string) {
	defer s.runs.Done()
	s.mu.Lock()
	gone := false
	if s.running[sandboxID]--; s.running[sandboxID] == 0 {
		gone = s.gone[sandboxID]
		delete(s.running, sandboxID)
		delete(s.gone, sandboxID)
		delete(s.untrimmed, sandboxID)
	}
	s.mu.Unlock()
	if !gone {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	if _, err := s.opt.Store.Delete(ctx, sandboxID); err != nil { // what came after Forget
		s.opt.Logger.Warn("events of a deleted sandbox's commands stay", "sandbox", sandboxID, "error", err)
	}
}

// Forget removes the events of a sandbox that is gone, and those that its commands
// still add.
func (s *Service) Forget(ctx context.Context, sandboxID string) error {
	s.mu.Lock()
	if s.running[sandboxID] > 0 {
		s.gone[sandboxID] = true
	}
	s.mu.Unlock()
	_, err := s.opt.Store.Delete(ctx, sandboxID)
	return err
}

func (s *Service) isGone(sandboxID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone[sandboxID]
}

// Busy reports whether commands run in a sandbox.
func (s *Service) Busy(sandboxID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[sandboxID] > 0
}

// append stores an event, then shows it, and tidies up now and then.
func (s *Service) append(ctx context.Context, e store.CommandEvent) error {
	if s.isGone(e.SandboxID) {
		return nil
	}
	if _, err := s.opt.Store.Append(ctx, e); err != nil {
		return err
	}
	s.mu.Lock()
	s.untrimmed[e.SandboxID] += len(e.Raw) + 10*trimAfter/s.opt.Events
	trim := s.untrimmed[e.SandboxID] >= min(trimAfter, int(s.opt.Bytes))
	if trim {
		delete(s.untrimmed, e.SandboxID)
	}
	for f := range s.followers[e.SandboxID] {
		f.tell()
	}
	s.mu.Unlock()
	if !trim {
		return nil
	}
	if err := s.opt.Store.Trim(ctx, e.SandboxID, s.opt.Events, s.opt.Bytes); err != nil {
		s.opt.Logger.Warn("old events of commands were not removed", "sandbox", e.SandboxID, "error", err)
	}
	return nil
}

// Search returns a page of a sandbox's events and the id that the next one begins
// with, "" if there is none.
func (s *Service) Search(ctx context.Context, q store.CommandQuery) (events []store.CommandEvent, next string, err error) {
	return s.opt.Store.Search(ctx, q)
}

// Batch returns events in the order of ids, nil where there is none.
func (s *Service) Batch(ctx context.Context, sandboxID string, ids []string) ([]*store.CommandEvent, error) {
	return s.opt.Store.Batch(ctx, sandboxID, ids)
}

// Clear removes the events of a sandbox and returns how many there were. Commands that
// run go on, and add theirs.
func (s *Service) Clear(ctx context.Context, sandboxID string) (int, error) {
	return s.opt.Store.Delete(ctx, sandboxID)
}
