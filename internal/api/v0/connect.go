package v0

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
)

// Socket is a client's connection, before it is let in and after.
type Socket interface {
	// Query are the parameters of the request that opened the connection.
	Query() url.Values
	// Accept lets the client in.
	Accept(ctx context.Context) error
	// Emit sends an event. It waits while the client is slow.
	Emit(ctx context.Context, event string, arg json.RawMessage) error
	// Receive waits for an event of the client's.
	Receive(ctx context.Context) (name string, args []json.RawMessage, err error)
}

// Refusal is why a client is not let in, as it is told. Data is nil or goes with it.
type Refusal struct {
	Message string
	Data    map[string]string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

func refused(message, msgID string) *Refusal {
	r := &Refusal{Message: message}
	if msgID != "" {
		r.Data = map[string]string{"msg_id": msgID}
	}
	return r
}

// Resolver knows whose key it is.
type Resolver interface {
	Resolve(ctx context.Context, key string) (httpkit.Principal, error)
}

// admission is what a client is let in to.
type admission struct {
	who    httpkit.Principal
	view   *engine.View
	now    condition
	latest int64 // id of the last event that the client has, -1 = none
}

// admit checks what a client asks for in the order in which clients expect to be
// refused.
func (r *Rooms) admit(ctx context.Context, q url.Values) (*admission, error) {
	raw := q.Get("conversation_id")
	if unnamed(raw) {
		return nil, refused("No conversation_id in query params", "")
	}
	who, err := r.user(ctx, q.Get("session_api_key"))
	if err != nil {
		return nil, err
	}
	if err := r.checkSettings(ctx, who.UserID); err != nil {
		return nil, err
	}
	id, err := conversation.ParseID(raw)
	if err != nil {
		return nil, refused(fault.PublicText(err), msgNotFound)
	}
	v, c, err := r.h.view(ctx, who.UserID, id)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, refused("Failed to join conversation: there is no such conversation.", msgNotFound)
	case err != nil:
		return nil, r.trouble("Failed to access conversation events: ", err)
	}
	return &admission{who: who, view: v, now: c, latest: latestID(q.Get("latest_event_id"))}, nil
}

// unnamed reports what clients send that have no value for a parameter.
func unnamed(value string) bool { return value == "" || value == "null" || value == "undefined" }

// user is whose key it is.
func (r *Rooms) user(ctx context.Context, key string) (httpkit.Principal, error) {
	if unnamed(key) {
		key = ""
	}
	who, err := r.keys.Resolve(ctx, key)
	switch {
	case fault.Is(err, fault.Unauthenticated), err == nil && who.UserID == "":
		return who, refused("invalid_session_api_key", "")
	case err != nil:
		return who, r.trouble("Failed to join conversation: ", err)
	}
	return who, nil
}

func (r *Rooms) checkSettings(ctx context.Context, owner string) error {
	_, err := r.h.settings.Settings(ctx, owner)
	switch {
	case fault.Is(err, fault.NotFound) && r.demo:
		return nil
	case fault.Is(err, fault.NotFound):
		return refused("Settings not found", msgNoSettings)
	case err != nil:
		return r.trouble("Failed to join conversation: ", err)
	}
	return nil
}

// trouble is a refusal for a reason of the server's. What is internal is logged only.
func (r *Rooms) trouble(words string, err error) error {
	r.log.Warn("socket refused", "error", err)
	return refused(words+fault.PublicText(err), "")
}

// latestID reads the id of the last event that a client has. Clients without any send
// all kinds of things.
func latestID(raw string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(raw), 10, 64)
	if err != nil {
		return -1
	}
	return max(n, -1)
}
