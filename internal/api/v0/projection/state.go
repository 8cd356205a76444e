package projection

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/internal/conversation"
)

// State is what must be known of a log's beginning to derive what follows. The
// zero value is the state before anything was derived.
type State struct {
	NextID int64 // of the next legacy event

	agent       AgentState
	recalled    bool    // the first user message was recalled
	unrecalled  []int64 // user messages that no run has taken up, by seq
	finished    bool    // the agent's last output was the finish action
	interrupted bool    // the user stopped the run; its state change is to come
	open        []call  // tool calls without an answer
	blocked     block   // what hooks blocked last
	said        string  // id of the user's last message
	typed       []typed // commands of the user's without a result

	// shown are the legacy events of what the agent still reads, by event id.
	shown map[string]span
}

// call is a tool call that legacy clients were shown.
type call struct {
	seq      int64  // of its ActionEvent
	id       int64  // of the last legacy event that shows it
	eventID  string // of its ActionEvent
	callID   string
	finish   bool
	awaiting bool // it waits for the user's decision
}

// typed is a command of the user's.
type typed struct {
	message string // id of its event in the log
	id      int64  // of the legacy event that shows it
}

// block is a hook's event that blocked a message, which comes after it.
type block struct {
	seq     int64
	message string // id
}

// Open derives what precedes the log.
func (s *State) Open() []Derived {
	if s.NextID > 0 {
		return nil
	}
	return s.take(nil, -1, []Derived{changed(Loading)})
}

// Ready derives that a conversation without a first message waits for one. The
// log must be empty and the sandbox running.
func (s *State) Ready() []Derived {
	if s.agent != Loading {
		return nil
	}
	return s.take(nil, -1, []Derived{change(AwaitingInput), changed(AwaitingInput)})
}

// Step derives what an event becomes. next is what is known of what comes after it (see
// LookAhead).
func (s *State) Step(seq int64, p conversation.Payload, next Outlook) []Derived {
	return s.take(p, seq, s.derive(seq, p, next))
}

// Replay repeats what was derived from an event earlier. seq -1 stands for what
// precedes the log; p is nil then.
func (s *State) Replay(seq int64, p conversation.Payload, derived []Derived) {
	own, life := logged(derived)
	s.take(p, seq, own)
	s.take(nil, -1, life)
}

func (s *State) derive(seq int64, p conversation.Payload, next Outlook) []Derived {
	switch e := p.(type) {
	case *conversation.SystemPromptEvent:
		if next == Waits && s.agent == Loading && len(s.unrecalled) == 0 {
			return []Derived{{Recipe: System}, change(AwaitingInput), changed(AwaitingInput)}
		}
		return []Derived{{Recipe: System}}
	case *conversation.MessageEvent:
		return s.message(seq, e)
	case *conversation.ActionEvent:
		return s.action(e, next == Waits)
	case *conversation.ObservationEvent:
		return s.observed(e)
	case *conversation.AgentErrorEvent:
		return s.failed(e)
	case *conversation.UserRejectObservation:
		return s.rejected(seq, e)
	case *conversation.ConversationErrorEvent:
		return s.settle(seq, Error, Derived{Recipe: RunFailed})
	case *conversation.InterruptEvent:
		if s.agent == Paused {
			return []Derived{changed(Stopped)}
		}
	case *conversation.HookExecutionEvent:
		if e.Blocked && e.MessageID != "" && e.MessageID == s.said { // said before the start was through
			return []Derived{{Recipe: MessageBlocked}}
		}
	case *conversation.Condensation:
		return []Derived{{Condensed, s.forgotten(e).arg(s.NextID)}}
	case *conversation.CondensationRequest:
		return []Derived{{Recipe: CondensationAsked}}
	case *conversation.StateUpdateEvent:
		if status, ok := statusOf(e); ok {
			return s.status(seq, status)
		}
		return s.limit(e, next)
	}
	return nil
}

// message of a user is recalled at once during a run, else when a run takes it up. One
// that a hook blocked never is.
func (s *State) message(seq int64, e *conversation.MessageEvent) []Derived {
	if c, ok := conversation.UserCommandOf(e); ok {
		return s.userCommand(c)
	}
	switch {
	case s.isBlocked(e):
		return []Derived{{Recipe: Message}, {MessageBlocked, seq - s.blocked.seq}}
	case e.Source == conversation.SourceEnvironment && len(e.ActivatedSkills) > 0:
		return []Derived{{Recipe: KnowledgeRecalled}}
	case e.Source == conversation.SourceAgent && isBlank(e):
		return nil
	case e.Source != conversation.SourceUser || !s.isRunning():
		return []Derived{{Recipe: Message}}
	}
	recall, result := s.recall(!s.recalled)
	return []Derived{{Recipe: Message}, {recall, 0}, {result, 1}}
}

func (s *State) userCommand(c conversation.UserCommand) []Derived {
	if c.Answers == "" {
		return []Derived{{Recipe: UserRan}}
	}
	for _, t := range s.typed {
		if t.message == c.Answers {
			return []Derived{{UserRanResult, s.NextID - t.id}}
		}
	}
	return []Derived{{Recipe: UserRanResult}}
}

// keepTyped remembers the user's commands until they have their results.
func (s *State) keepTyped(e *conversation.MessageEvent, id int64) {
	c, ok := conversation.UserCommandOf(e)
	switch {
	case !ok:
	case c.Answers == "":
		s.typed = append(s.typed, typed{e.ID, id})
	default:
		s.typed = slices.DeleteFunc(s.typed, func(t typed) bool { return t.message == c.Answers })
	}
}

func (s *State) isBlocked(e *conversation.MessageEvent) bool {
	return e.ID != "" && e.ID == s.blocked.message
}

func (s *State) isRunning() bool {
	return s.agent == Running || s.agent == UserConfirmed || s.agent == RateLimited
}

// limit shows that the run waits because the model's provider limits the rate, and that
// it goes on.
func (s *State) limit(e *conversation.StateUpdateEvent, next Outlook) []Derived {
	if e.Key != conversation.KeyAgentState {
		return nil
	}
	retry := retryOf(e)
	switch {
	case s.agent == Running && retry != nil && retry.Code == codeRateLimit:
		return []Derived{changed(RateLimited)}
	case s.agent == RateLimited && retry == nil && next != Ends:
		return []Derived{changed(Running)}
	}
	return nil
}

func (s *State) recall(first bool) (action, result Recipe) {
	if first {
		return RecallWorkspace, WorkspaceRecalled
	}
	return RecallKnowledge, KnowledgeRecalled
}

func (s *State) action(e *conversation.ActionEvent, awaits bool) []Derived {
	switch {
	case len(e.Action) == 0 || string(e.Action) == "null":
		return nil // cannot be run: its error follows
	case !awaits:
		return []Derived{{Recipe: Action}}
	case s.agent == AwaitingConfirmation:
		return []Derived{{Recipe: ActionAwaiting}}
	}
	// Clients show the buttons only if the action is the last event.
	return []Derived{changed(AwaitingConfirmation), {Recipe: ActionAwaiting}}
}

func (s *State) observed(e *conversation.ObservationEvent) []Derived {
	c := s.find(e.ActionID, e.ToolCallID)
	if c != nil && c.finish {
		return s.confirmedRun()
	}
	out := []Derived{{Observed, s.causeOf(c, 0)}}
	return append(out, s.confirmedRun()...)
}

func (s *State) failed(e *conversation.AgentErrorEvent) []Derived {
	c := s.find("", e.ToolCallID)
	recipe := CallFailed
	switch {
	case c == nil:
	case strings.HasPrefix(e.Error, conversation.CallInterrupted):
		return []Derived{{CallStopped, s.causeOf(c, 0)}}
	case strings.HasPrefix(e.Error, conversation.CallLost):
		recipe = CallLost
	}
	out := []Derived{{recipe, s.causeOf(c, 0)}}
	return append(out, s.confirmedRun()...)
}

// confirmedRun goes on after the first result of a confirmed batch.
func (s *State) confirmedRun() []Derived {
	if s.agent == UserConfirmed {
		return []Derived{changed(Running)}
	}
	return nil
}

// causeOf returns the distance to a call's event from the event that comes
// ahead events after NextID.
func (s *State) causeOf(c *call, ahead int64) int64 {
	if c == nil {
		return 0
	}
	return s.NextID + ahead - c.id
}

// find returns the open call of an event id or, without one, of a call id.
func (s *State) find(eventID, callID string) *call {
	for i := range s.open {
		c := &s.open[i]
		if c.eventID == eventID || eventID == "" && c.callID == callID {
			return c
		}
	}
	return nil
}

// rejected shows the user's decision before the first refused call of a batch. What a
// hook refuses was no decision of the user's: to clients it failed.
func (s *State) rejected(seq int64, e *conversation.UserRejectObservation) []Derived {
	c := s.find(e.ActionID, e.ToolCallID)
	switch {
	case e.RejectionSource == conversation.SourceHook:
		return append([]Derived{{CallFailed, s.causeOf(c, 0)}}, s.confirmedRun()...)
	case s.agent != AwaitingConfirmation:
		return []Derived{{CallRejected, s.causeOf(c, 0)}}
	}
	out := s.decision(seq, UserRejected, ActionRejected)
	cause := int64(0)
	if c != nil {
		shown := slices.IndexFunc(out, func(d Derived) bool { return d.IsAction() && seq-d.Arg == c.seq })
		cause = int64(len(out) - shown)
		if shown < 0 {
			cause = s.causeOf(c, int64(len(out)))
		}
	}
	return append(out, Derived{CallRejected, cause})
}

// decision shows that the user confirmed or rejected what waits: each call comes
// again as a new event.
func (s *State) decision(seq int64, state AgentState, again Recipe) []Derived {
	out := []Derived{change(state)}
	for _, c := range s.open {
		if c.awaiting {
			out = append(out, Derived{again, seq - c.seq})
		}
	}
	return append(out, changed(state))
}

func (s *State) status(seq int64, status conversation.Status) []Derived {
	switch status {
	case conversation.Running:
		return s.run(seq)
	case conversation.WaitingConfirmation:
		return s.wait(seq)
	case conversation.Idle:
		switch s.agent {
		case Running, UserConfirmed, UserRejected, AwaitingConfirmation, Loading, RateLimited, Error:
			return s.settle(seq, AwaitingInput)
		}
	case conversation.Paused:
		return s.pause(seq)
	case conversation.Finished:
		if s.finished {
			return s.settle(seq, Finished)
		}
		return s.settle(seq, AwaitingInput)
	case conversation.Error, conversation.Stuck:
		if s.agent != Error {
			return s.settle(seq, Error)
		}
	}
	return nil
}

func (s *State) pause(seq int64) []Derived {
	switch {
	case s.agent == Paused || s.agent == Stopped:
		return nil
	case s.interrupted:
		return s.settle(seq, Stopped)
	}
	return s.settle(seq, Paused)
}

// run takes up what the user said: the recall actions come before the state,
// their results after it.
func (s *State) run(seq int64) []Derived {
	switch {
	case s.isRunning():
		return nil
	case s.agent == AwaitingConfirmation:
		return append(s.decision(seq, UserConfirmed, ActionConfirmed), s.recalls(seq)...)
	}
	var out []Derived
	if s.agent == Loading {
		out = append(out, change(Running))
	}
	n := int64(len(s.unrecalled))
	pairs := s.recalls(seq)
	for i := range n {
		out = append(out, pairs[2*i])
	}
	out = append(out, changed(Running))
	for i := range n {
		out = append(out, Derived{pairs[2*i+1].Recipe, n + 1})
	}
	return out
}

// recalls derives the pairs of the messages that were not taken up.
func (s *State) recalls(seq int64) []Derived {
	var out []Derived
	for i, msg := range s.unrecalled {
		action, result := s.recall(i == 0 && !s.recalled)
		out = append(out, Derived{action, seq - msg}, Derived{result, 1})
	}
	return out
}

// wait is the late case: the calls were shown before it was known that they
// wait. They come again, after the state.
func (s *State) wait(seq int64) []Derived {
	if s.agent == AwaitingConfirmation {
		return nil
	}
	out := []Derived{changed(AwaitingConfirmation)}
	for _, c := range s.open {
		out = append(out, Derived{ActionAwaiting, seq - c.seq})
	}
	return out
}

// settle ends a run: what came too late for it is recalled first.
func (s *State) settle(seq int64, state AgentState, before ...Derived) []Derived {
	if state == s.agent && len(before) == 0 {
		return nil
	}
	out := append(s.recalls(seq), before...)
	return append(out, changed(state))
}

// take applies what was derived from an event, now or in an earlier life.
func (s *State) take(p conversation.Payload, seq int64, derived []Derived) []Derived {
	first := s.NextID
	for _, d := range derived {
		s.apply(p, seq, d)
		s.NextID++
	}
	s.remember(p, span{first, s.NextID - 1})
	switch e := p.(type) {
	case *conversation.ActionEvent:
		s.finished = isFinish(e)
	case *conversation.MessageEvent:
		s.finished = s.finished && e.Source != conversation.SourceAgent
		s.keepTyped(e, first)
		if e.Source == conversation.SourceUser {
			s.said = e.ID
		}
	case *conversation.ObservationEvent:
		s.answer(e.ActionID, e.ToolCallID)
	case *conversation.AgentErrorEvent:
		s.answer("", e.ToolCallID)
	case *conversation.UserRejectObservation:
		s.answer(e.ActionID, e.ToolCallID)
	case *conversation.InterruptEvent:
		s.interrupted = true
	case *conversation.HookExecutionEvent:
		if e.Blocked && e.MessageID != "" {
			s.blocked = block{seq, e.MessageID}
		}
	case *conversation.StateUpdateEvent:
		if e.Key == conversation.KeyLeaf {
			s.open = nil // calls of another branch are not waited for any more
		}
	}
	if _, ok := statusOf(p); ok {
		s.interrupted = false
	}
	return derived
}

func (s *State) apply(p conversation.Payload, seq int64, d Derived) {
	switch {
	case d.Recipe == Imported:
		s.recalled = true
		if state, ok := d.importedState(); ok {
			s.agent = state
		}
	case d.Recipe == StateChanged || d.Recipe == LifeChanged:
		s.agent = d.State()
	case d.Recipe == Message:
		if e, ok := p.(*conversation.MessageEvent); ok && e.Source == conversation.SourceUser && !s.isBlocked(e) {
			s.unrecalled = append(s.unrecalled, seq)
		}
	case d.Recipe == RecallWorkspace || d.Recipe == RecallKnowledge:
		s.recalled = true
		s.unrecalled = slices.DeleteFunc(s.unrecalled, func(m int64) bool { return m == seq-d.Arg })
	case d.IsAction():
		s.show(p, seq-d.Arg, d.Recipe == ActionAwaiting)
	}
}

// show records which legacy event shows a call.
func (s *State) show(p conversation.Payload, seq int64, awaiting bool) {
	for i := range s.open {
		if s.open[i].seq == seq {
			s.open[i].id, s.open[i].awaiting = s.NextID, awaiting
			return
		}
	}
	if e, ok := p.(*conversation.ActionEvent); ok {
		s.open = append(s.open, call{seq: seq, id: s.NextID, eventID: e.ID, callID: e.ToolCallID,
			finish: isFinish(e), awaiting: awaiting})
	}
}

func (s *State) answer(eventID, callID string) {
	if c := s.find(eventID, callID); c != nil {
		seq := c.seq
		s.open = slices.DeleteFunc(s.open, func(c call) bool { return c.seq == seq })
	}
}

func isFinish(e *conversation.ActionEvent) bool { return kindOf(e.Action) == kindFinish }

func kindOf(raw json.RawMessage) string {
	var v struct {
		Kind string `json:"kind"`
	}
	decode(raw, &v)
	return v.Kind
}

// decode reads JSON of the log; false if it has another form than expected.
func decode(raw json.RawMessage, v any) bool { return json.Unmarshal(raw, v) == nil }
