package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
)

// startRequest is V1 §1.3. It is also the echo of the request in its task:
// secrets mask themselves when encoded.
type startRequest struct {
	SandboxID             *string                     `json:"sandbox_id"`
	ConversationID        *string                     `json:"conversation_id"`
	InitialMessage        *initialMessage             `json:"initial_message"`
	SystemMessageSuffix   *string                     `json:"system_message_suffix"`
	Processors            []processor                 `json:"processors"`
	LLMModel              *string                     `json:"llm_model"`
	LLMProfile            *string                     `json:"llm_profile,omitempty"`
	AgentProfileID        *string                     `json:"agent_profile_id"`
	SelectedRepository    *string                     `json:"selected_repository"`
	SelectedBranch        *string                     `json:"selected_branch"`
	GitProvider           *string                     `json:"git_provider"`
	SuggestedTask         *conversation.SuggestedTask `json:"suggested_task"`
	Title                 *string                     `json:"title"`
	Trigger               *string                     `json:"trigger"`
	PRNumber              []int                       `json:"pr_number"`
	ParentConversationID  *string                     `json:"parent_conversation_id"`
	AgentType             *string                     `json:"agent_type"`
	Public                *bool                       `json:"public"`
	ObservabilityMetadata json.RawMessage             `json:"observability_metadata"`
	ObservabilityTags     []string                    `json:"observability_tags"`
	ObservabilitySpanName *string                     `json:"observability_span_name"`
	Plugins               []plugin                    `json:"plugins"`
	Secrets               map[string]account.Secret   `json:"secrets"`
	Workspace             *hostWorkspace              `json:"workspace,omitempty"`
	SandboxSpecID         *string                     `json:"sandbox_spec_id,omitempty"`
	SandboxNetwork        *networkPolicy              `json:"sandbox_network,omitempty"`
}

type initialMessage struct {
	Role    string         `json:"role"`
	Content []content.Part `json:"content"`
	Run     bool           `json:"run"`
}

type processor struct {
	Kind string `json:"kind"`
}

// plugin is a plugin to load, as the contract has it: what is not given is null.
type plugin struct {
	Source     string         `json:"source"`
	Ref        *string        `json:"ref"`
	RepoPath   *string        `json:"repo_path"`
	Parameters map[string]any `json:"parameters"`
}

type hostWorkspace struct {
	HostDir string         `json:"host_dir"`
	Proof   string         `json:"proof"`
	Nonce   account.Secret `json:"nonce"`
}

// titleProcessor is always on: conversations get a title from their first
// message whether or not a client asks for it.
const titleProcessor = "SetTitleCallbackProcessor"

// loggingProcessor has no effect that a client could see: it is an example of the
// contract's. The others are the integrations' of the hosted service: they post a
// summary to GitHub, Slack or Jira with credentials of that service, and no client
// sends them.
const loggingProcessor = "LoggingCallbackProcessor"

// supported refuses what would change the conversation essentially and is not
// built, instead of dropping it silently.
func (s *startRequest) supported() error {
	for _, p := range s.Processors {
		if p.Kind != titleProcessor && p.Kind != loggingProcessor {
			return fault.New(fault.Unsupported, "not_built", "This server posts to no other service at the end of a run, as the event processor %s (processors) does.", p.Kind).
				WithHint("Leave it out, and register a webhook endpoint (/api/v1/webhook-endpoints) to be told of the end.")
		}
	}
	if s.InitialMessage != nil && s.InitialMessage.Role != content.RoleUser {
		return httpkit.BadField("a conversation starts with a message of the user", s.InitialMessage.Role,
			"body", "initial_message", "role")
	}
	return nil
}

// request translates for the engine.
func (s *startRequest) request(owner string) (engine.StartRequest, error) {
	req := engine.StartRequest{
		Owner: owner, Origin: conversation.OriginV1, SandboxID: orEmpty(s.SandboxID), Title: orEmpty(s.Title),
		InitialMessage: s.parts(), Instructions: orEmpty(s.SystemMessageSuffix), LLMModel: orEmpty(s.LLMModel), LLMProfile: orEmpty(s.LLMProfile),
		Repository: orEmpty(s.SelectedRepository), Branch: orEmpty(s.SelectedBranch),
		GitProvider: orEmpty(s.GitProvider), Trigger: orEmpty(s.Trigger), PRNumbers: s.PRNumber,
		Public: s.Public, AgentType: orEmpty(s.AgentType), Secrets: s.customSecrets(),
		SpecID: orEmpty(s.SandboxSpecID), AgentProfile: orEmpty(s.AgentProfileID),
	}
	fillTask(&req, s.SuggestedTask)
	for _, p := range s.Plugins {
		req.Plugins = append(req.Plugins, conversation.Plugin{Source: p.Source, Ref: orEmpty(p.Ref), Path: orEmpty(p.RepoPath), Parameters: p.Parameters})
	}
	if s.Workspace != nil {
		req.HostDir = &engine.HostDir{Path: s.Workspace.HostDir, Proof: s.Workspace.Proof, Nonce: s.Workspace.Nonce.Reveal()}
	}
	var err error
	if req.Network, err = s.SandboxNetwork.policy(); err != nil {
		return req, err
	}
	if s.ConversationID != nil {
		if req.ConversationID, err = conversation.ParseID(*s.ConversationID); err != nil {
			return req, err
		}
	}
	if s.ParentConversationID != nil {
		req.ParentID, err = conversation.ParseID(*s.ParentConversationID)
	}
	return req, err
}

// fillTask lets a conversation work on the repository of its task. One about a request
// to merge needs the history of both sides.
func fillTask(req *engine.StartRequest, t *conversation.SuggestedTask) {
	if t == nil {
		return
	}
	if req.Repository == "" {
		req.Repository, req.GitProvider = t.Repo, t.GitProvider
	}
	req.FullClone = t.TaskType != conversation.TaskOpenIssue
}

// parts is the first message: what a suggested task asks for, then the user's
// own words.
func (s *startRequest) parts() []content.Part {
	var parts []content.Part
	if s.SuggestedTask != nil {
		parts = append(parts, content.Text(s.SuggestedTask.Prompt()))
	}
	if s.InitialMessage != nil {
		parts = append(parts, s.InitialMessage.Content...)
	}
	return parts
}

func (s *startRequest) customSecrets() map[string]account.CustomSecret {
	out := map[string]account.CustomSecret{}
	for name, value := range s.Secrets {
		if value.IsSet() {
			out[name] = account.CustomSecret{Value: value}
		}
	}
	return out
}

// echo renders the request for its task: ids in their output form and what is
// inherited from the parent filled in.
func (s startRequest) echo(req *engine.StartRequest, parent *engine.View) ([]byte, error) {
	if req.ConversationID != "" {
		dashed := req.ConversationID.Dashed()
		s.ConversationID = &dashed
	}
	if parent != nil {
		id := string(parent.ID)
		s.ParentConversationID = &id
		model := parent.Options.LLM.Model
		if req.LLMProfile != "" || req.AgentProfile != "" {
			model = "" // the profile's
		}
		for _, m := range []struct {
			to   **string
			from string
		}{{&s.SandboxID, parent.SandboxID}, {&s.SelectedRepository, parent.Repository}, {&s.SelectedBranch, parent.Branch},
			{&s.GitProvider, parent.GitProvider}, {&s.LLMModel, model}} {
			if orEmpty(*m.to) == "" {
				*m.to = orNull(m.from)
			}
		}
	}
	if s.PRNumber == nil {
		s.PRNumber = []int{}
	}
	return json.Marshal(s)
}

func (h *handlers) begin(r *httpkit.Request) (*conversation.StartTask, error) {
	var s startRequest
	if err := r.Body(&s); err != nil {
		return nil, err
	}
	if err := s.supported(); err != nil {
		return nil, err
	}
	req, err := s.request(r.Principal.UserID)
	if err != nil {
		return nil, err
	}
	var parent *engine.View
	if req.ParentID != "" {
		if parent, err = h.Engine.View(r.Context(), req.Owner, req.ParentID); err != nil {
			return nil, parentFault(err, req.ParentID)
		}
	}
	if req.Keys, err = startKeys(r, req.ConversationID); err != nil {
		return nil, err
	}
	if req.Echo, err = s.echo(&req, parent); err != nil {
		return nil, fmt.Errorf("echo request: %w", err)
	}
	task, err := h.Engine.Start(r.Context(), req)
	if fault.CodeOf(err) == store.CodeExists {
		return h.again(r, &req, err)
	}
	return task, err
}

func parentFault(err error, id conversation.ID) error {
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "parent_not_found", "Parent conversation not found: %s", id)
	}
	return err
}

// again answers a repeated start of the same conversation with its task; another
// request under the same id is the conflict it is.
func (h *handlers) again(r *httpkit.Request, req *engine.StartRequest, conflict error) (*conversation.StartTask, error) {
	task, err := h.Engine.LatestTask(r.Context(), req.ConversationID)
	if err != nil || task.Owner != req.Owner || !bytes.Equal(task.Request, req.Echo) {
		return nil, conflict
	}
	return task, nil
}

// start answers with the task before any sandbox work is done (V1 trap 1).
func (h *handlers) start(w http.ResponseWriter, r *httpkit.Request) error {
	task, err := h.begin(r)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, renderTask(task, h.URLs.Base(r.Request)))
}
