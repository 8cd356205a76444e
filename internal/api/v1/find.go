package v1

import (
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/store"
	"parley/internal/textsearch"
)

type foundText struct {
	ConversationID string            `json:"conversation_id"`
	Title          string            `json:"title"`
	EventID        *string           `json:"event_id"`
	Kind           *string           `json:"kind"`
	Timestamp      *string           `json:"timestamp"`
	Snippet        string            `json:"snippet"`
	Marks          []textsearch.Mark `json:"marks"`
}

// findText looks for words in what the user's conversations say.
func (h *handlers) findText(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Query          string  `json:"query"`
		ConversationID *string `json:"conversation_id__eq"`
		PageID         *string `json:"page_id"`
		Limit          int     `json:"limit"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	query := store.TextQuery{Owner: r.Principal.UserID, Terms: textsearch.Parse(q.Query), Cursor: orEmpty(q.PageID), Limit: q.Limit}
	if q.ConversationID != nil {
		id, err := conversation.ParseID(*q.ConversationID)
		if err != nil {
			return writePage[foundText](w, nil, "")
		}
		query.Conversation = id
	}
	found, err := h.Engine.Find(r.Context(), query)
	if err != nil {
		return err
	}
	items := make([]foundText, len(found.Items))
	for i, f := range found.Items {
		items[i] = foundText{ConversationID: string(f.Conversation.ID), Title: f.Conversation.Title, Snippet: f.Snippet, Marks: f.Marks}
		if items[i].Marks == nil {
			items[i].Marks = []textsearch.Mark{}
		}
		if e := f.Event; e != nil {
			items[i].EventID, items[i].Kind, items[i].Timestamp = &e.ID, &e.Kind, &e.Timestamp
		}
	}
	return writePage(w, items, found.Next)
}
