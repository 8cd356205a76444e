package agentserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/profiles"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/store"
)

// startRequest is agent protocol 2.1, as far as it has an effect; what is not
// built yet is read as any, to tell whether something is in it.
type startRequest struct {
	Agent          *agentSpec     `json:"agent"`
	AgentSettings  *agentSettings `json:"agent_settings"`
	AgentProfileID *string        `json:"agent_profile_id"`
	Workspace      struct {
		WorkingDir string `json:"working_dir"`
	} `json:"workspace"`
	ConversationID *string                          `json:"conversation_id"`
	ParentID       *string                          `json:"parent_conversation_id"`
	Policy         *conversation.ConfirmationPolicy `json:"confirmation_policy"`
	Analyzer       *conversation.Analyzer           `json:"security_analyzer"`
	InitialMessage *struct {
		Content []content.Part `json:"content"`
	} `json:"initial_message"`
	MaxIterations   *int                         `json:"max_iterations"`
	StuckDetection  bool                         `json:"stuck_detection"`
	StuckThresholds *conversation.StuckDetection `json:"stuck_detection_thresholds"`
	Secrets         secretSources                `json:"secrets"`
	ClientTools     []conversation.ClientTool    `json:"client_tools"`
	Additions       *struct {
		Suffix *string `json:"system_message_suffix_append"`
	} `json:"agent_launch_additions"`
	Tags         map[string]string     `json:"tags"`
	AutoTitle    bool                  `json:"autotitle"`
	TitleProfile *string               `json:"title_llm_profile"`
	Plugins      []conversation.Plugin `json:"plugins"`
	HookConfig   json.RawMessage       `json:"hook_config"`
	Definitions  []json.RawMessage     `json:"agent_definitions"`

	SecretsEncrypted bool `json:"secrets_encrypted"`
	Worktree         bool `json:"worktree"`
}

// startConversation answers 201 for a new conversation and 200 for one that is
// there already, whatever the rest of the request says then.
func (s *Server) startConversation(w http.ResponseWriter, r *httpkit.Request) error {
	q, err := s.readStart(r)
	if err != nil {
		return err
	}
	sc := scopeOf(r.Principal)
	found, err := s.existing(r.Context(), sc, q)
	if err != nil {
		return err
	}
	if found != nil {
		return s.writeInfo(r.Context(), w, http.StatusOK, sc, found)
	}
	if err := s.lookUpAll(r, sc.owner, q); err != nil {
		return err
	}
	req, err := s.startOf(r.Context(), sc, q)
	if err != nil {
		return err
	}
	v, err := s.cfg.Engine.Create(r.Context(), req)
	if fault.CodeOf(err) == store.CodeExists { // made meanwhile, or elsewhere
		if found, lost := s.existing(r.Context(), sc, q); found != nil && lost == nil {
			return s.writeInfo(r.Context(), w, http.StatusOK, sc, found)
		}
	}
	if names := (engine.DanglingServers)(nil); errors.As(err, &names) {
		return profiles.WriteDangling(w, err, names)
	}
	if err != nil {
		return q.locate(err)
	}
	return s.writeInfo(r.Context(), w, http.StatusCreated, sc, v)
}

// readStart reads the request, with the secrets decrypted that the client was shown
// encrypted.
func (s *Server) readStart(r *httpkit.Request) (*startRequest, error) {
	q := &startRequest{}
	if err := r.Body(q); err != nil || !q.SecretsEncrypted {
		return q, err
	}
	var raw json.RawMessage
	if err := r.Body(&raw); err != nil {
		return nil, err
	}
	raw, err := s.unlock(r.Principal, raw, "body")
	if err != nil {
		return nil, err
	}
	q = &startRequest{}
	return q, json.Unmarshal(raw, q)
}

// existing returns the conversation that the request names, nil if there is none
// in the scope.
func (s *Server) existing(ctx context.Context, sc scope, q *startRequest) (*engine.View, error) {
	if q.ConversationID == nil {
		return nil, nil
	}
	v, err := s.view(ctx, sc, *q.ConversationID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return v, err
}

// startOf translates a request for the engine.
func (s *Server) startOf(ctx context.Context, sc scope, q *startRequest) (engine.StartRequest, error) {
	req := engine.StartRequest{Owner: sc.owner, Origin: conversation.OriginAgent, SandboxID: sc.sandbox, Tags: q.Tags,
		ClientTools: q.ClientTools, Confirmation: q.Policy, Analyzer: q.Analyzer, Stuck: q.stuck(),
		Worktree: q.Worktree, NoTitle: !q.AutoTitle, TitleProfile: orEmpty(q.TitleProfile), Secrets: map[string]account.CustomSecret{}}
	if q.InitialMessage != nil {
		req.InitialMessage = q.InitialMessage.Content
	}
	if q.MaxIterations != nil {
		req.MaxIterations = *q.MaxIterations
	}
	if q.ConversationID != nil {
		var err error
		if req.ConversationID, err = conversation.ParseID(*q.ConversationID); err != nil {
			return req, err
		}
	}
	known, err := s.surroundings(ctx, sc)
	if err != nil {
		return req, err
	}
	for _, step := range []func() error{
		func() error { return q.agent(&req, known) },
		func() error { return q.bring(&req) },
		func() error { return q.Secrets.addTo(req.Secrets, "body", "secrets") },
		func() error { return checkSecrets(req.Secrets) },
		func() error { return checkTags(q.Tags) },
		func() error { return checkClientTools(q.ClientTools) },
		func() error { return checkAnalyzer(q.Analyzer) },
		func() error { return s.place(ctx, sc, q, &req) },
	} {
		if err := step(); err != nil {
			return req, err
		}
	}
	if q.Additions != nil {
		req.Instructions = joinTexts(req.Instructions, orEmpty(q.Additions.Suffix))
	}
	if req.Confirmation != nil && req.Analyzer == nil { // not the settings' beside the request's policy
		req.Analyzer = &conversation.Analyzer{Kind: conversation.AnalyzerNone}
	}
	return req, nil
}

// surroundings returns what a request of a sandbox may refer to.
func (s *Server) surroundings(ctx context.Context, sc scope) (surroundings, error) {
	known := surroundings{tools: s.cfg.Engine.ToolNames()}
	settings, err := s.cfg.Settings.Settings(ctx, sc.owner)
	switch {
	case fault.Is(err, fault.NotFound):
		return known, nil
	case err != nil:
		return known, err
	}
	known.servers = settings.MCP
	return known, nil
}

// checkAnalyzer refuses what the document lets through: too many analyzers in each
// other.
func checkAnalyzer(a *conversation.Analyzer) error {
	if a == nil {
		return nil
	}
	if err := a.Check(); err != nil {
		return httpkit.BadField(fault.PublicText(err), nil, "body", "security_analyzer")
	}
	return nil
}

// agent reads who is to work: exactly one of the three ways to say it.
func (q *startRequest) agent(req *engine.StartRequest, known surroundings) error {
	given := q.Agent != nil || q.AgentSettings != nil
	switch {
	case q.AgentProfileID != nil && given:
		return httpkit.BadField("agent_profile_id cannot be sent together with agent or agent_settings", nil, "body", "agent_profile_id")
	case q.AgentProfileID != nil:
		req.AgentProfile = *q.AgentProfileID
		return nil
	case q.Agent != nil:
		return q.Agent.apply(req, known)
	case q.AgentSettings != nil:
		return q.AgentSettings.apply(req, known)
	}
	return httpkit.BadField("one of agent, agent_settings and agent_profile_id is required", nil, "body")
}

func (q *startRequest) stuck() *conversation.StuckDetection {
	var d conversation.StuckDetection
	if q.StuckThresholds != nil {
		d = *q.StuckThresholds
	}
	d.Off = !q.StuckDetection
	if d == (conversation.StuckDetection{}) {
		return nil
	}
	return &d
}

// workingDir is the usual directory of a sandbox.
func (s *Server) workingDir(ctx context.Context, sc scope) (string, error) {
	boxes, err := s.cfg.Sandboxes.Batch(ctx, sc.owner, []string{sc.sandbox})
	if err != nil {
		return "", err
	}
	if b := boxes[0]; b != nil && b.WorkingDir != "" {
		return b.WorkingDir, nil
	}
	return sandbox.WorkingDir, nil
}

// isPath reports whether a text can be a path.
func isPath(text string) bool { return !strings.ContainsRune(text, 0) && len(text) <= 4096 }

// place resolves where the conversation works. A sub-conversation works where its
// parent does.
func (s *Server) place(ctx context.Context, sc scope, q *startRequest, req *engine.StartRequest) error {
	base, err := s.workingDir(ctx, sc)
	if err != nil {
		return err
	}
	dir := q.Workspace.WorkingDir
	if !isPath(dir) {
		return httpkit.BadField("the working directory is no path", nil, "body", "workspace", "working_dir")
	}
	if !path.IsAbs(dir) {
		dir = path.Join(base, dir)
	}
	req.WorkingDir = path.Clean(dir)
	distrust(req, req.WorkingDir, base)
	if q.ParentID == nil {
		return nil
	}
	parent, err := s.view(ctx, sc, *q.ParentID)
	switch {
	case fault.Is(err, fault.NotFound):
		return httpkit.BadField("there is no such conversation in this sandbox", *q.ParentID, "body", "parent_conversation_id")
	case err != nil:
		return err
	case parent.Options.WorkingDir != req.WorkingDir:
		return httpkit.BadField(fmt.Sprintf("the parent works in %s, and so must this conversation", parent.Options.WorkingDir),
			q.Workspace.WorkingDir, "body", "workspace", "working_dir")
	}
	req.ParentID = parent.ID
	return nil
}

// locate says where in the request the engine found something wrong.
func (q *startRequest) locate(err error) error {
	loc := q.placeOf(err)
	if loc == nil {
		return err
	}
	return httpkit.BadField(fault.PublicText(err), nil, loc...)
}

// joinTexts puts paragraphs below each other.
func joinTexts(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
