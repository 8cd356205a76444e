package v0

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/feedback"
)

// Experiments keeps configurations of experiments.
type Experiments interface {
	Put(ctx context.Context, owner string, id conversation.ID, config json.RawMessage, now time.Time, most int) (bool, error)
}

// Feedback keeps what users say of conversations.
type Feedback interface {
	Add(e feedback.Entry) error
}

// submitFeedback keeps feedback on this server. The conversation itself is not copied:
// its log is here, and goes when its user deletes it.
func (h *handlers) submitFeedback(w http.ResponseWriter, r *httpkit.Request) error {
	var in struct {
		Email       string `json:"email"`
		Version     string `json:"version"`
		Permissions string `json:"permissions"`
		Polarity    string `json:"polarity"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	id, err := idOf(r)
	if err != nil {
		return err
	}
	v, err := h.attached(r.Context(), r.Principal.UserID, id)
	if err != nil {
		return err
	}
	e := feedback.Entry{ID: string(conversation.NewID()), Time: time.Now().UTC().Truncate(time.Microsecond), User: v.Owner,
		Conversation: string(v.ID), Events: v.Summary.Head, Polarity: in.Polarity, Permissions: in.Permissions,
		Email: in.Email, Version: in.Version}
	if err := h.feedback.Add(e); err != nil {
		return err
	}
	return ok(w, map[string]any{"statusCode": http.StatusOK, "body": map[string]string{
		"message": "Feedback received. It is kept on this server.", "feedback_id": e.ID, "password": ""}})
}

// feedbackErrors hides why feedback was not kept; the log has it.
func feedbackErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	if p.Status < http.StatusInternalServerError {
		return detailErrors(r, p)
	}
	return http.StatusInternalServerError, map[string]any{"error": "Failed to submit feedback"}
}

// Bounds of experiments.
const (
	maxExperiment  = 64 << 10 // bytes of a configuration
	maxExperiments = 1000     // of one user
)

// expConfig keeps a conversation's first configuration, also before the conversation
// is there. Clients expect false when it is kept, and when one was there already.
func (h *handlers) expConfig(w http.ResponseWriter, r *httpkit.Request) error {
	var in struct {
		Config map[string]string `json:"config"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	id, err := idOf(r)
	if err != nil {
		return err
	}
	if in.Config == nil {
		in.Config = map[string]string{}
	}
	raw, err := json.Marshal(in.Config)
	if err != nil {
		return fmt.Errorf("experiment: %w", err)
	}
	if len(raw) > maxExperiment {
		return fault.New(fault.TooLarge, "experiment_too_large", "The configuration is larger than %d bytes.", maxExperiment)
	}
	if _, err := h.experiments.Put(r.Context(), r.Principal.UserID, id, raw, time.Now(), maxExperiments); err != nil {
		return err
	}
	return ok(w, false)
}

// experimentErrors answers true for what could not be written.
func experimentErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	if p.Status < http.StatusInternalServerError {
		return detailErrors(r, p)
	}
	return http.StatusOK, true
}
