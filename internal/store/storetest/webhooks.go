package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

var webhookTests = map[string]func(*suite){
	"RoundTrip":              webhookRoundTrip,
	"OwnersAreApart":         webhookOwners,
	"UpdateKeepsOutcomes":    webhookUpdate,
	"AtMost":                 webhookMost,
	"Pages":                  webhookPages,
	"Logs":                   webhookLogs,
	"Behind":                 webhookBehind,
	"CursorsGoWithTheirEnds": webhookCursors,
	"RetryNow":               webhookRetryNow,
	"Record":                 webhookRecord,
	"DeliveriesKeepNewest":   webhookKeeps,
}

func endpoint(owner, id string, seconds int) *store.WebhookEndpoint {
	return &store.WebhookEndpoint{ID: id, Owner: owner, URL: "https://" + id + ".example/x", Secret: account.NewSecret("secret of " + id),
		Active: true, Since: at(seconds), CreatedAt: at(seconds), UpdatedAt: at(seconds)}
}

func (s *suite) register(owner, id string, seconds int) *store.WebhookEndpoint {
	s.Helper()
	e := endpoint(owner, id, seconds)
	s.ok(s.Webhooks().Create(s.ctx, e, 100))
	return e
}

// endpoint returns the one called e.
func (s *suite) endpoint() *store.WebhookEndpoint {
	s.Helper()
	e, err := s.Webhooks().Get(s.ctx, "", "e")
	s.ok(err)
	return e
}

func webhookRoundTrip(s *suite) {
	e := endpoint("o", "e", 1)
	e.Description, e.Reason, e.Active, e.Epoch = "words \u00fc\x00", "why", false, 7
	e.Filter = store.WebhookFilter{Conversations: []conversation.ID{"a", "b"}, Tags: map[string]string{"k": "v"},
		Kinds: []string{"MessageEvent"}, StatusOnly: true}
	s.ok(s.Webhooks().Create(s.ctx, e, 1))
	s.equal(s.endpoint(), e)
	s.fails(s.Webhooks().Create(s.ctx, endpoint("o", "e", 2), 100), fault.Conflict, store.CodeExists)
	s.fails(s.Webhooks().Create(s.ctx, endpoint("", "x", 2), 100), fault.Internal, "")
	active, err := s.Webhooks().Active(s.ctx)
	s.ok(err)
	s.equal(active, []*store.WebhookEndpoint{})
	s.register("p", "later", 9)
	s.register("o", "earlier", 8)
	active, err = s.Webhooks().Active(s.ctx)
	s.ok(err)
	s.equal([]string{active[0].ID, active[1].ID}, []string{"earlier", "later"})
}

func webhookOwners(s *suite) {
	s.register("o", "e", 1)
	_, err := s.Webhooks().Get(s.ctx, "p", "e")
	s.fails(err, fault.NotFound, "")
	_, err = s.Webhooks().Update(s.ctx, "p", "e", func(*store.WebhookEndpoint) error { s.Error("changed"); return nil })
	s.fails(err, fault.NotFound, "")
	s.fails(s.Webhooks().Delete(s.ctx, "p", "e"), fault.NotFound, "")
	s.fails(s.Webhooks().Delete(s.ctx, "", "e"), fault.NotFound, "")
	p, err := s.Webhooks().Search(s.ctx, store.WebhookQuery{Owner: "p"})
	s.ok(err)
	s.equal(p.Items, []*store.WebhookEndpoint{})
	s.ok(s.Webhooks().Delete(s.ctx, "o", "e"))
	s.fails(s.Webhooks().Delete(s.ctx, "o", "e"), fault.NotFound, "")
}

func webhookUpdate(s *suite) {
	e := s.register("o", "e", 1)
	failed := store.WebhookDelivery{Endpoint: "e", ID: "d", Error: "no", CreatedAt: at(2), UpdatedAt: at(3)}
	s.ok(s.Webhooks().Record(s.ctx, nil, failed, 10))
	got, err := s.Webhooks().Update(s.ctx, "o", "e", func(e *store.WebhookEndpoint) error {
		e.URL, e.Description, e.Secret, e.Active, e.Reason = "http://b", "d", account.NewSecret("other"), false, "r"
		e.Since, e.Epoch, e.UpdatedAt, e.Filter.Kinds = at(5), 2, at(6), []string{"K"}
		e.LastError, e.FailingSince, e.DeliveredAt = "", time.Time{}, at(9) // belong to Record
		return nil
	})
	s.ok(err)
	want := *e
	want.URL, want.Description, want.Secret, want.Active, want.Reason = "http://b", "d", account.NewSecret("other"), false, "r"
	want.Since, want.Epoch, want.UpdatedAt, want.Filter.Kinds = at(5), 2, at(6), []string{"K"}
	want.LastError, want.FailingSince = "no", at(3)
	s.equal(got, &want)
	s.equal(s.endpoint(), &want)
	for _, change := range []func(*store.WebhookEndpoint) error{
		func(*store.WebhookEndpoint) error { return errors.New("mine") },
		func(e *store.WebhookEndpoint) error { e.Owner = "p"; return nil },
		func(e *store.WebhookEndpoint) error { e.ID = "x"; return nil },
	} {
		if _, err := s.Webhooks().Update(s.ctx, "", "e", change); err == nil {
			s.Error("a wrong change was stored")
		}
	}
	s.equal(s.endpoint(), &want)
}

func webhookMost(s *suite) {
	for i := range 3 {
		s.ok(s.Webhooks().Create(s.ctx, endpoint("o", fmt.Sprint("e", i), 1), 3))
	}
	s.fails(s.Webhooks().Create(s.ctx, endpoint("o", "e3", 1), 3), fault.Conflict, store.CodeTooMany)
	s.ok(s.Webhooks().Create(s.ctx, endpoint("p", "e3", 1), 3))
}

func webhookPages(s *suite) {
	for i := range 7 {
		s.register("o", fmt.Sprint("e", i), i/3)
		s.ok(s.Webhooks().Record(s.ctx, nil, store.WebhookDelivery{Endpoint: "e0", ID: fmt.Sprint("d", i), CreatedAt: at(i / 3),
			Delivered: i%2 == 0}, 10))
	}
	for _, limit := range []int{1, 2, 3, 7, 100} {
		var got []string
		q := store.WebhookQuery{Owner: "o", Endpoint: "e0", Limit: limit}
		for {
			p, err := s.Webhooks().Search(s.ctx, q)
			s.ok(err)
			for _, e := range p.Items {
				got = append(got, e.ID)
			}
			if q.Cursor = p.Next; q.Cursor == "" {
				break
			}
		}
		s.equal(strings.Join(got, " "), "e6 e5 e4 e3 e2 e1 e0")
		s.equal(s.deliveries(q), "d6 d5 d4 d3 d2 d1 d0")
		q.Failed = true
		s.equal(s.deliveries(q), "d5 d3 d1")
	}
}

// deliveries pages through all.
func (s *suite) deliveries(q store.WebhookQuery) string {
	s.Helper()
	var got []string
	for {
		p, err := s.Webhooks().Deliveries(s.ctx, q)
		s.ok(err)
		for _, d := range p.Items {
			got = append(got, d.ID)
		}
		if q.Cursor = p.Next; q.Cursor == "" {
			return strings.Join(got, " ")
		}
	}
}

func webhookLogs(s *suite) {
	s.create("o", "c1", func(c *conversation.Conversation) { c.Tags = map[string]string{"k": "v"} })
	s.create("p", "c2")
	got, err := s.Webhooks().Logs(s.ctx, []conversation.ID{"c2", "none", "c1"})
	s.ok(err)
	s.equal(len(got), 2)
	for _, l := range got {
		if l.ID == "c1" && (l.Owner != "o" || l.Tags["k"] != "v") || l.ID == "c2" && l.Owner != "p" {
			s.Errorf("%+v", l)
		}
	}
	got, err = s.Webhooks().Logs(s.ctx, nil)
	s.ok(err)
	s.equal(len(got), 0)
}

// behind lists the ids that Behind finds, page by page.
func (s *suite) behind(id string, limit int) string {
	s.Helper()
	var got []string
	after := conversation.ID("")
	for {
		p, err := s.Webhooks().Behind(s.ctx, id, after, limit)
		s.ok(err)
		for _, l := range p {
			after = l.ID
			got = append(got, string(l.ID))
		}
		if len(p) < limit {
			return strings.Join(got, " ")
		}
	}
}

// webhookBehind: appends of the suite happen at(60).
func webhookBehind(s *suite) {
	s.register("o", "e", 50)
	s.register("o", "late", 70)
	for _, id := range []string{"a", "b", "c", "d", "empty"} {
		s.create("o", id)
	}
	s.create("p", "foreign")
	for _, id := range []conversation.ID{"a", "b", "c", "d", "foreign"} {
		s.append(id, message("1", "x", at(60)), message("2", "x", at(60)))
	}
	for _, limit := range []int{1, 2, 3, 100} {
		s.equal(s.behind("e", limit), "a b c d")
	}
	s.equal(s.behind("late", 10), "")
	s.equal(s.behind("none", 10), "")
	s.ok(s.Webhooks().SaveCursor(s.ctx, store.WebhookCursor{Endpoint: "late", Conversation: "b", Next: 0, Upto: -1})) // a replay
	s.equal(s.behind("late", 10), "b")
	s.ok(s.Webhooks().SaveCursor(s.ctx, store.WebhookCursor{Endpoint: "e", Conversation: "a", Next: 2, Upto: -1}))
	s.ok(s.Webhooks().SaveCursor(s.ctx, store.WebhookCursor{Endpoint: "e", Conversation: "b", Next: 1, Upto: -1}))
	s.equal(s.behind("e", 10), "b c d")
	s.append("a", message("3", "x", at(61)))
	s.equal(s.behind("e", 10), "a b c d")
}

func webhookCursors(s *suite) {
	s.register("o", "e", 1)
	s.register("o", "f", 1)
	s.create("o", "c")
	s.create("o", "d")
	c := store.WebhookCursor{Endpoint: "e", Conversation: "c", Next: 5, Upto: 9, Attempts: 2, FailingSince: at(1), RetryAt: at(2)}
	hooks := s.Webhooks()
	s.ok(hooks.SaveCursor(s.ctx, store.WebhookCursor{Endpoint: "e", Conversation: "c", Next: 1, Upto: -1}))
	s.ok(hooks.SaveCursor(s.ctx, c))
	got, err := hooks.Cursor(s.ctx, "e", "c")
	s.ok(err)
	s.equal(got, &c)
	for _, lost := range []store.WebhookCursor{{Endpoint: "none", Conversation: "c"}, {Endpoint: "e", Conversation: "none"}} {
		s.ok(hooks.SaveCursor(s.ctx, lost))
		_, err := hooks.Cursor(s.ctx, lost.Endpoint, lost.Conversation)
		s.fails(err, fault.NotFound, "")
	}
	other := store.WebhookCursor{Endpoint: "f", Conversation: "c", Next: 3, Upto: -1}
	s.ok(hooks.SaveCursor(s.ctx, other))
	s.ok(hooks.SaveCursor(s.ctx, store.WebhookCursor{Endpoint: "e", Conversation: "d", Next: 3, Upto: -1}))
	s.ok(s.Conversations().Delete(s.ctx, "d"))
	_, err = hooks.Cursor(s.ctx, "e", "d")
	s.fails(err, fault.NotFound, "")
	s.ok(hooks.ForgetCursors(s.ctx, "e"))
	_, err = hooks.Cursor(s.ctx, "e", "c")
	s.fails(err, fault.NotFound, "")
	got, err = hooks.Cursor(s.ctx, "f", "c")
	s.ok(err)
	s.equal(got, &other)
	s.ok(hooks.Delete(s.ctx, "o", "f"))
	s.register("o", "f", 1)
	_, err = hooks.Cursor(s.ctx, "f", "c")
	s.fails(err, fault.NotFound, "")
}

func webhookRetryNow(s *suite) {
	s.register("o", "e", 1)
	s.create("o", "c")
	c := store.WebhookCursor{Endpoint: "e", Conversation: "c", Next: 5, Upto: 9, Attempts: 2, FailingSince: at(1), RetryAt: at(2)}
	s.ok(s.Webhooks().SaveCursor(s.ctx, c))
	s.ok(s.Webhooks().RetryNow(s.ctx, "e"))
	got, err := s.Webhooks().Cursor(s.ctx, "e", "c")
	s.ok(err)
	s.equal(got, &store.WebhookCursor{Endpoint: "e", Conversation: "c", Next: 5, Upto: 9})
}

func webhookRecord(s *suite) {
	s.register("o", "e", 1)
	s.create("o", "c")
	d := store.WebhookDelivery{Endpoint: "e", ID: "d", Conversation: "c", FirstSeq: 1, LastSeq: 4, Events: 3, Attempts: 1, Status: 500,
		Error: "no", CreatedAt: at(10), UpdatedAt: at(11), RetryAt: at(12)}
	c := &store.WebhookCursor{Endpoint: "e", Conversation: "c", Next: 1, Upto: 4, Attempts: 1, FailingSince: at(11), RetryAt: at(12)}
	s.ok(s.Webhooks().Record(s.ctx, c, d, 10))
	got, err := s.Webhooks().Cursor(s.ctx, "e", "c")
	s.ok(err)
	s.equal(got, c)
	again := d
	again.Attempts, again.CreatedAt, again.UpdatedAt, again.RetryAt, again.Error = 2, at(20), at(21), at(22), "still"
	s.ok(s.Webhooks().Record(s.ctx, c, again, 10))
	again.CreatedAt = at(10)
	p, err := s.Webhooks().Deliveries(s.ctx, store.WebhookQuery{Endpoint: "e"})
	s.ok(err)
	s.equal(p.Items, []store.WebhookDelivery{again})
	e := s.endpoint()
	s.equal([]any{e.FailingSince, e.LastError, e.DeliveredAt}, []any{at(11), "still", time.Time{}})
	again.Delivered, again.Error, again.UpdatedAt, again.RetryAt, again.Status = true, "", at(30), time.Time{}, 204
	s.ok(s.Webhooks().Record(s.ctx, nil, again, 10))
	e = s.endpoint()
	s.equal([]any{e.FailingSince, e.LastError, e.DeliveredAt}, []any{time.Time{}, "", at(30)})
	s.ok(s.Webhooks().Record(s.ctx, c, store.WebhookDelivery{Endpoint: "none", ID: "x"}, 10))
	s.equal(s.deliveries(store.WebhookQuery{Endpoint: "none"}), "")
	s.fails(s.Webhooks().Record(s.ctx, nil, store.WebhookDelivery{Endpoint: "e"}, 10), fault.Internal, "")
}

func webhookKeeps(s *suite) {
	s.register("o", "e", 1)
	s.register("o", "f", 1)
	s.ok(s.Webhooks().Record(s.ctx, nil, store.WebhookDelivery{Endpoint: "f", ID: "d", CreatedAt: at(-9)}, 3))
	for i := range 6 {
		s.ok(s.Webhooks().Record(s.ctx, nil, store.WebhookDelivery{Endpoint: "e", ID: fmt.Sprint("d", i), CreatedAt: at(i / 2)}, 3))
	}
	s.equal(s.deliveries(store.WebhookQuery{Endpoint: "e"}), "d5 d4 d3")
	s.equal(s.deliveries(store.WebhookQuery{Endpoint: "f"}), "d")
}
