package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"slices"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

type conversations struct{ s *Store }

// Create implements store.Conversations.
func (c conversations) Create(ctx context.Context, conv *conversation.Conversation) error {
	const op = "store.conversations.create"
	r, err := c.s.encodeConversation(conv)
	if err != nil {
		return classify(op, "", err)
	}
	return c.s.writes.do(ctx, op, func(t *tx) error { return r.insert(t, logHead{head: conv.Summary.Head, inOrder: true}) })
}

// Get implements store.Conversations.
func (c conversations) Get(ctx context.Context, owner string, id conversation.ID) (*conversation.Conversation, error) {
	conv, err := c.s.conversation(ctx, c.s.reads, id)
	if err == nil && owner != "" && conv.Owner != owner {
		err = noConversation()
	}
	if err != nil {
		return nil, c.s.fail(ctx, "store.conversations.get", err)
	}
	return conv, nil
}

// conversation reads one record, NotFound if there is none.
func (s *Store) conversation(ctx context.Context, q querier, id conversation.ID) (*conversation.Conversation, error) {
	conv, err := s.scanConversation(q.row(ctx, selectConversation+` WHERE id = $1`, string(id)))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noConversation()
	}
	return conv, err
}

// Batch implements store.Conversations.
func (c conversations) Batch(ctx context.Context, owner string, ids []conversation.ID) ([]*conversation.Conversation, error) {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	out, err := batch(names, func(part []string) ([]*conversation.Conversation, error) {
		var where clause
		where.owned(owner)
		where.in("id", part)
		return collect(ctx, c.s.reads, c.s.scanConversation, selectConversation+where.where(), where.args...)
	}, func(conv *conversation.Conversation) string { return string(conv.ID) })
	return out, c.s.fail(ctx, "store.conversations.batch", err)
}

// Children implements store.Conversations. The owner is compared here and not in
// SQL: SQLite would take the owner's index then and read all of the owner's rows.
func (c conversations) Children(ctx context.Context, owner string, parents []conversation.ID) (map[conversation.ID][]conversation.ID, error) {
	type child struct {
		id, parent conversation.ID
		owner      string
	}
	scan := func(r row) (out child, err error) { return out, r.Scan(&out.id, &out.parent, &out.owner) }
	names := make([]string, len(parents))
	for i, id := range parents {
		names[i] = string(id)
	}
	slices.Sort(names)
	children := map[conversation.ID][]conversation.ID{}
	for part := range slices.Chunk(slices.Compact(names), maxIn) {
		var where clause
		where.conditions = append(where.conditions, "parent_id <> ''") // the index holds no others
		where.in("parent_id", part)
		found, err := collect(ctx, c.s.reads, scan, `SELECT id, parent_id, owner FROM conversations`+where.where()+
			` ORDER BY parent_id, created_at, id`, where.args...)
		if err != nil {
			return nil, c.s.fail(ctx, "store.conversations.children", err)
		}
		for _, f := range found {
			if owner == "" || f.owner == owner {
				children[f.parent] = append(children[f.parent], f.id)
			}
		}
	}
	return children, nil
}

// Search implements store.Conversations.
func (c conversations) Search(ctx context.Context, q store.ConversationQuery) (store.Page[*conversation.Conversation], error) {
	where := conversationFilter(q)
	order, limit := keysetOf(q.Order), clamp(q.Limit, maxPage)
	if at, ok := parseCursor(q.Cursor, order); ok {
		where.after(order, at)
	}
	text := selectConversation + where.where() + order.orderBy() + " LIMIT " + where.arg(limit+1)
	found, err := collect(ctx, c.s.reads, c.s.scanConversation, text, where.args...)
	if err != nil {
		return store.Page[*conversation.Conversation]{}, c.s.fail(ctx, "store.conversations.search", err)
	}
	return page(found, limit, func(conv *conversation.Conversation) cursor {
		return conversationCursor(conv, order)
	}), nil
}

func conversationCursor(c *conversation.Conversation, k keyset) cursor {
	at := cursor{Order: k.name, ID: string(c.ID)}
	switch k.column {
	case "updated_at":
		at.Num = micros(c.UpdatedAt)
	case "title_key":
		at.Text = titleKey(c.Title)
	default:
		at.Num = micros(c.CreatedAt)
	}
	return at
}

// Count implements store.Conversations.
func (c conversations) Count(ctx context.Context, q store.ConversationQuery) (int, error) {
	where := conversationFilter(q)
	var n int
	err := c.s.reads.row(ctx, `SELECT count(*) FROM conversations`+where.where(), where.args...).Scan(&n)
	return n, c.s.fail(ctx, "store.conversations.count", err)
}

func conversationFilter(q store.ConversationQuery) *clause {
	where := &clause{}
	where.equal("owner", q.Owner)
	where.contains("title_key", q.TitleContains)
	where.equal("sandbox_id", q.SandboxID)
	where.equal("repository", q.Repository)
	where.equal("started_by", q.Trigger)
	where.equal("status", string(q.Status))
	where.equal("parent_id", string(q.ParentID))
	where.between("created_at", q.CreatedFrom, q.CreatedTo)
	where.between("updated_at", q.UpdatedFrom, q.UpdatedTo)
	if q.ParentID == "" && !q.WithSubs {
		where.conditions = append(where.conditions, "parent_id = ''")
	}
	if q.Awake {
		awake := "status IN (" + where.arg(string(store.SandboxRunning)) + ", " + where.arg(string(store.SandboxStarting)) + ")"
		if q.Owner != "" {
			awake += " AND owner = " + where.arg(q.Owner)
		}
		where.conditions = append(where.conditions, "sandbox_id IN (SELECT id FROM sandboxes WHERE "+awake+")")
	}
	return where
}

// Update implements store.Conversations. A change of what belongs to Append or
// to the leases is a defect of the caller: Internal, and nothing is stored.
func (c conversations) Update(ctx context.Context, id conversation.ID, now time.Time,
	change func(*conversation.Conversation) error) (*conversation.Conversation, error) {
	const op = "store.conversations.update"
	var conv *conversation.Conversation
	err := c.s.writes.do(ctx, op, func(t *tx) (err error) {
		if conv, err = c.s.conversation(ctx, t, id); err != nil {
			return err
		}
		before, title := frozen(conv), conv.Title
		if err := change(conv); err != nil {
			return err
		}
		if !reflect.DeepEqual(before, frozen(conv)) {
			return badRecord(op, "the change touched the id, owner, creation, summary, lease or where it was forked")
		}
		conv.UpdatedAt = now.UTC().Truncate(time.Microsecond)
		if err := c.s.replaceConversation(t, conv); err != nil || conv.Title == title {
			return err
		}
		return (indexer{t, conv.Owner, conv.ID}).retitle(ctx, conv.Title, now)
	})
	if err != nil {
		return nil, err
	}
	return conv, nil
}

// frozen returns a copy of the fields that Update leaves alone.
func frozen(c *conversation.Conversation) conversation.Conversation {
	kept := conversation.Conversation{ID: c.ID, Owner: c.Owner, Summary: c.Summary, LeaseHolder: c.LeaseHolder,
		LeaseUntil: c.LeaseUntil, Generation: c.Generation, CreatedAt: c.CreatedAt, LastEventAt: c.LastEventAt,
		ForkedFrom: c.ForkedFrom, ForkedAt: c.ForkedAt}
	if b := c.Summary.Metrics.MaxBudget; b != nil {
		kept.Summary.Metrics.MaxBudget = new(*b)
	}
	return kept
}

// replaceConversation stores what Update may change.
func (s *Store) replaceConversation(t *tx, conv *conversation.Conversation) error {
	r, err := s.encodeConversation(conv)
	if err != nil {
		return err
	}
	if err := t.exec(updateConversation, append(r.columns()[1:], string(conv.ID))...); err != nil {
		return err
	}
	return t.exec(`UPDATE conversation_details SET options = $1, initial_message = $2 WHERE conversation = $3`,
		r.options, r.initial, string(conv.ID))
}

// Delete implements store.Conversations.
func (c conversations) Delete(ctx context.Context, id conversation.ID) error {
	return c.s.writes.do(ctx, "store.conversations.delete", func(t *tx) error {
		var parent conversation.ID
		err := t.row(ctx, `SELECT parent_id FROM conversations WHERE id = $1`, string(id)).Scan(&parent)
		if errors.Is(err, sql.ErrNoRows) {
			return noConversation()
		}
		if err != nil {
			return err
		}
		for _, text := range []string{
			`DELETE FROM conversations WHERE id = $1`, // first: it guards the events
			`DELETE FROM conversation_details WHERE conversation = $1`,
			`DELETE FROM events WHERE conversation = $1`,
			`DELETE FROM projections WHERE conversation = $1`,
			`DELETE FROM projection_entries WHERE conversation = $1`,
			`DELETE FROM bundles WHERE conversation = $1`,
			`DELETE FROM webhook_cursors WHERE conversation = $1`,
			`DELETE FROM start_tasks WHERE conversation_id = $1`,
			`DELETE FROM pending_messages WHERE conversation = $1`,
			`DELETE FROM start_keys WHERE conversation = $1`,
			`DELETE FROM shares WHERE conversation = $1`,
			`DELETE FROM experiments WHERE conversation = $1`,
			`DELETE FROM replays WHERE conversation = $1`,
			`DELETE FROM imports WHERE conversation = $1`,
			`DELETE FROM imported_events WHERE conversation = $1`,
			`DELETE FROM search_text WHERE rowid IN (SELECT id FROM search_docs WHERE conversation = $1)`,
			`DELETE FROM search_docs WHERE conversation = $1`,
		} {
			if err := t.exec(text, string(id)); err != nil {
				return err
			}
		}
		return forgetSpending(ctx, t, id, parent)
	})
}

// exists returns NotFound unless the conversation is there.
func (s *Store) exists(ctx context.Context, q querier, id conversation.ID) error {
	var one int
	err := q.row(ctx, `SELECT 1 FROM conversations WHERE id = $1`, string(id)).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return noConversation()
	}
	return err
}

func noConversation() error {
	return fault.New(fault.NotFound, codeMissing, "There is no such conversation.")
}

// fail classifies an error of a read.
func (s *Store) fail(ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	return classify(op, s.reads.path, interrupted(ctx, err))
}

// maxIn bounds the placeholders of one statement.
const maxIn = 500

// batch fetches the items of ids in parts and returns them in the order of ids,
// nil where there is none.
func batch[T any](ids []string, fetch func(part []string) ([]*T, error), idOf func(*T) string) ([]*T, error) {
	found := make(map[string]*T, len(ids))
	for part := range slices.Chunk(ids, maxIn) {
		items, err := fetch(part)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			found[idOf(item)] = item
		}
	}
	out := make([]*T, len(ids))
	for i, id := range ids {
		out[i] = found[id]
	}
	return out, nil
}
