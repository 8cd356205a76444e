package v1

import (
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
)

// What agent servers post to the application server (V1 7.1). Parley is both: it runs
// the agent of its sandboxes, and their logs have one writer. So a report of what it
// did itself is old news and is taken as such, and a log of another agent's work is
// refused, where the sender sees it, instead of being dropped after a success. Nothing
// that comes in here is stored: with a sandbox's key, which programs inside may have,
// nobody writes what a model then reads as the user's words.

// reportsOperations are those of the agent servers.
func (h *handlers) reportsOperations() httpkit.Handlers {
	return httpkit.Handlers{
		"report_conversation":            h.reportConversation,
		"report_events":                  h.reportEvents,
		"report_conversation_of_sandbox": h.reportConversation,
		"report_events_of_sandbox":       h.reportEvents,
	}
}

// reporters let only sandboxes report.
func reporters() map[string]func(*http.Request) (httpkit.Principal, error) {
	return map[string]func(*http.Request) (httpkit.Principal, error){
		"report_conversation":            sandboxOf,
		"report_events":                  sandboxOf,
		"report_conversation_of_sandbox": sandboxOf,
		"report_events_of_sandbox":       sandboxOf,
	}
}

// sandboxOf wants the key of a sandbox, and of the one that the path names if it names
// one. There is no key that stands for no sandbox.
func sandboxOf(r *http.Request) (httpkit.Principal, error) {
	p, err := httpkit.PrincipalOf(r.Context())
	if err != nil {
		return p, err
	}
	named := r.PathValue("sandbox_id")
	if p.SandboxID == "" || named != "" && named != p.SandboxID {
		return p, fault.New(fault.Unauthenticated, "unauthorized", "The key is not that of the sandbox.")
	}
	return p, nil
}

// codeNotOfSandbox is of conversations that a sandbox has nothing to do with.
const codeNotOfSandbox = "not_of_this_sandbox"

// reported finds a conversation of the sandbox that reports.
func (h *handlers) reported(r *httpkit.Request, id conversation.ID) (*engine.View, error) {
	v, err := h.Engine.View(r.Context(), r.Principal.Owner, id)
	if err == nil && v.SandboxID == r.Principal.SandboxID {
		return v, nil
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	return nil, fault.New(fault.Unauthenticated, codeNotOfSandbox, "The server knows no conversation %s in this sandbox.", id).
		WithHint("Conversations of other agent servers are not taken; start them here.")
}

func (h *handlers) reportConversation(w http.ResponseWriter, r *httpkit.Request) error {
	var info struct {
		ID     string `json:"id"`
		Status string `json:"execution_status"`
	}
	if err := r.Body(&info); err != nil {
		return err
	}
	id, err := conversation.ParseID(info.ID)
	if err != nil {
		return err
	}
	_, err = h.reported(r, id)
	if err != nil && !(fault.CodeOf(err) == codeNotOfSandbox && info.Status == "deleting") { // it is deleted
		return err
	}
	return writeSuccess(w)
}

// reportedEvent is what is read of an event.
type reportedEvent struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Key  string `json:"key"`
}

// fleeting reports events that no log has.
func (e *reportedEvent) fleeting() bool {
	return e.Kind == "StreamingDeltaEvent" || e.Kind == "ConversationStateUpdateEvent" && e.Key == "full_state"
}

func (h *handlers) reportEvents(w http.ResponseWriter, r *httpkit.Request) error {
	var all []reportedEvent
	if err := r.Body(&all); err != nil {
		return err
	}
	id, err := conversation.ParseID(r.PathValue("conversation_id"))
	if err != nil {
		return err
	}
	v, err := h.reported(r, id)
	if err != nil {
		return err
	}
	var ids []string
	for i := range all {
		if !all[i].fleeting() {
			ids = append(ids, all[i].ID)
		}
	}
	for len(ids) > 0 {
		part := ids[:min(len(ids), maxBatch)]
		ids = ids[len(part):]
		if err := h.knows(r, v.ID, part); err != nil {
			return err
		}
	}
	return writeSuccess(w)
}

// knows checks that the log has all of the events.
func (h *handlers) knows(r *httpkit.Request, id conversation.ID, ids []string) error {
	found, err := h.Engine.Log().ByID(r.Context(), id, ids)
	if err != nil {
		return err
	}
	for i, e := range found {
		if e == nil {
			return fault.New(fault.Conflict, "foreign_event", "The conversation's log has no event %.100q: it is written by the agent of this server only.", ids[i]).
				WithHint("Let no other agent server work on this conversation.")
		}
	}
	return nil
}
