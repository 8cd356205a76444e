package engine

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/subagent"
	"parley/internal/tool"
)

const (
	// serverGrace is how long the first call of a model waits for MCP servers that are
	// starting. What is not there by then joins at a later step.
	serverGrace = 5 * time.Second
	// serverIdle is how long the servers of a conversation outlive its goroutine.
	serverIdle = 15 * time.Minute
)

// session are the MCP servers of a conversation. It outlives the conversation's
// goroutine for a while: starting servers takes longer than loading a log.
type session struct {
	tool.ServerSession
	owner   string
	settled atomic.Bool
	users   int         // goroutines that have it; guarded by Engine.mu
	expire  *time.Timer // closes it when nobody came back; guarded by Engine.mu
}

// secretTime bounds the look-up of a secret.
const secretTime = 5 * time.Second

// secretOf looks secrets of a conversation up, as they are when a server wants them.
func (e *Engine) secretOf(owner string, id conversation.ID) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), secretTime)
		defer cancel()
		all, err := e.secretsNow(ctx, owner, id)
		if err != nil {
			e.opt.Logger.Warn("secret of a server not found", "conversation", id, "error", err)
		}
		s, ok := all[name]
		return s.Value.Reveal(), ok && err == nil
	}
}

// setServers tells the session which servers the conversation has now. There is none
// before a run wants its tools: to look at a conversation starts nothing.
func (l *live) setServers() {
	if l.session == nil {
		l.session = l.e.sessionOf(l.id)
	}
	if l.session != nil {
		l.session.Set(l.extras.servers)
	}
}

// connect opens the session if there is none and the conversation has servers.
func (l *live) connect() {
	if l.session != nil || l.extras == nil || len(l.extras.servers) == 0 || l.e.opt.Servers == nil || !l.prepared() || l.conv.SandboxID == "" {
		return
	}
	e, id, owner, box := l.e, l.id, l.conv.Owner, l.conv.SandboxID
	s := &session{owner: owner, users: 1}
	s.expire = time.AfterFunc(serverIdle, func() { e.job(func() { e.dropSession(id, s) }) })
	s.expire.Stop()
	s.ServerSession = e.opt.Servers.Open(tool.ServerOptions{Owner: owner, Conversation: string(id),
		WorkingDir: l.conv.Options.WorkingDir, Secret: e.secretOf(owner, id), Changed: func() { e.nudge(id) },
		// A server that is tried again does not wake a sandbox that somebody paused.
		Hands: func(ctx context.Context) (tool.Hands, error) { return e.opt.Fleet.Ensure(ctx, owner, box, e.runs(id)) }}, l.extras.servers)
	e.mu.Lock()
	e.sessions[id] = s
	e.mu.Unlock()
	l.session = s
}

// runs reports whether a conversation runs or starts.
func (e *Engine) runs(id conversation.ID) bool {
	e.mu.Lock()
	l := e.live[id]
	e.mu.Unlock()
	return l != nil && l.running.Load() || e.starting(id)
}

// sessionOf takes the session that an earlier goroutine of a conversation left; nil if
// there is none.
func (e *Engine) sessionOf(id conversation.ID) *session {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.sessions[id]
	if s != nil {
		s.expire.Stop()
		s.users++
	}
	return s
}

// leaveSession gives the session up. It is closed if nobody takes it soon.
func (l *live) leaveSession() {
	if l.session == nil {
		return
	}
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if l.session.users--; l.session.users == 0 {
		l.session.expire.Reset(serverIdle)
	}
}

// dropSession closes a session that nobody has.
func (e *Engine) dropSession(id conversation.ID, s *session) {
	e.mu.Lock()
	idle := e.sessions[id] == s && s.users == 0
	if idle {
		delete(e.sessions, id)
	}
	e.mu.Unlock()
	if idle {
		s.close()
	}
}

// dropSessions closes the sessions of an owner that nobody has.
func (e *Engine) dropSessions(owner string) {
	e.mu.Lock()
	all := maps.Clone(e.sessions)
	e.mu.Unlock()
	for id, s := range all {
		if s.owner == owner {
			e.dropSession(id, s)
		}
	}
}

// closeSession ends the servers of a conversation that is gone.
func (e *Engine) closeSession(id conversation.ID) {
	e.mu.Lock()
	s := e.sessions[id]
	delete(e.sessions, id)
	e.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// closeSessions ends all servers; the engine leaves.
func (e *Engine) closeSessions() {
	e.mu.Lock()
	all := e.sessions
	e.sessions = map[conversation.ID]*session{}
	e.mu.Unlock()
	var closing sync.WaitGroup
	for _, s := range all {
		closing.Go(s.close)
	}
	closing.Wait()
}

func (s *session) close() {
	s.expire.Stop()
	s.Close()
}

// nudge lets a conversation look at what changed outside.
func (e *Engine) nudge(id conversation.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.live[id]; l != nil {
		l.nudge()
	}
}

// awaitServers connects to the servers, and waits a moment for those that are starting,
// once per session. False if there is nothing to wait for.
func (l *live) awaitServers() bool {
	l.connect()
	s := l.session
	if s == nil || s.settled.Load() {
		return false
	}
	l.start(func(ctx context.Context) func(*live) {
		s.settle(ctx)
		return func(l *live) { l.stepDone(context.Cause(ctx)) }
	})
	return true
}

func (s *session) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, serverGrace)
	defer cancel()
	s.Settle(ctx)
	s.settled.Store(true)
}

// serverTools are the tools of the conversation's MCP servers. A sub-agent has those
// of its parents, too, while they are loaded; of two with one name its own counts. One
// whose definition names its tools has of its parents' only those, and one whose
// definition is gone has none: nobody knows what it may use.
func (l *live) serverTools() []tool.Tool {
	var all []tool.Tool
	if l.session != nil {
		all = l.session.Tools()
	}
	task := l.conv.Options.Task
	if task == nil || l.extras == nil {
		return all
	}
	def, ok := subagent.Find(l.extras.agents, task.Agent)
	if !ok {
		return all
	}
	for _, t := range l.e.sessionTools(l.conv.ParentID) {
		name := t.Spec().Name
		if def.Tools != nil && !slices.Contains(def.Tools, name) {
			continue
		}
		if !slices.ContainsFunc(all, func(own tool.Tool) bool { return own.Spec().Name == name }) {
			all = append(all, t)
		}
	}
	return all
}

// sessionTools are those of a conversation that is loaded, as it has them.
func (e *Engine) sessionTools(id conversation.ID) []tool.Tool {
	e.mu.Lock()
	l := e.live[id]
	e.mu.Unlock()
	if l == nil {
		return nil
	}
	if t := l.offered.Load(); t != nil {
		return *t
	}
	return nil
}

// serverNotes tells about servers that do not offer all they should.
func (l *live) serverNotes() []conversation.ServerNote {
	if l.session == nil {
		return nil
	}
	var notes []conversation.ServerNote
	for _, s := range l.session.Status() {
		if s.State != tool.ServerConnected && s.State != tool.ServerStarting {
			notes = append(notes, conversation.ServerNote{Name: l.masker.Mask(s.Name), State: s.State, Tools: s.Tools, Detail: s.Detail})
		}
	}
	return notes
}

// serverStatus says how the servers are, for the user.
func (l *live) serverStatus() []tool.ServerStatus {
	if l.session == nil {
		all := make([]tool.ServerStatus, len(l.extras.servers))
		for i, s := range l.extras.servers {
			all[i] = tool.ServerStatus{Name: s.Name, From: s.From, State: tool.ServerStopped}
		}
		return all
	}
	all := l.session.Status()
	for i := range all {
		all[i].Detail = l.masker.Mask(all[i].Detail)
	}
	return all
}

// testTime bounds the test of a server.
const testTime = 2 * time.Minute

// TestServer connects to an MCP server as a conversation would, lists its tools and
// calls one of them if asked to. sandboxID is where a server with a command runs.
// Unsupported without servers.
func (e *Engine) TestServer(ctx context.Context, owner, sandboxID string, server tool.Server, call *tool.ServerCall) (tool.ServerReport, error) {
	if e.opt.Servers == nil {
		return tool.ServerReport{}, fault.New(fault.Unsupported, "mcp_servers", "This server does not connect to MCP servers.")
	}
	settings, err := e.opt.Store.Accounts().Settings(ctx, owner)
	if fault.Is(err, fault.NotFound) {
		settings, err = account.DefaultSettings(), nil
	}
	if err != nil {
		return tool.ServerReport{}, err
	}
	secrets := secretsOf(settings, &conversation.Conversation{Owner: owner})
	masker := e.opt.NewMasker(append(secretValues(settings, &conversation.Conversation{Owner: owner}), ownSecrets(server)...))
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	report := e.opt.Servers.Test(ctx, tool.ServerOptions{Owner: owner,
		Secret: func(name string) (string, bool) { s, ok := secrets[name]; return s.Value.Reveal(), ok },
		Hands: func(ctx context.Context) (tool.Hands, error) {
			if sandboxID == "" {
				return nil, fault.New(fault.Invalid, "sandbox_required", "A server with a command runs in a sandbox: name one.")
			}
			return e.opt.Fleet.Ensure(ctx, owner, sandboxID, true)
		}}, server, call)
	report.Error, report.Result = masker.Mask(report.Error), maskJSON(report.Result, masker)
	for i := range report.Tools {
		t := &report.Tools[i]
		t.Description, t.InputSchema = masker.Mask(t.Description), maskJSON(t.InputSchema, masker)
	}
	return report, nil
}

// ownSecrets are those in a server's configuration.
func ownSecrets(s tool.Server) []string {
	var c account.MCPConfig
	if s.HTTP != nil {
		c.SHTTP = []account.MCPHTTPServer{*s.HTTP}
	}
	if s.Stdio != nil {
		c.Stdio = []account.MCPStdioServer{*s.Stdio}
	}
	var values []string
	c.EachSecret(func(_ string, v *account.Secret) { values = append(values, v.Reveal()) })
	return values
}
