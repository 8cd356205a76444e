package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/internal/conversation"
)

// doubleInterrupt is how soon a second Ctrl-C leaves.
const doubleInterrupt = 2 * time.Second

// question is what the session waits for somebody to answer.
type question uint8

const (
	nothing question = iota
	nextMessage
	confirmation
)

// converse follows the conversation until the user or the run is done.
// message is sent once the history is shown; "" sends nothing.
func (s *session) converse(ctx context.Context, message string) (Exit, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.items = make(chan item)
	follower := &follower{client: s.client, id: s.conv.ID, after: s.seen, patience: s.opts.Patience, items: s.items}
	s.background.Go(func() { follower.run(ctx) })

	if err := s.showHistory(ctx); err != nil {
		return s.failed(ctx, err)
	}
	if err := s.sendFirst(ctx, message); err != nil {
		return s.failed(ctx, err)
	}
	if s.runOver() {
		if exit, done, err := s.ended(ctx); done {
			return exit, err
		}
	}
	return s.loop(ctx)
}

// sendFirst sends the message of a resumed conversation. While the agent waits
// for permission, a message that runs it would grant it: it is held back.
func (s *session) sendFirst(ctx context.Context, message string) error {
	switch {
	case message == "":
		return nil
	case s.status != conversation.WaitingConfirmation:
		return s.send(ctx, message)
	case s.interactive:
		s.held = message
		return nil
	}
	s.note.line(yellow, "the message was not sent: the agent waits for permission first")
	return nil
}

// showHistory shows the events up to where the log ended when the session began.
func (s *session) showHistory(ctx context.Context) error {
	for s.seen < s.liveFrom-1 {
		select {
		case it, ok := <-s.items:
			switch {
			case !ok:
				return context.Cause(ctx)
			case it.err != nil:
				return it.err
			}
			s.show(it)
		case <-s.term.Interrupts:
			return errLeft
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// loop waits for whatever comes next until the session is over.
func (s *session) loop(ctx context.Context) (Exit, error) {
	for {
		exit, done, err := s.step(ctx)
		if done || err != nil {
			return exit, err
		}
		if s.out.err != nil {
			return ExitFailure, s.out.err // nobody reads on
		}
	}
}

func (s *session) step(ctx context.Context) (Exit, bool, error) {
	var lines chan string
	if s.asking != nothing {
		lines = s.lines.lines
	}
	select {
	case it, ok := <-s.items:
		if !ok {
			return s.leave()
		}
		return s.onItem(ctx, it)
	case line, ok := <-lines:
		if !ok {
			return s.leave()
		}
		return s.onLine(ctx, line)
	case <-s.term.Interrupts:
		return s.onInterrupt(ctx)
	case err := <-s.results:
		s.note.line(red, "! "+CleanLine(err.Error()))
		return ExitOK, false, nil
	case <-ctx.Done():
		return s.leave()
	}
}

// onItem takes what the follower hands over.
func (s *session) onItem(ctx context.Context, it item) (Exit, bool, error) {
	if it.err != nil {
		if ExitOf(it.err) == ExitServer {
			s.comeBack()
		}
		return ExitOf(it.err), true, it.err
	}
	s.show(it)
	if s.asking == confirmation && s.status != conversation.WaitingConfirmation {
		s.asking = nothing // somebody else has answered
	}
	if s.asking != nothing && !s.note.cursor.midLine {
		s.note.write(s.prompt) // output has displaced it
	}
	if !s.runOver() {
		return ExitOK, false, nil
	}
	return s.ended(ctx)
}

// show prints an item and keeps what the session must know of it.
func (s *session) show(it item) {
	switch {
	case it.notice != "":
		s.note.line(dim, "("+it.notice+")")
	case it.event.Kind == conversation.KindStreamingDelta:
		s.showDelta(it.event)
	case it.event.Seq == liveOnly && it.event.Kind != conversation.KindServerError:
		// A snapshot of what the log has said already.
	default:
		s.apply(it.event)
		s.showEvent(it.event)
	}
}

func (s *session) showDelta(e conversation.Event) {
	var delta struct {
		Content string `json:"content"`
	}
	if s.term.OutTTY && !s.opts.JSON && json.Unmarshal(e.Raw, &delta) == nil {
		s.out.delta(delta.Content)
	}
}

func (s *session) showEvent(e conversation.Event) {
	switch {
	case s.opts.JSON && e.Seq != liveOnly:
		s.out.jsonLine(e)
	case s.opts.JSON:
	case s.typed != "" && e.Kind == conversation.KindMessage && e.Source == conversation.SourceUser:
		s.typed = ""
		if p, err := conversation.Decode(e); err == nil {
			if said, ok := p.(*conversation.MessageEvent); ok {
				s.out.activated(said)
			}
		}
	default:
		s.out.event(e)
	}
}

// apply folds a stored event into what the session knows.
func (s *session) apply(e conversation.Event) {
	if e.Seq != liveOnly {
		s.seen = e.Seq
	}
	payload, err := conversation.Decode(e)
	if err != nil {
		return // it is shown as unreadable
	}
	switch ev := payload.(type) {
	case *conversation.ActionEvent:
		s.pending = append(s.pending, ev)
	case *conversation.ObservationEvent:
		s.answered(ev.ToolCallID)
	case *conversation.UserRejectObservation:
		s.answered(ev.ToolCallID)
	case *conversation.AgentErrorEvent:
		s.answered(ev.ToolCallID)
	case *conversation.MessageEvent:
		if ev.Source == conversation.SourceUser && e.Seq >= s.liveFrom {
			s.want.needMessage = false
		}
	case *conversation.StateUpdateEvent:
		s.applyState(e.Seq, ev)
	}
}

func (s *session) answered(callID string) {
	s.pending = slices.DeleteFunc(s.pending, func(a *conversation.ActionEvent) bool { return a.ToolCallID == callID })
}

// applyState takes a status. Those of the history are older than the one the
// session began with.
func (s *session) applyState(seq int64, ev *conversation.StateUpdateEvent) {
	switch ev.Key {
	case conversation.KeyLeaf: // the conversation goes on elsewhere
		s.pending = nil
	case conversation.KeyStatus:
		var status conversation.Status
		if seq >= s.liveFrom && json.Unmarshal(ev.Value, &status) == nil {
			s.status = status
			s.want.status(status)
		}
	case conversation.KeyAgentState:
		var notes conversation.AgentNotes
		if seq >= s.liveFrom && json.Unmarshal(ev.Value, &notes) == nil {
			s.newQuestions(notes.Questions)
		}
	case conversation.KeyStats:
		var stats struct {
			Usage map[string]conversation.Metrics `json:"usage_to_metrics"`
		}
		if json.Unmarshal(ev.Value, &stats) == nil && len(stats.Usage) > 0 {
			s.metrics = stats.Usage["agent"]
		}
	}
}

// expectation is a run that was asked for and whose end is awaited.
type expectation struct {
	active      bool
	needMessage bool // states from before the message was logged are not its outcome
	fresh       bool // a state came that belongs to the run
	sawRunning  bool
}

func (x *expectation) status(status conversation.Status) {
	if status == conversation.Running && !x.active {
		x.active = true // somebody else has started a run
	}
	if x.active && !x.needMessage {
		x.fresh = true
		x.sawRunning = x.sawRunning || status == conversation.Running
	}
}

// runOver reports whether there is nothing to wait for. Idle is where a run
// begins as well as where a rejection ends it.
func (s *session) runOver() bool {
	switch {
	case s.asking != nothing || s.status == conversation.Running:
		return false
	case !s.want.active:
		return true
	case s.status == conversation.Idle || s.status == "":
		return s.want.sawRunning
	}
	return s.want.fresh
}

// ended deals with the end of a run: it asks on, or leaves.
func (s *session) ended(ctx context.Context) (Exit, bool, error) {
	s.want = expectation{}
	if s.status == conversation.WaitingConfirmation {
		return s.askConfirmation()
	}
	if !s.interactive {
		s.drain(ctx)
		s.footer(ctx)
		return exitOf(s.status), true, nil
	}
	s.footer(ctx)
	s.ask(nextMessage, "> ")
	return ExitOK, false, nil
}

// drain shows the events that were logged together with the end of the run.
func (s *session) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	count, err := s.client.Count(ctx, s.conv.ID)
	if err != nil {
		return // the run's end is known; the rest can be read with --conversation
	}
	for s.seen < count-1 {
		select {
		case it, ok := <-s.items:
			if !ok || it.err != nil {
				return
			}
			s.show(it)
		case <-ctx.Done():
			return
		}
	}
}

// footer says how the run ended and what the conversation has cost so far.
func (s *session) footer(ctx context.Context) {
	if s.status == "" || s.status == conversation.Idle {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	metrics := s.metrics
	if err := s.refresh(ctx, s.conv.ID); err == nil && s.conv.Metrics != nil {
		metrics = *s.conv.Metrics
	}
	parts := []string{CleanLine(string(s.status))}
	if u := metrics.Usage; u.PromptTokens+u.CompletionTokens > 0 {
		parts = append(parts, fmt.Sprintf("%s tokens in, %s out", thousands(u.PromptTokens), thousands(u.CompletionTokens)))
	}
	switch {
	case s.demo():
		parts = append(parts, "demo, no cost")
	case metrics.AccumulatedCost > 0:
		parts = append(parts, fmt.Sprintf("$%.4f", metrics.AccumulatedCost))
	}
	s.note.line(dim, "-- "+strings.Join(parts, ", "))
}

func (s *session) ask(q question, prompt string) {
	s.asking, s.prompt = q, prompt
	s.note.write(prompt)
}

// askConfirmation shows what the agent wants to do and asks for permission.
func (s *session) askConfirmation() (Exit, bool, error) {
	if !s.interactive {
		s.note.line(yellow, "it waits for a confirmation; answer on a terminal with: parley chat --conversation "+CleanLine(s.conv.ID))
		return ExitConfirmation, true, nil
	}
	s.note.line(yellow, "The agent asks for permission:")
	for _, pending := range s.pending {
		s.note.proposal(pending)
	}
	s.ask(confirmation, confirmPrompt)
	return ExitOK, false, nil
}

const confirmPrompt = "Allow it? [y]es, or [n]o and why: "

// onLine takes what was typed at a question.
func (s *session) onLine(ctx context.Context, line string) (Exit, bool, error) {
	s.note.cursor.midLine = false // the terminal has echoed the line's end
	if s.asking == confirmation {
		return ExitOK, false, s.onVerdict(ctx, line)
	}
	text := strings.TrimSpace(s.lines.rest(line))
	if text == "" {
		s.note.write("> ")
		return ExitOK, false, nil
	}
	s.asking, s.typed = nothing, text
	if err := s.send(ctx, text); err != nil {
		if ExitOf(err) == ExitServer || ctx.Err() != nil {
			return ExitOf(err), true, err
		}
		s.typed = ""
		s.note.line(red, "! "+Clean(err.Error()))
		s.ask(nextMessage, "> ")
	}
	return ExitOK, false, nil
}

// onVerdict takes the answer to a request for permission.
func (s *session) onVerdict(ctx context.Context, line string) error {
	accept, why, ok := parseVerdict(line)
	if !ok {
		s.note.write(confirmPrompt)
		return nil
	}
	if err := s.refresh(ctx, s.conv.ID); err != nil {
		return err
	}
	if err := s.client.Confirm(ctx, s.conv, accept, why); err != nil {
		return err
	}
	s.asking = nothing
	// A rejection ends in idle without a run in between.
	s.want = expectation{active: true, sawRunning: !accept}
	if held := s.held; held != "" {
		s.held = ""
		return s.send(ctx, held)
	}
	return nil
}

func parseVerdict(line string) (accept bool, why string, ok bool) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch strings.ToLower(strings.TrimRight(word, ",.:")) {
	case "y", "yes":
		return true, "", true
	case "n", "no":
		return false, strings.TrimSpace(rest), true
	}
	return false, "", false
}

// onInterrupt takes a Ctrl-C: during a run the first one interrupts it and a
// second one soon after leaves; at a question it leaves.
func (s *session) onInterrupt(ctx context.Context) (Exit, bool, error) {
	if s.asking != nothing || time.Since(s.lastInterrupt) < doubleInterrupt {
		return s.leave()
	}
	s.lastInterrupt = time.Now()
	s.note.line(yellow, "! interrupting; Ctrl-C again leaves while the conversation goes on")
	id := s.conv.ID
	s.background.Go(func() {
		if err := s.interrupt(ctx, id); err != nil {
			select {
			case s.results <- fmt.Errorf("the run could not be interrupted: %w", err):
			case <-ctx.Done():
			}
		}
	})
	return ExitOK, false, nil
}

func (s *session) interrupt(ctx context.Context, id string) error {
	conv, found, err := s.client.Conversation(ctx, id)
	if err != nil || !found {
		return err
	}
	return s.client.Interrupt(ctx, conv)
}

// leave ends the session and says how to come back.
func (s *session) leave() (Exit, bool, error) {
	if s.note.cursor.midLine {
		s.note.write("\n")
	}
	s.comeBack()
	if s.want.active {
		return ExitInterrupted, true, nil
	}
	return exitOf(s.status), true, nil
}

func (s *session) comeBack() {
	s.note.line(dim, "come back with: parley chat --conversation "+CleanLine(s.conv.ID))
}
