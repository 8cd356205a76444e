package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"time"

	"parley/internal/conversation"
	"parley/internal/store"
)

// The full-text index is SQLite's FTS5. Documents carry no text: what a hit says is in
// the log. A document's scope has a word for its owner and one for its conversation,
// so that a search reads no others' postings one by one.

const (
	titleSeq  = -1 // the seq of the document of a title
	indexPart = 50 // events that one step of the catching-up adds
)

type search struct{ s *Store }

// Search returns the full-text index.
func (s *Store) Search() store.Search { return search{s} }

func ownerWord(owner string) string              { return "o" + hex.EncodeToString([]byte(owner)) }
func conversationWord(id conversation.ID) string { return "c" + hex.EncodeToString([]byte(id)) }

// doc is a document to index.
type doc struct {
	seq  int64
	text string
}

// indexer gives documents their ids: the time, made unique.
type indexer struct {
	t            *tx
	owner        string
	conversation conversation.ID
}

// add indexes documents. at is the time of the first; whatever is newer than all
// others stays so.
func (x indexer) add(ctx context.Context, at time.Time, docs ...doc) error {
	id := micros(at)
	for _, d := range docs {
		if d.text == "" {
			continue
		}
		var err error
		if id, err = x.free(ctx, id); err != nil {
			return err
		}
		if err := x.t.exec(`INSERT INTO search_docs (id, conversation, seq) VALUES ($1, $2, $3)`, id, string(x.conversation), d.seq); err != nil {
			return err
		}
		scope := ownerWord(x.owner) + " " + conversationWord(x.conversation)
		if err := x.t.exec(`INSERT INTO search_text (rowid, scope, text) VALUES ($1, $2, $3)`, id, scope, d.text); err != nil {
			return err
		}
		id++
	}
	return nil
}

// free is the first id from the given one on that no document has.
func (x indexer) free(ctx context.Context, id int64) (int64, error) {
	for {
		var taken int
		err := x.t.row(ctx, `SELECT 1 FROM search_docs WHERE id = $1`, id).Scan(&taken)
		if errors.Is(err, sql.ErrNoRows) {
			return id, nil
		}
		if err != nil {
			return 0, err
		}
		id++
	}
}

// retitle replaces the document of a title, if the conversation is in the index.
func (x indexer) retitle(ctx context.Context, title string, now time.Time) error {
	var indexed int64
	if err := x.t.row(ctx, `SELECT indexed FROM conversations WHERE id = $1`, string(x.conversation)).Scan(&indexed); err != nil || indexed < 0 {
		return err
	}
	const old = `SELECT id FROM search_docs WHERE conversation = $1 AND seq = $2`
	if err := x.t.exec(`DELETE FROM search_text WHERE rowid IN (`+old+`)`, string(x.conversation), titleSeq); err != nil {
		return err
	}
	if err := x.t.exec(`DELETE FROM search_docs WHERE conversation = $1 AND seq = $2`, string(x.conversation), titleSeq); err != nil {
		return err
	}
	return x.add(ctx, now, doc{titleSeq, title})
}

// docsOf are the documents of events; the first one has the given seq.
func docsOf(events []conversation.Event, seq int64) []doc {
	docs := make([]doc, len(events))
	for i, e := range events {
		docs[i] = doc{seq + int64(i), conversation.SearchText(e)}
	}
	return docs
}

// CatchUp implements store.Search.
func (x search) CatchUp(ctx context.Context) (more bool, err error) {
	const op = "store.search.catch_up"
	var c struct {
		id, owner, title string
		indexed          int64
		created          time.Time
	}
	err = x.s.reads.row(ctx, `SELECT id, owner, title, indexed, created_at FROM conversations WHERE indexed < head ORDER BY id LIMIT 1`).
		Scan(&c.id, &c.owner, &c.title, &c.indexed, timeInto{&c.created})
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, x.s.fail(ctx, op, err)
	}
	from := max(c.indexed, 0)
	found, err := collect(ctx, x.s.reads, scanEvent, selectEvent+` WHERE conversation = $1 AND seq >= $2 ORDER BY seq LIMIT $3`, c.id, from, indexPart)
	if err != nil {
		return false, x.s.fail(ctx, op, err)
	}
	docs := docsOf(found, from) // before the store is locked
	return true, x.s.writes.do(ctx, op, func(t *tx) error {
		n, err := t.affected(`UPDATE conversations SET indexed = $1 WHERE id = $2 AND indexed = $3`, from+int64(len(found)), c.id, c.indexed)
		if err != nil || n == 0 { // deleted meanwhile
			return err
		}
		index := indexer{t, c.owner, conversation.ID(c.id)}
		if c.indexed < 0 {
			if err := index.add(ctx, c.created, doc{titleSeq, c.title}); err != nil {
				return err
			}
		}
		last := c.created
		for i, d := range docs {
			if at := happened(found[i], last); at.After(last) {
				last = at
			} else {
				last = last.Add(time.Microsecond)
			}
			if err := index.add(ctx, last, d); err != nil {
				return err
			}
		}
		return nil
	})
}

// happened is when an event happened, as far as it says so.
func happened(e conversation.Event, or time.Time) time.Time {
	t, err := time.Parse(conversation.TimeLayout, e.Timestamp)
	if err != nil || t.Before(or) || t.After(time.Now()) {
		return or
	}
	return t
}

// byTime is the order of hits.
var byTime = keyset{"SEARCH", "id", false, true}

// Find implements store.Search.
func (x search) Find(ctx context.Context, q store.TextQuery) (store.Page[store.TextHit], error) {
	out, err := x.find(ctx, q)
	return out, x.s.fail(ctx, "store.search.find", err)
}

func (x search) find(ctx context.Context, q store.TextQuery) (store.Page[store.TextHit], error) {
	empty := store.Page[store.TextHit]{Items: []store.TextHit{}}
	if len(q.Terms) == 0 || q.Owner == "" {
		return empty, nil
	}
	below := int64(math.MaxInt64)
	if at, ok := parseCursor(q.Cursor, byTime); ok {
		below = at.Num
	}
	limit := clamp(q.Limit, maxPage)
	type hit struct {
		id, seq      int64
		conversation string
	}
	scan := func(r row) (h hit, err error) { return h, r.Scan(&h.id, &h.conversation, &h.seq) }
	found, err := collect(ctx, x.s.reads, scan, `SELECT search_text.rowid, conversation, seq FROM search_text
		JOIN search_docs ON search_docs.id = search_text.rowid
		WHERE search_text MATCH $1 AND search_text.rowid < $2 ORDER BY search_text.rowid DESC LIMIT $3`,
		matchOf(q), below, limit+1)
	if err != nil {
		return empty, err
	}
	at := func(h hit) cursor { return cursor{Order: byTime.name, Num: h.id, ID: "x"} }
	hits, size := page(found, limit, at), 0
	out := store.Page[store.TextHit]{Items: make([]store.TextHit, 0, len(hits.Items)), Next: hits.Next}
	for i, h := range hits.Items {
		one := store.TextHit{Conversation: conversation.ID(h.conversation)}
		if h.seq != titleSeq {
			e, err := scanEvent(x.s.reads.row(ctx, selectEvent+` WHERE conversation = $1 AND seq = $2`, h.conversation, h.seq))
			if errors.Is(err, sql.ErrNoRows) {
				continue // deleted meanwhile
			}
			if err != nil {
				return empty, err
			}
			if size += len(e.Raw); size > len(e.Raw) && size > store.MaxEventPage {
				out.Next = at(hits.Items[i-1]).encode()
				return out, nil
			}
			one.Event = &e
		}
		out.Items = append(out.Items, one)
	}
	return out, nil
}

// matchOf writes a query as FTS5 reads it. Terms have letters and digits only, so
// that nothing in them is a part of its syntax.
func matchOf(q store.TextQuery) string {
	var b strings.Builder
	b.WriteString(`scope : "` + ownerWord(q.Owner) + `"`)
	if q.Conversation != "" {
		b.WriteString(` AND scope : "` + conversationWord(q.Conversation) + `"`)
	}
	for _, term := range q.Terms {
		b.WriteString(` AND text : "` + strings.ReplaceAll(strings.Join(term, " "), `"`, "") + `"`)
	}
	return b.String()
}
