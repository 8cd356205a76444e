package v0

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
)

// How often a room looks after its conversation: while that starts, and then.
const (
	lookStarting = 200 * time.Millisecond
	lookRunning  = time.Second
	// lookShare is how far looks of all rooms are apart at the most often: a look reads
	// the store a few times, and a thousand rooms must leave it time for others.
	lookShare = 4 * time.Millisecond
)

// partingTime is how long a client may take, when it is sent away, to take what it was
// told before.
const partingTime = 2 * time.Second

// errParted is why a client's connection ends when it is sent away.
var errParted = errors.New("the conversation was stopped")

// RoomsConfig is what the live side needs beyond the rest. Only Keys is
// required.
type RoomsConfig struct {
	Keys Resolver
	// Demo says that users without settings can work.
	Demo bool
	Log  *slog.Logger // nil = none
	// Keep says now and then that a sandbox is used, because somebody follows its
	// conversation; nil = that does not count.
	Keep func(ctx context.Context, owner, sandboxID string)
	// Enter counts a client that may follow a conversation; leave is called when it has
	// left. RateLimited where too many do; nil = as many as come.
	Enter func(ctx context.Context, who httpkit.Principal, id conversation.ID) (in context.Context, leave func(), err error)
}

// Rooms are the conversations that clients follow over Socket.IO. A room is there
// while it has clients; each is served by goroutines of its own, which read the
// conversation's numbered events, so that a slow one blocks nobody.
type Rooms struct {
	h     *handlers
	keys  Resolver
	demo  bool
	log   *slog.Logger
	keep  func(ctx context.Context, owner, sandboxID string)
	count func(ctx context.Context, who httpkit.Principal, id conversation.ID) (context.Context, func(), error)

	mu    sync.Mutex
	rooms map[conversation.ID]*room
	ended sync.WaitGroup // the rooms' goroutines
}

// NewRooms makes the live side of the API that has the same Config.
func NewRooms(cfg Config, live RoomsConfig) *Rooms {
	if live.Log == nil {
		live.Log = slog.New(slog.DiscardHandler)
	}
	if live.Keep == nil {
		live.Keep = func(context.Context, string, string) {}
	}
	if live.Enter == nil {
		live.Enter = func(ctx context.Context, _ httpkit.Principal, _ conversation.ID) (context.Context, func(), error) {
			return ctx, func() {}, nil
		}
	}
	r := &Rooms{keys: live.Keys, demo: live.Demo, log: live.Log, keep: live.Keep, count: live.Enter, rooms: map[conversation.ID]*room{}}
	r.h = newHandlers(cfg)
	r.h.rooms = r
	return r
}

// room is a conversation with clients.
type room struct {
	id      conversation.ID
	owner   string
	look    chan struct{} // look after the conversation now
	cancel  context.CancelFunc
	members map[*client]struct{} // guarded by Rooms.mu, as all below

	seen   condition // as it was looked up last
	phase  conversation.TaskStatus
	title  string
	joined int // counts; what was looked up before a client joined says nothing
}

// Serve serves a client until it leaves or is sent away. Its error is a *Refusal, or
// why the connection ended.
func (r *Rooms) Serve(ctx context.Context, s Socket) error {
	a, err := r.admit(ctx, s.Query())
	if err != nil {
		return err
	}
	// Only now: who has no key takes nobody's place.
	ctx, uncount, err := r.count(ctx, a.who, a.view.ID)
	if fault.Is(err, fault.RateLimited) {
		return refused(fault.PublicText(err), "")
	}
	if err != nil {
		return err
	}
	defer uncount()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := &client{rooms: r, socket: s, owner: a.who.UserID, id: a.view.ID, latest: a.latest, wake: make(chan struct{}, 1), cut: cancel}
	r.enter(c, a)
	defer r.leave(c)
	news, err := r.h.engine.Follow(ctx, a.who.UserID, a.view.ID, a.view.Summary.Head-1)
	if err != nil {
		return r.trouble("Failed to join conversation: ", err)
	}
	defer news.Close()
	if a.now.status == statusStopped {
		if _, err := r.h.resume(ctx, a.view); err != nil {
			return r.trouble("Failed to join conversation: ", err)
		}
	}
	if err := s.Accept(ctx); err != nil {
		return err
	}
	err = c.serve(ctx, news)
	if errors.Is(context.Cause(ctx), errParted) {
		return nil
	}
	return err
}

// enter lets a client into its room.
func (r *Rooms) enter(c *client, a *admission) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.rooms[c.id]
	if in == nil {
		ctx, cancel := context.WithCancel(context.Background())
		in = &room{id: c.id, owner: c.owner, look: make(chan struct{}, 1), cancel: cancel, members: map[*client]struct{}{}, title: a.view.Title}
		r.rooms[c.id] = in
		in.seen = a.now
		r.ended.Go(func() { r.watch(ctx, in) })
	}
	if a.now.status == statusStopped {
		in.seen = a.now // it is about to start
	}
	in.joined++
	in.members[c] = struct{}{}
	if a.now.status == statusStarting {
		c.tell(runtimePayload(*a.now.runtime))
	}
}

func (r *Rooms) leave(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.rooms[c.id]
	delete(in.members, c)
	if len(in.members) == 0 {
		in.cancel()
		delete(r.rooms, c.id)
	}
}

// Close waits for what looks after rooms. All clients must have been sent away.
func (r *Rooms) Close() { r.ended.Wait() }

// Count returns how many clients follow a conversation.
func (r *Rooms) Count(id conversation.ID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in := r.rooms[id]; in != nil {
		return len(in.members)
	}
	return 0
}

// dismiss sends all clients of a conversation away, once they were told the payloads.
func (r *Rooms) dismiss(id conversation.ID, payloads ...payload) {
	r.each(id, func(c *client) {
		for _, p := range payloads {
			c.tell(p)
		}
		c.part()
	})
}

// tell sends payloads to all clients of a conversation.
func (r *Rooms) tell(id conversation.ID, payloads ...payload) {
	r.each(id, func(c *client) {
		for _, p := range payloads {
			c.tell(p)
		}
	})
}

// touch lets the clients of a conversation look for new events, and its room after it.
func (r *Rooms) touch(id conversation.ID) {
	r.each(id, (*client).nudge)
	r.mu.Lock()
	defer r.mu.Unlock()
	if in := r.rooms[id]; in != nil {
		nudge(in.look)
	}
}

func (r *Rooms) each(id conversation.ID, do func(*client)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if in := r.rooms[id]; in != nil {
		for c := range in.members {
			do(c)
		}
	}
}

func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// watch tells a room what becomes of its conversation, until it is empty. Nobody
// announces how far a start is or that a sandbox was paused: it is looked up.
func (r *Rooms) watch(ctx context.Context, in *room) {
	for {
		r.mu.Lock()
		wait := lookPause(in.seen.status, len(r.rooms))
		r.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-in.look:
		case <-ctx.Done():
			return
		}
		if err := r.lookAfter(ctx, in); err != nil && ctx.Err() == nil {
			r.log.Warn("room not looked after", "conversation", in.id, "error", err)
		}
	}
}

// lookPause is how long a room waits before it looks after its conversation again.
func lookPause(status string, rooms int) time.Duration {
	pause := lookRunning
	if status != statusRunning {
		pause = lookStarting
	}
	return max(pause, time.Duration(rooms)*lookShare)
}

// sight is what a room's conversation looks like.
type sight struct {
	view *engine.View
	now  condition
	task *conversation.StartTask // nil = none
}

func (r *Rooms) lookAfter(ctx context.Context, in *room) error {
	r.mu.Lock()
	joined := in.joined
	r.mu.Unlock()
	var s sight
	var err error
	s.view, s.now, err = r.h.view(ctx, in.owner, in.id)
	if fault.Is(err, fault.NotFound) {
		r.dismiss(in.id)
		return nil
	}
	if err != nil {
		return err
	}
	if s.task, err = r.h.engine.LatestTask(ctx, in.id); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if s.now.status == statusRunning {
		r.keep(ctx, in.owner, s.view.SandboxID)
	}
	r.mu.Lock()
	if r.rooms[in.id] != in { // it is empty; who comes now has another one
		r.mu.Unlock()
		return nil
	}
	if in.joined != joined {
		r.mu.Unlock()
		nudge(in.look)
		return nil
	}
	payloads, gone := in.notice(s)
	r.mu.Unlock()
	if gone {
		r.dismiss(in.id, payloads...)
		return nil
	}
	if len(payloads) > 0 {
		r.tell(in.id, payloads...)
		r.each(in.id, (*client).nudge) // a conversation that is ready may greet
	}
	return nil
}

// notice takes in what has changed and returns what clients are told of it. gone says
// that the conversation was stopped.
func (in *room) notice(s sight) (payloads []payload, gone bool) {
	was, phase := in.seen, in.phase
	in.seen = s.now
	if s.task != nil {
		in.phase = s.task.Status
	}
	if title := titleOf(s.view); title != in.title {
		if in.title != "" {
			payloads = append(payloads, titlePayload(in.id, title))
		}
		in.title = title
	}
	switch {
	case s.now.status == statusStopped && was.status == statusRunning:
		return append(payloads, stopPayloads(s.view)...), true
	case s.now.status == statusStopped && was.status == statusStarting && in.phase == conversation.TaskError:
		payloads = append(payloads, startFailure(s.task)...)
	case in.phase != phase && broadcastOf(in.phase) != "" && s.now.status == statusStarting:
		payloads = append(payloads, runtimePayload(broadcastOf(in.phase)))
	case s.now.runtime != nil && (was.runtime == nil || *was.runtime != *s.now.runtime):
		payloads = append(payloads, runtimePayload(*s.now.runtime))
	}
	return payloads, false
}

// broadcastOf is what clients are told of a phase that the runtime's status does not
// show, "" if nothing.
func broadcastOf(s conversation.TaskStatus) string {
	switch s {
	case conversation.TaskSetupScript:
		return "STATUS$SETTING_UP_WORKSPACE"
	case conversation.TaskGitHooks:
		return "STATUS$SETTING_UP_GIT_HOOKS"
	}
	return ""
}

// stopPayloads say why a conversation was stopped that nobody asked to stop.
func stopPayloads(v *engine.View) []payload {
	switch {
	case v.Sandbox != nil && v.Sandbox.Detail == store.DetailMadeRoom:
		return []payload{tooManyPayload()}
	case v.SandboxStatus == store.SandboxError || v.SandboxStatus == store.SandboxMissing:
		return []payload{statusPayload("error", "STATUS$ERROR_RUNTIME_DISCONNECTED", "The sandbox of this conversation has ended.")}
	}
	return nil
}

func tooManyPayload() payload {
	return statusPayload("error", "AGENT_ERROR$TOO_MANY_CONVERSATIONS",
		"Too many conversations run at once, so this one was stopped. It goes on when you open it again.")
}

// startFailure says that a start failed. Clients of the reference read the class of an
// exception there.
func startFailure(t *conversation.StartTask) []payload {
	return []payload{statusPayload("error", "STATUS$ERROR", t.Detail),
		failurePayload("Failed to create agent session: RuntimeError")}
}

func titleOf(v *engine.View) string {
	if v.Title == "" {
		return defaultTitle(v.ID)
	}
	return v.Title
}
