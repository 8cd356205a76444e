// Package storetest is the conformance suite of the store seam: what every
// implementation must do, told as tests. It promises nothing about speed.
package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// Run runs the suite. open returns an empty store, which the suite closes.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	groups := []struct {
		name  string
		tests map[string]func(*suite)
	}{
		{"Conversations", conversationTests},
		{"Forks", forkTests},
		{"Replays", replayTests},
		{"Imports", importTests},
		{"Events", eventTests},
		{"Leases", leaseTests},
		{"StartTasks", taskTests},
		{"Accounts", accountTests},
		{"Sandboxes", sandboxTests},
		{"NetworkLog", networkTests},
		{"Commands", commandTests},
		{"Places", placeTests},
		{"Experiments", experimentTests},
		{"Projections", projectionTests},
		{"Ledger", ledgerTests},
		{"Extensions", extensionTests},
		{"Webhooks", webhookTests},
		{"Pending", pendingTests},
		{"Starts", startTests},
		{"Shares", shareTests},
		{"Search", searchTests},
		{"Store", storeTests},
	}
	for _, g := range groups {
		for name, test := range g.tests {
			t.Run(g.name+"/"+name, func(t *testing.T) {
				s := open(t)
				defer func() {
					if err := s.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
				}()
				test(&suite{T: t, Store: s, ctx: t.Context()})
			})
		}
	}
}

// suite is one test with its store.
type suite struct {
	*testing.T
	store.Store
	ctx context.Context
}

// epoch is the time tests count from; stores keep microseconds.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

func at(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// ok fails the test at once on an error.
func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("unexpected error: %v", err)
	}
}

// fails checks kind and code of an error; code "" matches any.
func (s *suite) fails(err error, kind fault.Kind, code string) {
	s.Helper()
	if !fault.Is(err, kind) || (code != "" && fault.CodeOf(err) != code) {
		s.Fatalf("error %v (kind %v, code %q), want kind %v, code %q",
			err, fault.KindOf(err), fault.CodeOf(err), kind, code)
	}
}

func (s *suite) equal(got, want any) {
	s.Helper()
	secrets := cmp.Comparer(func(a, b account.Secret) bool { return a.Reveal() == b.Reveal() })
	if diff := cmp.Diff(want, got, secrets); diff != "" {
		s.Fatalf("difference (-want +got):\n%s", diff)
	}
}

// create stores a small conversation.
func (s *suite) create(owner, id string, change ...func(*conversation.Conversation)) *conversation.Conversation {
	s.Helper()
	c := &conversation.Conversation{ID: conversation.ID(id), Owner: owner, Origin: conversation.OriginV1,
		Title: "Title of " + id, Summary: conversation.Summary{Status: conversation.Idle},
		CreatedAt: epoch, UpdatedAt: epoch}
	for _, f := range change {
		f(c)
	}
	s.ok(s.Conversations().Create(s.ctx, c))
	return c
}

func (s *suite) get(id conversation.ID) *conversation.Conversation {
	s.Helper()
	c, err := s.Conversations().Get(s.ctx, "", id)
	s.ok(err)
	return c
}

// message makes a MessageEvent of a user.
func message(id, text string, t time.Time) conversation.Event {
	e, err := conversation.Encode(&conversation.MessageEvent{
		Header: conversation.Header{Kind: conversation.KindMessage, ID: id, Source: conversation.SourceUser,
			Timestamp: conversation.FormatTime(t)},
		LLMMessage: conversation.LLMMessage{Role: "user", Content: []content.Part{content.Text(text)}},
	})
	if err != nil {
		panic(err) // a message always encodes
	}
	return e
}

// plain makes an event of a kind that nothing knows.
func plain(id, kind, source string, t time.Time) conversation.Event {
	stamp := conversation.FormatTime(t)
	raw := fmt.Sprintf(`{"kind":%q,"id":%q,"source":%q,"timestamp":%q}`, kind, id, source, stamp)
	return conversation.Event{ID: id, Kind: kind, Source: source, Timestamp: stamp, Raw: json.RawMessage(raw)}
}

// append adds events at the head that the record shows.
func (s *suite) append(id conversation.ID, events ...conversation.Event) {
	s.Helper()
	c := s.get(id)
	s.ok(s.Events().Append(s.ctx, store.Append{Conversation: id, ExpectHead: c.Summary.Head, Generation: c.Generation,
		Events: events, Summary: conversation.Summary{Status: c.Summary.Status}, Now: at(60)}))
}

func ids(events []conversation.Event) []string {
	out := make([]string, len(events))
	for i, e := range events {
		out[i] = e.ID
	}
	return out
}
