package engine

import (
	"context"
	"errors"
	"time"

	"parley/internal/account"
	"parley/internal/agent/condense"
	"parley/internal/agent/judge"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/tool"
)

// Codes of a refused start, which APIs map to their own shapes.
const (
	CodeNoSettings = "settings_missing"
	CodeNoModel    = "llm_model_missing"
	CodeNoKey      = "llm_key_missing"
)

// Start checks the request, stores the conversation and its start task durably
// and returns; the rest happens in the background and survives the caller and
// a restart of the server.
//
// The same request under one of its keys is not carried out again: the result is its
// task as it is now. Conflict (store.CodeKeyReused) for another one.
func (e *Engine) Start(ctx context.Context, req StartRequest) (*conversation.StartTask, error) {
	if len(req.Keys) > 0 {
		if earlier, err := e.opt.Store.Starts().Find(ctx, req.Owner, req.Keys); err != nil || earlier != nil {
			return e.fresher(earlier), err
		}
	}
	conv, err := e.newConversation(ctx, &req)
	if err != nil {
		return nil, err
	}
	task := &conversation.StartTask{ID: string(conversation.NewID()), Owner: req.Owner, ConversationID: conv.ID,
		SandboxID: conv.SandboxID, Status: conversation.TaskWorking, Request: req.Echo,
		CreatedAt: conv.CreatedAt, UpdatedAt: conv.CreatedAt}
	if earlier, err := e.opt.Store.Starts().Begin(ctx, conv, task, req.Keys); err != nil || earlier != nil {
		return e.fresher(earlier), err
	}
	shown := *task
	if !e.carryOut(task) {
		return nil, errStopping()
	}
	return &shown, nil
}

// carryOut brings a conversation up in the background. From its return on the
// task counts as under way. False if the engine is closing.
func (e *Engine) carryOut(task *conversation.StartTask) bool {
	e.track(task)
	if !e.job(func() { e.bringUp(task) }) {
		e.untrack(task.ID)
		return false
	}
	return true
}

// startAgain makes up for a start that failed or was lost: it does it again, as
// a task of its own. It does nothing if a start is under way.
func (e *Engine) startAgain(ctx context.Context, conv *conversation.Conversation) error {
	if e.starting(conv.ID) {
		return nil
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	task := &conversation.StartTask{ID: string(conversation.NewID()), Owner: conv.Owner, ConversationID: conv.ID,
		SandboxID: conv.SandboxID, Status: conversation.TaskWorking, CreatedAt: now, UpdatedAt: now}
	if last, err := e.opt.Store.StartTasks().Latest(ctx, conv.ID); err == nil {
		task.Request = last.Request
	}
	if err := e.opt.Store.StartTasks().Save(ctx, task); err != nil {
		return err
	}
	if !e.carryOut(task) {
		return errStopping()
	}
	return nil
}

// newConversation builds the record of a start, or says why it cannot be.
func (e *Engine) newConversation(ctx context.Context, req *StartRequest) (*conversation.Conversation, error) {
	settings, err := e.settings(ctx, req.Owner)
	if err != nil {
		return nil, err
	}
	parent, err := e.inherit(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := e.applyAgentProfile(settings, req); err != nil {
		return nil, err
	}
	if err := checkRepository(settings, req); err != nil {
		return nil, err
	}
	opt, err := e.options(settings, req, parent)
	if err != nil {
		return nil, err
	}
	if err := e.checkSandbox(ctx, req, &opt, parent); err != nil {
		return nil, err
	}
	id := req.ConversationID
	if id == "" {
		id = conversation.NewID()
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	conv := &conversation.Conversation{ID: id, Owner: req.Owner, Origin: req.Origin, Title: req.Title,
		TitleByUser: req.Title != "", SandboxID: req.SandboxID, ParentID: req.ParentID, Repository: req.Repository,
		Branch: req.Branch, GitProvider: req.GitProvider, Trigger: req.Trigger, PRNumbers: req.PRNumbers,
		AgentKind: "openhands", AgentType: req.AgentType, Public: req.Public, Tags: req.Tags, Options: opt,
		Summary: conversation.Summary{Status: conversation.Idle}, InitialMessage: req.InitialMessage, Replay: req.Replay,
		CreatedAt: now, UpdatedAt: now}
	if conv.Title == "" {
		conv.Title = placeholderTitle(id)
	}
	return conv, nil
}

// settings returns the owner's settings. In demo mode a user without any has the
// defaults.
func (e *Engine) settings(ctx context.Context, owner string) (*account.Settings, error) {
	s, err := e.opt.Store.Accounts().Settings(ctx, owner)
	if err == nil && (e.opt.Demo || s.Stored()) {
		return s, nil
	}
	if err == nil || fault.Is(err, fault.NotFound) {
		if e.opt.Demo {
			return &account.Settings{}, nil
		}
		return nil, fault.New(fault.Invalid, CodeNoSettings, "Settings not found").
			WithHint("Store llm_model and llm_api_key with POST /api/settings first, or start the server with --demo.")
	}
	return s, err
}

// inherit fills what a sub-conversation takes from its parent.
func (e *Engine) inherit(ctx context.Context, req *StartRequest) (*conversation.Conversation, error) {
	if req.ParentID == "" {
		return nil, nil
	}
	p, err := e.opt.Store.Conversations().Get(ctx, req.Owner, req.ParentID)
	if err != nil {
		if fault.Is(err, fault.NotFound) {
			return nil, fault.New(fault.NotFound, "parent_not_found", "Parent conversation not found: %s", req.ParentID)
		}
		return nil, err
	}
	for _, f := range []struct{ to, from *string }{{&req.SandboxID, &p.SandboxID}, {&req.Repository, &p.Repository},
		{&req.Branch, &p.Branch}, {&req.GitProvider, &p.GitProvider}} {
		if *f.to == "" {
			*f.to = *f.from
		}
	}
	return p, nil
}

// options snapshots what the settings and the request say about the agent.
func (e *Engine) options(s *account.Settings, req *StartRequest, parent *conversation.Conversation) (opt conversation.Options, err error) {
	opt = conversation.Options{MaxIterations: e.opt.MaxIterations, MaxBudget: budgetOf(s),
		SystemSuffix: req.Instructions, MCP: s.MCP.Enabled(), Secrets: req.Secrets,
		GitUserName: deref(s.GitUserName), GitUserEmail: deref(s.GitUserEmail),
		FullClone: req.FullClone || s.GitFullClone != nil && *s.GitFullClone, SecurityAnalyzer: deref(s.SecurityAnalyzer)}
	if req.Origin == conversation.OriginV0 {
		opt.SecretNotes = notesOf(s.Secrets.Custom)
	}
	if opt.SettingsMCP = req.MCP == nil; req.MCP != nil {
		opt.MCP = req.MCP
	}
	if s.MaxIterations != nil && *s.MaxIterations > 0 {
		opt.MaxIterations = *s.MaxIterations
	}
	if s.ConfirmationMode != nil {
		opt.ConfirmationMode = *s.ConfirmationMode
	}
	if req.ConfirmationMode != nil {
		opt.ConfirmationMode = *req.ConfirmationMode
	}
	if opt.Tools, err = e.chooseTools(req.Tools); err != nil {
		return opt, err
	}
	if err := e.behaviour(req, &opt); err != nil {
		return opt, err
	}
	choice, err := e.chooseModel(s, req, parent)
	if err != nil {
		return opt, err
	}
	choice.put(&opt, e.opt.DemoModel)
	return opt, e.checkLLM(s.WithKeys(opt.LLM))
}

// behaviour takes over what a request says about the agent's loop.
func (e *Engine) behaviour(req *StartRequest, opt *conversation.Options) error {
	if req.MaxIterations > 0 {
		opt.MaxIterations = req.MaxIterations
	}
	if len(opt.Tools) == 0 && req.AgentType == AgentPlan {
		opt.Tools = e.opt.PlanTools
	}
	opt.ClientTools, opt.ToolConcurrency = req.ClientTools, min(req.ToolConcurrency, maxConcurrency)
	opt.Confirmation, opt.Analyzer, opt.Stuck, opt.Critic = req.Confirmation, req.Analyzer, req.Stuck, req.Critic
	opt.NoTitle, opt.TitleProfile = req.NoTitle, req.TitleProfile
	opt.Condenser, opt.AskedDir, opt.Worktree = req.Condenser, req.WorkingDir, req.Worktree
	opt.Plugins, opt.Brought, opt.NoProject, opt.ToolFilter = req.Plugins, req.Brought, req.NoProject, req.ToolFilter
	opt.DisabledSkills, opt.UserSuffix, opt.Task = req.DisabledSkills, req.UserSuffix, req.Task
	opt.LaunchedProfile = req.launched
	if err := checkLoop(req); err != nil {
		return err
	}
	return e.checkClientTools(req.ClientTools)
}

// checkLoop refuses what no run could follow.
func checkLoop(req *StartRequest) error {
	if err := checkSecrets(req.Secrets); err != nil {
		return err
	}
	if err := checkBrought(req); err != nil {
		return err
	}
	if _, err := condense.FromOptions(req.Condenser, condense.Defaults{}, "condenser"); err != nil {
		return err
	}
	if req.Critic != nil {
		if err := judge.Check(*req.Critic, "critic"); err != nil {
			return err
		}
	}
	if req.Confirmation != nil {
		if err := req.Confirmation.Check(); err != nil {
			return err
		}
	}
	if req.Analyzer != nil && req.Analyzer.Kind != conversation.AnalyzerNone {
		return req.Analyzer.Check()
	}
	return nil
}

// chooseModel is what a new conversation is to run with: the request's profile or
// model, else its parent's, else that of the settings.
func (e *Engine) chooseModel(s *account.Settings, req *StartRequest, parent *conversation.Conversation) (modelChoice, error) {
	c := modelChoice{llm: s.LLM()}
	switch {
	case req.LLMProfile != "":
		p, err := s.Profile(req.LLMProfile)
		if err != nil {
			return c, err
		}
		c = modelChoice{llm: p, profile: req.LLMProfile, ownKey: p.APIKey.IsSet()}
		if req.LLMModel != "" && req.LLMModel != p.Model { // the profile's place, another model there
			c.llm, c.profile = withModel(p, req.LLMModel), ""
		}
	case req.LLM != nil:
		c = modelChoice{llm: *req.LLM, ownKey: req.LLM.APIKey.IsSet()}
	case parent != nil && (req.LLMModel == "" || req.LLMModel == parent.Options.LLM.Model):
		o := parent.Options
		c = modelChoice{llm: o.LLM, profile: o.LLMProfile, ownKey: o.OwnKey}
	case req.LLMModel != "":
		c.llm = withModel(c.llm, req.LLMModel)
	}
	if c.llm.Model == "" && e.opt.Demo {
		c = modelChoice{llm: account.LLM{Model: e.opt.DemoModel}}
	}
	return c, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// checkSandbox checks the sandbox or the host directory that a request names.
func (e *Engine) checkSandbox(ctx context.Context, req *StartRequest, opt *conversation.Options, parent *conversation.Conversation) error {
	if parent != nil && req.SandboxID == parent.SandboxID {
		opt.WorkingDir = parent.Options.WorkingDir
	}
	if req.SandboxID != "" {
		if req.HostDir != nil {
			return fault.New(fault.Invalid, "host_dir_and_sandbox", "A directory can only be mounted into a new sandbox.")
		}
		_, err := e.opt.Fleet.Get(ctx, req.Owner, req.SandboxID)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "sandbox_not_found", "Sandbox not found: %s", req.SandboxID)
		}
		return err
	}
	if err := e.chooseSandbox(ctx, req, opt); err != nil {
		return err
	}
	if req.HostDir == nil {
		return nil
	}
	dir, err := e.checkHostDir(*req.HostDir)
	opt.HostDir = dir
	return err
}

// bringUp carries out a start task. It is idempotent: a server that was stopped
// in the middle does it again.
func (e *Engine) bringUp(task *conversation.StartTask) {
	defer e.deliver(task.Owner, task.ConversationID) // what waits for the start
	defer e.untrack(task.ID)
	err := e.persist(func() error { return e.prepare(e.ctx, task) })
	switch {
	case err == nil:
		e.finish(task, conversation.TaskReady, "")
	case e.ctx.Err() != nil: // the next life of the server goes on
	case e.isDeleted(task):
		e.dropSandbox(task)
	default:
		e.opt.Logger.Error("conversation not started", "conversation", task.ConversationID, "error", err)
		e.startFailed(task, err)
	}
}

// track makes a task's progress visible before it is durable: intermediate steps
// are not worth a commit each.
func (e *Engine) track(task *conversation.StartTask) {
	e.mu.Lock()
	defer e.mu.Unlock()
	shown := *task
	e.tasks[task.ID] = &shown
}

func (e *Engine) untrack(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.tasks, id)
}

func (e *Engine) progress(task *conversation.StartTask, s conversation.TaskStatus) {
	task.Status, task.UpdatedAt = s, time.Now().UTC().Truncate(time.Microsecond)
	e.track(task)
}

// finish stores how a task ended. It is not shown before: READY must be true
// after a crash.
func (e *Engine) finish(task *conversation.StartTask, s conversation.TaskStatus, detail string) {
	task.Status, task.Detail, task.UpdatedAt = s, detail, time.Now().UTC().Truncate(time.Microsecond)
	err := e.persist(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), 10*time.Second)
		defer cancel()
		if e.isDeleted(task) {
			return nil // its tasks went with it
		}
		return e.opt.Store.StartTasks().Save(ctx, task)
	})
	if err != nil {
		e.opt.Logger.Error("start task not stored", "task", task.ID, "error", err)
	}
}

func (e *Engine) isDeleted(task *conversation.StartTask) bool {
	_, err := e.opt.Store.Conversations().Get(e.ctx, "", task.ConversationID)
	return fault.Is(err, fault.NotFound)
}

func (e *Engine) dropSandbox(task *conversation.StartTask) {
	if err := e.deleteSandbox(e.ctx, task.Owner, task.SandboxID); err != nil {
		e.opt.Logger.Warn("sandbox of a deleted conversation not removed", "sandbox", task.SandboxID, "error", err)
	}
}

// prepare does the work of a start task.
func (e *Engine) prepare(ctx context.Context, task *conversation.StartTask) error {
	conv, err := e.opt.Store.Conversations().Get(ctx, task.Owner, task.ConversationID)
	if err != nil {
		return err
	}
	if err := e.mayStart(ctx, conv); err != nil {
		return err
	}
	e.progress(task, conversation.TaskSandbox)
	hands, err := e.sandboxFor(ctx, task, conv)
	if err != nil {
		return err
	}
	dir, err := e.workspace(ctx, task, conv, hands)
	if err != nil {
		return err
	}
	if err := e.bring(ctx, task, conv, hands, dir); err != nil {
		return err
	}
	e.progress(task, conversation.TaskConversation)
	_, err = e.opt.Store.Conversations().Update(ctx, conv.ID, time.Now().UTC(), func(c *conversation.Conversation) error {
		c.Options.WorkingDir, c.Options.Brought = dir, nil
		return nil
	})
	if err != nil {
		return err
	}
	return e.sayFirst(ctx, conv, conv.Options.WorkingDir == "")
}

// sandboxFor returns the hands of the conversation's sandbox, making it if need be.
func (e *Engine) sandboxFor(ctx context.Context, task *conversation.StartTask, conv *conversation.Conversation) (tool.Hands, error) {
	if conv.SandboxID == "" {
		// The id follows from the task: a start that is carried out again after a
		// crash finds the sandbox that it made.
		s, err := e.opt.Fleet.Start(ctx, fleet.StartRequest{ID: "sb-" + task.ID, Owner: conv.Owner,
			SpecID: conv.Options.SpecID, HostDir: conv.Options.HostDir, Changes: changesOf(conv.Options.Sandbox)})
		if err != nil {
			return nil, err
		}
		task.SandboxID = s.ID
		_, err = e.opt.Store.Conversations().Update(ctx, conv.ID, time.Now().UTC(), func(c *conversation.Conversation) error {
			c.SandboxID = s.ID
			return nil
		})
		if err != nil {
			return nil, err
		}
		conv.SandboxID = s.ID
	}
	task.SandboxID = conv.SandboxID
	e.progress(task, conversation.TaskSandbox)
	return e.opt.Fleet.Ensure(ctx, conv.Owner, conv.SandboxID, true)
}

// adopt takes a newer record over.
func (l *live) adopt(conv *conversation.Conversation) {
	l.conv = conv
	l.sandbox.Store(conv.SandboxID)
}

// startFailed says in the task and in the conversation why the start failed. The
// conversation can be continued: the next message does the start again. One that
// came to life already (the server was restarted at the end of its start) tells
// its own story; what waits for confirmation there must go on waiting.
func (e *Engine) startFailed(task *conversation.StartTask, cause error) {
	note := func(l *live) error {
		conv, err := e.opt.Store.Conversations().Get(e.ctx, "", task.ConversationID)
		if err != nil {
			return err
		}
		l.adopt(conv)
		defer e.untrack(task.ID) // a message from now on does the start again
		if s := l.state.Status; s != conversation.Idle && s != conversation.Error || len(l.state.Pending) > 0 {
			return nil
		}
		var events []conversation.Payload
		if l.hasInitial() {
			events = append(l.opening(), userMessage(l.initial()))
		}
		return l.transition(conversation.TrigFail, append(events, errorEvent(cause))...)
	}
	err := e.persist(func() error { return e.do(e.ctx, task.Owner, task.ConversationID, note) })
	if err != nil && !errors.Is(err, context.Canceled) {
		e.opt.Logger.Error("failed start not noted", "conversation", task.ConversationID, "error", err)
	}
	e.finish(task, conversation.TaskError, fault.PublicText(cause))
}
