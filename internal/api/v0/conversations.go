package v0

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
)

// info is what clients read of a conversation.
type info struct {
	ConversationID     string   `json:"conversation_id"`
	Title              string   `json:"title"`
	LastUpdatedAt      *string  `json:"last_updated_at"`
	Status             string   `json:"status"`
	RuntimeStatus      *string  `json:"runtime_status"`
	SelectedRepository *string  `json:"selected_repository"`
	SelectedBranch     *string  `json:"selected_branch"`
	GitProvider        *string  `json:"git_provider"`
	Trigger            *string  `json:"trigger"`
	NumConnections     int      `json:"num_connections"`
	URL                *string  `json:"url"`
	SessionAPIKey      *string  `json:"session_api_key"`
	CreatedAt          string   `json:"created_at"`
	PRNumbers          []int    `json:"pr_number"`
	Version            string   `json:"conversation_version"`
	SubConversations   []string `json:"sub_conversation_ids"`
}

func (h *handlers) describe(r *httpkit.Request, v *engine.View, c condition) info {
	out := info{ConversationID: string(v.ID), Title: v.Title, Status: c.status, RuntimeStatus: c.runtime,
		SelectedRepository: unlessEmpty(v.Repository), SelectedBranch: unlessEmpty(v.Branch),
		GitProvider: oneOf(v.GitProvider, account.Providers), Trigger: oneOf(v.Trigger, triggers[:]), CreatedAt: formatDate(v.CreatedAt),
		PRNumbers: append([]int{}, v.PRNumbers...), Version: "V0", SubConversations: []string{}}
	if out.Title == "" {
		out.Title = defaultTitle(v.ID)
	}
	last := v.LastEventAt
	if v.TitleByUser && v.UpdatedAt.After(last) { // a rename is an update, too
		last = v.UpdatedAt
	}
	if !last.IsZero() {
		out.LastUpdatedAt = ref(formatDate(last))
	}
	if v.Origin != conversation.OriginV0 {
		h.describeV1(r, v, c, &out)
	} else if c.status != statusStopped {
		out.URL = ref("/api/conversations/" + httpkit.Segment(string(v.ID)))
	}
	return out
}

// describeV1 fills what differs for conversations of the other APIs: their
// clients talk to the agent of the sandbox, with its key.
func (h *handlers) describeV1(r *httpkit.Request, v *engine.View, c condition, out *info) {
	out.Version = "V1"
	if v.Sandbox == nil || c.status == statusStopped {
		return
	}
	out.URL = ref(httpkit.AgentURL(h.urls.Base(r.Request), v.Sandbox.ID) + "/api/conversations/" +
		httpkit.Segment(string(v.ID)))
	if v.Sandbox.SessionKey.IsSet() {
		out.SessionAPIKey = ref(v.Sandbox.SessionKey.Reveal())
	}
}

func unlessEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// triggers are those that old clients know. Conversations of the other APIs may have
// others.
var triggers = [...]string{"resolver", triggerGUI, triggerSuggested, "openhands_api", "slack", triggerMicroagent, "jira", "jira_dc", "linear", "bitbucket"}

// oneOf returns a value that is known, nil for any other.
func oneOf(s string, known []string) *string {
	if !slices.Contains(known, s) {
		return nil
	}
	return &s
}

func defaultTitle(id conversation.ID) string {
	r := []rune(string(id))
	return "Conversation " + string(r[:min(5, len(r))])
}

// formatDate renders RFC 3339 in UTC, always with microseconds.
func formatDate(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// get answers null for an unknown conversation, as clients expect.
func (h *handlers) get(w http.ResponseWriter, r *httpkit.Request) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	v, c, err := h.view(r.Context(), r.Principal.UserID, id)
	if fault.Is(err, fault.NotFound) {
		return ok(w, nil)
	}
	if err != nil {
		return err
	}
	out := h.describe(r, v, c)
	out.NumConnections = h.rooms.Count(id)
	if out.SubConversations, err = h.children(r.Context(), v); err != nil {
		return err
	}
	return ok(w, out)
}

// children lists the first hundred sub-conversations.
func (h *handlers) children(ctx context.Context, v *engine.View) ([]string, error) {
	page, err := h.engine.Search(ctx, store.ConversationQuery{Owner: v.Owner, ParentID: v.ID, WithSubs: true,
		Order: store.CreatedAsc, Limit: 100})
	ids := []string{}
	for _, sub := range page.Items {
		ids = append(ids, string(sub.ID))
	}
	return ids, err
}

const maxPage = 100

// list pages through the conversations of all APIs. Filters come before paging,
// so that pages are full.
func (h *handlers) list(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		PageID     string `json:"page_id"`
		Limit      int    `json:"limit"`
		Repository string `json:"selected_repository"`
		Trigger    string `json:"conversation_trigger"`
		WithSubs   bool   `json:"include_sub_conversations"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	cursor, offset, err := parsePage(q.PageID)
	if err != nil {
		return err
	}
	page, err := h.searchFrom(r.Context(), store.ConversationQuery{Owner: r.Principal.UserID,
		Repository: q.Repository, Trigger: q.Trigger, WithSubs: q.WithSubs, Order: store.CreatedDesc,
		CreatedFrom: h.since(), Cursor: cursor, Limit: min(max(q.Limit, 1), maxPage)}, offset)
	if err != nil {
		return err
	}
	results := []info{}
	for _, v := range page.Items {
		c, err := h.conditionOf(r.Context(), v)
		if err != nil {
			return err
		}
		results = append(results, h.describe(r, v, c))
	}
	return ok(w, map[string]any{"results": results, "next_page_id": formatPage(page.Next)})
}

func (h *handlers) rename(w http.ResponseWriter, r *httpkit.Request) error {
	var in struct {
		Title string `json:"title"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	id, err := idOf(r)
	if err != nil {
		return err
	}
	_, err = h.engine.Patch(r.Context(), r.Principal.UserID, id, func(c *conversation.Conversation) error {
		c.Title = strings.TrimSpace(in.Title)
		c.TitleByUser = c.Title != ""
		return nil
	})
	if err != nil {
		return err
	}
	h.rooms.touch(id)
	return ok(w, true)
}

func (h *handlers) remove(w http.ResponseWriter, r *httpkit.Request) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	if _, err := h.engine.View(r.Context(), r.Principal.UserID, id); err == nil {
		h.rooms.dismiss(id)
	}
	err = h.engine.Delete(r.Context(), r.Principal.UserID, id)
	if fault.Is(err, fault.NotFound) {
		return ok(w, false)
	}
	if err != nil {
		return err
	}
	return ok(w, true)
}
