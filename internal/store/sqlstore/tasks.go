package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

const selectTask = `SELECT id, owner, conversation_id, sandbox_id, status, detail, request, created_at, updated_at
	FROM start_tasks`

type startTasks struct{ s *Store }

// Save implements store.StartTasks.
func (s startTasks) Save(ctx context.Context, task *conversation.StartTask) error {
	return s.s.writes.do(ctx, "store.start_tasks.save", func(t *tx) error { return saveTask(t, task) })
}

func saveTask(t *tx, task *conversation.StartTask) error {
	return t.exec(`INSERT INTO start_tasks (id, owner, conversation_id, sandbox_id, status, unfinished, detail,
		request, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, conversation_id = excluded.conversation_id,
		sandbox_id = excluded.sandbox_id, status = excluded.status, unfinished = excluded.unfinished,
		detail = excluded.detail, request = excluded.request, created_at = excluded.created_at,
		updated_at = excluded.updated_at`,
		task.ID, task.Owner, string(task.ConversationID), task.SandboxID, string(task.Status),
		!task.Status.Done(), task.Detail, task.Request, micros(task.CreatedAt), micros(task.UpdatedAt))
}

func scanTask(rows row) (*conversation.StartTask, error) {
	t := &conversation.StartTask{}
	err := rows.Scan(&t.ID, &t.Owner, &t.ConversationID, &t.SandboxID, &t.Status, &t.Detail, &t.Request,
		timeInto{&t.CreatedAt}, timeInto{&t.UpdatedAt})
	return t, err
}

// Batch implements store.StartTasks.
func (s startTasks) Batch(ctx context.Context, owner string, ids []string) ([]*conversation.StartTask, error) {
	out, err := batch(ids, func(part []string) ([]*conversation.StartTask, error) {
		where := &clause{}
		where.owned(owner)
		where.in("id", part)
		return collect(ctx, s.s.reads, scanTask, selectTask+where.where(), where.args...)
	}, func(t *conversation.StartTask) string { return t.ID })
	return out, s.s.fail(ctx, "store.start_tasks.batch", err)
}

// Search implements store.StartTasks. An order by title is by creation.
func (s startTasks) Search(ctx context.Context, q store.TaskQuery) (store.Page[*conversation.StartTask], error) {
	where, limit := taskFilter(q), clamp(q.Limit, maxPage)
	order := keysetOf(q.Order)
	if order.text {
		order = byNewest
	}
	if at, ok := parseCursor(q.Cursor, order); ok {
		where.after(order, at)
	}
	text := selectTask + where.where() + order.orderBy() + " LIMIT " + where.arg(limit+1)
	found, err := collect(ctx, s.s.reads, scanTask, text, where.args...)
	if err != nil {
		return store.Page[*conversation.StartTask]{}, s.s.fail(ctx, "store.start_tasks.search", err)
	}
	return page(found, limit, func(t *conversation.StartTask) cursor {
		if order.column == "updated_at" {
			return cursor{Order: order.name, Num: micros(t.UpdatedAt), ID: t.ID}
		}
		return cursor{Order: order.name, Num: micros(t.CreatedAt), ID: t.ID}
	}), nil
}

// Count implements store.StartTasks.
func (s startTasks) Count(ctx context.Context, q store.TaskQuery) (n int, err error) {
	where := taskFilter(q)
	err = s.s.reads.row(ctx, `SELECT count(*) FROM start_tasks`+where.where(), where.args...).Scan(&n)
	return n, s.s.fail(ctx, "store.start_tasks.count", err)
}

func taskFilter(q store.TaskQuery) *clause {
	where := &clause{}
	where.equal("owner", q.Owner)
	where.equal("conversation_id", string(q.ConversationID))
	if !q.CreatedFrom.IsZero() {
		where.and("created_at >=", micros(q.CreatedFrom))
	}
	return where
}

// Latest implements store.StartTasks.
func (s startTasks) Latest(ctx context.Context, id conversation.ID) (*conversation.StartTask, error) {
	t, err := scanTask(s.s.reads.row(ctx,
		selectTask+` WHERE conversation_id = $1 ORDER BY created_at DESC, id DESC LIMIT 1`, string(id)))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.NotFound, codeMissing, "The conversation has no start task.")
	}
	if err != nil {
		return nil, s.s.fail(ctx, "store.start_tasks.latest", err)
	}
	return t, nil
}

// Unfinished implements store.StartTasks.
func (s startTasks) Unfinished(ctx context.Context) ([]*conversation.StartTask, error) {
	out, err := collect(ctx, s.s.reads, scanTask, selectTask+` WHERE unfinished ORDER BY created_at, id`)
	return out, s.s.fail(ctx, "store.start_tasks.unfinished", err)
}
