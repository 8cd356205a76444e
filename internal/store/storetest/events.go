package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

var eventTests = map[string]func(*suite){
	"AppendAndRead":     eventAppendAndRead,
	"AppendRefused":     eventAppendRefused,
	"DuplicateID":       eventDuplicateID,
	"SummaryOnly":       eventSummaryOnly,
	"RawIsExact":        eventRawIsExact,
	"Filters":           eventFilters,
	"TimesOutOfOrder":   eventTimesOutOfOrder,
	"SearchModel":       eventSearchModel,
	"PagingWhileGrows":  eventPaging,
	"LargeEvents":       eventLarge,
	"ByID":              eventByID,
	"Unknown":           eventUnknown,
	"OneWinnerPerHead":  eventOneWinner,
	"ManyLogs":          eventManyLogs,
	"FailureIsAlone":    eventFailureIsAlone,
	"CanceledIsNotDone": eventCanceled,
}

func eventAppendAndRead(s *suite) {
	s.create("u", "c")
	batch := []conversation.Event{message("e0", "zero", at(0)), message("e1", "one", at(1)), message("e2", "two", at(2))}
	summary := conversation.Summary{Status: conversation.Running, Head: 3,
		Metrics: conversation.Metrics{ModelName: "m", AccumulatedCost: 1.5}}
	s.ok(s.Events().Append(s.ctx, store.Append{Conversation: "c", Events: batch, Summary: summary, Now: at(7)}))
	for i, e := range batch {
		if e.Seq != int64(i) {
			s.Errorf("event %d got seq %d", i, e.Seq)
		}
	}
	c := s.get("c")
	s.equal(c.Summary, summary)
	if !c.UpdatedAt.Equal(at(7)) || !c.LastEventAt.Equal(at(7)) || !c.CreatedAt.Equal(epoch) {
		s.Errorf("times: updated %v, last event %v, created %v", c.UpdatedAt, c.LastEventAt, c.CreatedAt)
	}
	for _, r := range []struct {
		after int64
		limit int
		want  []string
	}{{-1, 10, []string{"e0", "e1", "e2"}}, {-1, 2, []string{"e0", "e1"}}, {0, 1, []string{"e1"}},
		{1, 10, []string{"e2"}}, {2, 10, []string{}}, {99, 10, []string{}}} {
		got, err := s.Events().Read(s.ctx, "c", r.after, r.limit)
		s.ok(err)
		s.equal(ids(got), r.want)
	}
	got, err := s.Events().Read(s.ctx, "c", -1, 10)
	s.ok(err)
	s.equal(got, batch)
}

func eventAppendRefused(s *suite) {
	s.create("u", "c")
	s.append("c", message("e0", "zero", at(0)))
	_, err := s.Leases().Acquire(s.ctx, "c", "me", at(0), 10e9)
	s.ok(err)
	before := s.get("c")
	try := func(id conversation.ID, head, generation int64) error {
		events := []conversation.Event{message("x0", "no", at(9)), message("x1", "no", at(9))}
		return s.Events().Append(s.ctx, store.Append{Conversation: id, ExpectHead: head, Generation: generation,
			Events: events, Summary: conversation.Summary{Status: conversation.Error}, Now: at(9)})
	}
	s.fails(try("c", 0, 1), fault.Conflict, store.CodeHeadMoved)
	s.fails(try("c", 2, 1), fault.Conflict, store.CodeHeadMoved)
	s.fails(try("c", 1, 0), fault.Conflict, store.CodeLeaseLost)
	s.fails(try("c", 1, 2), fault.Conflict, store.CodeLeaseLost)
	s.fails(try("absent", 0, 0), fault.NotFound, "")
	s.equal(s.get("c"), before)
	s.ok(try("c", 1, 1))
}

func eventDuplicateID(s *suite) {
	s.create("u", "c")
	s.create("u", "d")
	s.append("c", message("same", "first", at(0)))
	s.append("d", message("same", "another log", at(0)))
	before := s.get("c")
	err := s.Events().Append(s.ctx, store.Append{Conversation: "c", ExpectHead: 1, Now: at(5),
		Events: []conversation.Event{message("new", "x", at(1)), message("same", "second", at(1))}})
	s.fails(err, fault.Conflict, store.CodeExists)
	s.equal(s.get("c"), before)
	n, err := s.Events().Count(s.ctx, store.EventQuery{Conversation: "c"})
	s.ok(err)
	if n != 1 {
		s.Errorf("%d events after a refused append, want 1", n)
	}
}

func eventSummaryOnly(s *suite) {
	s.create("u", "c")
	s.append("c", message("e0", "x", at(0)))
	s.ok(s.Events().Append(s.ctx, store.Append{Conversation: "c", ExpectHead: 1, Now: at(90),
		Summary: conversation.Summary{Status: conversation.Stuck, Head: 1}}))
	c := s.get("c")
	if c.Summary.Status != conversation.Stuck || c.Summary.Head != 1 || !c.UpdatedAt.Equal(at(90)) || !c.LastEventAt.Equal(at(60)) {
		s.Errorf("record after an append without events: %+v", c.Summary)
	}
}

func eventRawIsExact(s *suite) {
	s.create("u", "c")
	raws := []string{
		`{"a":1}`, " {\n\t\"b\" : 1e400 } \r\n", `{"k":"\u0000\ud800é` + "\u2028" + `"}`, `{"a":1,"a":2}`, "{\"x\":\"\x00\xff\xfe\"}",
		`{"big":"` + strings.Repeat("x", 3<<20) + `"}`, `{"n":0.1000000000000000055511151231257827}`, `"text"`, "[]",
	}
	for i, raw := range raws {
		e := plain(fmt.Sprint(i), "Odd'Kind", "s", at(i))
		e.Raw = json.RawMessage(raw)
		s.append("c", e)
	}
	got, err := s.Events().Read(s.ctx, "c", -1, 100)
	s.ok(err)
	for i, raw := range raws {
		if !bytes.Equal(got[i].Raw, []byte(raw)) {
			s.Errorf("event %d came back as %.60q, want %.60q", i, got[i].Raw, raw)
		}
	}
}

// filterLog is a log with several kinds, sources and times.
func filterLog(s *suite) {
	s.create("u", "c")
	s.append("c", plain("e0", "A", "agent", at(0)), message("e1", "Hello 100% WÖRLD", at(1)), plain("e2", "B", "user", at(2)),
		plain("e3", "A", "environment", at(2)), message("e4", "bye", at(3)), plain("e5", "A", "agent", at(4)))
	s.create("u", "other")
	s.append("other", message("o1", "Hello", at(1)))
}

func eventFilters(s *suite) {
	filterLog(s)
	type query = store.EventQuery
	cases := []struct {
		name string
		q    query
		want []string
	}{
		{"nothing", query{}, []string{"e0", "e1", "e2", "e3", "e4", "e5"}},
		{"kind", query{Kind: "A"}, []string{"e0", "e3", "e5"}},
		{"unknown kind", query{Kind: "C"}, []string{}},
		{"source", query{Source: "user"}, []string{"e1", "e2", "e4"}},
		{"kind and source", query{Kind: "A", Source: "agent"}, []string{"e0", "e5"}},
		{"body in another case", query{Body: "100% wörld"}, []string{"e1"}},
		{"body is literal", query{Body: "1%0"}, []string{}},
		{"body of another kind", query{Body: "e0", Kind: "A"}, []string{}},
		{"from is inclusive", query{From: conversation.FormatTime(at(2))}, []string{"e2", "e3", "e4", "e5"}},
		{"to is exclusive", query{To: conversation.FormatTime(at(2))}, []string{"e0", "e1"}},
		{"from and to", query{From: conversation.FormatTime(at(1)), To: conversation.FormatTime(at(3))}, []string{"e1", "e2", "e3"}},
		{"nothing between", query{From: conversation.FormatTime(at(3)), To: conversation.FormatTime(at(1))}, []string{}},
		{"before all", query{To: "2000"}, []string{}},
		{"after all", query{From: "2100"}, []string{}},
		{"kind and times", query{Kind: "A", From: conversation.FormatTime(at(1))}, []string{"e3", "e5"}},
	}
	for _, c := range cases {
		s.Run(c.name, func(t *testing.T) {
			sub := &suite{T: t, Store: s.Store, ctx: s.ctx}
			c.q.Conversation = "c"
			for _, desc := range []bool{false, true} {
				c.q.Desc = desc
				sub.equal(sub.allPages(c.q, 2), directed(c.want, desc))
			}
			n, err := s.Events().Count(s.ctx, c.q)
			sub.ok(err)
			if n != len(c.want) {
				t.Errorf("count %d, want %d", n, len(c.want))
			}
		})
	}
}

func directed(want []string, desc bool) []string {
	if !desc {
		return want
	}
	back := slices.Clone(want)
	slices.Reverse(back)
	return back
}

// allPages follows NextID as the APIs do: look the id up, go on at its seq.
func (s *suite) allPages(q store.EventQuery, limit int) []string {
	s.Helper()
	q.Limit = limit
	got := []string{}
	for {
		p, err := s.Events().Search(s.ctx, q)
		s.ok(err)
		if len(p.Items) > limit {
			s.Fatalf("%d items on a page of %d", len(p.Items), limit)
		}
		got = append(got, ids(p.Items)...)
		if p.NextID == "" {
			return got
		}
		next, err := s.Events().ByID(s.ctx, q.Conversation, []string{p.NextID})
		s.ok(err)
		if next[0] == nil {
			s.Fatalf("the next page starts at %q, which is not there", p.NextID)
		}
		q.AtOrAfter = &next[0].Seq
	}
}

// eventTimesOutOfOrder: imported events may jump back in time; filters compare
// each event then.
func eventTimesOutOfOrder(s *suite) {
	s.create("u", "c")
	s.append("c", plain("a", "A", "s", at(5)), plain("b", "A", "s", at(1)))
	s.append("c", plain("c", "A", "s", at(9)), plain("d", "A", "s", at(3)))
	q := store.EventQuery{Conversation: "c", From: conversation.FormatTime(at(2)), To: conversation.FormatTime(at(9))}
	s.equal(s.allPages(q, 1), []string{"a", "d"})
	n, err := s.Events().Count(s.ctx, q)
	s.ok(err)
	if n != 2 {
		s.Errorf("count %d, want 2", n)
	}
}

// eventSearchModel compares searches with a loop over a slice.
func eventSearchModel(s *suite) {
	round := 0
	rapid.Check(s.T, func(t *rapid.T) {
		round++
		id := conversation.ID(fmt.Sprintf("c%d", round))
		if err := s.Conversations().Create(s.ctx, &conversation.Conversation{ID: id}); err != nil {
			t.Fatal(err)
		}
		steps := rapid.SampledFrom([][]int{{0, 1, 2}, {-2, 0, 1, 2}}).Draw(t, "steps") // with and without jumps back
		var log []conversation.Event
		now := 100
		for i := range rapid.IntRange(0, 30).Draw(t, "length") {
			now += rapid.SampledFrom(steps).Draw(t, "step")
			log = append(log, plain(fmt.Sprint(i), rapid.SampledFrom([]string{"A", "B"}).Draw(t, "kind"),
				rapid.SampledFrom([]string{"x", "y"}).Draw(t, "source"), at(now)))
		}
		for head := 0; head < len(log); {
			n := rapid.IntRange(1, len(log)-head).Draw(t, "append")
			err := s.Events().Append(s.ctx, store.Append{Conversation: id, ExpectHead: int64(head), Events: log[head : head+n], Now: at(now)})
			if err != nil {
				t.Fatal(err)
			}
			head += n
		}
		for range 5 {
			q := drawEventQuery(t, id, len(log))
			want, more := modelSearch(log, q)
			p, err := s.Events().Search(s.ctx, q)
			if err != nil || !slices.Equal(ids(p.Items), want) || p.NextID != more {
				t.Fatalf("%+v: %v next %q (%v), want %v next %q", q, ids(p.Items), p.NextID, err, want, more)
			}
		}
	})
}

func drawEventQuery(t *rapid.T, id conversation.ID, length int) store.EventQuery {
	q := store.EventQuery{Conversation: id, Desc: rapid.Bool().Draw(t, "desc"), Limit: rapid.IntRange(1, 8).Draw(t, "limit"),
		Kind:   rapid.SampledFrom([]string{"", "A", "B", "C"}).Draw(t, "q.kind"),
		Source: rapid.SampledFrom([]string{"", "x"}).Draw(t, "q.source")}
	if rapid.Bool().Draw(t, "has from") {
		q.From = conversation.FormatTime(at(rapid.IntRange(80, 140).Draw(t, "from")))
	}
	if rapid.Bool().Draw(t, "has to") {
		q.To = conversation.FormatTime(at(rapid.IntRange(80, 140).Draw(t, "to")))
	}
	if rapid.Bool().Draw(t, "has start") {
		start := int64(rapid.IntRange(-1, length+1).Draw(t, "start"))
		q.AtOrAfter = &start
	}
	return q
}

func modelSearch(log []conversation.Event, q store.EventQuery) (found []string, next string) {
	log = slices.Clone(log)
	if q.Desc {
		slices.Reverse(log)
	}
	for _, e := range log {
		switch {
		case q.Kind != "" && e.Kind != q.Kind, q.Source != "" && e.Source != q.Source,
			q.From != "" && e.Timestamp < q.From, q.To != "" && e.Timestamp >= q.To,
			q.AtOrAfter != nil && !q.Desc && e.Seq < *q.AtOrAfter, q.AtOrAfter != nil && q.Desc && e.Seq > *q.AtOrAfter:
		case len(found) == q.Limit:
			return found, e.ID
		default:
			found = append(found, e.ID)
		}
	}
	return found, ""
}

// eventPaging appends between the pages of both directions.
func eventPaging(s *suite) {
	s.create("u", "c")
	want := []string{}
	for i := range 25 {
		id := fmt.Sprintf("e%02d", i)
		s.append("c", plain(id, "A", "s", at(i)))
		want = append(want, id)
	}
	for _, desc := range []bool{false, true} {
		q := store.EventQuery{Conversation: "c", Desc: desc, Limit: 4}
		got := []string{}
		for n := 0; ; n++ {
			p, err := s.Events().Search(s.ctx, q)
			s.ok(err)
			got = append(got, ids(p.Items)...)
			if p.NextID == "" {
				break
			}
			next, err := s.Events().ByID(s.ctx, "c", []string{p.NextID})
			s.ok(err)
			q.AtOrAfter = &next[0].Seq
			if n < 3 {
				s.append("c", plain(fmt.Sprintf("late-%v-%d", desc, n), "A", "s", at(100)))
			}
		}
		got = slices.DeleteFunc(got, func(id string) bool { return strings.HasPrefix(id, "late") })
		s.equal(got, directed(want, desc))
	}
}

func eventByID(s *suite) {
	filterLog(s)
	got, err := s.Events().ByID(s.ctx, "c", []string{"e4", "o1", "e0", "", "e4"})
	s.ok(err)
	names := make([]string, len(got))
	for i, e := range got {
		if e != nil {
			names[i] = fmt.Sprint(e.ID, e.Seq)
		}
	}
	s.equal(names, []string{"e44", "", "e00", "", "e44"})
	got, err = s.Events().ByID(s.ctx, "c", nil)
	s.ok(err)
	if len(got) != 0 {
		s.Errorf("no ids gave %d events", len(got))
	}
}

// eventUnknown: an unknown conversation is not an empty one.
func eventUnknown(s *suite) {
	_, err := s.Events().Read(s.ctx, "absent", -1, 5)
	s.fails(err, fault.NotFound, "")
	_, err = s.Events().Search(s.ctx, store.EventQuery{Conversation: "absent"})
	s.fails(err, fault.NotFound, "")
	_, err = s.Events().Count(s.ctx, store.EventQuery{Conversation: "absent"})
	s.fails(err, fault.NotFound, "")
	_, err = s.Events().ByID(s.ctx, "absent", []string{"x"})
	s.fails(err, fault.NotFound, "")
}

// eventOneWinner lets many writers race for every head of one log.
func eventOneWinner(s *suite) {
	s.create("u", "c")
	const writers, heads = 8, 25
	var wins [heads]atomic.Int32
	parallel(s.T, writers, func(w int) error {
		for head := range heads {
			err := s.Events().Append(s.ctx, store.Append{Conversation: "c", ExpectHead: int64(head), Now: at(head),
				Events: []conversation.Event{plain(fmt.Sprintf("%d-%d", w, head), "A", "s", at(head))}})
			switch {
			case err == nil:
				wins[head].Add(1)
			case fault.CodeOf(err) != store.CodeHeadMoved:
				return err
			}
		}
		return nil
	})
	for head := range wins {
		if n := wins[head].Load(); n != 1 {
			s.Errorf("head %d had %d winners", head, n)
		}
	}
	s.gapFree("c", heads)
}

func (s *suite) gapFree(id conversation.ID, want int) {
	s.Helper()
	got, err := s.Events().Read(s.ctx, id, -1, want+10)
	s.ok(err)
	if len(got) != want || s.get(id).Summary.Head != int64(want) {
		s.Errorf("log %s has %d events and head %d, want %d", id, len(got), s.get(id).Summary.Head, want)
	}
	for i, e := range got {
		if e.Seq != int64(i) {
			s.Fatalf("log %s: event %d has seq %d", id, i, e.Seq)
		}
	}
}

func eventManyLogs(s *suite) {
	const logs, length = 24, 20
	for i := range logs {
		s.create("u", fmt.Sprint("c", i))
	}
	parallel(s.T, logs, func(i int) error {
		id := conversation.ID(fmt.Sprint("c", i))
		for n := range length {
			err := s.Events().Append(s.ctx, store.Append{Conversation: id, ExpectHead: int64(n), Now: at(n),
				Events: []conversation.Event{plain(fmt.Sprint(n), "A", "s", at(n))}})
			if err != nil {
				return err
			}
		}
		return nil
	})
	for i := range logs {
		s.gapFree(conversation.ID(fmt.Sprint("c", i)), length)
	}
}

// eventFailureIsAlone mixes writes that must fail with writes that must not.
func eventFailureIsAlone(s *suite) {
	const logs = 16
	for i := range logs {
		s.create("u", fmt.Sprint("c", i))
	}
	parallel(s.T, logs*3, func(i int) error {
		id := conversation.ID(fmt.Sprint("c", i%logs))
		switch i / logs {
		case 0:
			return s.Events().Append(s.ctx, store.Append{Conversation: id, Now: at(1),
				Events: []conversation.Event{plain("good", "A", "s", at(1))}})
		case 1:
			err := s.Events().Append(s.ctx, store.Append{Conversation: id, ExpectHead: 7, Now: at(1),
				Events: []conversation.Event{plain("bad", "A", "s", at(1))}})
			if fault.CodeOf(err) != store.CodeHeadMoved {
				return fmt.Errorf("wrong head: %w", err)
			}
		default:
			err := s.Events().Append(s.ctx, store.Append{Conversation: id, Generation: 3, Now: at(1),
				Events: []conversation.Event{plain("bad", "A", "s", at(1))}})
			if fault.CodeOf(err) != store.CodeLeaseLost {
				return fmt.Errorf("wrong generation: %w", err)
			}
		}
		return nil
	})
	for i := range logs {
		s.gapFree(conversation.ID(fmt.Sprint("c", i)), 1)
	}
}

// eventCanceled cancels appends at random moments: what is reported as done is
// done, and what is reported as canceled is not.
func eventCanceled(s *suite) {
	const writers = 12
	for i := range writers {
		s.create("u", fmt.Sprint("c", i))
	}
	var head [writers]int
	parallel(s.T, writers, func(i int) error {
		id := conversation.ID(fmt.Sprint("c", i))
		for n := range 20 {
			ctx, cancel := context.WithCancel(s.ctx)
			stop := make(chan struct{})
			go func() { defer close(stop); cancel() }()
			err := s.Events().Append(ctx, store.Append{Conversation: id, ExpectHead: int64(head[i]), Now: at(n),
				Events: []conversation.Event{plain(fmt.Sprint(n), "A", "s", at(n))}})
			<-stop
			switch {
			case err == nil:
				head[i]++
			case !fault.Is(err, fault.Canceled):
				return err
			}
		}
		return nil
	})
	for i := range writers {
		s.gapFree(conversation.ID(fmt.Sprint("c", i)), head[i])
	}
}

// eventLarge: a page has no more bytes than it may, whatever its limit, and the pages
// together have every event once.
func eventLarge(s *suite) {
	s.create("u", "c")
	sizes := []int{1, 6 << 20, 6 << 20, 6 << 20, 20 << 20, 1, 1, 15 << 20, 2 << 20}
	want := []string{}
	for i, size := range sizes {
		id := fmt.Sprintf("e%d", i)
		s.append("c", message(id, strings.Repeat("x", size), at(i)))
		want = append(want, id)
	}
	for _, desc := range []bool{false, true} {
		q := store.EventQuery{Conversation: "c", Desc: desc}
		s.equal(s.allPages(q, 1000), directed(want, desc))
		page, err := s.Events().Search(s.ctx, q)
		s.ok(err)
		size := 0
		for _, e := range page.Items {
			size += len(e.Raw)
		}
		if size > store.MaxEventPage || page.NextID == "" {
			s.Errorf("descending %v: %d bytes in %d events, next %q", desc, size, len(page.Items), page.NextID)
		}
	}
}
