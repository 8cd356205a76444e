package agentserver

import (
	"context"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
)

// finder looks up the conversation that a request's path names.
type finder func(r *httpkit.Request) (scope, *engine.View, error)

// command makes the handler of an operation that needs nothing but the
// conversation.
func command(find finder, do func(ctx context.Context, owner string, id conversation.ID) error) httpkit.Handler {
	return func(w http.ResponseWriter, r *httpkit.Request) error {
		sc, v, err := find(r)
		if err != nil {
			return err
		}
		if err := do(r.Context(), sc.owner, v.ID); err != nil {
			return err
		}
		return writeSuccess(w, true)
	}
}

func (s *Server) setPolicy(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Policy conversation.ConfirmationPolicy `json:"policy"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	if err := s.cfg.Engine.SetPolicy(r.Context(), sc.owner, v.ID, q.Policy); err != nil {
		return err
	}
	return writeSuccess(w, true)
}

func (s *Server) addSecrets(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Secrets secretSources `json:"secrets"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	if err := s.lookUp(r, sc.owner, q.Secrets, "body", "secrets"); err != nil {
		return err
	}
	all := map[string]account.CustomSecret{}
	if err := q.Secrets.addTo(all, "body", "secrets"); err != nil {
		return err
	}
	if err := checkSecrets(all); err != nil {
		return err
	}
	if err := s.cfg.Engine.AddSecrets(r.Context(), sc.owner, v.ID, all); err != nil {
		return err
	}
	return writeSuccess(w, true)
}

func (s *Server) setAnalyzer(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Analyzer *conversation.Analyzer `json:"security_analyzer"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	if err := checkAnalyzer(q.Analyzer); err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	if err := s.cfg.Engine.SetAnalyzer(r.Context(), sc.owner, v.ID, q.Analyzer); err != nil {
		return err
	}
	return writeSuccess(w, true)
}

func (s *Server) ask(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Question string `json:"question"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	answer, err := s.cfg.Engine.Ask(r.Context(), sc.owner, v.ID, q.Question)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]string{"response": answer})
}

func (s *Server) fork(w http.ResponseWriter, r *httpkit.Request) error {
	q := struct {
		ID           *string           `json:"id"`
		Title        *string           `json:"title"`
		Tags         map[string]string `json:"tags"`
		ResetMetrics bool              `json:"reset_metrics"`
		FromEvent    *string           `json:"from_event_id"`
	}{ResetMetrics: true}
	if err := r.Body(&q); err != nil {
		return err
	}
	if err := checkTags(q.Tags); err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	req := engine.ForkRequest{Title: orEmpty(q.Title), Tags: q.Tags, FromEvent: orEmpty(q.FromEvent), KeepMetrics: !q.ResetMetrics}
	if q.ID != nil {
		if req.ID, err = conversation.ParseID(*q.ID); err != nil {
			return err
		}
	}
	made, err := s.cfg.Engine.Fork(r.Context(), sc.owner, v.ID, req)
	if err != nil {
		return err
	}
	return s.writeInfo(r.Context(), w, http.StatusCreated, sc, made)
}

// navigate answers with the conversation as it is then.
func (s *Server) navigate(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Event *string `json:"event_id"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	if err := s.cfg.Engine.Navigate(r.Context(), sc.owner, v.ID, orEmpty(q.Event)); err != nil {
		return err
	}
	if v, err = s.cfg.Engine.View(r.Context(), sc.owner, v.ID); err != nil {
		return err
	}
	return s.writeInfo(r.Context(), w, http.StatusOK, sc, v)
}

func (s *Server) startGoal(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Objective     string `json:"objective"`
		MaxIterations int    `json:"max_iterations"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	if err := s.cfg.Engine.Goal(r.Context(), sc.owner, v.ID, q.Objective, q.MaxIterations); err != nil {
		return err
	}
	return writeSuccess(w, true)
}
