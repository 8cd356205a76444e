package conversation_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/content"
	"parley/internal/conversation"
)

func said(id, source string) *conversation.MessageEvent {
	h := head(conversation.KindMessage, source)
	h.ID = id
	return &conversation.MessageEvent{Header: h, LLMMessage: conversation.LLMMessage{Role: content.RoleUser}}
}

func goTo(id any) *conversation.StateUpdateEvent {
	raw, err := json.Marshal(id)
	if err != nil {
		panic(err)
	}
	return &conversation.StateUpdateEvent{Header: head(conversation.KindStateUpdate, conversation.SourceEnvironment),
		Key: conversation.KeyLeaf, Value: raw}
}

// put adds an event as the writer of a log does: with its parent where that does
// not go without saying.
func (b *builder) put(p conversation.Payload) {
	b.t.Helper()
	conversation.HeaderOf(p).ParentID = b.state.Parent()
	b.add(p)
}

func ids(path []conversation.Payload) string {
	var all []string
	for _, p := range path {
		all = append(all, conversation.HeaderOf(p).ID)
	}
	return strings.Join(all, " ")
}

func (b *builder) branch(want string) {
	b.t.Helper()
	if got := ids(b.state.Branch.Path()); got != want {
		b.t.Fatalf("branch %q, want %q", got, want)
	}
}

func TestBranchGoesWhereTheLeafGoes(t *testing.T) {
	b := newBuilder(t)
	for _, id := range []string{"a", "b", "c"} {
		b.put(said(id, "user"))
	}
	b.put(goTo("a"))
	b.branch("a")
	if b.state.Parent() != "a" || b.state.LastUserMsgID != "a" {
		t.Fatalf("parent %q, last message %q", b.state.Parent(), b.state.LastUserMsgID)
	}
	b.put(said("d", "user"))
	b.branch("a d")
	if b.state.Parent() != "" {
		t.Fatalf("parent %q after the last event", b.state.Parent())
	}
	b.put(said("e", "user"))
	b.put(goTo("c"))
	b.branch("a b c")
	b.put(goTo("nowhere"))
	b.branch("a b c")
	b.put(goTo("e"))
	b.branch("a d e")
	b.put(goTo(nil))
	b.branch("")
	if b.state.Parent() != conversation.RootParent {
		t.Fatalf("parent %q at the start", b.state.Parent())
	}
	b.put(said("f", "user"))
	b.branch("f")
	b.put(goTo("b"))
	b.branch("a b")
}

// Logs of other servers name every parent, and may leave the leaf's updates out.
func TestBranchFollowsParents(t *testing.T) {
	b := newBuilder(t)
	for _, e := range [][2]string{{"a", conversation.RootParent}, {"b", "a"}, {"c", "a"}, {"d", "unknown"}, {"e", "b"}} {
		m := said(e[0], "user")
		m.ParentID = e[1]
		b.add(m)
	}
	b.branch("a b e")
	b.put(goTo("d"))
	b.branch("a c d") // an unknown parent is the event before
}

func TestOpenCallsAreThoseOfTheBranch(t *testing.T) {
	b := newBuilder(t)
	b.put(said("u", "user"))
	b.put(action("a1", "call_0"))
	b.put(&conversation.ObservationEvent{Header: head(conversation.KindObservation, "environment"), ToolCallID: "call_0",
		ActionID: "a1", Observation: json.RawMessage(`{}`)})
	if len(b.state.Pending) != 0 {
		t.Fatal("an answered call is open")
	}
	b.put(goTo("a1"))
	if pendingIDs(b.state) != "a1" {
		t.Fatalf("open on the branch before the answer: %q", pendingIDs(b.state))
	}
	b.put(goTo("u"))
	if len(b.state.Pending) != 0 || b.state.LastUserMsgID != "u" {
		t.Fatalf("open %q, last message %q", pendingIDs(b.state), b.state.LastUserMsgID)
	}
}

// Whatever the moves, the branch is the chain of parents of its leaf, and a log
// that is read again gives the same state.
func TestBranchIsTheChainOfParents(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBuilder(t)
		parent := map[string]string{}
		var known []string
		leaf := ""
		var log []conversation.Event
		for i := range rapid.IntRange(1, 40).Draw(rt, "events") {
			if len(known) > 0 && rapid.IntRange(0, 3).Draw(rt, "move") == 0 {
				leaf = rapid.SampledFrom(append([]string{""}, known...)).Draw(rt, "to")
				var to any
				if leaf != "" {
					to = leaf
				}
				log = append(log, b.add(goTo(to)))
				continue
			}
			m := said(fmt.Sprintf("e%d", i), "user")
			m.ParentID = b.state.Parent()
			parent[m.ID], leaf, known = leaf, m.ID, append(known, m.ID)
			log = append(log, b.add(m))
		}
		var chain []string
		for id := leaf; id != ""; id = parent[id] {
			chain = append(chain, id)
		}
		slices.Reverse(chain)
		if got := ids(b.state.Branch.Path()); got != strings.Join(chain, " ") {
			rt.Fatalf("branch %q, want %q", got, chain)
		}
		again := conversation.NewState()
		for _, ev := range log {
			p, err := conversation.Decode(ev)
			if err != nil {
				rt.Fatal(err)
			}
			again.Apply(ev, p)
		}
		if ids(again.Branch.Path()) != ids(b.state.Branch.Path()) || again.Parent() != b.state.Parent() {
			rt.Fatal("the log read again gives another branch")
		}
		for _, id := range known {
			path, ok := b.state.Branch.At(id)
			if !ok || conversation.HeaderOf(path[len(path)-1]).ID != id {
				rt.Fatalf("the path to %s is %q", id, ids(path))
			}
		}
	})
}

// Going back and forth in a long log takes time in proportion to it, and no more.
func BenchmarkNavigate(b *testing.B) {
	s := conversation.NewState()
	add := func(p conversation.Payload) {
		if conversation.HeaderOf(p).Kind != conversation.KindStateUpdate {
			conversation.HeaderOf(p).ParentID = s.Parent()
		}
		ev, err := conversation.Encode(p)
		if err != nil {
			b.Fatal(err)
		}
		ev.Seq = s.Head
		s.Apply(ev, p)
	}
	const events = 20_000
	for _, branch := range []string{"a", "b"} {
		for i := range events {
			add(said(fmt.Sprint(branch, i), "user"))
		}
		add(goTo(nil))
	}
	ends := []string{fmt.Sprint("a", events-1), fmt.Sprint("b", events-1)}
	for i := 0; b.Loop(); i++ {
		add(goTo(ends[i%2]))
	}
}
