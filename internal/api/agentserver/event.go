package agentserver

import (
	"context"
	"encoding/json"
	"net/http"

	"parley/internal/api/eventwire"
	"parley/internal/api/httpkit"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/store"
)

type eventFilter struct {
	PageID *string `json:"page_id"`
	Limit  int     `json:"limit"`
	Kind   *string `json:"kind"`
	Source *string `json:"source"`
	Body   *string `json:"body"`
	Order  string  `json:"sort_order"`
	From   *string `json:"timestamp__gte"`
	To     *string `json:"timestamp__lt"`
}

func (s *Server) eventQuery(r *httpkit.Request) (eventFilter, store.EventQuery, error) {
	var f eventFilter
	if err := r.Params(&f); err != nil {
		return f, store.EventQuery{}, err
	}
	_, v, err := s.find(r)
	if err != nil {
		return f, store.EventQuery{}, err
	}
	q := store.EventQuery{Conversation: v.ID, Kind: eventwire.ShortKind(orEmpty(f.Kind)), Source: orEmpty(f.Source),
		Body: orEmpty(f.Body), Desc: f.Order == "TIMESTAMP_DESC", Limit: f.Limit}
	if f.From != nil {
		q.From = eventwire.Timestamp(*f.From)
	}
	if f.To != nil {
		q.To = eventwire.Timestamp(*f.To)
	}
	return f, q, nil
}

func (s *Server) searchEvents(w http.ResponseWriter, r *httpkit.Request) error {
	f, q, err := s.eventQuery(r)
	if err != nil {
		return err
	}
	if f.PageID != nil {
		start, err := s.cfg.Engine.Log().ByID(r.Context(), q.Conversation, []string{*f.PageID})
		if err != nil {
			return err
		}
		if start[0] != nil { // an unknown one starts at the beginning
			q.AtOrAfter = &start[0].Seq
		}
	}
	found, err := s.cfg.Engine.Log().Search(r.Context(), q)
	if err != nil {
		return err
	}
	items := make([]json.RawMessage, len(found.Items))
	for i, e := range found.Items {
		if items[i], err = eventwire.WithoutNulls(e.Raw); err != nil {
			return err
		}
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"items": items, "next_page_id": orNull(found.NextID)})
}

func (s *Server) countEvents(w http.ResponseWriter, r *httpkit.Request) error {
	_, q, err := s.eventQuery(r)
	if err != nil {
		return err
	}
	n, err := s.cfg.Engine.Log().Count(r.Context(), q)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, n)
}

func (s *Server) getEvent(w http.ResponseWriter, r *httpkit.Request) error {
	_, v, err := s.find(r)
	if err != nil {
		return err
	}
	found, err := s.cfg.Engine.Log().ByID(r.Context(), v.ID, []string{r.PathValue("event_id")})
	if err != nil {
		return err
	}
	if found[0] == nil {
		return httpkit.NotFound("Event")
	}
	return httpkit.JSON(w, http.StatusOK, found[0].Raw)
}

// finalScan bounds how far back the final response is looked for, in pages.
const finalScan = 10

func (s *Server) finalResponse(w http.ResponseWriter, r *httpkit.Request) error {
	_, v, err := s.find(r)
	if err != nil {
		return err
	}
	text, err := s.lastWords(r.Context(), v.ID, 0)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]string{"response": text})
}

// lastWords returns what the agent said last, with the finish tool or without, from the
// event with the seq on; "" if it said nothing.
func (s *Server) lastWords(ctx context.Context, id conversation.ID, from int64) (string, error) {
	q := store.EventQuery{Conversation: id, Source: conversation.SourceAgent, Desc: true, Limit: 100}
	for range finalScan {
		found, err := s.cfg.Engine.Log().Search(ctx, q)
		if err != nil {
			return "", err
		}
		for _, e := range found.Items {
			if e.Seq < from {
				return "", nil
			}
			if text := words(e); text != "" {
				return text, nil
			}
		}
		if found.NextID == "" {
			return "", nil
		}
		next := found.Items[len(found.Items)-1].Seq - 1
		q.AtOrAfter = &next
	}
	return "", nil
}

func words(e conversation.Event) string {
	p, err := conversation.Decode(e)
	if err != nil {
		return ""
	}
	switch ev := p.(type) {
	case *conversation.MessageEvent:
		return content.JoinText(ev.LLMMessage.Content)
	case *conversation.ActionEvent:
		var finish struct {
			Kind    string `json:"kind"`
			Message string `json:"message"`
		}
		if json.Unmarshal(ev.Action, &finish) == nil && finish.Kind == "FinishAction" {
			return finish.Message
		}
	}
	return ""
}
