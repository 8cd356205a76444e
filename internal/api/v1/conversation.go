package v1

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"parley/internal/api/httpkit"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
)

// appConversation is V1 §1.1. All members are always there.
type appConversation struct {
	ID                   string            `json:"id"`
	CreatedByUserID      *string           `json:"created_by_user_id"`
	SandboxID            string            `json:"sandbox_id"`
	SelectedRepository   *string           `json:"selected_repository"`
	SelectedBranch       *string           `json:"selected_branch"`
	GitProvider          *string           `json:"git_provider"`
	Title                string            `json:"title"`
	Trigger              *string           `json:"trigger"`
	PRNumber             []int             `json:"pr_number"`
	LLMModel             *string           `json:"llm_model"`
	AgentKind            string            `json:"agent_kind"`
	Metrics              metricsSnapshot   `json:"metrics"`
	ParentConversationID *string           `json:"parent_conversation_id"`
	SubConversationIDs   []string          `json:"sub_conversation_ids"`
	Public               *bool             `json:"public"`
	Tags                 map[string]string `json:"tags"`
	CreatedAt            string            `json:"created_at"`
	UpdatedAt            string            `json:"updated_at"`
	SandboxStatus        string            `json:"sandbox_status"`
	ExecutionStatus      *string           `json:"execution_status"`
	ConversationURL      *string           `json:"conversation_url"`
	SessionAPIKey        *string           `json:"session_api_key"`
	ACPServer            *string           `json:"acp_server"`
	LaunchedAgentProfile *launchedProfile  `json:"launched_agent_profile"`
	Workspace            *workspace        `json:"workspace"`
}

type metricsSnapshot struct {
	ModelName       string             `json:"model_name"`
	AccumulatedCost float64            `json:"accumulated_cost"`
	MaxBudget       *float64           `json:"max_budget_per_task"`
	Usage           conversation.Usage `json:"accumulated_token_usage"`
}

type launchedProfile struct {
	AgentProfileID string `json:"agent_profile_id"`
	Revision       int    `json:"revision"`
}

type workspace struct {
	WorkingDir string `json:"working_dir"`
}

// render encodes a view. base is the server's URL as the client sees it.
func render(v *engine.View, subs []conversation.ID, base string) *appConversation {
	c := v.Conversation
	a := &appConversation{
		ID: string(c.ID), CreatedByUserID: orNull(c.Owner), SandboxID: c.SandboxID,
		SelectedRepository: orNull(c.Repository), SelectedBranch: orNull(c.Branch),
		GitProvider: orNull(c.GitProvider), Title: c.Title, Trigger: orNull(c.Trigger), PRNumber: c.PRNumbers,
		LLMModel: orNull(c.Options.LLM.Model), AgentKind: c.AgentKind, Metrics: renderMetrics(c),
		ParentConversationID: orNull(c.ParentID), SubConversationIDs: []string{}, Public: c.Public, Tags: c.Tags,
		CreatedAt: httpkit.FormatTime(c.CreatedAt), UpdatedAt: httpkit.FormatTime(c.UpdatedAt),
		SandboxStatus: string(v.SandboxStatus),
	}
	if a.Title == "" {
		a.Title = "Conversation " + string(c.ID) // clients poll while a title is empty
	}
	if a.AgentKind == "" {
		a.AgentKind = "openhands"
	}
	if a.PRNumber == nil {
		a.PRNumber = []int{}
	}
	if a.Tags == nil {
		a.Tags = map[string]string{}
	}
	if c.Options.WorkingDir != "" {
		a.Workspace = &workspace{c.Options.WorkingDir}
	}
	for _, id := range subs {
		a.SubConversationIDs = append(a.SubConversationIDs, string(id))
	}
	renderTags(a)
	if p := c.Options.LaunchedProfile; p != nil {
		a.LaunchedAgentProfile = &launchedProfile{p.ID, p.Revision}
	}
	renderLive(a, v, base)
	return a
}

func renderMetrics(c *conversation.Conversation) metricsSnapshot {
	m := c.Summary.Metrics
	out := metricsSnapshot{m.ModelName, m.AccumulatedCost, m.MaxBudget, m.Usage}
	if out.ModelName == "" {
		out.ModelName = "default"
	}
	if out.MaxBudget == nil {
		out.MaxBudget = c.Options.MaxBudget
	}
	return out
}

// renderTags projects the reserved tags.
func renderTags(a *appConversation) {
	if a.AgentKind == "acp" {
		a.ACPServer = orNull(a.Tags["acpserver"])
	}
	id, err := uuid.Parse(a.Tags["agentprofileid"])
	revision, errRevision := strconv.Atoi(a.Tags["agentprofilerevision"])
	if err == nil && errRevision == nil && revision >= 0 {
		a.LaunchedAgentProfile = &launchedProfile{id.String(), revision}
	}
}

// renderLive fills what is only there while the sandbox runs.
func renderLive(a *appConversation, v *engine.View, base string) {
	status, running := v.Execution()
	if !running || v.Sandbox == nil {
		return
	}
	a.ExecutionStatus = orNull(status)
	url := httpkit.AgentURL(base, v.Sandbox.ID) + "/api/conversations/" + httpkit.Segment(string(v.ID))
	a.ConversationURL = &url
	a.SessionAPIKey = orNull(v.Sandbox.SessionKey.Reveal())
}

func (h *handlers) renderAll(r *httpkit.Request, views []*engine.View) ([]*appConversation, error) {
	var ids []conversation.ID
	for _, v := range views {
		if v != nil {
			ids = append(ids, v.ID)
		}
	}
	children, err := h.Engine.Children(r.Context(), r.Principal.UserID, ids)
	if err != nil {
		return nil, err
	}
	base := h.URLs.Base(r.Request)
	out := make([]*appConversation, len(views))
	for i, v := range views {
		if v != nil {
			out[i] = render(v, children[v.ID], base)
		}
	}
	return out, nil
}

func (h *handlers) writeConversation(w http.ResponseWriter, r *httpkit.Request, v *engine.View) error {
	all, err := h.renderAll(r, []*engine.View{v})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, all[0])
}

// find returns the conversation that the path names. Ids that are no UUID are
// wrong (400) unless a legacy client chose that very id.
func (h *handlers) find(r *httpkit.Request) (*engine.View, error) {
	id, err := conversation.ParseID(r.PathValue("conversation_id"))
	if err != nil {
		return nil, err
	}
	v, err := h.Engine.View(r.Context(), r.Principal.UserID, id)
	switch {
	case fault.Is(err, fault.NotFound) && !id.IsUUID():
		return nil, errNoUUID(id)
	case fault.Is(err, fault.NotFound):
		return nil, httpkit.NotFound("Conversation")
	}
	return v, err
}

func errNoUUID(id conversation.ID) error {
	return fault.New(fault.Invalid, "invalid_conversation_id", "Invalid conversation id: %.100q is no UUID.", string(id))
}

type conversationFilter struct {
	IDs       []string    `json:"ids"`
	Title     *string     `json:"title__contains"`
	CreatedGE *string     `json:"created_at__gte"`
	CreatedLT *string     `json:"created_at__lt"`
	UpdatedGE *string     `json:"updated_at__gte"`
	UpdatedLT *string     `json:"updated_at__lt"`
	SandboxID *string     `json:"sandbox_id__eq"`
	Order     store.Order `json:"sort_order"`
	WithSubs  bool        `json:"include_sub_conversations"`
	PageID    *string     `json:"page_id"`
	Limit     int         `json:"limit"`
}

func (f *conversationFilter) query(owner string) (store.ConversationQuery, error) {
	q := store.ConversationQuery{Owner: owner, TitleContains: orEmpty(f.Title), SandboxID: orEmpty(f.SandboxID),
		WithSubs: f.WithSubs, Order: f.Order, Cursor: orEmpty(f.PageID), Limit: f.Limit}
	for _, t := range []struct {
		from *string
		to   *time.Time
	}{{f.CreatedGE, &q.CreatedFrom}, {f.CreatedLT, &q.CreatedTo}, {f.UpdatedGE, &q.UpdatedFrom}, {f.UpdatedLT, &q.UpdatedTo}} {
		var err error
		if *t.to, err = parseTime(t.from); err != nil {
			return q, err
		}
	}
	return q, nil
}

// listConversations is the batch get with ids, and a list without.
func (h *handlers) listConversations(w http.ResponseWriter, r *httpkit.Request) error {
	if !r.URL.Query().Has("ids") {
		return h.searchConversations(w, r)
	}
	var f conversationFilter
	if err := r.Params(&f); err != nil {
		return err
	}
	views, err := h.batch(r, f.IDs)
	if err != nil {
		return err
	}
	all, err := h.renderAll(r, views)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, all)
}

func (h *handlers) batch(r *httpkit.Request, raw []string) ([]*engine.View, error) {
	if err := checkBatch(raw); err != nil {
		return nil, err
	}
	ids := make([]conversation.ID, len(raw))
	for i, text := range raw {
		var err error
		if ids[i], err = conversation.ParseID(text); err != nil {
			return nil, err
		}
	}
	views, err := h.Engine.Views(r.Context(), r.Principal.UserID, ids)
	if err != nil {
		return nil, err
	}
	for i, v := range views {
		if v == nil && !ids[i].IsUUID() {
			return nil, errNoUUID(ids[i])
		}
	}
	return views, nil
}

func (h *handlers) searchConversations(w http.ResponseWriter, r *httpkit.Request) error {
	var f conversationFilter
	if err := r.Params(&f); err != nil {
		return err
	}
	q, err := f.query(r.Principal.UserID)
	if err != nil {
		return err
	}
	found, err := h.Engine.Search(r.Context(), q)
	if err != nil {
		return err
	}
	all, err := h.renderAll(r, found.Items)
	if err != nil {
		return err
	}
	return writePage(w, all, found.Next)
}

func (h *handlers) countConversations(w http.ResponseWriter, r *httpkit.Request) error {
	var f conversationFilter
	if err := r.Params(&f); err != nil {
		return err
	}
	q, err := f.query(r.Principal.UserID)
	if err != nil {
		return err
	}
	q.WithSubs = true
	n, err := h.Engine.Count(r.Context(), q)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, n)
}

func (h *handlers) getConversation(w http.ResponseWriter, r *httpkit.Request) error {
	v, err := h.find(r)
	if err != nil {
		return err
	}
	return h.writeConversation(w, r, v)
}

// change is a member of a patch: absent, null or a value.
type change[T any] struct {
	set   bool
	value *T
}

// UnmarshalJSON implements json.Unmarshaler; it is not called for absent members.
func (c *change[T]) UnmarshalJSON(b []byte) error {
	c.set = true
	return json.Unmarshal(b, &c.value)
}

type updateRequest struct {
	Title      change[string] `json:"title"`
	Public     change[bool]   `json:"public"`
	Repository change[string] `json:"selected_repository"`
	Branch     change[string] `json:"selected_branch"`
	Provider   change[string] `json:"git_provider"`
}

func (u *updateRequest) apply(c *conversation.Conversation) error {
	for _, m := range []struct {
		from change[string]
		to   *string
	}{{u.Title, &c.Title}, {u.Repository, &c.Repository}, {u.Branch, &c.Branch}, {u.Provider, &c.GitProvider}} {
		if m.from.set {
			*m.to = orEmpty(m.from.value)
		}
	}
	if u.Title.set {
		c.TitleByUser = c.Title != ""
	}
	if u.Public.set {
		c.Public = u.Public.value
	}
	return nil
}

func (h *handlers) updateConversation(w http.ResponseWriter, r *httpkit.Request) error {
	var u updateRequest
	if err := r.Body(&u); err != nil {
		return err
	}
	v, err := h.find(r)
	if err != nil {
		return err
	}
	v, err = h.Engine.Patch(r.Context(), r.Principal.UserID, v.ID, u.apply)
	if err != nil {
		return err
	}
	return h.writeConversation(w, r, v)
}

func (h *handlers) deleteConversation(w http.ResponseWriter, r *httpkit.Request) error {
	v, err := h.find(r)
	if err != nil {
		return err
	}
	if err := h.Engine.Delete(r.Context(), r.Principal.UserID, v.ID); err != nil {
		return err
	}
	return writeSuccess(w)
}

type sendResponse struct {
	Success       bool    `json:"success"`
	SandboxStatus string  `json:"sandbox_status"`
	Message       *string `json:"message"`
}

// sendMessage does not wake a sandbox: clients resume it themselves (V1 §1.2).
func (h *handlers) sendMessage(w http.ResponseWriter, r *httpkit.Request) error {
	var m struct {
		Content []content.Part `json:"content"`
		Run     bool           `json:"run"`
	}
	if err := r.Body(&m); err != nil {
		return err
	}
	v, err := h.find(r)
	if err != nil {
		return err
	}
	if err := canSend(v); err != nil {
		return err
	}
	if err := h.Engine.Send(r.Context(), r.Principal.UserID, v.ID, engine.Message{Parts: m.Content, Run: m.Run}); err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, sendResponse{true, string(v.SandboxStatus), nil})
}

// canSend reports whether a message reaches the agent. A sandbox that was paused by
// itself resumes when it is used; one that its user paused waits for its user.
func canSend(v *engine.View) error {
	s := v.SandboxStatus
	switch s {
	case store.SandboxRunning:
		return nil
	case store.SandboxPaused:
		if v.Sandbox != nil && v.Sandbox.Detail != "" {
			return nil
		}
	case store.SandboxMissing:
		return fault.New(fault.Gone, "sandbox_missing", "The conversation is archived: its sandbox was deleted.").
			WithHint("Start a new conversation to go on.")
	case store.SandboxError:
		return fault.New(fault.Unavailable, "sandbox_error", "The conversation's sandbox is in an error state.").
			WithHint("Resume the sandbox or start a new conversation.")
	}
	return fault.New(fault.Conflict, "sandbox_not_running", "The conversation's sandbox is %s, not RUNNING.", s).
		WithHint("Resume the sandbox and wait until it is RUNNING.")
}
