package sqlstore_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/store"
	"parley/internal/store/sqlstore"
	"parley/internal/textsearch"
)

// wordy makes the n-th event of a log whose events are about 1 KB of prose each.
func wordy(n int) conversation.Event {
	var b strings.Builder
	b.WriteString("common ")
	for i := range 150 {
		fmt.Fprintf(&b, "w%d ", (n*31+i*i)%5000)
	}
	e, err := conversation.Encode(&conversation.MessageEvent{
		Header:     conversation.Header{Kind: conversation.KindMessage, ID: fmt.Sprint("e", n), Source: conversation.SourceUser, Timestamp: fmt.Sprintf("2026-03-01T12:00:00.%06d", n)},
		LLMMessage: conversation.LLMMessage{Role: "user", Content: []content.Part{content.Text(b.String())}}})
	if err != nil {
		panic(err) // a message always encodes
	}
	return e
}

func found(t *testing.T, s *sqlstore.Store, query string) int {
	t.Helper()
	q, n := store.TextQuery{Owner: "u", Terms: textsearch.Parse(query), Limit: 40}, 0
	for {
		p, err := s.Search().Find(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		n += len(p.Items)
		if q.Cursor = p.Next; q.Cursor == "" {
			return n
		}
	}
}

// What an older version stored is searched after catching up, which goes on where a
// former life of the server stopped.
func TestOldDataIsIndexedInParts(t *testing.T) {
	dir := t.TempDir()
	closeStore(t, open(t, dir)) // makes the key
	if err := os.Remove(dbPath(dir)); err != nil {
		t.Fatal(err)
	}
	db := raw(t, dir)
	upTo(t, db, 9)
	s := open(t, dir)
	fill(t, s, "c", 0) // of this version, then made to look like an older one's
	say := func(from, to int) {
		var events []conversation.Event
		for n := from; n < to; n++ {
			events = append(events, wordy(n))
		}
		if err := s.Events().Append(t.Context(), store.Append{Conversation: "c", ExpectHead: int64(from), Events: events}); err != nil {
			t.Fatal(err)
		}
	}
	say(0, 130)
	closeStore(t, s)
	execute(t, db, `DELETE FROM search_text`)
	execute(t, db, `DELETE FROM search_docs`)
	execute(t, db, `UPDATE conversations SET indexed = -1, title = 'old title'`)
	for range 2 {
		s = open(t, dir)
		if more, err := s.Search().CatchUp(t.Context()); err != nil || !more {
			t.Fatalf("%v, %v", more, err)
		}
		closeStore(t, s)
	}
	s = open(t, dir)
	say(130, 151)
	for more := true; more; {
		var err error
		if more, err = s.Search().CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := found(t, s, "old title"); n != 1 {
		t.Errorf("the title is found %d times", n)
	}
	if n := found(t, s, "common"); n != 151 {
		t.Errorf("%d messages are found", n)
	}
}

func FuzzQueryIsNeverAnError(f *testing.F) {
	dir := f.TempDir()
	s, err := openDir(f.Context(), dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	if err := s.Conversations().Create(f.Context(), &conversation.Conversation{ID: "c", Owner: "u", Title: "AND NEAR x"}); err != nil {
		f.Fatal(err)
	}
	for _, q := range []string{`a "b c" d*`, "\x00\"'(){}^:-+", "NEAR(x, 5) OR *", "\u0301\U000e0001", `""""`} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		_, err := s.Search().Find(t.Context(), store.TextQuery{Owner: "u", Conversation: "c", Terms: textsearch.Parse(query)})
		if err != nil {
			t.Fatalf("%q: %v", query, err)
		}
	})
}

// BenchmarkAppendText is an append with 1 KB of prose; what the index costs is the
// difference to one whose log is not in the index.
func BenchmarkAppendText(b *testing.B) {
	for _, indexed := range []bool{false, true} {
		b.Run(fmt.Sprint("indexed=", indexed), func(b *testing.B) {
			dir := b.TempDir()
			s := open(b, dir)
			if err := s.Conversations().Fork(b.Context(), &conversation.Conversation{ID: "c", Owner: "u"}, []conversation.Event{wordy(0)}); err != nil {
				b.Fatal(err)
			}
			for more := indexed; more; {
				var err error
				if more, err = s.Search().CatchUp(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			head := int64(1)
			for b.Loop() {
				err := s.Events().Append(b.Context(), store.Append{Conversation: "c", ExpectHead: head, Events: []conversation.Event{wordy(int(head))}})
				if err != nil {
					b.Fatal(err)
				}
				head++
			}
		})
	}
}
