package v0

import (
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
)

// Ids that clients translate: byte-exact.
const (
	msgNoSettings  = "CONFIGURATION$SETTINGS_NOT_FOUND"
	msgNoModelAuth = "STATUS$ERROR_LLM_AUTHENTICATION"
	msgBadReplay   = "CONFIGURATION$INVALID_REPLAY"
	msgNotFound    = "CONVERSATION$NOT_FOUND"
	msgIDTaken     = "CONVERSATION$ID_UNAVAILABLE"
)

const (
	codeInvalidID = "invalid_conversation_id"
	codeNotFound  = "conversation_not_found"
)

// refusal is the error shape of conversation operations.
type refusal struct {
	Status         string          `json:"status"`
	ConversationID conversation.ID `json:"conversation_id,omitempty"`
	Message        string          `json:"message,omitempty"`
	MsgID          string          `json:"msg_id,omitempty"`
}

// detailErrors is the framework's shape, for whatever has no shape of its own.
func detailErrors(_ *http.Request, p *httpkit.Problem) (int, any) {
	switch {
	case len(p.Fields) > 0:
		return p.Status, map[string]any{"detail": httpkit.FieldsBody(p.Fields)}
	case p.Status == http.StatusUnauthorized:
		return p.Status, map[string]any{"detail": "Unauthorized"}
	case p.Kind == fault.Internal:
		return p.Status, httpkit.PlainText("Internal Server Error")
	}
	return p.Status, map[string]any{"detail": p.Text}
}

// isFrameworks reports whether a problem keeps the framework's shape everywhere.
func isFrameworks(p *httpkit.Problem) bool {
	return len(p.Fields) > 0 || p.Status == http.StatusUnauthorized || p.Kind == fault.TooLarge || p.Code == codeInvalidID
}

func settingsErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	for i := range p.Fields {
		if f := &p.Fields[i]; len(f.Loc) == 2 && f.Loc[1] == "secrets_store" && f.Type == "model_attributes_type" {
			f.Type, f.Msg = "value_error", "Value error, Secrets must be initialized with a dictionary" // a rule of this member
			f.Ctx = map[string]any{"error": map[string]any{}}
		}
	}
	switch {
	case isFrameworks(p):
		return detailErrors(r, p)
	case p.Kind == fault.NotFound:
		return p.Status, map[string]any{"error": "Settings not found"}
	case p.Kind == fault.Internal && r.Method == http.MethodPost:
		return p.Status, map[string]any{"error": "Something went wrong storing settings"}
	case p.Kind == fault.Internal:
		return p.Status, map[string]any{"error": "Something went wrong loading settings"}
	}
	return p.Status, map[string]any{"error": p.Text}
}

func creationErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	if p.Code == codeNoAccess { // a bare text, as of all git providers
		return p.Status, p.Text
	}
	if isFrameworks(p) {
		return detailErrors(r, p)
	}
	out := refusal{Status: "error", Message: p.Text}
	switch p.Code {
	case engine.CodeNoSettings:
		out.Message, out.MsgID = "Settings not found", msgNoSettings
	case engine.CodeNoModel:
		out.MsgID = msgNoSettings
	case engine.CodeNoKey:
		out.Message = "Error authenticating with the LLM provider. Please check your API key"
		out.MsgID = msgNoModelAuth
	case codeBadReplay:
		out.MsgID = msgBadReplay
	case codeIDTaken:
		out.MsgID = msgIDTaken
	}
	return p.Status, out
}

// statusErrors is the shape of start, stop and rename. unknown is the id of
// errors without one.
func statusErrors(unknown string) httpkit.ErrorEncoder {
	return func(r *http.Request, p *httpkit.Problem) (int, any) {
		if isFrameworks(p) {
			return detailErrors(r, p)
		}
		out := refusal{Status: "error", Message: p.Text, MsgID: unknown}
		if r.Method != http.MethodPatch {
			out.ConversationID = conversation.ID(r.PathValue("conversation_id"))
		} else if p.Kind == fault.NotFound {
			out.Message, out.MsgID = "Conversation not found", msgNotFound
		}
		if p.Kind == fault.NotFound && r.Method == http.MethodPost {
			out.Message = "" // clients get the bare id
		}
		return p.Status, out
	}
}

func successErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	if isFrameworks(p) || p.Kind == fault.NotFound {
		return detailErrors(r, p)
	}
	return p.Status, map[string]any{"success": false, "error": p.Text}
}

func microagentErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	switch {
	case isFrameworks(p):
		return detailErrors(r, p)
	case p.Kind == fault.NotFound:
		return p.Status, map[string]any{"error": "Agent session not found for this conversation"}
	}
	return p.Status, map[string]any{"error": p.Text}
}

// notFound is the framework's fault of an unknown conversation.
func notFound(id conversation.ID) error {
	return fault.New(fault.NotFound, codeNotFound, "Conversation %s not found", id)
}
