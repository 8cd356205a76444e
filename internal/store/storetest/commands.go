package storetest

import (
	"fmt"
	"strings"

	"parley/internal/fault"
	"parley/internal/store"
)

var commandTests = map[string]func(*suite){
	"RoundTrip":      commandRoundTrip,
	"Filters":        commandFilters,
	"Pages":          commandPages,
	"PagesAreSmall":  commandPageBytes,
	"FinalCloses":    commandFinal,
	"Trim":           commandTrim,
	"Delete":         commandDelete,
	"BatchHasHoles":  commandBatch,
	"NamelessIsBad":  commandNameless,
	"SeqIsNotReused": commandSeq,
}

func command(box, id string, seconds int) store.CommandEvent {
	return store.CommandEvent{SandboxID: box, ID: id, Kind: "BashCommand", Piece: -1, Open: true, Time: at(seconds), Raw: []byte(`{"id":"` + id + `"}`)}
}

func output(box, id, of string, piece, seconds int) store.CommandEvent {
	return store.CommandEvent{SandboxID: box, ID: id, Kind: "BashOutput", CommandID: of, Piece: piece, Time: at(seconds), Raw: []byte(`{"id":"` + id + `"}`)}
}

// appendCommands stores events and returns them as they must come back.
func (s *suite) appendCommands(events ...store.CommandEvent) []store.CommandEvent {
	s.Helper()
	for i := range events {
		seq, err := s.Commands().Append(s.ctx, events[i])
		s.ok(err)
		events[i].Seq, events[i].Final = seq, false
	}
	return events
}

func (s *suite) commands(q store.CommandQuery) (found []string, next string) {
	s.Helper()
	items, next, err := s.Commands().Search(s.ctx, q)
	s.ok(err)
	if items == nil {
		s.Error("an empty list is nil")
	}
	for _, e := range items {
		found = append(found, e.ID)
	}
	return found, next
}

func commandRoundTrip(s *suite) {
	events := s.appendCommands(command("b", "c1", 1), output("b", "o1", "c1", 0, 2), command("other", "c1", 3))
	items, next, err := s.Commands().Search(s.ctx, store.CommandQuery{SandboxID: "b"})
	s.ok(err)
	s.equal(items, events[:2])
	s.equal(next, "")
	_, err = s.Commands().Append(s.ctx, command("b", "c1", 1))
	if err == nil {
		s.Error("two events have one id")
	}
}

func commandFilters(s *suite) {
	events := s.appendCommands(command("b", "c1", 1), output("b", "o0", "c1", 0, 2), command("b", "c2", 3), output("b", "o1", "c1", 1, 4),
		output("b", "p0", "c2", 0, 5))
	zero, below := 0, -5
	for name, test := range map[string]struct {
		q    store.CommandQuery
		want string
	}{
		"all":               {store.CommandQuery{}, "c1 o0 c2 o1 p0"},
		"newest first":      {store.CommandQuery{Desc: true}, "p0 o1 c2 o0 c1"},
		"commands":          {store.CommandQuery{Kind: "BashCommand"}, "c1 c2"},
		"outputs of one":    {store.CommandQuery{CommandID: "c1"}, "o0 o1"},
		"beyond an order":   {store.CommandQuery{CommandID: "c1", Beyond: &zero}, "o1"},
		"beyond none":       {store.CommandQuery{Beyond: &below}, "o0 o1 p0"},
		"from on, up to":    {store.CommandQuery{From: at(2), To: at(4)}, "o0 c2"},
		"after a seq":       {store.CommandQuery{After: events[2].Seq}, "o1 p0"},
		"a page's first":    {store.CommandQuery{First: "c2"}, "c2 o1 p0"},
		"the same backward": {store.CommandQuery{First: "c2", Desc: true}, "c2 o0 c1"},
		"an unknown first":  {store.CommandQuery{First: "gone"}, "c1 o0 c2 o1 p0"},
	} {
		test.q.SandboxID = "b"
		found, _ := s.commands(test.q)
		if got := strings.Join(found, " "); got != test.want {
			s.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func commandPages(s *suite) {
	var all []string
	for i := range 7 {
		id := fmt.Sprintf("e%d", i)
		all = append(all, id)
		s.appendCommands(command("b", id, i))
	}
	var got []string
	for next := ""; ; {
		var found []string
		found, next = s.commands(store.CommandQuery{SandboxID: "b", First: next, Limit: 3})
		got = append(got, found...)
		if next == "" {
			break
		}
	}
	s.equal(got, all)
}

func commandPageBytes(s *suite) {
	large := []byte(`"` + strings.Repeat("x", store.MaxCommandPage*2/3) + `"`)
	for _, id := range []string{"a", "b", "c"} {
		e := command("b", id, 1)
		e.Raw = large
		s.appendCommands(e)
	}
	found, next := s.commands(store.CommandQuery{SandboxID: "b"})
	s.equal(found, []string{"a"})
	s.equal(next, "b")
}

func commandFinal(s *suite) {
	final := output("b", "o1", "c1", 1, 3)
	final.Final = true
	s.appendCommands(command("b", "c1", 1), command("b", "c2", 1), output("b", "o0", "c1", 0, 2), output("b", "p0", "c2", 0, 2))
	open, err := s.Commands().Open(s.ctx)
	s.ok(err)
	if len(open) != 2 || open[0].ID != "c1" || open[0].Next != 1 || open[1].ID != "c2" || open[1].Next != 1 {
		s.Fatalf("%+v", open)
	}
	s.appendCommands(final)
	open, err = s.Commands().Open(s.ctx)
	s.ok(err)
	if len(open) != 1 || open[0].ID != "c2" {
		s.Fatalf("%+v", open)
	}
}

func commandTrim(s *suite) {
	for i := range 10 {
		e := output("b", fmt.Sprintf("o%d", i), "c", i, i)
		e.Raw = []byte(`"` + strings.Repeat("x", 98) + `"`)
		s.appendCommands(e)
		if i == 1 {
			s.appendCommands(command("b", "open", 1))
		}
	}
	s.appendCommands(output("other", "o", "c", 0, 0))
	s.ok(s.Commands().Trim(s.ctx, "b", 5, 1<<20))
	found, _ := s.commands(store.CommandQuery{SandboxID: "b"})
	s.equal(found, []string{"open", "o5", "o6", "o7", "o8", "o9"})
	s.ok(s.Commands().Trim(s.ctx, "b", 100, 250))
	found, _ = s.commands(store.CommandQuery{SandboxID: "b"})
	s.equal(found, []string{"open", "o8", "o9"})
	s.ok(s.Commands().Trim(s.ctx, "b", 100, 250))
	found, _ = s.commands(store.CommandQuery{SandboxID: "other"})
	s.equal(found, []string{"o"})
}

func commandDelete(s *suite) {
	s.appendCommands(command("b", "c1", 1), output("b", "o0", "c1", 0, 2), command("other", "c1", 3))
	n, err := s.Commands().Delete(s.ctx, "b")
	s.ok(err)
	s.equal(n, 2)
	n, err = s.Commands().Delete(s.ctx, "b")
	s.ok(err)
	s.equal(n, 0)
	found, _ := s.commands(store.CommandQuery{SandboxID: "other"})
	s.equal(found, []string{"c1"})
}

func commandBatch(s *suite) {
	events := s.appendCommands(command("b", "c1", 1), command("other", "c2", 1))
	got, err := s.Commands().Batch(s.ctx, "b", []string{"nope", "c1", "c2"})
	s.ok(err)
	s.equal(got, []*store.CommandEvent{nil, &events[0], nil})
}

func commandNameless(s *suite) {
	_, err := s.Commands().Append(s.ctx, store.CommandEvent{SandboxID: "b", Raw: []byte("{}")})
	s.fails(err, fault.Internal, "")
}

func commandSeq(s *suite) {
	first := s.appendCommands(command("b", "c1", 1))[0].Seq
	_, err := s.Commands().Delete(s.ctx, "b")
	s.ok(err)
	if again := s.appendCommands(command("b", "c2", 1))[0].Seq; again <= first {
		s.Errorf("seq %d after %d: a follower would miss it", again, first)
	}
}

var placeTests = map[string]func(*suite){"Places": savedPlaces}

func savedPlaces(s *suite) {
	p := s.Places()
	place := func(kind, path, doc string) store.SavedPlace {
		return store.SavedPlace{Kind: kind, Path: path, Doc: []byte(doc)}
	}
	s.ok(p.Save(s.ctx, "u", place(store.PlaceWorkspace, "/b", "1"), 2))
	s.ok(p.Save(s.ctx, "u", place(store.PlaceWorkspace, "/a", "2"), 2))
	s.ok(p.Save(s.ctx, "u", place(store.PlaceWorkspace, "/b", "3"), 2))
	s.ok(p.Save(s.ctx, "u", place(store.PlaceParent, "/b", "4"), 2))
	s.ok(p.Save(s.ctx, "v", place(store.PlaceWorkspace, "/b", "5"), 2))
	s.fails(p.Save(s.ctx, "u", place(store.PlaceWorkspace, "/c", "6"), 2), fault.TooLarge, "too_many_places")
	got, err := p.List(s.ctx, "u")
	s.ok(err)
	s.equal(got, []store.SavedPlace{place(store.PlaceParent, "/b", "4"), place(store.PlaceWorkspace, "/b", "3"), place(store.PlaceWorkspace, "/a", "2")})
	s.ok(p.Delete(s.ctx, "u", store.PlaceWorkspace, "/b"))
	s.fails(p.Delete(s.ctx, "u", store.PlaceWorkspace, "/b"), fault.NotFound, "")
	got, err = p.List(s.ctx, "v")
	s.ok(err)
	s.equal(len(got), 1)
	got, err = p.List(s.ctx, "nobody")
	s.ok(err)
	s.equal(got, []store.SavedPlace{})
}
