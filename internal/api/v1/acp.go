package v1

import (
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

// switchACPModel refuses (V1 1.2): there are no conversations with an ACP agent.
func (h *handlers) switchACPModel(_ http.ResponseWriter, r *httpkit.Request) error {
	if _, err := h.find(r); err != nil {
		return err
	}
	return fault.New(fault.Invalid, "not_acp", "The conversation's agent is not an ACP agent.").
		WithHint("Change its model with switch_profile.")
}
