package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/internal/fault"
	"parley/internal/store"
)

var networkTests = map[string]func(*suite){
	"RoundTrip":         networkRoundTrip,
	"LaterStateCounts":  networkReplaced,
	"Pages":             networkPages,
	"Filters":           networkFilters,
	"KeepsTheNewest":    networkKeeps,
	"CloseOpen":         networkCloseOpen,
	"Delete":            networkDelete,
	"NamelessIsADefect": networkNameless,
	"Wanted":            sandboxWanted,
}

func connection(box, id string, seconds int) store.NetworkEntry {
	return store.NetworkEntry{SandboxID: box, ID: id, Began: at(seconds), Protocol: "tcp", Host: "host.example",
		Address: "203.0.113.7", Port: 443, Sent: 1, Received: 2, Verdict: "allowed"}
}

func (s *suite) network(q store.NetworkQuery) []store.NetworkEntry {
	s.Helper()
	p, err := s.NetworkLog().Search(s.ctx, q)
	s.ok(err)
	if p.Items == nil {
		s.Error("an empty list is nil")
	}
	return p.Items
}

func (s *suite) networkIDs(q store.NetworkQuery) string {
	s.Helper()
	var out []string
	for _, e := range s.network(q) {
		out = append(out, e.ID)
	}
	return strings.Join(out, " ")
}

func networkRoundTrip(s *suite) {
	full := store.NetworkEntry{SandboxID: "b", ID: "full", Began: at(2), Lasted: 1500 * time.Microsecond, Protocol: "udp", Host: "\u00fc\x00'\"%_",
		Address: "203.0.113.7", Port: 65535, Sent: 1 << 50, Received: 1 << 51, Verdict: "failed", Reason: "why"}
	bare := store.NetworkEntry{SandboxID: "b", ID: "bare", Began: at(1), Open: true}
	s.ok(s.NetworkLog().Write(s.ctx, []store.NetworkEntry{full, bare}, 10))
	s.equal(s.network(store.NetworkQuery{SandboxID: "b"}), []store.NetworkEntry{full, bare})
	s.ok(s.NetworkLog().Write(s.ctx, nil, 10))
	s.equal(s.network(store.NetworkQuery{SandboxID: "other"}), []store.NetworkEntry{})
	s.equal(s.network(store.NetworkQuery{}), []store.NetworkEntry{})
}

func networkReplaced(s *suite) {
	e := connection("b", "c", 1)
	e.Open, e.Sent = true, 0
	other := connection("other", "c", 1)
	s.ok(s.NetworkLog().Write(s.ctx, []store.NetworkEntry{e, other}, 10))
	e.Open, e.Sent, e.Received, e.Lasted, e.Reason, e.Port = false, 100, 200, time.Minute, "why", 1
	s.ok(s.NetworkLog().Write(s.ctx, []store.NetworkEntry{e}, 10))
	s.equal(s.network(store.NetworkQuery{SandboxID: "b"}), []store.NetworkEntry{e})
	e.Sent = 101
	last := e
	last.Sent = 102
	s.ok(s.NetworkLog().Write(s.ctx, []store.NetworkEntry{e, last}, 10)) // both in one
	s.equal(s.network(store.NetworkQuery{SandboxID: "b"}), []store.NetworkEntry{last})
	s.equal(s.network(store.NetworkQuery{SandboxID: "other"}), []store.NetworkEntry{other})
}

func networkPages(s *suite) {
	var entries []store.NetworkEntry
	for i := range 7 {
		entries = append(entries, connection("b", fmt.Sprint("c", i), i/3), connection("other", fmt.Sprint("c", i), i))
	}
	s.ok(s.NetworkLog().Write(s.ctx, entries, 100))
	for _, limit := range []int{1, 2, 3, 7, 100} {
		var got []string
		q := store.NetworkQuery{SandboxID: "b", Limit: limit}
		for {
			p, err := s.NetworkLog().Search(s.ctx, q)
			s.ok(err)
			for _, e := range p.Items {
				got = append(got, e.ID)
			}
			if q.Cursor = p.Next; q.Cursor == "" {
				break
			}
		}
		s.equal(got, []string{"c6", "c5", "c4", "c3", "c2", "c1", "c0"})
	}
	s.equal(len(s.network(store.NetworkQuery{SandboxID: "b", Cursor: "unknown"})), 7)
}

func networkFilters(s *suite) {
	list := []store.NetworkEntry{connection("b", "c1", 1), connection("b", "c2", 2), connection("b", "c3", 3)}
	list[0].Host, list[0].Verdict = "api.example.com", "refused"
	list[1].Host, list[1].Address = "", "198.51.100.9"
	list[2].Host = "Example.ORG"
	s.ok(s.NetworkLog().Write(s.ctx, list, 10))
	for _, c := range []struct{ verdict, host, want string }{
		{"", "", "c3 c2 c1"}, {"allowed", "", "c3 c2"}, {"refused", "", "c1"}, {"failed", "", ""},
		{"", "EXAMPLE", "c3 c1"}, {"", "example.org", "c3"}, {"", "198.51", "c2"}, {"", "%", ""}, {"", "_", ""},
		{"allowed", "example", "c3"}, {"", "203.0.113.7", "c3 c1"}, {"", "'", ""},
	} {
		s.equal(s.networkIDs(store.NetworkQuery{SandboxID: "b", Verdict: c.verdict, Host: c.host}), c.want)
	}
}

// networkKeeps: the oldest go, of each sandbox for itself; ties by id.
func networkKeeps(s *suite) {
	s.ok(s.NetworkLog().Write(s.ctx, []store.NetworkEntry{connection("other", "c", -100)}, 3))
	for i := range 5 {
		s.ok(s.NetworkLog().Write(s.ctx, []store.NetworkEntry{connection("b", fmt.Sprint("c", i), i/2)}, 3))
	}
	s.equal(s.networkIDs(store.NetworkQuery{SandboxID: "b"}), "c4 c3 c2")
	s.ok(s.NetworkLog().Write(s.ctx, []store.NetworkEntry{connection("b", "ancient", -5)}, 3))
	s.equal(s.networkIDs(store.NetworkQuery{SandboxID: "b"}), "c4 c3 c2")
	many := []store.NetworkEntry{}
	for i := range 300 {
		many = append(many, connection("b", fmt.Sprintf("m%03d", i), 10))
	}
	slices.Reverse(many)
	s.ok(s.NetworkLog().Write(s.ctx, many, 3))
	s.equal(s.networkIDs(store.NetworkQuery{SandboxID: "b"}), "m299 m298 m297")
	s.equal(s.networkIDs(store.NetworkQuery{SandboxID: "other"}), "c")
}

func networkCloseOpen(s *suite) {
	open, shut := connection("b", "open", 1), connection("b", "shut", 2)
	open.Open, shut.Lasted = true, time.Second
	s.ok(s.NetworkLog().Write(s.ctx, []store.NetworkEntry{open, shut}, 10))
	s.ok(s.NetworkLog().CloseOpen(s.ctx))
	open.Open = false
	s.equal(s.network(store.NetworkQuery{SandboxID: "b"}), []store.NetworkEntry{shut, open})
	s.ok(s.NetworkLog().CloseOpen(s.ctx))
}

func networkDelete(s *suite) {
	s.ok(s.NetworkLog().Write(s.ctx, []store.NetworkEntry{connection("b", "c", 1), connection("other", "c", 1)}, 10))
	s.ok(s.NetworkLog().Delete(s.ctx, "b"))
	s.ok(s.NetworkLog().Delete(s.ctx, "b"))
	s.equal(s.networkIDs(store.NetworkQuery{SandboxID: "b"}), "")
	s.equal(s.networkIDs(store.NetworkQuery{SandboxID: "other"}), "c")
}

// networkNameless: nothing of a write that has a defect is there.
func networkNameless(s *suite) {
	good := connection("b", "c", 1)
	for _, bad := range []store.NetworkEntry{connection("", "c", 1), connection("b", "", 1)} {
		s.fails(s.NetworkLog().Write(s.ctx, []store.NetworkEntry{good, bad}, 10), fault.Internal, "")
	}
	s.fails(s.NetworkLog().Write(s.ctx, []store.NetworkEntry{good}, 0), fault.Internal, "")
	s.equal(s.networkIDs(store.NetworkQuery{SandboxID: "b"}), "")
}

// sandboxWanted: none is not the same as an empty document.
func sandboxWanted(s *suite) {
	b := fullSandbox("b")
	for _, doc := range [][]byte{nil, []byte("{}"), []byte("{\"a\": [1,  2]}"), {}, nil} {
		b.Wanted = doc
		s.ok(s.Sandboxes().Save(s.ctx, b))
		got, err := s.Sandboxes().Get(s.ctx, "", "b")
		s.ok(err)
		s.equal(got, b)
	}
}
