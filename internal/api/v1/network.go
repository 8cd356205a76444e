package v1

import (
	"context"
	"errors"
	"net/http"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/netpolicy"
	"parley/internal/sandbox"
	"parley/internal/store"
)

// NetworkLog knows what sandboxes connected to.
type NetworkLog interface {
	Search(ctx context.Context, q store.NetworkQuery) (store.Page[store.NetworkEntry], error)
}

// connection is one attempt of a program inside to reach something.
type connection struct {
	ID         string  `json:"id"`
	Time       string  `json:"time"`
	Protocol   string  `json:"protocol"`
	Host       *string `json:"host"`
	Address    *string `json:"address"`
	Port       *int    `json:"port"`
	Sent       int64   `json:"bytes_sent"`
	Received   int64   `json:"bytes_received"`
	Verdict    string  `json:"verdict"`
	Reason     *string `json:"reason"`
	Open       bool    `json:"open"`
	DurationMS int64   `json:"duration_ms"`
}

func renderConnection(e store.NetworkEntry) connection {
	c := connection{ID: e.ID, Time: httpkit.FormatTime(e.Began), Protocol: e.Protocol, Host: orNull(e.Host), Address: orNull(e.Address),
		Sent: e.Sent, Received: e.Received, Verdict: e.Verdict, Reason: orNull(e.Reason), Open: e.Open, DurationMS: e.Lasted.Milliseconds()}
	if e.Port != 0 {
		c.Port = &e.Port
	}
	return c
}

func (h *handlers) conversationNetwork(w http.ResponseWriter, r *httpkit.Request) error {
	v, err := h.find(r)
	if err != nil {
		return err
	}
	box, err := h.Engine.NetworkLogOf(r.Context(), r.Principal.UserID, v.ID)
	if err != nil {
		return err
	}
	return h.writeNetwork(w, r, box)
}

func (h *handlers) sandboxNetwork(w http.ResponseWriter, r *httpkit.Request) error {
	box, err := h.sandbox(r)
	if err != nil {
		return err
	}
	return h.writeNetwork(w, r, box.ID)
}

// sandbox returns the user's sandbox that the path names.
func (h *handlers) sandbox(r *httpkit.Request) (*store.Sandbox, error) {
	found, err := h.Fleet.Batch(r.Context(), r.Principal.UserID, []string{r.PathValue("sandbox_id")})
	if err != nil {
		return nil, err
	}
	if found[0] == nil {
		return nil, httpkit.NotFound("Sandbox")
	}
	return found[0], nil
}

func (h *handlers) writeNetwork(w http.ResponseWriter, r *httpkit.Request, sandboxID string) error {
	var q struct {
		Verdict *string `json:"verdict"`
		Host    *string `json:"host"`
		pageQuery
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	if h.Network == nil {
		return fault.New(fault.Unsupported, "network_log_not_built", "This server keeps no log of the network.")
	}
	found, err := h.Network.Search(r.Context(), store.NetworkQuery{SandboxID: sandboxID, Verdict: orEmpty(q.Verdict), Host: orEmpty(q.Host),
		Cursor: orEmpty(q.PageID), Limit: q.Limit})
	if err != nil {
		return err
	}
	out := make([]connection, len(found.Items))
	for i, e := range found.Items {
		out[i] = renderConnection(e)
	}
	return writePage(w, out, found.Next)
}

// networkPolicy is what a conversation's sandbox may reach.
type networkPolicy struct {
	Mode  string   `json:"mode"`
	Allow []string `json:"allow"`
}

// policy checks and translates; nil is the template's.
func (n *networkPolicy) policy() (*conversation.NetworkPolicy, error) {
	if n == nil {
		return nil, nil
	}
	err := netpolicy.Check(sandbox.Network{Mode: sandbox.NetworkMode(n.Mode), Allow: n.Allow})
	var wrong *fault.Error
	if errors.As(err, &wrong) {
		for i, f := range wrong.Fields { // it calls the policy "network"
			wrong.Fields[i].Loc = append([]any{"body", "sandbox_network"}, f.Loc[min(1, len(f.Loc)):]...)
		}
		return nil, wrong
	}
	return &conversation.NetworkPolicy{Mode: n.Mode, Allow: n.Allow}, err
}

// renderPolicy shows a template's policy.
func renderPolicy(n sandbox.Network) networkPolicy {
	out := networkPolicy{Mode: string(n.Mode), Allow: n.Allow}
	if out.Mode == "" {
		out.Mode = string(sandbox.NetworkOpen)
	}
	if out.Allow == nil {
		out.Allow = []string{}
	}
	return out
}
