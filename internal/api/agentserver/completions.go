package agentserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/stream"
)

// The agent behind the API of chat completions (agent protocol 1.10): a model is an
// LLM profile, a completion is a whole run of the agent, and a conversation goes on
// if its id comes with the request.

const (
	modelPrefix        = "openhands_" // in front of a profile's name
	conversationHeader = "X-OpenHands-ServerConversation-ID"
	defaultChatWait    = 120 * time.Second
)

type chatModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"` // seconds since 1970
	OwnedBy string `json:"owned_by"`
}

func (s *Server) chatModels(w http.ResponseWriter, r *httpkit.Request) error {
	profiles, err := s.profilesOf(r.Context(), r.Principal.Owner)
	if err != nil {
		return err
	}
	models := make([]chatModel, 0, len(profiles))
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		models = append(models, chatModel{ID: modelPrefix + name, Object: "model", OwnedBy: "parley"})
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"object": "list", "data": models})
}

// profilesOf returns a user's LLM profiles, none for one without settings.
func (s *Server) profilesOf(ctx context.Context, owner string) (map[string]account.LLM, error) {
	settings, err := s.cfg.Settings.Settings(ctx, owner)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return settings.Profiles, nil
}

// chatRequest is what of a request has an effect.
type chatRequest struct {
	Model    string        `json:"model"`
	Messages []chatMessage `json:"messages"`
	Stream   bool          `json:"stream"`
	Options  *struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
}

type chatMessage struct {
	Role    string      `json:"role"`
	Content chatContent `json:"content"`
}

// chatContent is a text, or a list of parts of text and images.
type chatContent []content.Part

// UnmarshalJSON implements json.Unmarshaler.
func (c *chatContent) UnmarshalJSON(data []byte) error {
	var text *string
	if json.Unmarshal(data, &text) == nil {
		if text != nil && *text != "" {
			*c = chatContent{content.Text(*text)}
		}
		return nil
	}
	var parts []struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Image struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		switch {
		case p.Type == "image_url" && p.Image.URL != "":
			*c = append(*c, content.Image(p.Image.URL))
		case p.Type == "text" && p.Text != "":
			*c = append(*c, content.Text(p.Text))
		}
	}
	return nil
}

// question is the last thing the user says; instructions are the system's texts.
func (q *chatRequest) question() (parts []content.Part, instructions string) {
	var texts []string
	for _, m := range q.Messages {
		switch m.Role {
		case "system", "developer":
			if text := content.JoinText(m.Content); text != "" {
				texts = append(texts, text)
			}
		case "user":
			parts = m.Content
		}
	}
	return parts, strings.Join(texts, "\n\n")
}

// completion is a run of which the client waits for the end.
type completion struct {
	server  *Server
	request chatRequest
	owner   string
	id      conversation.ID
	before  conversation.Usage // of the conversation's earlier runs
	from    int64              // seq of the first event that came with the request
	news    *stream.Follower   // from before the run's first event on
	created time.Time
}

func (s *Server) complete(w http.ResponseWriter, r *httpkit.Request) error {
	c := &completion{server: s, created: time.Now()}
	if err := r.Body(&c.request); err != nil {
		return err
	}
	if err := c.begin(r); err != nil {
		return err
	}
	defer c.news.Close()
	w.Header().Set(conversationHeader, string(c.id))
	if !c.request.Stream {
		end, err := c.await(r.Context())
		if err != nil {
			return err
		}
		return httpkit.JSON(w, http.StatusOK, c.whole(end))
	}
	ctx, leave, err := s.cfg.Streams.Join(r.Context(), r.Principal, "sse", string(c.id))
	if err != nil {
		return err
	}
	defer leave()
	last := make(chan []httpkit.Frame, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); <-last }()
	go func() {
		defer close(last)
		end, err := c.await(ctx)
		last <- c.frames(end, err)
	}()
	return (&httpkit.Late{First: c.chunks(chatDelta{Role: "assistant", Content: new("")}, nil), Last: last}).Serve(ctx, w)
}

// begin starts a conversation or goes on with one, and follows it from there.
func (c *completion) begin(r *httpkit.Request) error {
	s, ctx, sc := c.server, r.Context(), scopeOf(r.Principal)
	parts, instructions := c.request.question()
	if len(parts) == 0 {
		return httpkit.BadField("there is no message of the user's with something in it", nil, "body", "messages")
	}
	name, ours := strings.CutPrefix(c.request.Model, modelPrefix)
	profiles, err := s.profilesOf(ctx, sc.owner)
	if err != nil {
		return err
	}
	if _, known := profiles[name]; !ours || !known {
		return fault.New(fault.NotFound, "model_not_found", "The model %.100q does not exist.", c.request.Model).
			WithHint("A model is an LLM profile with %s in front of its name; /v1/models lists them.", modelPrefix)
	}
	c.owner = sc.owner
	if raw := r.Header.Get(conversationHeader); raw != "" {
		return c.goOn(ctx, sc, raw, parts)
	}
	dir, err := s.workingDir(ctx, sc)
	if err != nil {
		return err
	}
	v, err := s.cfg.Engine.Create(ctx, engine.StartRequest{Owner: sc.owner, Origin: conversation.OriginAgent, SandboxID: sc.sandbox,
		LLMProfile: name, InitialMessage: parts, Instructions: instructions, WorkingDir: dir})
	if err != nil {
		return err
	}
	c.id = v.ID
	c.news, err = s.cfg.Engine.Follow(ctx, c.owner, c.id, -1)
	return err
}

func (c *completion) goOn(ctx context.Context, sc scope, raw string, parts []content.Part) error {
	v, err := c.server.view(ctx, sc, raw)
	if err != nil {
		return err
	}
	c.id, c.before, c.from = v.ID, v.Summary.Metrics.Usage, v.Summary.Head
	if c.news, err = c.server.cfg.Engine.Follow(ctx, c.owner, c.id, v.Summary.Head-1); err != nil {
		return err
	}
	if err := c.server.cfg.Engine.Send(ctx, c.owner, c.id, engine.Message{Parts: parts, Run: true}); err != nil {
		c.news.Close()
		return err
	}
	return nil
}

// ending is what a run came to.
type ending struct {
	text  string
	usage conversation.Usage
}

// await waits for the end of the run. The conversation goes on where it does not
// come in time, or the client leaves.
func (c *completion) await(ctx context.Context) (ending, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.server.cfg.ChatWait, defaultChatWait))
	defer cancel()
	for {
		v, err := c.server.cfg.Engine.View(ctx, c.owner, c.id)
		if err == nil {
			switch v.Summary.Status {
			case conversation.Finished:
				text, err := c.server.lastWords(ctx, c.id, c.from)
				return ending{text, since(c.before, v.Summary.Metrics.Usage)}, err
			case conversation.Error, conversation.Stuck, conversation.Deleting:
				return ending{}, fault.New(fault.Internal, "run_failed", "The run of conversation %s ended with the status %s.", c.id, v.Summary.Status).
					WithHint("Its events say why.")
			case conversation.Paused, conversation.WaitingConfirmation:
				return ending{}, fault.New(fault.Conflict, "run_waits", "The conversation %s is %s and waits for its user.", c.id, v.Summary.Status).
					WithHint("Go on over the agent protocol, and send the conversation's id with the next request.")
			}
			_, err = c.news.Next(ctx)
		}
		switch {
		case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
			return ending{}, fault.New(fault.Timeout, "run_too_long", "The run of conversation %s takes longer than a completion may; it goes on.", c.id).
				WithHint("Ask for its result with the conversation's id, over the agent protocol.")
		case err != nil:
			return ending{}, err
		}
	}
}

// since is what a run used.
func since(before, after conversation.Usage) conversation.Usage {
	after.PromptTokens -= before.PromptTokens
	after.CompletionTokens -= before.CompletionTokens
	return after
}

type chatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

func usageOf(u conversation.Usage) *chatUsage {
	return &chatUsage{u.PromptTokens, u.CompletionTokens, u.PromptTokens + u.CompletionTokens}
}

type chatDelta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatChoice struct {
	Index   int        `json:"index"`
	Message *chatDelta `json:"message,omitempty"`
	Delta   *chatDelta `json:"delta,omitempty"`
	Finish  *string    `json:"finish_reason"`
}

type chatAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

func (c *completion) answer(object string, choices ...chatChoice) chatAnswer {
	return chatAnswer{ID: "chatcmpl-" + string(c.id), Object: object, Created: c.created.Unix(), Model: c.request.Model, Choices: choices}
}

func (c *completion) whole(end ending) chatAnswer {
	a := c.answer("chat.completion", chatChoice{Message: &chatDelta{"assistant", &end.text}, Finish: new("stop")})
	a.Usage = usageOf(end.usage)
	return a
}

func (c *completion) chunks(d chatDelta, finish *string) []httpkit.Frame {
	return []httpkit.Frame{frameOf(c.answer("chat.completion.chunk", chatChoice{Delta: &d, Finish: finish}))}
}

// frames end a stream: the text, the end, what was used, or what went wrong.
func (c *completion) frames(end ending, err error) []httpkit.Frame {
	if err != nil {
		_, body := chatErrors(nil, httpkit.Describe(err))
		return []httpkit.Frame{frameOf(body), {Data: []byte("[DONE]")}}
	}
	list := append(c.chunks(chatDelta{Content: &end.text}, nil), c.chunks(chatDelta{}, new("stop"))...)
	if c.request.Options != nil && c.request.Options.Usage {
		a := c.answer("chat.completion.chunk")
		a.Choices, a.Usage = []chatChoice{}, usageOf(end.usage)
		list = append(list, frameOf(a))
	}
	return append(list, httpkit.Frame{Data: []byte("[DONE]")})
}

// frameOf encodes what always can be.
func frameOf(v any) httpkit.Frame {
	data, _ := content.Marshal(v)
	return httpkit.Frame{Data: data}
}

// chatErrors is the shape that clients of chat completions read, with the agent
// protocol's members beside it.
func chatErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	status, body := httpkit.AgentErrors(r, p)
	kind := "invalid_request_error"
	if status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	if m, ok := body.(map[string]any); ok {
		m["error"] = map[string]any{"message": p.Text, "type": kind, "param": nil, "code": p.Code}
	}
	return status, body
}
