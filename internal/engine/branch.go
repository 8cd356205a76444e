package engine

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
)

// CodeNoEvent is the code of the fault for an event that a conversation does not
// have, or that no branch can end with.
const CodeNoEvent = "event_not_found"

// Answers to calls whose results are on another branch.
const (
	answerElsewhere = "The conversation went back to the point before this call's result was known. " +
		"Files and programs are as later work left them: look before you repeat the call."
	answerOfSource = "This conversation is a copy that was made before the call's result was known. " +
		"It may have run: look before you repeat it."
)

// Navigate lets a conversation go on from one of its events; "" is the very start.
// The events after it stay in the log, on a branch of their own; files are not
// changed. Conflict (CodeRunning) during a run, NotFound (CodeNoEvent) for an
// event that is not there.
func (e *Engine) Navigate(ctx context.Context, owner string, id conversation.ID, event string) error {
	return e.do(ctx, owner, id, func(l *live) error {
		if err := l.writable(); err != nil {
			return err
		}
		if l.state.Status == conversation.Running || l.work != nil {
			return fault.New(fault.Conflict, CodeRunning, "The conversation is running. Interrupt it before you go to another event.")
		}
		path, ok := l.state.Branch.At(event)
		if !ok {
			return errNoEvent(event)
		}
		if event == l.state.Branch.Leaf() {
			return nil
		}
		events := []conversation.Payload{leafUpdate(event)}
		for _, a := range conversation.Unanswered(path) {
			events = append(events, agentError(a, answerElsewhere))
		}
		if notes := l.state.Notes; len(notes.PathSkills) > 0 { // the branch may not have what they brought in
			notes.PathSkills = nil
			events = append(events, stateUpdate(conversation.KeyAgentState, notes))
		}
		if err := l.transition(conversation.TrigNavigate, events...); err != nil {
			return err
		}
		l.anchor = nil // of another prompt
		e.opt.Hub.Snapshot(id, l.state.Head)
		return nil
	})
}

func errNoEvent(id string) error {
	return fault.New(fault.NotFound, CodeNoEvent, "Event not found: %.100s", id)
}

func leafUpdate(event string) conversation.Payload {
	var id *string
	if event != "" {
		id = &event
	}
	return stateUpdate(conversation.KeyLeaf, id)
}

// Fork copies a conversation up to one of its events into a new one, which uses
// the same sandbox, or a copy of it, and waits for the user. NotFound (CodeNoEvent) for an event that is
// not there, Conflict (store.CodeExists) if the id is taken.
func (e *Engine) Fork(ctx context.Context, owner string, id conversation.ID, req ForkRequest) (made *View, err error) {
	var cut *cutting
	err = e.do(ctx, owner, id, func(l *live) (err error) {
		cut, err = l.cut(req.FromEvent)
		return err
	})
	if err != nil {
		return nil, err
	}
	conv := cut.record(req)
	if req.CopySandbox {
		undo, err := e.copySandbox(ctx, conv)
		if err != nil {
			return nil, err
		}
		defer func() { undo(made == nil) }()
	}
	events, err := e.copyEvents(ctx, id, cut, req.KeepMetrics)
	if err != nil {
		return nil, err
	}
	state, err := foldEvents(events)
	if err != nil {
		return nil, err
	}
	conv.Summary = state.Summary()
	if err := e.opt.Store.Conversations().Fork(ctx, conv, events); err != nil {
		return nil, err
	}
	e.toIndex()
	if err := e.copyBundles(ctx, id, conv.ID); err != nil {
		return nil, err
	}
	return e.View(ctx, owner, conv.ID)
}

// copyBundles gives a fork what was added to its source. Until then it has it from
// there.
func (e *Engine) copyBundles(ctx context.Context, from, to conversation.ID) error {
	bundles, err := e.opt.Store.Extensions().Bundles(ctx, from)
	if err != nil || len(bundles) == 0 {
		return err
	}
	return e.opt.Store.Extensions().SaveBundles(ctx, to, bundles)
}

// cutting is what a fork takes from its source.
type cutting struct {
	source conversation.Conversation
	ids    map[string]bool // of the events
	open   []*conversation.ActionEvent
	leaf   string
	stats  conversation.Stats
	fields map[string]map[string]json.RawMessage
}

func (l *live) cut(event string) (*cutting, error) {
	if !l.prepared() {
		return nil, fault.New(fault.Conflict, "not_ready", "The conversation is still starting. Fork it when it is ready.")
	}
	if event == "" {
		event = l.state.Branch.Leaf()
	}
	path, ok := l.state.Branch.At(event)
	if !ok {
		return nil, errNoEvent(event)
	}
	c := &cutting{source: *l.conv, ids: make(map[string]bool, len(path)), open: conversation.Unanswered(path), leaf: event,
		stats: l.state.Stats, fields: l.state.ProviderFields}
	for _, p := range path {
		c.ids[conversation.HeaderOf(p).ID] = true
	}
	return c, nil
}

// record is the new conversation's. What belongs to the source's life (its lease,
// its first message, its parent) stays there.
func (c *cutting) record(req ForkRequest) *conversation.Conversation {
	now := time.Now().UTC().Truncate(time.Microsecond)
	conv := c.source
	conv.ID, conv.ForkedFrom, conv.ForkedAt = req.ID, c.source.ID, c.leaf
	if conv.ID == "" {
		conv.ID = conversation.NewID()
	}
	switch {
	case req.Title != "":
		conv.Title, conv.TitleByUser = req.Title, true
	case conv.Title == placeholderTitle(c.source.ID): // it has none yet
		conv.Title = placeholderTitle(conv.ID)
	}
	conv.Tags = maps.Clone(c.source.Tags)
	if req.Tags != nil {
		conv.Tags = req.Tags
	}
	conv.ParentID, conv.InitialMessage, conv.Options.Task = "", nil, nil
	conv.LeaseHolder, conv.LeaseUntil, conv.Generation = "", time.Time{}, 0
	conv.CreatedAt, conv.UpdatedAt, conv.LastEventAt = now, now, now
	return &conv
}

// copyEvents reads the events of a cutting from the source's log, byte for byte,
// and adds what the copy needs to stand alone: answers to open calls, what the
// model's provider wants back, the metrics if they are kept.
func (e *Engine) copyEvents(ctx context.Context, id conversation.ID, c *cutting, metrics bool) ([]conversation.Event, error) {
	var events []conversation.Event
	for after := int64(-1); ; {
		page, err := e.opt.Store.Events().Read(ctx, id, after, 1000)
		if err != nil {
			return nil, err
		}
		for _, ev := range page {
			if after = ev.Seq; c.ids[ev.ID] {
				events = append(events, ev)
			}
		}
		if len(page) < 1000 {
			break
		}
	}
	var more []conversation.Payload
	for _, a := range c.open {
		more = append(more, agentError(a, answerOfSource))
	}
	if len(c.fields) > 0 {
		more = append(more, stateUpdate(conversation.KeyAgentState, conversation.AgentNotes{ProviderFields: c.fields}))
	}
	if metrics && len(c.stats) > 0 {
		more = append(more, stateUpdate(conversation.KeyStats, conversation.StatsUpdate{Usage: c.stats}))
	}
	last := ""
	if len(events) > 0 {
		last = events[len(events)-1].Timestamp
	}
	for _, p := range more {
		h := conversation.HeaderOf(p)
		h.Timestamp = stamp(last)
		last = h.Timestamp
		ev, err := conversation.Encode(p)
		if err != nil {
			return nil, err
		}
		events = append(events, ev)
	}
	for i := range events {
		events[i].Seq = int64(i)
	}
	return events, nil
}

func foldEvents(events []conversation.Event) (*conversation.State, error) {
	state := conversation.NewState()
	for _, ev := range events {
		p, err := conversation.Decode(ev)
		if err != nil {
			return nil, err
		}
		state.Apply(ev, p)
	}
	return state, nil
}
