package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

const selectEndpoint = `SELECT id, owner, url, description, filter, secret, active, reason, since, epoch, failing_since,
	last_error, delivered_at, created_at, updated_at FROM webhook_endpoints`

const selectDelivery = `SELECT endpoint, id, conversation, first_seq, last_seq, events, attempts, delivered, status, error,
	created_at, updated_at, retry_at FROM webhook_deliveries`

type webhooks struct{ s *Store }

func webhookPlace(id string) string { return "webhook_endpoints.secret/" + id }

func noEndpoint() error {
	return fault.New(fault.NotFound, codeMissing, "There is no such webhook endpoint.")
}

// Create implements store.Webhooks.
func (h webhooks) Create(ctx context.Context, e *store.WebhookEndpoint, most int) error {
	const op = "store.webhooks.create"
	if e.ID == "" || e.Owner == "" {
		return badRecord(op, "an endpoint without id or owner")
	}
	filter, sealed, err := h.encode(e)
	if err != nil {
		return classify(op, "", err)
	}
	return h.s.writes.do(ctx, op, func(t *tx) error {
		var n int
		if err := t.row(ctx, `SELECT count(*) FROM webhook_endpoints WHERE owner = $1`, e.Owner).Scan(&n); err != nil {
			return err
		}
		if n >= most {
			return fault.New(fault.Conflict, store.CodeTooMany, "There are %d webhook endpoints already, which is the most.", n).
				WithHint("Delete one that is not needed.")
		}
		err := t.exec(`INSERT INTO webhook_endpoints (id, owner, url, description, filter, secret, active, reason, since, epoch,
			failing_since, last_error, delivered_at, created_at, updated_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
			e.ID, e.Owner, e.URL, e.Description, filter, sealed, e.Active, e.Reason, micros(e.Since), e.Epoch,
			micros(e.FailingSince), e.LastError, micros(e.DeliveredAt), micros(e.CreatedAt), micros(e.UpdatedAt))
		if isDuplicate(err) {
			return fault.New(fault.Conflict, store.CodeExists, "There is a webhook endpoint with this id already.")
		}
		return err
	})
}

func (h webhooks) encode(e *store.WebhookEndpoint) (filter string, sealed []byte, err error) {
	if filter, err = document(e.Filter); err != nil {
		return "", nil, err
	}
	sealed, err = h.s.seal.Seal(webhookPlace(e.ID), []byte(e.Secret.Reveal()))
	return filter, sealed, err
}

func (h webhooks) scan(r row) (*store.WebhookEndpoint, error) {
	e := &store.WebhookEndpoint{}
	var sealed []byte
	err := r.Scan(&e.ID, &e.Owner, &e.URL, &e.Description, jsonInto{&e.Filter}, &sealed, &e.Active, &e.Reason,
		timeInto{&e.Since}, &e.Epoch, timeInto{&e.FailingSince}, &e.LastError, timeInto{&e.DeliveredAt},
		timeInto{&e.CreatedAt}, timeInto{&e.UpdatedAt})
	if err != nil {
		return nil, err
	}
	key, err := h.s.seal.Unseal(webhookPlace(e.ID), sealed)
	e.Secret = account.NewSecret(string(key))
	return e, err
}

func (h webhooks) one(ctx context.Context, q querier, owner, id string) (*store.WebhookEndpoint, error) {
	where := &clause{}
	where.and("id =", id)
	where.equal("owner", owner)
	e, err := h.scan(q.row(ctx, selectEndpoint+where.where(), where.args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noEndpoint()
	}
	return e, err
}

// Update implements store.Webhooks.
func (h webhooks) Update(ctx context.Context, owner, id string, change func(*store.WebhookEndpoint) error) (*store.WebhookEndpoint, error) {
	const op = "store.webhooks.update"
	var e *store.WebhookEndpoint
	err := h.s.writes.do(ctx, op, func(t *tx) (err error) {
		if e, err = h.one(ctx, t, owner, id); err != nil {
			return err
		}
		before := *e
		if err := change(e); err != nil {
			return err
		}
		if e.ID != before.ID || e.Owner != before.Owner || !e.CreatedAt.Equal(before.CreatedAt) {
			return badRecord(op, "the change touched the id, owner or creation")
		}
		filter, sealed, err := h.encode(e)
		if err != nil {
			return err
		}
		e.FailingSince, e.LastError, e.DeliveredAt = before.FailingSince, before.LastError, before.DeliveredAt
		return t.exec(`UPDATE webhook_endpoints SET url = $1, description = $2, filter = $3, secret = $4, active = $5, reason = $6,
			since = $7, epoch = $8, updated_at = $9 WHERE id = $10`, e.URL, e.Description, filter, sealed, e.Active, e.Reason,
			micros(e.Since), e.Epoch, micros(e.UpdatedAt), e.ID)
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Get implements store.Webhooks; owner "" means any.
func (h webhooks) Get(ctx context.Context, owner, id string) (*store.WebhookEndpoint, error) {
	e, err := h.one(ctx, h.s.reads, owner, id)
	if err != nil {
		return nil, h.s.fail(ctx, "store.webhooks.get", err)
	}
	return e, nil
}

// Search implements store.Webhooks.
func (h webhooks) Search(ctx context.Context, q store.WebhookQuery) (store.Page[*store.WebhookEndpoint], error) {
	where, limit := &clause{}, clamp(q.Limit, maxPage)
	where.and("owner =", q.Owner)
	if at, ok := parseCursor(q.Cursor, byNewest); ok {
		where.after(byNewest, at)
	}
	text := selectEndpoint + where.where() + byNewest.orderBy() + " LIMIT " + where.arg(limit+1)
	found, err := collect(ctx, h.s.reads, h.scan, text, where.args...)
	if err != nil {
		return store.Page[*store.WebhookEndpoint]{}, h.s.fail(ctx, "store.webhooks.search", err)
	}
	return page(found, limit, func(e *store.WebhookEndpoint) cursor {
		return cursor{Order: byNewest.name, Num: micros(e.CreatedAt), ID: e.ID}
	}), nil
}

// Active implements store.Webhooks.
func (h webhooks) Active(ctx context.Context) ([]*store.WebhookEndpoint, error) {
	found, err := collect(ctx, h.s.reads, h.scan, selectEndpoint+` WHERE active`+byCreation.orderBy())
	return found, h.s.fail(ctx, "store.webhooks.active", err)
}

// Delete implements store.Webhooks.
func (h webhooks) Delete(ctx context.Context, owner, id string) error {
	return h.s.writes.do(ctx, "store.webhooks.delete", func(t *tx) error {
		n, err := t.affected(`DELETE FROM webhook_endpoints WHERE id = $1 AND owner = $2`, id, owner)
		if err == nil && n == 0 {
			err = noEndpoint()
		}
		if err == nil {
			err = t.exec(`DELETE FROM webhook_cursors WHERE endpoint = $1`, id)
		}
		if err == nil {
			err = t.exec(`DELETE FROM webhook_deliveries WHERE endpoint = $1`, id)
		}
		return err
	})
}

func scanLog(r row) (l store.WebhookLog, err error) {
	return l, r.Scan(&l.ID, &l.Owner, jsonInto{&l.Tags})
}

// Logs implements store.Webhooks.
func (h webhooks) Logs(ctx context.Context, ids []conversation.ID) ([]store.WebhookLog, error) {
	out := []store.WebhookLog{}
	for len(ids) > 0 {
		part := ids[:min(len(ids), maxIn)]
		ids = ids[len(part):]
		names := make([]string, len(part))
		for i, id := range part {
			names[i] = string(id)
		}
		where := &clause{}
		where.in("id", names)
		found, err := collect(ctx, h.s.reads, scanLog, `SELECT id, owner, tags FROM conversations`+where.where(), where.args...)
		if err != nil {
			return nil, h.s.fail(ctx, "store.webhooks.logs", err)
		}
		out = append(out, found...)
	}
	return out, nil
}

// Behind implements store.Webhooks. It goes through the conversations by id, so that
// all pages together read each of them once.
func (h webhooks) Behind(ctx context.Context, endpoint string, after conversation.ID, limit int) ([]store.WebhookLog, error) {
	found, err := collect(ctx, h.s.reads, scanLog, `SELECT c.id, c.owner, c.tags FROM webhook_endpoints e
		CROSS JOIN conversations c LEFT JOIN webhook_cursors w ON w.endpoint = e.id AND w.conversation = c.id
		WHERE e.id = $1 AND c.owner || '' = e.owner AND c.id > $2 AND c.head > 0
		AND (w.next_seq < c.head OR w.next_seq IS NULL AND c.last_event_at >= e.since) ORDER BY c.id LIMIT $3`, endpoint, string(after), clamp(limit, maxIn))
	return found, h.s.fail(ctx, "store.webhooks.behind", err)
}

// Cursor implements store.Webhooks.
func (h webhooks) Cursor(ctx context.Context, endpoint string, id conversation.ID) (*store.WebhookCursor, error) {
	c := &store.WebhookCursor{Endpoint: endpoint, Conversation: id}
	err := h.s.reads.row(ctx, `SELECT next_seq, upto, attempts, failing_since, retry_at FROM webhook_cursors
		WHERE endpoint = $1 AND conversation = $2`, endpoint, string(id)).
		Scan(&c.Next, &c.Upto, &c.Attempts, timeInto{&c.FailingSince}, timeInto{&c.RetryAt})
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.NotFound, codeMissing, "There is no such cursor.")
	}
	if err != nil {
		return nil, h.s.fail(ctx, "store.webhooks.cursor", err)
	}
	return c, nil
}

// SaveCursor implements store.Webhooks.
func (h webhooks) SaveCursor(ctx context.Context, c store.WebhookCursor) error {
	return h.s.writes.do(ctx, "store.webhooks.save_cursor", func(t *tx) error { return putCursor(t, c) })
}

func putCursor(t *tx, c store.WebhookCursor) error {
	return t.exec(`INSERT INTO webhook_cursors (endpoint, conversation, next_seq, upto, attempts, failing_since, retry_at)
		SELECT e.id, c.id, $1, $2, $3, $4, $5 FROM webhook_endpoints e CROSS JOIN conversations c WHERE e.id = $6 AND c.id = $7
		ON CONFLICT (endpoint, conversation) DO UPDATE SET next_seq = excluded.next_seq, upto = excluded.upto,
		attempts = excluded.attempts, failing_since = excluded.failing_since, retry_at = excluded.retry_at`,
		c.Next, c.Upto, c.Attempts, micros(c.FailingSince), micros(c.RetryAt), c.Endpoint, string(c.Conversation))
}

// ForgetCursors implements store.Webhooks.
func (h webhooks) ForgetCursors(ctx context.Context, endpoint string) error {
	return h.s.writes.do(ctx, "store.webhooks.forget_cursors", func(t *tx) error {
		return t.exec(`DELETE FROM webhook_cursors WHERE endpoint = $1`, endpoint)
	})
}

// RetryNow implements store.Webhooks.
func (h webhooks) RetryNow(ctx context.Context, endpoint string) error {
	var none store.WebhookCursor
	return h.s.writes.do(ctx, "store.webhooks.retry_now", func(t *tx) error {
		return t.exec(`UPDATE webhook_cursors SET attempts = 0, failing_since = $1, retry_at = $2 WHERE endpoint = $3 AND attempts > 0`,
			micros(none.FailingSince), micros(none.RetryAt), endpoint)
	})
}

// Record implements store.Webhooks.
func (h webhooks) Record(ctx context.Context, c *store.WebhookCursor, d store.WebhookDelivery, keep int) error {
	const op = "store.webhooks.record"
	if d.ID == "" || keep < 1 {
		return badRecord(op, "a delivery without id, or a bound below one")
	}
	return h.s.writes.do(ctx, op, func(t *tx) error {
		n, err := endpointState(t, d)
		if err != nil || n == 0 {
			return err
		}
		if c != nil {
			if err := putCursor(t, *c); err != nil {
				return err
			}
		}
		if err := putDelivery(t, d); err != nil {
			return err
		}
		return t.exec(`DELETE FROM webhook_deliveries WHERE endpoint = $1 AND (created_at, id) < (SELECT created_at, id
			FROM webhook_deliveries WHERE endpoint = $1 ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET $2)`, d.Endpoint, keep-1)
	})
}

// endpointState tells the endpoint what became of a delivery, and returns 0 if there
// is no endpoint.
func endpointState(t *tx, d store.WebhookDelivery) (int64, error) {
	none := micros(store.WebhookEndpoint{}.FailingSince)
	if d.Delivered {
		return t.affected(`UPDATE webhook_endpoints SET failing_since = $1, last_error = '', delivered_at = $2 WHERE id = $3`,
			none, micros(d.UpdatedAt), d.Endpoint)
	}
	return t.affected(`UPDATE webhook_endpoints SET last_error = $1, failing_since = CASE failing_since WHEN $2 THEN $3
		ELSE failing_since END WHERE id = $4`, d.Error, none, micros(d.UpdatedAt), d.Endpoint)
}

func putDelivery(t *tx, d store.WebhookDelivery) error {
	return t.exec(`INSERT INTO webhook_deliveries (endpoint, id, conversation, first_seq, last_seq, events, attempts, delivered,
		status, error, created_at, updated_at, retry_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (endpoint, id) DO UPDATE SET attempts = excluded.attempts, delivered = excluded.delivered,
		status = excluded.status, error = excluded.error, updated_at = excluded.updated_at, retry_at = excluded.retry_at`,
		d.Endpoint, d.ID, string(d.Conversation), d.FirstSeq, d.LastSeq, d.Events, d.Attempts, d.Delivered, d.Status, d.Error,
		micros(d.CreatedAt), micros(d.UpdatedAt), micros(d.RetryAt))
}

func scanDelivery(r row) (d store.WebhookDelivery, err error) {
	return d, r.Scan(&d.Endpoint, &d.ID, &d.Conversation, &d.FirstSeq, &d.LastSeq, &d.Events, &d.Attempts, &d.Delivered,
		&d.Status, &d.Error, timeInto{&d.CreatedAt}, timeInto{&d.UpdatedAt}, timeInto{&d.RetryAt})
}

// Deliveries implements store.Webhooks.
func (h webhooks) Deliveries(ctx context.Context, q store.WebhookQuery) (store.Page[store.WebhookDelivery], error) {
	where, limit := &clause{}, clamp(q.Limit, maxPage)
	where.and("endpoint =", q.Endpoint)
	if q.Failed {
		where.conditions = append(where.conditions, "NOT delivered")
	}
	if at, ok := parseCursor(q.Cursor, byNewest); ok {
		where.after(byNewest, at)
	}
	text := selectDelivery + where.where() + byNewest.orderBy() + " LIMIT " + where.arg(limit+1)
	found, err := collect(ctx, h.s.reads, scanDelivery, text, where.args...)
	if err != nil {
		return store.Page[store.WebhookDelivery]{}, h.s.fail(ctx, "store.webhooks.deliveries", err)
	}
	return page(found, limit, func(d store.WebhookDelivery) cursor {
		return cursor{Order: byNewest.name, Num: micros(d.CreatedAt), ID: d.ID}
	}), nil
}
