package imports

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
)

// agentConversation reads a conversation of an agent-server (agent protocol 2.4): its
// meta.json, base_state.json and events.
func (r *reader) agentConversation(dir string) (*loaded, error) {
	r.sum, r.size = sha256.New(), 0
	meta, state := metadata{}, metadata{}
	l := &loaded{}
	for _, f := range []struct {
		name string
		into *metadata
	}{{"meta.json", &meta}, {"base_state.json", &state}} {
		raw, err := r.optional(path.Join(dir, f.name))
		if err != nil || raw != nil && json.Unmarshal(r.mask(raw), f.into) != nil {
			l.problem("%s: it cannot be read", f.name)
			continue
		}
		r.mix(-1, raw)
	}
	id, err := conversation.ParseID(path.Base(dir))
	if err != nil {
		return nil, err
	}
	l.conv = &conversation.Conversation{ID: id, Origin: conversation.OriginAgent, Title: strings.TrimSpace(content.Head(meta.text("title"), 800)),
		AgentKind: "openhands", AgentType: "default"}
	_ = json.Unmarshal(meta["tags"], &l.conv.Tags) // no tags: none
	var agent struct {
		LLM struct {
			Model string `json:"model"`
		} `json:"llm"`
	}
	_ = json.Unmarshal(state["agent"], &agent) // another kind of agent
	l.model = agent.LLM.Model
	if err := r.agentEvents(l, dir); err != nil {
		return nil, err
	}
	l.dates(meta)
	l.digest = r.sum.Sum(nil)
	return l, nil
}

// dates are those of meta.json, else of the events.
func (l *loaded) dates(meta metadata) {
	created, ok := meta.time("created_at")
	if !ok && len(l.events) > 0 {
		created, ok = parseTime(l.events[0].Timestamp, time.UTC)
	}
	if !ok {
		created = time.Now().UTC().Truncate(time.Microsecond)
	}
	l.conv.CreatedAt = created
	if at, ok := meta.time("updated_at"); ok {
		l.conv.UpdatedAt = at
	}
	if l.conv.UpdatedAt.Before(created) {
		l.conv.UpdatedAt = created
	}
}

// agentEvents reads events/event-<index>-<id>.json in the order of their index.
func (r *reader) agentEvents(l *loaded, dir string) error {
	names, err := r.names(path.Join(dir, "events"))
	if err != nil {
		return fmt.Errorf("events: %s", why(err))
	}
	type file struct {
		index int
		name  string
	}
	var files []file
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, "event-")
		number, _, _ := strings.Cut(rest, "-")
		n, err := strconv.Atoi(number)
		if strings.HasPrefix(name, ".") { // its lock
			continue
		}
		if !ok || err != nil || n < 0 {
			l.problem("events/%s: it is no event", name)
			continue
		}
		files = append(files, file{n, name})
	}
	slices.SortStableFunc(files, func(a, b file) int { return a.index - b.index })
	log := &agentLog{loaded: l, state: conversation.NewState(), seen: map[string]bool{}}
	for i, f := range files {
		if i > 0 && f.index > files[i-1].index+1 {
			l.problem("events/%s: events before it are missing", f.name)
		}
		raw, err := r.file(path.Join(dir, "events", f.name))
		if err == nil {
			r.mix(int64(f.index), raw)
			err = log.take(r.mask(raw))
		}
		if err != nil {
			l.problem("events/%s: %s", f.name, why(err))
		}
	}
	return log.end()
}

// agentLog puts events of an agent-server into a log of ours.
type agentLog struct {
	*loaded
	state *conversation.State
	seen  map[string]bool
}

// take adds an event as it is. What belongs to the other server's life is left out:
// its prompt, of which Parley has its own, its deltas, whole states, goals and notes.
func (a *agentLog) take(raw []byte) error {
	var h conversation.Header
	if err := json.Unmarshal(raw, &h); err != nil || h.Kind == "" || h.ID == "" || h.Timestamp == "" || len(h.ID) > 200 {
		return fmt.Errorf("it is no event")
	}
	compact, err := content.Marshal(json.RawMessage(raw))
	if err != nil {
		return fmt.Errorf("it is no JSON")
	}
	ev := conversation.Event{ID: h.ID, Kind: h.Kind, Source: h.Source, Timestamp: h.Timestamp, Raw: compact}
	p, err := conversation.Decode(ev)
	switch {
	case err != nil:
		return fmt.Errorf("it is no %s", content.Head(h.Kind, 60))
	case a.seen[h.ID]:
		return fmt.Errorf("its id is that of an earlier event")
	}
	switch e := p.(type) {
	case *conversation.SystemPromptEvent:
		return nil
	case *conversation.StateUpdateEvent:
		if e.Key == conversation.KeyFullState || e.Key == conversation.KeyGoal || e.Key == conversation.KeyAgentState {
			return nil
		}
	}
	if h.Kind == conversation.KindStreamingDelta {
		return nil
	}
	a.seen[h.ID] = true
	a.apply(ev, p)
	return nil
}

func (a *agentLog) apply(ev conversation.Event, p conversation.Payload) {
	ev.Seq = a.state.Head
	a.state.Apply(ev, p)
	a.events = append(a.events, ev)
}

// end answers the calls that are open and leaves the conversation idle.
func (a *agentLog) end() error {
	var rest []conversation.Payload
	for _, c := range a.state.Pending {
		rest = append(rest, &conversation.AgentErrorEvent{Header: a.head(conversation.KindAgentError, conversation.SourceAgent),
			ToolName: c.ToolName, ToolCallID: c.ToolCallID, Error: noResult,
			Classification: &conversation.Classification{Kind: "internal", Retryable: true, UserAction: "retry"}})
	}
	if a.state.Status != conversation.Idle {
		rest = append(rest, &conversation.StateUpdateEvent{Header: a.head(conversation.KindStateUpdate, conversation.SourceEnvironment),
			Key: conversation.KeyStatus, Value: json.RawMessage(`"` + conversation.Idle + `"`)})
	}
	for _, p := range rest {
		h := conversation.HeaderOf(p)
		h.ID, h.Timestamp = eventID(a.conv.ID, len(a.events)), a.stamp()
		if h.Kind != conversation.KindStateUpdate {
			h.ParentID = a.state.Parent()
		}
		ev, err := conversation.Encode(p)
		if err != nil {
			return err
		}
		a.apply(ev, p)
	}
	return a.sumUp(a.state)
}

func (a *agentLog) head(kind, source string) conversation.Header {
	return conversation.Header{Kind: kind, Source: source}
}

// stamp is a moment after the last event.
func (a *agentLog) stamp() string {
	at, ok := parseTime(a.state.LastTimestamp, time.UTC)
	if !ok {
		at = time.Now().UTC()
	}
	return conversation.FormatTime(at.Add(time.Microsecond))
}
