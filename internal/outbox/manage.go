package outbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// Fault codes.
const (
	CodeBadURL    = "bad_webhook_url" // Invalid
	CodeBadReplay = "bad_replay"      // Invalid
)

// Change says what an endpoint is to be; nil members stay.
type Change struct {
	URL         *string
	Description *string
	Secret      *string // "whsec_..."; nil in Create = one is made
	Filter      *store.WebhookFilter
	Active      *bool
}

func (c Change) apply(e *store.WebhookEndpoint) error {
	if c.URL != nil {
		if err := checkURL(*c.URL); err != nil {
			return err
		}
		e.URL = *c.URL
	}
	if c.Secret != nil {
		if _, err := keyOf(*c.Secret); err != nil {
			return err
		}
		e.Secret = account.NewSecret(*c.Secret)
	}
	if c.Description != nil {
		e.Description = *c.Description
	}
	if c.Filter != nil {
		e.Filter = *c.Filter
	}
	if c.Active != nil {
		e.Active, e.Reason = *c.Active, ""
	}
	return nil
}

// checkURL refuses what cannot be an endpoint. Whether its address may be reached is
// only known when it is dialled.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || strings.ContainsAny(text, " \t\r\n") {
		return fault.New(fault.Invalid, CodeBadURL, "This is no URL that events can be sent to: it must be http:// or https:// with a host, without a password and without a fragment.")
	}
	return nil
}

// Create registers an endpoint of an owner. It gets what happens from now on. Errors:
// Invalid, Conflict if there are too many.
func (o *Outbox) Create(ctx context.Context, owner string, c Change) (*store.WebhookEndpoint, error) {
	now := o.opt.Now().UTC().Truncate(time.Microsecond)
	e := &store.WebhookEndpoint{ID: "whe_" + strings.ToLower(rand.Text()), Owner: owner, Secret: newSecret(), Active: true,
		Since: now, CreatedAt: now, UpdatedAt: now}
	if err := c.apply(e); err != nil {
		return nil, err
	}
	if err := o.opt.Store.Create(ctx, e, maxEndpoints); err != nil {
		return nil, err
	}
	o.start(e)
	return e, nil
}

// Update changes an endpoint. What has failed is tried again at once. Errors:
// Invalid, NotFound.
func (o *Outbox) Update(ctx context.Context, owner, id string, c Change) (*store.WebhookEndpoint, error) {
	return o.change(ctx, owner, id, func() error {
		_, err := o.opt.Store.Update(ctx, owner, id, func(e *store.WebhookEndpoint) error {
			e.UpdatedAt = o.opt.Now().UTC().Truncate(time.Microsecond)
			return c.apply(e)
		})
		if err != nil {
			return err
		}
		return o.opt.Store.RetryNow(ctx, id)
	})
}

// Delete removes an endpoint, or says NotFound.
func (o *Outbox) Delete(ctx context.Context, owner, id string) error {
	_, err := o.change(ctx, owner, id, func() error { return o.opt.Store.Delete(ctx, owner, id) })
	return err
}

// Get returns an endpoint, or NotFound.
func (o *Outbox) Get(ctx context.Context, owner, id string) (*store.WebhookEndpoint, error) {
	return o.opt.Store.Get(ctx, owner, id)
}

// Search pages through an owner's endpoints.
func (o *Outbox) Search(ctx context.Context, q store.WebhookQuery) (store.Page[*store.WebhookEndpoint], error) {
	return o.opt.Store.Search(ctx, q)
}

// Deliveries pages through what became of an endpoint's messages. NotFound if the
// owner has no such endpoint.
func (o *Outbox) Deliveries(ctx context.Context, q store.WebhookQuery) (store.Page[store.WebhookDelivery], error) {
	if _, err := o.opt.Store.Get(ctx, q.Owner, q.Endpoint); err != nil {
		return store.Page[store.WebhookDelivery]{}, err
	}
	return o.opt.Store.Deliveries(ctx, q)
}

// Replay says what is to be sent once more: the events of a conversation from a seq,
// or those from a time, of one conversation or of all.
type Replay struct {
	Conversation conversation.ID // "" = all
	FromSeq      *int64
	From         time.Time
}

// Replay sends events once more, as messages with new ids. Errors: Invalid, NotFound.
func (o *Outbox) Replay(ctx context.Context, owner, id string, p Replay) (*store.WebhookEndpoint, error) {
	if err := o.checkReplay(ctx, owner, p); err != nil {
		return nil, err
	}
	return o.change(ctx, owner, id, func() error {
		_, err := o.opt.Store.Update(ctx, owner, id, func(e *store.WebhookEndpoint) error {
			e.Epoch++
			if p.Conversation == "" {
				e.Since = p.From
			}
			return nil
		})
		if err != nil {
			return err
		}
		if p.Conversation == "" {
			return o.opt.Store.ForgetCursors(ctx, id)
		}
		from := p.FromSeq
		if from == nil {
			first, err := firstSince(ctx, o.opt.Log, p.Conversation, p.From)
			if err != nil {
				return err
			}
			from = &first
		}
		return o.opt.Store.SaveCursor(ctx, store.WebhookCursor{Endpoint: id, Conversation: p.Conversation, Next: *from, Upto: -1})
	})
}

func (o *Outbox) checkReplay(ctx context.Context, owner string, p Replay) error {
	switch {
	case (p.FromSeq == nil) == p.From.IsZero():
		return fault.New(fault.Invalid, CodeBadReplay, "Say from where on to send again: either from_seq or from_time.")
	case p.FromSeq != nil && p.Conversation == "":
		return fault.New(fault.Invalid, CodeBadReplay, "from_seq needs a conversation_id: each conversation counts its own events.")
	case p.From.After(o.opt.Now()):
		return fault.New(fault.Invalid, CodeBadReplay, "from_time has not come yet.")
	case p.Conversation == "":
		return nil
	}
	logs, err := o.opt.Store.Logs(ctx, []conversation.ID{p.Conversation})
	if err == nil && (len(logs) == 0 || logs[0].Owner != owner) {
		err = fault.New(fault.NotFound, "not_found", "There is no such conversation.")
	}
	return err
}

// Test sends a message of type "test" at once, a single time, also to an endpoint
// that is not active, and returns what became of it. NotFound if there is no such
// endpoint.
func (o *Outbox) Test(ctx context.Context, owner, id string) (store.WebhookDelivery, error) {
	e, err := o.opt.Store.Get(ctx, owner, id)
	if err != nil {
		return store.WebhookDelivery{}, err
	}
	key, err := keyOf(e.Secret.Reveal())
	if err != nil {
		return store.WebhookDelivery{}, err
	}
	now := o.opt.Now().UTC().Truncate(time.Microsecond)
	body, err := json.Marshal(message{typeTest, now, testData{e.ID, "A test that a user asked for."}})
	if err != nil {
		return store.WebhookDelivery{}, err
	}
	d := store.WebhookDelivery{Endpoint: id, ID: "msg_" + strings.ToLower(rand.Text()), FirstSeq: -1, LastSeq: -1, Attempts: 1, CreatedAt: now}
	a := o.post(ctx, e.URL, key, d.ID, body)
	if ctx.Err() != nil {
		return d, context.Cause(ctx)
	}
	d.UpdatedAt, d.Status, d.Delivered = o.opt.Now().UTC().Truncate(time.Microsecond), a.status, a.delivered()
	if !d.Delivered {
		d.Error = a.text()
	}
	return d, o.opt.Store.Record(ctx, nil, d, keepDeliveries)
}
