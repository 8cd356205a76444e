// Package shared serves conversations to strangers, for reading: those whose owner
// made them public, and those that the token of a link opens. Whatever is not shared
// looks as if it were not there. It asks for no key, and so every client may ask only
// so often.
package shared

import (
	"context"
	_ "embed" // the document
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/internal/api/eventwire"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
)

//go:embed openapi.yaml
var document []byte

const maxBatch = 100

// Engine is what the API needs of the application service.
type Engine interface {
	// Published returns what strangers may see, or NotFound. id "" is the
	// conversation of the token.
	Published(ctx context.Context, id conversation.ID, token string) (*engine.Published, error)
	Log() store.Events
}

// Config makes the API.
type Config struct {
	Engine Engine
	URLs   *httpkit.URLs // tells clients apart
}

type handlers struct {
	Config
	limit limiter
}

// New makes the API.
func New(cfg Config) (*httpkit.API, error) {
	h := &handlers{Config: cfg}
	all := httpkit.Handlers{
		"get_shared_conversations": h.conversations,
		"get_shared_events":        h.events,
		"search_shared_events":     h.search,
		"count_shared_events":      h.count,
		"get_shared_event":         h.event,
	}
	for name, serve := range all {
		all[name] = func(w http.ResponseWriter, r *httpkit.Request) error {
			client := h.URLs.Client(r.Request)
			if err := h.limit.take(client, time.Now()); err != nil {
				return err
			}
			leave, err := h.limit.enter(client)
			if err != nil {
				return err
			}
			defer leave()
			w.Header().Set("Cache-Control", "no-store") // it may be taken back
			w.Header().Set("X-Robots-Tag", "noindex")
			w.Header().Set("Referrer-Policy", "no-referrer")
			return serve(w, r)
		}
	}
	return httpkit.NewAPI(httpkit.APIConfig{Name: "shared", Document: document, Handlers: all})
}

// query are the parameters of all operations.
type query struct {
	Conversation string   `json:"conversation_id"`
	IDs          []string `json:"ids"`
	Events       []string `json:"id"`
	Event        string   `json:"event_id"`
	Kind         *string  `json:"kind__eq"`
	From         *string  `json:"timestamp__gte"`
	To           *string  `json:"timestamp__lt"`
	Order        string   `json:"sort_order"`
	PageID       *string  `json:"page_id"`
	Limit        int      `json:"limit"`
	Token        *string  `json:"share_token"`
	Header       string   `json:"X-Share-Token"`
}

func (q *query) token() string {
	if q.Token != nil && *q.Token != "" {
		return *q.Token
	}
	return q.Header
}

func read(r *httpkit.Request) (q query, err error) {
	if err = r.Params(&q); err == nil && len(q.IDs)+len(q.Events) > maxBatch {
		err = fault.New(fault.Invalid, "too_many_ids", "At most %d ids can be asked for at once.", maxBatch)
	}
	return q, err
}

// find returns a shared conversation, nil if there is none.
func (h *handlers) find(ctx context.Context, raw, token string) (*engine.Published, error) {
	id, err := conversation.ParseID(raw)
	if err != nil {
		return nil, nil //nolint:nilerr // no id of any conversation
	}
	return h.published(ctx, id, token)
}

func (h *handlers) published(ctx context.Context, id conversation.ID, token string) (*engine.Published, error) {
	p, err := h.Engine.Published(ctx, id, token)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return p, err
}

type sharedConversation struct {
	ID         string   `json:"id"`
	Creator    *string  `json:"created_by_user_id"`
	SandboxID  string   `json:"sandbox_id"`
	Repository *string  `json:"selected_repository"`
	Branch     *string  `json:"selected_branch"`
	Provider   *string  `json:"git_provider"`
	Title      *string  `json:"title"`
	PRNumber   []int    `json:"pr_number"`
	Model      *string  `json:"llm_model"`
	Metrics    metrics  `json:"metrics"`
	Parent     *string  `json:"parent_conversation_id"`
	Children   []string `json:"sub_conversation_ids"`
	CreatedAt  string   `json:"created_at"`
	UpdatedAt  string   `json:"updated_at"`
}

type metrics struct {
	ModelName string             `json:"model_name"`
	Cost      float64            `json:"accumulated_cost"`
	Usage     conversation.Usage `json:"accumulated_token_usage"`
}

func render(p *engine.Published) *sharedConversation {
	text := func(s string) *string {
		if s = p.Redact(s); s == "" {
			return nil
		}
		return &s
	}
	m := p.Summary.Metrics
	out := &sharedConversation{ID: string(p.ID), Repository: text(repository(p.Repository)), Branch: text(p.Branch),
		Provider: text(p.GitProvider), Title: text(p.Title), PRNumber: p.PRNumbers, Model: text(p.Options.LLM.Model),
		Metrics: metrics{p.Redact(m.ModelName), m.AccumulatedCost, m.Usage}, Children: []string{},
		CreatedAt: httpkit.FormatTime(p.CreatedAt), UpdatedAt: httpkit.FormatTime(p.UpdatedAt)}
	if out.PRNumber == nil {
		out.PRNumber = []int{}
	}
	if p.Parent != "" {
		id := string(p.Parent)
		out.Parent = &id
	}
	for _, id := range p.Children {
		out.Children = append(out.Children, string(id))
	}
	return out
}

// repository is how strangers may see where the work is from: without a user's name
// or a token in it, and no directory.
func repository(text string) string {
	u, err := url.Parse(text)
	if err != nil || strings.HasPrefix(text, "/") || u.Scheme == "file" {
		return ""
	}
	u.User = nil
	return u.String()
}

func (h *handlers) conversations(w http.ResponseWriter, r *httpkit.Request) error {
	q, err := read(r)
	if err != nil {
		return err
	}
	out := make([]*sharedConversation, max(1, len(q.IDs))) // nil encodes as null
	if len(q.IDs) == 0 {
		if q.token() == "" {
			return httpkit.InvalidFields(fault.Field{Loc: []any{"query", "ids"}, Type: "missing", Msg: "Field required"})
		}
		p, err := h.published(r.Context(), "", q.token())
		if err != nil {
			return err
		}
		if p != nil {
			out[0] = render(p)
		}
	}
	for i, raw := range q.IDs {
		p, err := h.find(r.Context(), raw, q.token())
		if err != nil {
			return err
		}
		if p != nil {
			out[i] = render(p)
		}
	}
	return httpkit.JSON(w, http.StatusOK, out)
}

func (h *handlers) events(w http.ResponseWriter, r *httpkit.Request) error {
	q, err := read(r)
	if err != nil {
		return err
	}
	out, err := h.byID(r.Context(), &q, q.Events)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, out)
}

func (h *handlers) event(w http.ResponseWriter, r *httpkit.Request) error {
	q, err := read(r)
	if err != nil {
		return err
	}
	out, err := h.byID(r.Context(), &q, []string{q.Event})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, out[0])
}

func (h *handlers) byID(ctx context.Context, q *query, ids []string) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(ids)) // nil encodes as null
	p, err := h.find(ctx, q.Conversation, q.token())
	if err != nil || p == nil {
		return out, err
	}
	size := 0
	for i, id := range ids { // one by one: each may be large, and the same
		found, err := h.Engine.Log().ByID(ctx, p.ID, []string{id})
		if err != nil {
			return nil, err
		}
		if found[0] == nil || !isShown(found[0].Kind) {
			continue
		}
		own := len(found[0].Raw)
		if size += own; size > own && size > maxShown {
			return nil, fault.New(fault.TooLarge, "batch_too_large", "The events are larger than %d bytes together.", maxShown).
				WithHint("Ask for fewer at once.")
		}
		if out[i], err = view(found[0], p.Redact); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// filter is the query's part that search and count share.
func (q *query) filter(id conversation.ID) store.EventQuery {
	f := store.EventQuery{Conversation: id, Desc: q.Order == "TIMESTAMP_DESC", Limit: scanPart}
	if q.Kind != nil {
		f.Kind = *q.Kind
	}
	if q.From != nil {
		f.From = eventwire.Timestamp(*q.From)
	}
	if q.To != nil {
		f.To = eventwire.Timestamp(*q.To)
	}
	return f
}

func (h *handlers) count(w http.ResponseWriter, r *httpkit.Request) error {
	q, err := read(r)
	if err != nil {
		return err
	}
	n := 0
	p, err := h.find(r.Context(), q.Conversation, q.token())
	if err != nil {
		return err
	}
	for _, kind := range shown {
		if p == nil || q.Kind != nil && *q.Kind != kind {
			continue
		}
		f := q.filter(p.ID)
		f.Kind = kind
		some, err := h.Engine.Log().Count(r.Context(), f)
		if err != nil {
			return err
		}
		n += some
	}
	return httpkit.JSON(w, http.StatusOK, n)
}
