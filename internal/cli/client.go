package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
)

const (
	keyHeader      = "X-Session-API-Key"
	dialTimeout    = 5 * time.Second
	callTimeout    = 60 * time.Second
	maxAnswerBytes = 64 << 20
)

// UnreachableError says that no server answered.
type UnreachableError struct {
	URL string
	Err error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no Parley server answers at %s: %s\nStart one with: parley serve", e.URL, CleanLine(networkReason(e.Err)))
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// networkReason is the innermost text of a network error.
func networkReason(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.Error()
	}
	if op := new(net.OpError); errors.As(err, &op) && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

// APIError is an answer that says no.
type APIError struct {
	Status int
	Text   string // what the server says, safe to print
	Hint   string
}

func (e *APIError) Error() string {
	text := fmt.Sprintf("the server answers %d: %s", e.Status, e.Text)
	if e.Hint != "" {
		text += "\n" + e.Hint
	}
	return text
}

// Client calls a server's API.
type Client struct {
	base    string
	key     account.Secret
	keyFrom string
	agent   string
	http    *http.Client
}

// NewClient returns a client of the server at base. keyFrom says where the key
// is from, for the message when the server refuses it.
func NewClient(base string, key account.Secret, keyFrom, version string) *Client {
	return &Client{
		base: base, key: key, keyFrom: keyFrom, agent: "parley/" + version,
		http: &http.Client{
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
				TLSHandshakeTimeout: dialTimeout,
				ForceAttemptHTTP2:   true,
			},
			// The key must not follow a redirect to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Close gives idle connections up.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Base returns the server's URL.
func (c *Client) Base() string { return c.base }

// request makes a request with the user's key for a path of the server.
func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	return c.requestTo(ctx, method, c.base+path, c.key, body)
}

func (c *Client) requestTo(ctx context.Context, method, target string, key account.Secret, body any) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key.IsSet() {
		req.Header.Set(keyHeader, key.Reveal())
	}
	req.Header.Set("User-Agent", c.agent)
	return req, nil
}

// do sends a request and decodes a JSON answer into out, which may be nil.
func (c *Client) do(req *http.Request, out any) error {
	ctx, cancel := context.WithTimeout(req.Context(), callTimeout)
	defer cancel()
	resp, err := c.http.Do(req.WithContext(ctx))
	if err != nil {
		return c.networkError(req, err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return c.networkError(req, err)
	}
	if resp.StatusCode/100 != 2 {
		return c.apiError(resp, data)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s does not answer as a Parley server: %w", req.URL.Host, err)
	}
	return nil
}

// networkError keeps the caller's own reason to stop apart from the network's.
func (c *Client) networkError(req *http.Request, err error) error {
	if cause := context.Cause(req.Context()); cause != nil {
		return cause
	}
	return &UnreachableError{URL: req.URL.Scheme + "://" + req.URL.Host, Err: err}
}

// readError reads the body of an answer that says no.
func (c *Client) readError(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return c.networkError(resp.Request, err)
	}
	return c.apiError(resp, data)
}

// apiError reads the error bodies of all API generations.
func (c *Client) apiError(resp *http.Response, data []byte) error {
	e := &APIError{Status: resp.StatusCode, Text: errorText(data)}
	if e.Text == "" {
		e.Text = http.StatusText(resp.StatusCode)
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized && c.key.IsSet():
		e.Hint = fmt.Sprintf("The key that was sent is from: %s. Give another one with --key or PARLEY_API_KEY.", c.keyFrom)
	case resp.StatusCode == http.StatusUnauthorized:
		e.Hint = fmt.Sprintf("No key was sent: %s. Give one with --key or PARLEY_API_KEY.", c.keyFrom)
	case resp.StatusCode/100 == 3:
		e.Hint = fmt.Sprintf("It redirects to %s; give that with --server.", CleanLine(resp.Header.Get("Location")))
	}
	return e
}

// errorText finds the text for people in an error body.
func errorText(data []byte) string {
	var body struct {
		Detail    json.RawMessage `json:"detail"`
		Exception string          `json:"exception"`
		Error     string          `json:"error"`
		Message   string          `json:"message"`
	}
	if json.Unmarshal(data, &body) != nil {
		return ""
	}
	var text string
	var fields []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	switch {
	case body.Exception != "":
		text = body.Exception
	case json.Unmarshal(body.Detail, &text) == nil && text != "":
	case json.Unmarshal(body.Detail, &fields) == nil && len(fields) > 0:
		var parts []string
		for _, f := range fields {
			parts = append(parts, strings.Trim(fmt.Sprint(f.Loc), "[]")+": "+f.Msg)
		}
		text = strings.Join(parts, "; ")
	case body.Error != "":
		text = body.Error
	default:
		text = body.Message
	}
	return cut(CleanLine(text), 2000)
}

// Task is a start task.
type Task struct {
	ID             string                  `json:"id"`
	Status         conversation.TaskStatus `json:"status"`
	Detail         string                  `json:"detail"`
	ConversationID string                  `json:"app_conversation_id"`
}

// Start asks for a conversation.
func (c *Client) Start(ctx context.Context, body StartRequest) (Task, error) {
	req, err := c.request(ctx, http.MethodPost, "/api/v1/app-conversations", body)
	if err != nil {
		return Task{}, err
	}
	var task Task
	return task, c.do(req, &task)
}

// StartRequest is the part of the V1 start request that the client uses.
// Workspace is an extension member: other servers ignore it.
type StartRequest struct {
	InitialMessage *Message   `json:"initial_message,omitempty"`
	LLMModel       string     `json:"llm_model,omitempty"`
	Trigger        string     `json:"trigger,omitempty"`
	Workspace      *Workspace `json:"workspace,omitempty"`
}

// Message is what a user says.
type Message struct {
	Role    string     `json:"role"`
	Content []TextPart `json:"content"`
	Run     bool       `json:"run"`
}

// TextPart is a text block.
type TextPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// userMessage wraps a text.
func userMessage(text string) *Message {
	return &Message{Role: "user", Content: []TextPart{{"text", text}}, Run: true}
}

// Workspace asks for a directory of the server's machine as working directory,
// with the proof that the client may write there.
type Workspace struct {
	HostDir string `json:"host_dir"`
	Proof   string `json:"proof"`
	Nonce   string `json:"nonce"`
}

// Task returns a start task; false if there is none of that id.
func (c *Client) Task(ctx context.Context, id string) (Task, bool, error) {
	var tasks []*Task
	err := c.get(ctx, "/api/v1/app-conversations/start-tasks?ids="+url.QueryEscape(id), &tasks)
	if err != nil || len(tasks) == 0 || tasks[0] == nil {
		return Task{}, false, err
	}
	return *tasks[0], true, nil
}

// Conversation is what the client reads of a V1 app conversation.
type Conversation struct {
	ID            string                `json:"id"`
	Title         string                `json:"title"`
	SandboxID     string                `json:"sandbox_id"`
	SandboxStatus string                `json:"sandbox_status"`
	LLMModel      string                `json:"llm_model"`
	URL           string                `json:"conversation_url"`
	SessionKey    account.Secret        `json:"session_api_key"`
	Metrics       *conversation.Metrics `json:"metrics"`
}

// Conversation returns a conversation; false if there is none of that id.
func (c *Client) Conversation(ctx context.Context, id string) (Conversation, bool, error) {
	var found []*Conversation
	err := c.get(ctx, "/api/v1/app-conversations?ids="+url.QueryEscape(id), &found)
	if err != nil || len(found) == 0 || found[0] == nil {
		return Conversation{}, false, err
	}
	return *found[0], true, nil
}

// Count returns how many events a conversation's log has.
func (c *Client) Count(ctx context.Context, id string) (int64, error) {
	var n int64
	err := c.get(ctx, "/api/v1/conversation/"+url.PathEscape(id)+"/events/count", &n)
	return n, err
}

// Status returns a conversation's execution status as its log has it: the
// conversation's own member is null while its sandbox does not run.
func (c *Client) Status(ctx context.Context, id string) (conversation.Status, error) {
	var page struct {
		Items []conversation.StateUpdateEvent `json:"items"`
	}
	query := "?kind__eq=" + conversation.KindStateUpdate + "&sort_order=TIMESTAMP_DESC&limit=100"
	if err := c.get(ctx, "/api/v1/conversation/"+url.PathEscape(id)+"/events/search"+query, &page); err != nil {
		return "", err
	}
	for _, event := range page.Items {
		var status conversation.Status
		if event.Key == conversation.KeyStatus && json.Unmarshal(event.Value, &status) == nil {
			return status, nil
		}
	}
	return conversation.Idle, nil
}

// Send says something in a conversation and runs it.
func (c *Client) Send(ctx context.Context, id, text string) error {
	return c.post(ctx, "/api/v1/app-conversations/"+url.PathEscape(id)+"/send-message", userMessage(text))
}

// ResumeSandbox thaws a paused sandbox.
func (c *Client) ResumeSandbox(ctx context.Context, sandboxID string) error {
	return c.post(ctx, "/api/v1/sandboxes/"+url.PathEscape(sandboxID)+"/resume", struct{}{})
}

// Confirm answers a run that waits for confirmation.
func (c *Client) Confirm(ctx context.Context, conv Conversation, accept bool, reason string) error {
	body := map[string]any{"accept": accept}
	if reason != "" {
		body["reason"] = reason
	}
	return c.agentPost(ctx, conv, "/events/respond_to_confirmation", body)
}

// Interrupt stops a run in the middle of its step.
func (c *Client) Interrupt(ctx context.Context, conv Conversation) error {
	return c.agentPost(ctx, conv, "/interrupt", struct{}{})
}

// agentPost calls the agent protocol at the conversation's own URL with its own key.
func (c *Client) agentPost(ctx context.Context, conv Conversation, path string, body any) error {
	if conv.URL == "" {
		return fmt.Errorf("the conversation's sandbox does not run (%s)", CleanLine(conv.SandboxStatus))
	}
	req, err := c.requestTo(ctx, http.MethodPost, conv.URL+path, conv.SessionKey, body)
	if err != nil {
		return err
	}
	return c.do(req, nil)
}

// Info returns the server's own description and whether the key opens it.
func (c *Client) Info(ctx context.Context) (map[string]any, error) {
	info := map[string]any{}
	if err := c.get(ctx, "/server_info", &info); err != nil {
		return nil, err
	}
	return info, c.get(ctx, "/api/v1/sandboxes/search?limit=1", nil)
}

func (c *Client) get(ctx context.Context, path string, out any) error {
	req, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return c.do(req, out)
}

func (c *Client) post(ctx context.Context, path string, body any) error {
	req, err := c.request(ctx, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	return c.do(req, nil)
}
