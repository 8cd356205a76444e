package v1

import (
	"fmt"
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/sandbox"
)

// maxForkTags bounds the tags of a fork.
const maxForkTags = 256

// fork copies a conversation, as a rule with its sandbox.
func (h *handlers) fork(w http.ResponseWriter, r *httpkit.Request) error {
	q := struct {
		FromEvent    *string           `json:"from_event_id"`
		Title        *string           `json:"title"`
		Tags         map[string]string `json:"tags"`
		CopySandbox  bool              `json:"copy_sandbox"`
		ResetMetrics bool              `json:"reset_metrics"`
	}{CopySandbox: true, ResetMetrics: true}
	if err := r.Body(&q); err != nil {
		return err
	}
	if len(q.Tags) > maxForkTags {
		return httpkit.BadField(fmt.Sprintf("a conversation takes at most %d tags, not %d", maxForkTags, len(q.Tags)), nil, "body", "tags")
	}
	v, err := h.find(r)
	if err != nil {
		return err
	}
	made, err := h.Engine.Fork(r.Context(), r.Principal.UserID, v.ID, engine.ForkRequest{FromEvent: orEmpty(q.FromEvent),
		Title: orEmpty(q.Title), Tags: q.Tags, KeepMetrics: !q.ResetMetrics, CopySandbox: q.CopySandbox})
	if err != nil {
		return forkFault(err)
	}
	all, err := h.renderAll(r, []*engine.View{made})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusCreated, all[0])
}

// forkFault makes a conflict of what the sandbox's backend cannot do: another
// request, without a copy of the sandbox, can be met.
func forkFault(err error) error {
	if fault.CodeOf(err) != sandbox.CodeUnsupported {
		return err
	}
	return fault.Wrap(err, fault.Conflict, sandbox.CodeUnsupported, "%s", fault.PublicText(err)).
		WithHint("Set copy_sandbox to false: the copy then works in the same sandbox.")
}
