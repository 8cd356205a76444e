package v0

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
)

// Codes of refused creations, besides the engine's.
const (
	codeBadReplay = "invalid_replay"
	codeIDTaken   = "conversation_id_unavailable"
)

// Triggers that creations have.
const (
	triggerGUI        = "gui"
	triggerSuggested  = "suggested_task"
	triggerMicroagent = "microagent_management"
)

// creation is the body of a creation (interface specification 2.3).
type creation struct {
	Repository     *string                     `json:"repository"`
	GitProvider    *string                     `json:"git_provider"`
	Branch         *string                     `json:"selected_branch"`
	Message        *string                     `json:"initial_user_msg"`
	ImageURLs      []string                    `json:"image_urls"`
	Replay         *string                     `json:"replay_json"`
	SuggestedTask  *conversation.SuggestedTask `json:"suggested_task"`
	Microagent     *microagent                 `json:"create_microagent"`
	Instructions   *string                     `json:"conversation_instructions"`
	MCP            json.RawMessage             `json:"mcp_config"`
	ConversationID string                      `json:"conversation_id"`
}

type microagent struct {
	Repo        string  `json:"repo"`
	GitProvider *string `json:"git_provider"`
	Title       *string `json:"title"`
}

// created is the answer to creations, starts and stops.
type created struct {
	Status             string          `json:"status"`
	ConversationID     conversation.ID `json:"conversation_id"`
	Message            *string         `json:"message"`
	ConversationStatus string          `json:"conversation_status"`
}

func (h *handlers) create(w http.ResponseWriter, r *httpkit.Request) error {
	var in creation
	if err := r.Body(&in); err != nil {
		return err
	}
	req, err := in.request(r.Principal.UserID)
	if err != nil {
		return err
	}
	if err := h.findRepository(r.Context(), req); err != nil {
		return err
	}
	status, err := h.launch(r.Context(), req)
	if err != nil {
		return err
	}
	return ok(w, created{Status: "ok", ConversationID: req.ConversationID, ConversationStatus: status})
}

// findRepository makes sure that there is the repository before anything is made for it
// (legacy API 6.2), and takes the provider over that has it.
func (h *handlers) findRepository(ctx context.Context, req *engine.StartRequest) error {
	if req.Repository == "" || h.git == nil {
		return nil
	}
	provider, err := h.git.Find(ctx, req.Owner, req.GitProvider, req.Repository)
	switch {
	case err == nil:
		req.GitProvider = provider
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return noAccess(err, req.Repository)
}

// launch starts the conversation or, if its owner has it already, makes sure
// that it runs. It fixes the id. Of several requests for one conversation each waits
// for the one before it, so that none is carried out twice.
func (h *handlers) launch(ctx context.Context, req *engine.StartRequest) (string, error) {
	if req.ConversationID == "" {
		req.ConversationID = conversation.NewID()
	}
	done, err := h.launches.take(ctx, req.Owner+"/"+string(req.ConversationID))
	if err != nil {
		return "", err
	}
	defer done()
	_, err = h.engine.Start(ctx, *req)
	if fault.CodeOf(err) == store.CodeExists {
		return h.relaunch(ctx, req)
	}
	if err == nil {
		h.evict(ctx, req.Owner, req.ConversationID)
	}
	return statusStarting, err
}

// relaunch answers a repeated creation: a live conversation is left alone, so
// that a retry does not double the first message; a stopped one starts again
// with what it has stored and gets the new message.
func (h *handlers) relaunch(ctx context.Context, req *engine.StartRequest) (string, error) {
	v, err := h.engine.View(ctx, req.Owner, req.ConversationID)
	if fault.Is(err, fault.NotFound) {
		// Somebody else's. The text says no more than that the id cannot be had.
		return "", fault.New(fault.Conflict, codeIDTaken, "This conversation_id cannot be used.").
			WithHint("Choose another one, or leave it out.")
	}
	if err != nil {
		return "", err
	}
	c, err := h.conditionOf(ctx, v)
	if err != nil || c.status != statusStopped {
		return c.status, err
	}
	if _, err := h.resume(ctx, v); err != nil {
		return "", err
	}
	if len(req.InitialMessage) == 0 || req.Replay != nil {
		return statusStarting, nil
	}
	return statusStarting, h.engine.Send(ctx, req.Owner, v.ID, engine.Message{Parts: req.InitialMessage, Run: true})
}

// request translates a creation, or says what is wrong with it.
func (in *creation) request(owner string) (*engine.StartRequest, error) {
	mcp, fields := account.ParseMCP(in.MCP, "body", "mcp_config")
	if len(fields) > 0 {
		return nil, account.Invalid(fields)
	}
	replay, err := in.replay()
	if err != nil {
		return nil, err
	}
	req := &engine.StartRequest{Owner: owner, Origin: conversation.OriginV0, Repository: text(in.Repository),
		Branch: text(in.Branch), GitProvider: text(in.GitProvider), Instructions: text(in.Instructions),
		MCP: mcp, Trigger: triggerGUI, InitialMessage: firstMessage(text(in.Message), in.ImageURLs)}
	if in.ConversationID != "" {
		id, err := conversation.ParseID(in.ConversationID)
		if err != nil {
			return nil, err
		}
		req.ConversationID = id
	}
	in.apply(req)
	if replay != nil {
		req.InitialMessage, req.Replay = replay.First, replay.Items
	}
	echo, err := in.echo(mcp)
	req.Echo = echo
	return req, err
}

// apply carries out the two special kinds of creations. A suggested task wins
// over a message and over a microagent.
func (in *creation) apply(req *engine.StartRequest) {
	switch {
	case in.SuggestedTask != nil:
		req.Trigger = triggerSuggested
		req.InitialMessage = firstMessage(in.SuggestedTask.Prompt(), in.ImageURLs)
	case in.Microagent != nil:
		req.Trigger = triggerMicroagent
		if req.Repository == "" {
			req.Repository = in.Microagent.Repo
		}
		if req.GitProvider == "" {
			req.GitProvider = text(in.Microagent.GitProvider)
		}
	}
}

// echo is the request as it may be shown: secrets masked, the replay left out.
func (in *creation) echo(mcp *account.MCPConfig) ([]byte, error) {
	shown := *in
	shown.Replay, shown.MCP = nil, nil
	masked, err := json.Marshal(mcp)
	if err != nil {
		return nil, fmt.Errorf("echo request: %w", err)
	}
	shown.MCP = masked
	raw, err := json.Marshal(shown)
	if err != nil {
		return nil, fmt.Errorf("echo request: %w", err)
	}
	return raw, nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// firstMessage returns the parts of a message, nil if it says nothing.
func firstMessage(said string, images []string) []content.Part {
	var urls []string
	for _, u := range images {
		if u != "" {
			urls = append(urls, u)
		}
	}
	var parts []content.Part
	if strings.TrimSpace(said) != "" {
		parts = append(parts, content.Text(said))
	}
	if len(urls) > 0 {
		parts = append(parts, content.Image(urls...))
	}
	return parts
}
