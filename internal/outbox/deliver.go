package outbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

const (
	readPage  = 100
	maxRead   = 2000 // events that are looked at in one turn, whether the endpoint wants them or not
	saveEvery = 64   // events that are looked at again after a restart because the endpoint did not want them
	maxRetry  = time.Hour
)

// turn delivers the next message of a conversation, if there is one.
func (r *runner) turn(l store.WebhookLog) outcome {
	out := outcome{id: l.ID}
	done, err := r.deliver(l.ID)
	switch {
	case fault.Is(err, fault.NotFound): // the conversation or the endpoint is gone
		return out
	case err != nil:
		if !stopped(r.ctx, err) {
			r.o.opt.Logger.Warn("webhooks: a log cannot be read", "endpoint", r.e.ID, "conversation", l.ID, "error", err)
		}
		out.retryAt = r.o.opt.Now().Add(storeAgain)
		return out
	}
	done.id = l.ID
	return done
}

func (r *runner) deliver(id conversation.ID) (outcome, error) {
	c, err := r.cursor(id)
	if err != nil {
		return outcome{}, err
	}
	if c.RetryAt.After(r.o.opt.Now()) { // it failed in an earlier life of the server
		return outcome{retryAt: c.RetryAt}, nil
	}
	b, err := r.gather(c)
	if err != nil {
		return outcome{}, err
	}
	if len(b.events) > 0 {
		return r.send(c, b)
	}
	if b.next-c.Next >= saveEvery || c.Upto >= 0 {
		err = r.o.opt.Store.SaveCursor(r.ctx, store.WebhookCursor{Endpoint: r.e.ID, Conversation: id, Next: b.next, Upto: -1})
	}
	return outcome{more: b.more}, err
}

// cursor returns where the endpoint is in a conversation. In one that is new to it
// that is the first event since it was registered.
func (r *runner) cursor(id conversation.ID) (*store.WebhookCursor, error) {
	c, err := r.o.opt.Store.Cursor(r.ctx, r.e.ID, id)
	if !fault.Is(err, fault.NotFound) {
		return c, err
	}
	next, err := firstSince(r.ctx, r.o.opt.Log, id, r.e.Since)
	return &store.WebhookCursor{Endpoint: r.e.ID, Conversation: id, Next: next, Upto: -1}, err
}

// firstSince returns the seq of the first event at or after a time: the log's head
// if there is none.
func firstSince(ctx context.Context, log EventLog, id conversation.ID, t time.Time) (int64, error) {
	found, err := log.Search(ctx, store.EventQuery{Conversation: id, From: conversation.FormatTime(t), Limit: 1})
	if err != nil || len(found.Items) > 0 {
		return seqOf(found.Items), err
	}
	last, err := log.Search(ctx, store.EventQuery{Conversation: id, Desc: true, Limit: 1})
	if err != nil || len(last.Items) == 0 {
		return 0, err
	}
	return last.Items[0].Seq + 1, nil
}

func seqOf(events []conversation.Event) int64 {
	if len(events) == 0 {
		return 0
	}
	return events[0].Seq
}

// batch is what one message carries.
type batch struct {
	events []numbered
	next   int64 // seq of the first event that was not looked at
	more   bool  // the log may go on
}

// gather reads what comes next. A delivery that failed is made of the same events
// again.
func (r *runner) gather(c *store.WebhookCursor) (batch, error) {
	b, size := batch{next: c.Next}, 0
	for b.next-c.Next < maxRead {
		from := b.next // a page is bounded in bytes, too
		page, err := r.o.opt.Log.Search(r.ctx, store.EventQuery{Conversation: c.Conversation, AtOrAfter: &from, Limit: readPage})
		if err != nil {
			return b, err
		}
		for i := range page.Items {
			e := &page.Items[i]
			wanted := wants(&r.e.Filter, e)
			full := wanted && len(b.events) > 0 && (len(b.events) == maxEvents || size+len(e.Raw) > maxBytes)
			if full || c.Upto >= 0 && e.Seq > c.Upto {
				b.more = true
				return b, nil
			}
			if wanted {
				b.events = append(b.events, numbered{e.Seq, e.Raw})
				size += len(e.Raw)
			}
			b.next = e.Seq + 1
		}
		if page.NextID == "" {
			return b, nil
		}
	}
	b.more = true
	return b, nil
}

// send makes one attempt and stores what became of it.
func (r *runner) send(c *store.WebhookCursor, b batch) (outcome, error) {
	first, last := b.events[0].Seq, b.events[len(b.events)-1].Seq
	now := r.o.opt.Now().UTC()
	body, err := json.Marshal(message{typeEvents, now, eventData{r.e.ID, c.Conversation, b.events}})
	if err != nil {
		return outcome{}, fmt.Errorf("encode events: %w", err)
	}
	d := store.WebhookDelivery{Endpoint: r.e.ID, ID: messageID(r.e, c.Conversation, first, last), Conversation: c.Conversation,
		FirstSeq: first, LastSeq: last, Events: len(b.events), Attempts: c.Attempts + 1, CreatedAt: now}
	a := r.o.post(r.ctx, r.e.URL, r.key, d.ID, body)
	if r.ctx.Err() != nil && !a.delivered() {
		return outcome{}, r.ctx.Err()
	}
	now = r.o.opt.Now().UTC()
	d.UpdatedAt, d.Status, d.Delivered = now, a.status, a.delivered()
	if d.Delivered {
		r.record(&store.WebhookCursor{Endpoint: r.e.ID, Conversation: c.Conversation, Next: b.next, Upto: -1}, d)
		return outcome{sent: true, more: b.more}, nil
	}
	return r.fail(c, d, a), nil
}

// fail stores a failed attempt and says when to try again.
func (r *runner) fail(c *store.WebhookCursor, d store.WebhookDelivery, a attempt) outcome {
	next := *c
	next.Upto, next.Attempts = d.LastSeq, d.Attempts
	if next.FailingSince.IsZero() {
		next.FailingSince = d.UpdatedAt
	}
	d.Error = a.text()
	reason := ""
	switch {
	case a.status == http.StatusGone:
		reason = "The endpoint answered 410 Gone: it wants no more events."
	case d.UpdatedAt.Sub(next.FailingSince) >= r.o.opt.GiveUp:
		reason = fmt.Sprintf("Deliveries of conversation %s have failed since %s. The last one: %s",
			d.Conversation, next.FailingSince.Format(time.RFC3339), d.Error)
	default:
		next.RetryAt = d.UpdatedAt.Add(min(max(r.backoff(d.Attempts), a.retryAfter), max(maxRetry, r.backoff(d.Attempts))))
		d.RetryAt = next.RetryAt
	}
	r.record(&next, d)
	if reason == "" {
		return outcome{failed: true, retryAt: next.RetryAt}
	}
	r.persist(func(ctx context.Context) error {
		_, err := r.o.opt.Store.Update(ctx, "", r.e.ID, func(e *store.WebhookEndpoint) error {
			e.Active, e.Reason, e.UpdatedAt = false, reason, d.UpdatedAt
			return nil
		})
		return err
	})
	r.o.opt.Logger.Warn("webhooks: an endpoint is switched off", "endpoint", r.e.ID, "reason", reason)
	return outcome{failed: true, end: true}
}

// record stores an outcome, however long that takes: what is not stored would be
// sent again.
func (r *runner) record(c *store.WebhookCursor, d store.WebhookDelivery) {
	r.persist(func(ctx context.Context) error { return r.o.opt.Store.Record(ctx, c, d, keepDeliveries) })
}

// persist tries until it works, the last time when the runner is stopped.
func (r *runner) persist(do func(context.Context) error) {
	for {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), saveTime)
		err := do(ctx)
		cancel()
		if err == nil || r.ctx.Err() != nil || fault.Is(err, fault.NotFound) {
			return
		}
		r.o.opt.Logger.Warn("webhooks: an outcome cannot be stored, trying again", "endpoint", r.e.ID, "error", err)
		again := time.NewTimer(storeAgain)
		select {
		case <-r.ctx.Done():
		case <-again.C:
		}
		again.Stop()
	}
}

// attempt is how a request went.
type attempt struct {
	status     int // 0 = there was no answer
	err        error
	timeout    time.Duration
	retryAfter time.Duration
}

func (a attempt) delivered() bool { return a.err == nil && a.status >= 200 && a.status <= 299 }

// text says what went wrong, in words that show nothing of the network.
func (a attempt) text() string {
	var known *fault.Error
	var certificate *tls.CertificateVerificationError
	switch {
	case a.err == nil && a.status >= 300 && a.status <= 399:
		return fmt.Sprintf("The endpoint answered %d; redirects are not followed.", a.status)
	case a.err == nil:
		return fmt.Sprintf("The endpoint answered %d %s.", a.status, http.StatusText(a.status))
	case errors.As(a.err, &known):
		return fault.PublicText(a.err)
	case errors.Is(a.err, context.DeadlineExceeded):
		return fmt.Sprintf("There was no answer within %s.", a.timeout)
	case errors.As(a.err, &certificate):
		return "The certificate of the endpoint is not valid: " + certificate.Err.Error()
	}
	return "The connection broke before there was an answer of HTTP."
}

// post makes one request.
func (o *Outbox) post(ctx context.Context, url string, key []byte, id string, body []byte) attempt {
	a := attempt{timeout: o.opt.Timeout}
	ctx, cancel := context.WithTimeout(ctx, o.opt.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		a.err = err
		return a
	}
	now := o.opt.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Parley-Webhooks")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("Webhook-Signature", sign(key, id, now, body))
	resp, err := o.client.Do(req)
	if err != nil {
		a.err = err
		return a
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again; the answer says nothing
	a.status = resp.StatusCode
	if s, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31); err == nil {
		a.retryAfter = time.Duration(s) * time.Second
	}
	return a
}
