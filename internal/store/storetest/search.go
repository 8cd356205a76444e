package storetest

import (
	"fmt"
	"strings"

	"parley/internal/conversation"
	"parley/internal/store"
	"parley/internal/textsearch"
)

var searchTests = map[string]func(*suite){
	"Words":      searchWords,
	"Owners":     searchOwners,
	"Titles":     searchTitles,
	"Pages":      searchPages,
	"Deleted":    searchDeleted,
	"Forks":      searchForks,
	"LongTexts":  searchLong,
	"OddQueries": searchOdd,
	"LargeHits":  searchLarge,
}

// hits lists what a query finds, as conversation/event, "title" for a title.
func (s *suite) hits(q store.TextQuery, query string) string {
	s.Helper()
	q.Terms = textsearch.Parse(query)
	var out []string
	for {
		p, err := s.Search().Find(s.ctx, q)
		s.ok(err)
		if p.Items == nil {
			s.Error("an empty list is nil")
		}
		for _, h := range p.Items {
			what := "title"
			if h.Event != nil {
				what = h.Event.ID
			}
			out = append(out, string(h.Conversation)+"/"+what)
		}
		if q.Cursor = p.Next; q.Cursor == "" {
			return strings.Join(out, " ")
		}
	}
}

func searchWords(s *suite) {
	s.create("u", "c")
	s.append("c", message("e1", "The quick brown Fox", at(0)), message("e2", "a fox that is \u00dcber-quick", at(0)), plain("e3", "ConversationStateUpdateEvent", "environment", at(1)))
	q := store.TextQuery{Owner: "u"}
	for query, want := range map[string]string{
		"fox": "c/e2 c/e1", "FOX brown": "c/e1", `"brown fox"`: "c/e1", `"quick fox"`: "", "fo": "", "\u00fcber": "c/e2", "uber": "",
		`quick "the quick"`: "c/e1", "nothing": "", "": "", "environment": "", "user": "",
	} {
		if got := s.hits(q, query); got != want {
			s.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	q.Conversation = "other"
	s.equal(s.hits(q, "fox"), "")
	q.Conversation = "c"
	s.equal(s.hits(q, "fox"), "c/e2 c/e1")
	p, err := s.Search().Find(s.ctx, store.TextQuery{Owner: "u", Terms: textsearch.Parse("brown")})
	s.ok(err)
	want, err := s.Events().Read(s.ctx, "c", -1, 1)
	s.ok(err)
	s.equal(*p.Items[0].Event, want[0])
	more, err := s.Search().CatchUp(s.ctx)
	s.ok(err)
	s.equal(more, false)
}

// searchLarge: a page has no more bytes than it may, and the pages together have every
// hit once.
func searchLarge(s *suite) {
	s.create("u", "c")
	want := []string{}
	for i, size := range []int{1, 9 << 20, 9 << 20, 20 << 20, 1, 9 << 20} {
		id := fmt.Sprintf("e%d", i)
		s.append("c", message(id, "fox "+strings.Repeat("x", size), at(i)))
		want = append([]string{"c/" + id}, want...)
	}
	q := store.TextQuery{Owner: "u"}
	s.equal(s.hits(q, "fox"), strings.Join(want, " "))
	p, err := s.Search().Find(s.ctx, store.TextQuery{Owner: "u", Terms: textsearch.Parse("fox")})
	s.ok(err)
	if len(p.Items) != 2 || p.Next == "" {
		s.Errorf("%d hits in a page, next %q", len(p.Items), p.Next)
	}
	q.Limit = 1
	s.equal(s.hits(q, "fox"), strings.Join(want, " "))
}

func searchOwners(s *suite) {
	for _, owner := range []string{"u", "v", "u v", "6f75"} {
		id := "of " + owner
		s.create(owner, id)
		s.append(conversation.ID(id), message("e", "word", at(0)))
	}
	for _, owner := range []string{"u", "v", "u v", "6f75"} {
		s.equal(s.hits(store.TextQuery{Owner: owner}, "word"), "of "+owner+"/e")
		s.equal(s.hits(store.TextQuery{Owner: owner, Conversation: "of x"}, "word"), "")
	}
	s.equal(s.hits(store.TextQuery{Owner: ""}, "word"), "")
	s.equal(s.hits(store.TextQuery{Owner: "u", Conversation: "of v"}, "word"), "")
	s.equal(s.hits(store.TextQuery{Owner: "u"}, "o75"), "") // the scope is no text
}

func searchTitles(s *suite) {
	s.create("u", "c", func(c *conversation.Conversation) { c.Title = "First title" })
	q := store.TextQuery{Owner: "u"}
	s.equal(s.hits(q, "first"), "c/title")
	rename := func(title string) {
		_, err := s.Conversations().Update(s.ctx, "c", at(5), func(c *conversation.Conversation) error { c.Title = title; return nil })
		s.ok(err)
	}
	rename("Second title")
	s.equal(s.hits(q, "first"), "")
	s.equal(s.hits(q, "title second"), "c/title")
	rename("Second title")
	s.equal(s.hits(q, "title"), "c/title")
	rename("")
	s.equal(s.hits(q, "title"), "")
	rename("third")
	s.equal(s.hits(q, "third"), "c/title")
}

func searchPages(s *suite) {
	var want []string
	for i := range 3 {
		id := fmt.Sprint("c", i)
		s.create("u", id, func(c *conversation.Conversation) { c.Title = "" })
		for j := range 4 {
			e := fmt.Sprintf("e%d%d", i, j)
			s.append(conversation.ID(id), message(e, "word "+e, at(0)))
			want = append([]string{id + "/" + e}, want...)
		}
	}
	for _, limit := range []int{1, 2, 5, 12, 100} {
		s.equal(s.hits(store.TextQuery{Owner: "u", Limit: limit}, "word"), strings.Join(want, " "))
	}
	s.equal(s.hits(store.TextQuery{Owner: "u", Cursor: "unknown"}, "e23"), "c2/e23")
}

func searchDeleted(s *suite) {
	for _, id := range []string{"c", "d"} {
		s.create("u", id)
		s.append(conversation.ID(id), message("e", "word", at(0)))
	}
	s.ok(s.Conversations().Delete(s.ctx, "c"))
	s.equal(s.hits(store.TextQuery{Owner: "u"}, "word"), "d/e")
	s.equal(s.hits(store.TextQuery{Owner: "u"}, "title"), "d/title")
	s.create("u", "c")
	s.append("c", message("e", "other", at(0)))
	s.equal(s.hits(store.TextQuery{Owner: "u", Conversation: "c"}, "word"), "")
	s.equal(s.hits(store.TextQuery{Owner: "u"}, "other"), "c/e")
}

func (s *suite) catchUp() {
	s.Helper()
	for more := true; more; {
		var err error
		more, err = s.Search().CatchUp(s.ctx)
		s.ok(err)
	}
}

// searchForks: the log of a fork is indexed afterwards; what is appended meanwhile, too.
func searchForks(s *suite) {
	var events []conversation.Event
	for i := range 120 {
		events = append(events, message(fmt.Sprint("e", i), fmt.Sprint("word number", i), at(i)))
	}
	c := &conversation.Conversation{ID: "c", Owner: "u", Title: "fork", CreatedAt: at(0), UpdatedAt: at(0)}
	s.ok(s.Conversations().Fork(s.ctx, c, events))
	q := store.TextQuery{Owner: "u"}
	s.equal(s.hits(q, "fork"), "c/title")
	more, err := s.Search().CatchUp(s.ctx)
	s.ok(err)
	s.equal(more, true)
	s.append("c", message("last", "the last word", at(500)))
	s.catchUp()
	s.equal(len(strings.Fields(s.hits(q, "word"))), 121)
	s.equal(s.hits(q, "number7"), "c/e7")
	s.equal(strings.HasPrefix(s.hits(q, "word"), "c/last c/e119 c/e118 "), true)
	s.append("c", message("next", "words after", at(501)))
	s.equal(s.hits(q, "after"), "c/next")
	s.catchUp()
	s.equal(s.hits(q, "after"), "c/next")
}

func searchLong(s *suite) {
	s.create("u", "c")
	s.append("c", message("e", "head "+strings.Repeat("filling ", 100_000)+" tail", at(0)), message("f", strings.Repeat("\u00e9", 50_000), at(0)))
	s.equal(s.hits(store.TextQuery{Owner: "u"}, "head tail filling"), "c/e")
}

// searchOdd: no query is an error.
func searchOdd(s *suite) {
	s.create("u", "c")
	s.append("c", message("e", "x AND NEAR NOT OR", at(0)))
	for _, query := range []string{`"`, `""`, `'`, `*`, `x*`, `^x`, `x AND`, `NEAR(x y)`, `scope : x`, `-x`, `x OR y`, "\x00", "\xff", "(", ")", "{", `x"y`,
		strings.Repeat(`"`, 1001), strings.Repeat("x ", 1000), "\u0301", "\U0010ffff", "\ue000", "\u0000x"} {
		s.hits(store.TextQuery{Owner: "u"}, query)
	}
	s.equal(s.hits(store.TextQuery{Owner: "u"}, "x AND not"), "c/e")
	_, err := s.Search().Find(s.ctx, store.TextQuery{Owner: "u", Terms: []textsearch.Term{{`" OR scope : "`}, {""}, {}}})
	s.ok(err)
}
