package imports

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/legacy"
	"parley/internal/store"
)

// loaded is a conversation of a source.
type loaded struct {
	conv     *conversation.Conversation
	model    string // that its agent used; "" = not known
	events   []conversation.Event
	numbers  []store.ProjectionEntry // of the legacy events
	raw      [][]byte                // the legacy events, by number
	digest   []byte
	problems []string
}

func (l *loaded) problem(format string, args ...any) {
	const most = 100
	switch n := len(l.problems); {
	case n < most:
		l.problems = append(l.problems, fmt.Sprintf(format, args...))
	case n == most:
		l.problems = append(l.problems, "and more")
	}
}

// eventID is the id of an event that the source has none for: the same at each import.
func eventID(id conversation.ID, n int) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "parley:import:%s:%d", id, n)).String()
}

// metadata is what the legacy server keeps beside the events (legacy API 18). Members
// are read one by one: one that is wrong does not hide the others.
type metadata map[string]json.RawMessage

func (m metadata) text(name string) string {
	var s string
	_ = json.Unmarshal(m[name], &s) // no text: none
	return strings.ToValidUTF8(s, "\uFFFD")
}

func (m metadata) number(name string) float64 {
	var f float64
	if json.Unmarshal(m[name], &f) != nil || f < 0 {
		return 0
	}
	return min(f, 1<<50) // nobody has so much, and it fits into what counts it
}

func (m metadata) time(name string) (time.Time, bool) { return parseTime(m.text(name), time.UTC) }

// parseTime reads ISO 8601, with a zone or in a place.
func parseTime(s string, in *time.Location) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.ParseInLocation(layout, s, in); err == nil && t.Year() > 1970 && t.Year() < 9999 {
			return t.UTC().Truncate(time.Microsecond), true
		}
	}
	return time.Time{}, false
}

// errNoConversation says that a directory is none of a conversation.
var errNoConversation = errors.New("it has no readable metadata.json with created_at")

// reader reads one conversation.
type reader struct {
	source
	mask func([]byte) []byte // takes secrets of the source out of an event
	part func(agentState string) int
	size int64
	sum  hash.Hash
}

func (r *reader) file(name string) ([]byte, error) {
	raw, err := r.read(name)
	if r.size += int64(len(raw)); err == nil && r.size > maxConversation {
		err = fmt.Errorf("the conversation is larger than %d MiB", maxConversation>>20)
	}
	return raw, err
}

// mix adds something to the digest.
func (r *reader) mix(n int64, raw []byte) {
	var head [16]byte
	binary.BigEndian.PutUint64(head[:], uint64(n))
	binary.BigEndian.PutUint64(head[8:], uint64(len(raw)))
	_, _ = r.sum.Write(head[:]) // a hash takes everything
	_, _ = r.sum.Write(raw)
}

// legacyConversation reads sessions/{id}.
func (r *reader) legacyConversation(dir string) (*loaded, error) {
	r.sum, r.size = sha256.New(), 0
	raw, err := r.file(path.Join(dir, "metadata.json"))
	if err != nil {
		return nil, fmt.Errorf("metadata.json: %s", why(err))
	}
	l, m, err := r.startLegacy(path.Base(dir), raw)
	if err != nil {
		return nil, err
	}
	r.mix(-1, raw)
	files, err := r.legacyEvents(l, dir)
	if err != nil {
		return nil, err
	}
	return l, r.legacyLog(l, m, files)
}

// startLegacy makes the record of a conversation from its metadata.
func (r *reader) startLegacy(id string, raw []byte) (*loaded, metadata, error) {
	var m metadata
	if json.Unmarshal(r.mask(raw), &m) != nil {
		return nil, nil, errNoConversation
	}
	created, ok := m.time("created_at")
	if !ok {
		return nil, nil, errNoConversation
	}
	parsed, err := conversation.ParseID(id)
	if err != nil {
		return nil, nil, err
	}
	return &loaded{conv: recordOf(parsed, m, created), model: m.text("llm_model")}, m, nil
}

// legacyLog makes the log of the events, by their number.
func (r *reader) legacyLog(l *loaded, m metadata, events map[int64][]byte) error {
	t := newTranslator(l.conv.ID, l.conv.CreatedAt)
	r.number(l, t, events)
	t.end(l.model, usageOf(m), m.number("accumulated_cost"))
	l.digest = r.sum.Sum(nil)
	return l.finish(t.log)
}

func usageOf(m metadata) conversation.Usage {
	return conversation.Usage{PromptTokens: int64(m.number("prompt_tokens")), CompletionTokens: int64(m.number("completion_tokens"))}
}

func recordOf(id conversation.ID, m metadata, created time.Time) *conversation.Conversation {
	c := &conversation.Conversation{ID: id, Origin: conversation.OriginV0, Title: strings.TrimSpace(content.Head(m.text("title"), 800)),
		Repository: m.text("selected_repository"), Branch: m.text("selected_branch"), GitProvider: m.text("git_provider"),
		Trigger: m.text("trigger"), AgentKind: "openhands", AgentType: "default", CreatedAt: created, UpdatedAt: created}
	if !slices.Contains(account.Providers, c.GitProvider) {
		c.GitProvider = ""
	}
	_ = json.Unmarshal(m["pr_number"], &c.PRNumbers) // no list: none
	if at, ok := m.time("last_updated_at"); ok {
		c.UpdatedAt = at
	}
	return c
}

// legacyEvents are the events by their number. Those whose file is missing are looked
// for in the pages of the cache.
func (r *reader) legacyEvents(l *loaded, dir string) (map[int64][]byte, error) {
	names, err := r.names(path.Join(dir, "events"))
	if err != nil {
		return nil, fmt.Errorf("events: %s", why(err))
	}
	events := map[int64][]byte{}
	for _, name := range names {
		n, err := strconv.ParseInt(strings.TrimSuffix(name, ".json"), 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10)+".json" != name {
			l.problem("events/%s: it is no event", name)
			continue
		}
		raw, err := r.file(path.Join(dir, "events", name))
		if err != nil {
			l.problem("events/%s: %s", name, why(err))
			continue
		}
		events[n] = raw
	}
	return events, r.cached(l, dir, events)
}

// cached adds what only the cache has.
func (r *reader) cached(l *loaded, dir string, events map[int64][]byte) error {
	names, err := r.names(path.Join(dir, "event_cache"))
	if err != nil {
		return fmt.Errorf("event_cache: %s", why(err))
	}
	for _, name := range names {
		first, _, _ := strings.Cut(strings.TrimSuffix(name, ".json"), "-")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil || n < 0 {
			continue
		}
		var page []json.RawMessage
		raw, err := r.file(path.Join(dir, "event_cache", name))
		if err != nil || json.Unmarshal(raw, &page) != nil {
			l.problem("event_cache/%s: it cannot be read", name)
			continue
		}
		for i, ev := range page {
			at := n + int64(i)
			if _, ok := events[at]; at >= 0 && !ok && len(events) < maxEntries {
				events[at] = ev
			}
		}
	}
	return nil
}

// number puts the events into the log and keeps their numbers: a number without an
// event stands for an event that says nothing.
func (r *reader) number(l *loaded, t *translator, events map[int64][]byte) {
	ids := make([]int64, 0, len(events))
	for n := range events {
		ids = append(ids, n)
	}
	slices.Sort(ids)
	next, gaps := int64(0), int64(0)
	for _, n := range ids {
		if gaps += n - next; gaps > maxGaps {
			l.problem("events/%d.json and later ones: too many numbers before it are missing", n)
			return
		}
		if n > next {
			l.problem("events/%d.json: %d events before it are missing", n, n-next)
		}
		for ; next < n; next++ {
			r.keep(l, t, next, nothing(next, t.now), "")
		}
		r.mix(n, events[n])
		r.one(l, t, n, events[n])
		next = n + 1
	}
}

// one takes an event over.
func (r *reader) one(l *loaded, t *translator, n int64, raw []byte) {
	raw = r.mask(raw)
	e, err := legacy.Parse(raw)
	if err != nil {
		l.problem("events/%d.json: %v", n, err)
		r.keep(l, t, n, nothing(n, t.now), "")
		return
	}
	if e.ID != n {
		l.problem("events/%d.json: its id is %d; the number of the file counts", n, e.ID)
	}
	t.take(n, e)
	state := ""
	if e.Observation == legacy.ObservationState {
		state = t.state
	}
	r.keep(l, t, n, whole(raw, n, e, t.now), state)
}

func (r *reader) keep(l *loaded, t *translator, n int64, raw []byte, state string) {
	l.raw = append(l.raw, raw)
	l.numbers = append(l.numbers, store.ProjectionEntry{ID: n, Seq: int64(len(t.log)) - 1, Part: r.part(state)})
}

// nothing is an event that says nothing.
func nothing(n int64, at time.Time) []byte {
	return fmt.Appendf(nil, `{"id":%d,"timestamp":%q,"source":"environment","message":"No observation","observation":"null","content":"","extras":{}}`,
		n, conversation.FormatTime(at))
}

// whole is an event with its number as id, compact, with the members that clients want
// and that old versions did not write.
func whole(raw []byte, n int64, e *legacy.Event, at time.Time) []byte {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return raw
	}
	m["id"] = strconv.AppendInt(nil, n, 10)
	with(m, "timestamp", strconv.Quote(conversation.FormatTime(at)))
	complete(m, e)
	out, err := content.Marshal(m)
	if err != nil {
		return raw
	}
	return bytes.TrimSpace(out)
}

// finish encodes the log and sums it up in the record.
func (l *loaded) finish(log []conversation.Payload) error {
	state := conversation.NewState()
	for i, p := range log {
		ev, err := conversation.Encode(p)
		if err != nil {
			return err
		}
		ev.Seq = int64(i)
		state.Apply(ev, p)
		l.events = append(l.events, ev)
	}
	return l.sumUp(state)
}

// sumUp takes over what a log leads to.
func (l *loaded) sumUp(state *conversation.State) error {
	l.conv.Summary = state.Summary()
	l.conv.Options.Imported = &conversation.Imported{UserMessage: state.LastUserMsgID}
	if n := len(l.events); n > 0 {
		if at, ok := parseTime(l.events[n-1].Timestamp, time.UTC); ok {
			l.conv.LastEventAt = at
			if at.After(l.conv.UpdatedAt) {
				l.conv.UpdatedAt = at
			}
		}
	}
	return nil
}
