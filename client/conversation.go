package parley

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Status says what a conversation's agent does.
type Status string

// The statuses. Finished, Failed and Stuck end a run by themselves; in
// WaitingForConfirmation the agent waits for Confirm, in Paused and Idle for Send.
const (
	Idle                   Status = "idle"
	Running                Status = "running"
	Paused                 Status = "paused"
	WaitingForConfirmation Status = "waiting_for_confirmation"
	Finished               Status = "finished"
	Failed                 Status = "error"
	Stuck                  Status = "stuck"
)

// Conversation is a conversation as the server shows it.
type Conversation struct {
	ID            string            `json:"id"` // 32 hexadecimal digits
	Title         string            `json:"title"`
	Status        Status            `json:"execution_status"` // "" unless the sandbox runs
	SandboxID     string            `json:"sandbox_id"`
	SandboxStatus string            `json:"sandbox_status"` // STARTING, RUNNING, PAUSED, ERROR, MISSING
	Model         string            `json:"llm_model"`
	Tags          map[string]string `json:"tags"`
	CreatedAt     time.Time         `json:"created_at"`
	UpdatedAt     time.Time         `json:"updated_at"`

	// Where the agent protocol has the conversation, and the key of its sandbox;
	// both "" unless the sandbox runs.
	URL string `json:"conversation_url"`
	Key string `json:"session_api_key"`
}

// StartRequest says what to start. Members that are empty are the user's settings.
type StartRequest struct {
	Message    string // what to do; "" starts without a run
	Title      string
	Model      string
	Repository string // "owner/name"
	Branch     string
	SandboxID  string // an existing sandbox
}

// startPoll is how often a start is looked at.
const startPoll = 200 * time.Millisecond

// Start starts a conversation and waits until it takes messages. When the context
// ends before, the server goes on starting it.
func (c *Client) Start(ctx context.Context, req StartRequest) (*Conversation, error) {
	body := map[string]any{}
	for name, value := range map[string]string{"title": req.Title, "llm_model": req.Model, "selected_repository": req.Repository,
		"selected_branch": req.Branch, "sandbox_id": req.SandboxID} {
		if value != "" {
			body[name] = value
		}
	}
	if req.Message != "" {
		body["initial_message"] = message(req.Message)
	}
	var task startTask
	if err := c.call(ctx, c.server(), http.MethodPost, "/api/v1/app-conversations", body, &task); err != nil {
		return nil, err
	}
	for {
		switch {
		case task.Status == "READY" && task.ConversationID != "":
			return c.Conversation(ctx, task.ConversationID)
		case task.Status == "ERROR":
			return nil, fmt.Errorf("parley: the conversation did not start: %s", task.Detail)
		}
		if err := pause(ctx, startPoll); err != nil {
			return nil, err
		}
		var tasks []*startTask
		if err := c.call(ctx, c.server(), http.MethodGet, "/api/v1/app-conversations/start-tasks"+query("ids", task.ID), nil, &tasks); err != nil {
			return nil, err
		}
		if len(tasks) != 1 || tasks[0] == nil {
			return nil, fmt.Errorf("parley: the conversation was deleted while it started")
		}
		task = *tasks[0]
	}
}

type startTask struct {
	ID             string `json:"id"`
	Status         string `json:"status"`
	Detail         string `json:"detail"`
	ConversationID string `json:"app_conversation_id"`
}

func message(text string) map[string]any {
	return map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": text}}, "run": true}
}

// Conversation returns a conversation; see IsNotFound.
func (c *Client) Conversation(ctx context.Context, id string) (*Conversation, error) {
	var found []*Conversation
	if err := c.call(ctx, c.server(), http.MethodGet, "/api/v1/app-conversations"+query("ids", id), nil, &found); err != nil {
		return nil, err
	}
	if len(found) != 1 || found[0] == nil {
		return nil, &Error{Status: http.StatusNotFound, Code: "conversation_not_found", Message: "There is no such conversation."}
	}
	return found[0], nil
}

// Conversations yields the user's conversations, newest first. After an error there
// are no more.
func (c *Client) Conversations(ctx context.Context) iter.Seq2[*Conversation, error] {
	return func(yield func(*Conversation, error) bool) {
		for page := ""; ; {
			var got struct {
				Items []*Conversation `json:"items"`
				Next  *string         `json:"next_page_id"`
			}
			if err := c.call(ctx, c.server(), http.MethodGet, "/api/v1/app-conversations/search"+page, nil, &got); err != nil {
				yield(nil, err)
				return
			}
			for _, conversation := range got.Items {
				if !yield(conversation, nil) {
					return
				}
			}
			if got.Next == nil {
				return
			}
			page = query("page_id", *got.Next)
		}
	}
}

// Send says something in a conversation. The agent starts to work on it, or sees it
// at its next step.
func (c *Client) Send(ctx context.Context, id, text string) error {
	return c.call(ctx, c.server(), http.MethodPost, "/api/v1/app-conversations/"+url.PathEscape(id)+"/send-message", message(text), nil)
}

// Confirm answers an agent that waits for confirmation: accepted actions run, and the
// agent goes on; rejected ones do not, and it waits for a message. reason is for
// rejections, "" is the server's own words.
func (c *Client) Confirm(ctx context.Context, id string, accept bool, reason string) error {
	body := map[string]any{"accept": accept}
	if reason != "" {
		body["reason"] = reason
	}
	return c.agent(ctx, id, http.MethodPost, "/events/respond_to_confirmation", body)
}

// Interrupt stops the agent in the middle of what it does.
func (c *Client) Interrupt(ctx context.Context, id string) error {
	return c.agent(ctx, id, http.MethodPost, "/interrupt", nil)
}

// ConfirmEverything sets whether every action of the agent waits for Confirm.
func (c *Client) ConfirmEverything(ctx context.Context, id string, on bool) error {
	kind := "NeverConfirm"
	if on {
		kind = "AlwaysConfirm"
	}
	return c.agent(ctx, id, http.MethodPost, "/confirmation_policy", map[string]any{"policy": map[string]any{"kind": kind}})
}

// Delete deletes a conversation, and its sandbox if no other conversation uses it.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.call(ctx, c.server(), http.MethodDelete, "/api/v1/app-conversations/"+url.PathEscape(id), nil, nil)
}

// agent makes a request of the agent protocol about a conversation.
func (c *Client) agent(ctx context.Context, id, method, path string, body any) error {
	sandbox, err := c.sandboxOf(ctx, id)
	if err != nil {
		return err
	}
	return c.call(ctx, sandbox, method, "/api/conversations/"+url.PathEscape(id)+path, body, nil)
}

// sandboxOf is where the agent protocol of a conversation's sandbox is. Address and
// key may change whenever the sandbox starts again.
func (c *Client) sandboxOf(ctx context.Context, id string) (target, error) {
	conversation, err := c.Conversation(ctx, id)
	if err != nil {
		return target{}, err
	}
	base, _, ok := strings.Cut(conversation.URL, "/api/conversations/")
	if !ok {
		return target{}, &Error{Status: http.StatusConflict, Code: "sandbox_not_running",
			Message: "The conversation's sandbox is " + conversation.SandboxStatus + ". Resume it first."}
	}
	return target{base, conversation.Key}, nil
}
