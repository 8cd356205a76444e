package v1

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/outbox"
	"parley/internal/store"
)

// Webhooks sends events to addresses that users registered.
type Webhooks interface {
	Create(ctx context.Context, owner string, c outbox.Change) (*store.WebhookEndpoint, error)
	Update(ctx context.Context, owner, id string, c outbox.Change) (*store.WebhookEndpoint, error)
	Delete(ctx context.Context, owner, id string) error
	Get(ctx context.Context, owner, id string) (*store.WebhookEndpoint, error)
	Search(ctx context.Context, q store.WebhookQuery) (store.Page[*store.WebhookEndpoint], error)
	Deliveries(ctx context.Context, q store.WebhookQuery) (store.Page[store.WebhookDelivery], error)
	Replay(ctx context.Context, owner, id string, p outbox.Replay) (*store.WebhookEndpoint, error)
	Test(ctx context.Context, owner, id string) (store.WebhookDelivery, error)
}

// webhook shows an endpoint, without its secret.
type webhook struct {
	ID              string            `json:"id"`
	URL             string            `json:"url"`
	Description     string            `json:"description"`
	Active          bool              `json:"active"`
	DisabledReason  *string           `json:"disabled_reason"`
	Conversations   []conversation.ID `json:"conversation_ids"`
	Tags            map[string]string `json:"tags"`
	Kinds           []string          `json:"kinds"`
	StatusOnly      bool              `json:"status_only"`
	FailingSince    *string           `json:"failing_since"`
	LastError       *string           `json:"last_error"`
	LastDeliveredAt *string           `json:"last_delivered_at"`
	CreatedAt       string            `json:"created_at"`
	UpdatedAt       string            `json:"updated_at"`
}

func renderWebhook(e *store.WebhookEndpoint) webhook {
	out := webhook{ID: e.ID, URL: e.URL, Description: e.Description, Active: e.Active, DisabledReason: orNull(e.Reason),
		Conversations: e.Filter.Conversations, Tags: e.Filter.Tags, Kinds: e.Filter.Kinds, StatusOnly: e.Filter.StatusOnly,
		FailingSince: timeOrNull(e.FailingSince), LastError: orNull(e.LastError), LastDeliveredAt: timeOrNull(e.DeliveredAt),
		CreatedAt: httpkit.FormatTime(e.CreatedAt), UpdatedAt: httpkit.FormatTime(e.UpdatedAt)}
	if out.Conversations == nil {
		out.Conversations = []conversation.ID{}
	}
	if out.Tags == nil {
		out.Tags = map[string]string{}
	}
	if out.Kinds == nil {
		out.Kinds = []string{}
	}
	return out
}

func timeOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return orNull(httpkit.FormatTime(t))
}

// webhookRequest is what both requests can say.
type webhookRequest struct {
	URL           *string           `json:"url"`
	Description   *string           `json:"description"`
	Active        *bool             `json:"active"`
	Secret        *string           `json:"secret"`
	Conversations []string          `json:"conversation_ids"`
	Tags          map[string]string `json:"tags"`
	Kinds         []string          `json:"kinds"`
	StatusOnly    bool              `json:"status_only"`
}

// maxWebhookTags bounds the tags that an endpoint asks for.
const maxWebhookTags = 20

// readWebhook reads a request over an endpoint's filter as it is: members that are
// absent leave it alone.
func readWebhook(r *httpkit.Request, old store.WebhookFilter) (outbox.Change, error) {
	in := webhookRequest{Tags: old.Tags, Kinds: old.Kinds, StatusOnly: old.StatusOnly}
	for _, id := range old.Conversations {
		in.Conversations = append(in.Conversations, string(id))
	}
	if m, ok := r.BodyValue().(map[string]any); ok && m["tags"] != nil {
		in.Tags = nil // a map is read into the one that is there
	}
	if err := r.Body(&in); err != nil {
		return outbox.Change{}, err
	}
	if len(in.Tags) > maxWebhookTags {
		return outbox.Change{}, httpkit.BadField(fmt.Sprintf("an endpoint takes at most %d tags, not %d", maxWebhookTags, len(in.Tags)), nil, "body", "tags")
	}
	f := &store.WebhookFilter{Tags: in.Tags, Kinds: in.Kinds, StatusOnly: in.StatusOnly}
	for i, raw := range in.Conversations {
		id, err := conversation.ParseID(raw)
		if err != nil {
			return outbox.Change{}, httpkit.BadField("this is no id of a conversation", raw, "body", "conversation_ids", i)
		}
		f.Conversations = append(f.Conversations, id)
	}
	return outbox.Change{URL: in.URL, Description: in.Description, Secret: in.Secret, Filter: f, Active: in.Active}, nil
}

// webhooks returns the service, or says that there is none.
func (h *handlers) webhooks() (Webhooks, error) {
	if h.Webhooks == nil {
		return nil, fault.New(fault.Unsupported, "not_built", "This server sends no webhooks.")
	}
	return h.Webhooks, nil
}

func (h *handlers) createWebhook(w http.ResponseWriter, r *httpkit.Request) error {
	service, err := h.webhooks()
	if err != nil {
		return err
	}
	c, err := readWebhook(r, store.WebhookFilter{})
	if err != nil {
		return err
	}
	e, err := service.Create(r.Context(), r.Principal.UserID, c)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusCreated, struct {
		webhook
		Secret string `json:"secret"`
	}{renderWebhook(e), e.Secret.Reveal()})
}

func (h *handlers) searchWebhooks(w http.ResponseWriter, r *httpkit.Request) error {
	service, err := h.webhooks()
	if err != nil {
		return err
	}
	var q pageQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	found, err := service.Search(r.Context(), store.WebhookQuery{Owner: r.Principal.UserID, Cursor: orEmpty(q.PageID), Limit: q.Limit})
	if err != nil {
		return err
	}
	out := make([]webhook, len(found.Items))
	for i, e := range found.Items {
		out[i] = renderWebhook(e)
	}
	return writePage(w, out, found.Next)
}

func (h *handlers) getWebhook(w http.ResponseWriter, r *httpkit.Request) error {
	service, err := h.webhooks()
	if err != nil {
		return err
	}
	e, err := service.Get(r.Context(), r.Principal.UserID, r.PathValue("endpoint_id"))
	return writeWebhook(w, e, err)
}

// writeWebhook answers with an endpoint; nil was deleted meanwhile.
func writeWebhook(w http.ResponseWriter, e *store.WebhookEndpoint, err error) error {
	if err == nil && e == nil {
		return httpkit.NotFound("Webhook endpoint")
	}
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, renderWebhook(e))
}

func (h *handlers) updateWebhook(w http.ResponseWriter, r *httpkit.Request) error {
	service, err := h.webhooks()
	if err != nil {
		return err
	}
	id := r.PathValue("endpoint_id")
	old, err := service.Get(r.Context(), r.Principal.UserID, id)
	if err != nil {
		return err
	}
	c, err := readWebhook(r, old.Filter)
	if err != nil {
		return err
	}
	e, err := service.Update(r.Context(), r.Principal.UserID, id, c)
	return writeWebhook(w, e, err)
}

func (h *handlers) deleteWebhook(w http.ResponseWriter, r *httpkit.Request) error {
	service, err := h.webhooks()
	if err != nil {
		return err
	}
	if err := service.Delete(r.Context(), r.Principal.UserID, r.PathValue("endpoint_id")); err != nil {
		return err
	}
	return writeSuccess(w)
}

func (h *handlers) replayWebhook(w http.ResponseWriter, r *httpkit.Request) error {
	service, err := h.webhooks()
	if err != nil {
		return err
	}
	var in struct {
		Conversation *string `json:"conversation_id"`
		FromSeq      *int64  `json:"from_seq"`
		FromTime     *string `json:"from_time"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	p := outbox.Replay{FromSeq: in.FromSeq}
	if p.From, err = parseTime(in.FromTime); err != nil {
		return err
	}
	if in.Conversation != nil {
		if p.Conversation, err = conversation.ParseID(*in.Conversation); err != nil {
			return httpkit.NotFound("Conversation")
		}
	}
	e, err := service.Replay(r.Context(), r.Principal.UserID, r.PathValue("endpoint_id"), p)
	return writeWebhook(w, e, err)
}

func (h *handlers) testWebhook(w http.ResponseWriter, r *httpkit.Request) error {
	service, err := h.webhooks()
	if err != nil {
		return err
	}
	d, err := service.Test(r.Context(), r.Principal.UserID, r.PathValue("endpoint_id"))
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, renderDelivery(d))
}

// webhookDelivery is what became of a message.
type webhookDelivery struct {
	ID            string  `json:"id"`
	Conversation  *string `json:"conversation_id"`
	FirstSeq      *int64  `json:"first_seq"`
	LastSeq       *int64  `json:"last_seq"`
	Events        int     `json:"events"`
	Attempts      int     `json:"attempts"`
	Delivered     bool    `json:"delivered"`
	Status        *int    `json:"http_status"`
	Error         *string `json:"error"`
	CreatedAt     string  `json:"created_at"`
	UpdatedAt     string  `json:"updated_at"`
	NextAttemptAt *string `json:"next_attempt_at"`
}

func renderDelivery(d store.WebhookDelivery) webhookDelivery {
	out := webhookDelivery{ID: d.ID, Conversation: orNull(d.Conversation), Events: d.Events, Attempts: d.Attempts,
		Delivered: d.Delivered, Error: orNull(d.Error), CreatedAt: httpkit.FormatTime(d.CreatedAt),
		UpdatedAt: httpkit.FormatTime(d.UpdatedAt), NextAttemptAt: timeOrNull(d.RetryAt)}
	if d.Conversation != "" {
		out.FirstSeq, out.LastSeq = &d.FirstSeq, &d.LastSeq
	}
	if d.Status != 0 {
		out.Status = &d.Status
	}
	return out
}

func (h *handlers) searchDeliveries(w http.ResponseWriter, r *httpkit.Request) error {
	service, err := h.webhooks()
	if err != nil {
		return err
	}
	var q struct {
		Failed bool `json:"failed"`
		pageQuery
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	found, err := service.Deliveries(r.Context(), store.WebhookQuery{Owner: r.Principal.UserID, Endpoint: r.PathValue("endpoint_id"),
		Failed: q.Failed, Cursor: orEmpty(q.PageID), Limit: q.Limit})
	if err != nil {
		return err
	}
	out := make([]webhookDelivery, len(found.Items))
	for i, d := range found.Items {
		out[i] = renderDelivery(d)
	}
	return writePage(w, out, found.Next)
}
