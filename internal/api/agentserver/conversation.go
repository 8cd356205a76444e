package agentserver

import (
	"context"
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
)

// maxBatch bounds how many things one request asks for by id.
const maxBatch = 100

// scope is whose conversations a credential shows.
type scope struct {
	owner   string
	sandbox string // "" = all of the owner's (a user's key on a root socket)
}

func scopeOf(p httpkit.Principal) scope {
	if p.SandboxID == "" {
		return scope{owner: p.UserID}
	}
	return scope{p.Owner, p.SandboxID}
}

func (sc scope) shows(v *engine.View) bool {
	return v != nil && (sc.sandbox == "" || v.SandboxID == sc.sandbox)
}

// view returns a conversation of the scope, or NotFound.
func (s *Server) view(ctx context.Context, sc scope, raw string) (*engine.View, error) {
	id, err := conversation.ParseID(raw)
	if err != nil {
		return nil, errUnknown(raw)
	}
	v, err := s.cfg.Engine.View(ctx, sc.owner, id)
	if fault.Is(err, fault.NotFound) || err == nil && !sc.shows(v) {
		return nil, errUnknown(raw)
	}
	return v, err
}

func errUnknown(id string) error {
	return fault.New(fault.NotFound, "conversation_not_found", "Conversation not found: %.100s", id)
}

// find returns the conversation that the path names. An id that is no UUID is
// wrong (422) unless a legacy client chose that very id.
func (s *Server) find(r *httpkit.Request) (scope, *engine.View, error) {
	sc, raw := scopeOf(r.Principal), r.PathValue("conversation_id")
	v, err := s.view(r.Context(), sc, raw)
	if fault.Is(err, fault.NotFound) {
		if id, bad := conversation.ParseID(raw); bad != nil || !id.IsUUID() {
			err = httpkit.BadUUID(raw, "path", "conversation_id")
		}
	}
	return sc, v, err
}

// findOr400 is find for the routes that answer 400 for an unknown conversation
// (agent protocol §1.3).
func (s *Server) findOr400(r *httpkit.Request) (scope, *engine.View, error) {
	sc, v, err := s.find(r)
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.Invalid, "conversation_not_found", "%s", fault.PublicText(err))
	}
	return sc, v, err
}

func writeSuccess(w http.ResponseWriter, ok bool) error {
	return httpkit.JSON(w, http.StatusOK, map[string]bool{"success": ok})
}

func (s *Server) getConversations(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		IDs []string `json:"ids"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	if len(q.IDs) > maxBatch {
		return fault.New(fault.Invalid, "too_many_ids", "At most %d ids can be asked for at once, not %d.", maxBatch, len(q.IDs))
	}
	ids := make([]conversation.ID, len(q.IDs))
	for i, raw := range q.IDs {
		var err error
		if ids[i], err = conversation.ParseID(raw); err != nil {
			return err
		}
	}
	sc := scopeOf(r.Principal)
	views, err := s.cfg.Engine.Views(r.Context(), sc.owner, ids)
	if err != nil {
		return err
	}
	shown, err := s.infos(r.Context(), sc, views)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, shown)
}

type listFilter struct {
	PageID *string              `json:"page_id"`
	Limit  int                  `json:"limit"`
	Status *conversation.Status `json:"status"`
	Order  store.Order          `json:"sort_order"`
}

func listQuery(r *httpkit.Request) (scope, store.ConversationQuery, error) {
	var f listFilter
	sc := scopeOf(r.Principal)
	if err := r.Params(&f); err != nil {
		return sc, store.ConversationQuery{}, err
	}
	q := store.ConversationQuery{Owner: sc.owner, SandboxID: sc.sandbox, WithSubs: true, Order: f.Order,
		Cursor: orEmpty(f.PageID), Limit: f.Limit}
	if f.Status != nil {
		q.Status = *f.Status
	}
	return sc, q, nil
}

func (s *Server) searchConversations(w http.ResponseWriter, r *httpkit.Request) error {
	sc, q, err := listQuery(r)
	if err != nil {
		return err
	}
	found, err := s.cfg.Engine.Search(r.Context(), q)
	if err != nil {
		return err
	}
	items, err := s.infos(r.Context(), sc, found.Items)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"items": items, "next_page_id": orNull(found.Next)})
}

func (s *Server) countConversations(w http.ResponseWriter, r *httpkit.Request) error {
	_, q, err := listQuery(r)
	if err != nil {
		return err
	}
	n, err := s.cfg.Engine.Count(r.Context(), q)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, n)
}

func (s *Server) getConversation(w http.ResponseWriter, r *httpkit.Request) error {
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	return s.writeInfo(r.Context(), w, http.StatusOK, sc, v)
}

// updateConversation answers success false for an unknown conversation, as the
// protocol does.
func (s *Server) updateConversation(w http.ResponseWriter, r *httpkit.Request) error {
	var u struct {
		Title *string            `json:"title"`
		Tags  *map[string]string `json:"tags"`
	}
	if err := r.Body(&u); err != nil {
		return err
	}
	if u.Tags != nil {
		if err := checkTags(*u.Tags); err != nil {
			return err
		}
	}
	sc, v, err := s.find(r)
	if fault.Is(err, fault.NotFound) {
		return writeSuccess(w, false)
	}
	if err != nil {
		return err
	}
	_, err = s.cfg.Engine.Patch(r.Context(), sc.owner, v.ID, func(c *conversation.Conversation) error {
		if u.Title != nil {
			c.Title, c.TitleByUser = *u.Title, true
		}
		if u.Tags != nil {
			c.Tags = *u.Tags
		}
		return nil
	})
	if err != nil {
		return err
	}
	return writeSuccess(w, true)
}

// run starts a run. Its end is told once more in a moment: it may come before the client
// has read this answer, and begun to listen.
func (s *Server) run(ctx context.Context, owner string, id conversation.ID) error {
	err := s.cfg.Engine.Run(ctx, owner, id)
	if err == nil {
		s.cfg.Engine.Remind(owner, id)
	}
	return err
}

func (s *Server) deleteConversation(w http.ResponseWriter, r *httpkit.Request) error {
	sc, v, err := s.findOr400(r)
	if err != nil {
		return err
	}
	if err := s.cfg.Engine.DeleteInside(r.Context(), sc.owner, v.ID); err != nil {
		return err
	}
	return writeSuccess(w, true)
}

func (s *Server) confirm(w http.ResponseWriter, r *httpkit.Request) error {
	var c struct {
		Accept bool   `json:"accept"`
		Reason string `json:"reason"`
	}
	if err := r.Body(&c); err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	if err := s.cfg.Engine.Confirm(r.Context(), sc.owner, v.ID, c.Accept, c.Reason); err != nil {
		return err
	}
	return writeSuccess(w, true)
}

// sendMessage runs only if asked to, unlike the socket and the first message.
func (s *Server) sendMessage(w http.ResponseWriter, r *httpkit.Request) error {
	var m struct {
		Content []content.Part `json:"content"`
		Run     bool           `json:"run"`
		Sender  *string        `json:"sender"`
	}
	if err := r.Body(&m); err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	msg := engine.Message{Parts: m.Content, Sender: orEmpty(m.Sender), Run: m.Run}
	if err := s.cfg.Engine.Send(r.Context(), sc.owner, v.ID, msg); err != nil {
		return err
	}
	return writeSuccess(w, true)
}
