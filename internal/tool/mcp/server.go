package mcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"parley/internal/tool"
)

// maxDetail bounds what a status says, in bytes.
const maxDetail = 1000

// server is one server of a session: a goroutine keeps it connected. What the session
// sees of it is guarded by the session's lock.
type server struct {
	session *session
	config  tool.Server // but From
	key     string      // of its configuration with all values
	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{} // the goroutine is done
	wake    chan struct{} // try again now
	relist  chan struct{} // the list of tools changed

	// Guarded by session.mu.
	from    string
	state   string
	detail  string
	catalog *catalog // the last one, nil before the first
	link    *link    // nil while it is not connected
	settled bool     // the first start is over
}

func newServer(s *session, config tool.Server, key string) *server {
	v := &server{session: s, config: config, key: key, from: config.From, state: tool.ServerStarting, ended: make(chan struct{}),
		wake: make(chan struct{}, 1), relist: make(chan struct{}, 1)}
	v.ctx, v.cancel = context.WithCancel(s.ctx)
	return v
}

// signal wakes a receiver without waiting for it.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run keeps the server connected until its context ends.
func (v *server) run() {
	defer close(v.ended)
	defer v.set(func() { v.state, v.detail, v.link, v.settled = tool.ServerStopped, "", nil, true })
	cfg := &v.session.host.cfg
	pause := cfg.MinBackoff
	for v.ctx.Err() == nil {
		l, err := v.connect()
		if err == nil {
			since := time.Now()
			err = v.serve(l)
			if time.Since(since) >= cfg.Healthy {
				pause = cfg.MinBackoff
			}
		}
		if v.ctx.Err() != nil {
			return
		}
		if v.failed(err) {
			pause = cfg.MinBackoff
			if !v.sleep(0) {
				return
			}
			continue
		}
		if !v.sleep(pause/2 + rand.N(pause/2+1)) {
			return
		}
		pause = min(2*pause, cfg.MaxBackoff)
	}
}

// failed records why the server is not there, and reports whether only its user can
// change that.
func (v *server) failed(err error) (forUser bool) {
	text, _ := describe(err)
	state := tool.ServerFailed
	if errors.Is(err, errLogin) {
		state, forUser = tool.ServerLogin, true
	}
	v.session.host.cfg.Logger.Info("mcp server failed", "conversation", v.session.opt.Conversation, "server", v.config.Name, "login", forUser)
	v.set(func() { v.state, v.detail, v.link, v.settled = state, text, nil, true })
	return forUser
}

// sleep waits, for 0 until it is woken. False: the end.
func (v *server) sleep(pause time.Duration) bool {
	var passed <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-v.ctx.Done():
		return false
	case <-v.wake:
	case <-passed:
	}
	return true
}

// set changes what the session sees and tells it.
func (v *server) set(change func()) {
	s := v.session
	s.mu.Lock()
	change()
	s.refresh()
	s.mu.Unlock()
	s.changed()
}

// connect starts the server and reads what it offers. It takes its turn with others.
func (v *server) connect() (*link, error) {
	cfg := &v.session.host.cfg
	d := &dialer{cfg: cfg, opt: &v.session.opt, server: &v.config, changed: func() { signal(v.relist) }, ctx: v.ctx}
	if err := d.enter(v.ctx); err != nil { // a sandbox may take its time, and nobody's turn
		return nil, err
	}
	for _, slots := range []chan struct{}{v.session.slots, v.session.host.slots} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-v.ctx.Done():
			return nil, context.Cause(v.ctx)
		}
	}
	ctx, cancel := context.WithTimeout(v.ctx, cfg.ConnectTimeout)
	defer cancel()
	l, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	c, err := v.list(ctx, l)
	if err != nil {
		l.close(errClosing)
		return nil, l.explain(err)
	}
	v.set(func() { v.link, v.catalog, v.settled = l, c, true })
	return l, nil
}

// list reads what a server offers within a time-out.
func (v *server) list(ctx context.Context, l *link) (c *catalog, err error) {
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, v.session.host.cfg.ConnectTimeout)
	defer cancel()
	return l.list(ctx)
}

// serve follows a connection until its end, and returns why it ended.
func (v *server) serve(l *link) error {
	pause := time.NewTimer(0) // until the next list may be asked for
	defer pause.Stop()
	<-pause.C
	waiting := false
	for {
		select {
		case <-v.ctx.Done():
			l.close(errClosing)
			return context.Cause(v.ctx)
		case <-l.ctx.Done():
			l.close(errClosing)
			return l.explain(l.ending())
		case <-v.relist:
			if !waiting {
				waiting = true
				pause.Reset(v.session.host.cfg.RelistPause) // for more changes, and so that no flood makes work
			}
		case <-pause.C:
			waiting = false
			v.listAgain(l)
		}
	}
}

func (v *server) listAgain(l *link) {
	c, err := v.list(l.calls, l)
	if err != nil {
		if l.ctx.Err() != nil {
			return // that is told otherwise
		}
		text, _ := describe(err)
		v.set(func() {
			kept := *v.catalog
			kept.notes = append([]string{"its changed list of tools could not be read, the old one counts: " + text}, kept.notes...)
			v.catalog = &kept
		})
		return
	}
	v.set(func() { v.catalog = c })
}

// status is called with the session's lock held. used is how many tools the session
// offers of it.
func (v *server) status(used int) tool.ServerStatus {
	st := tool.ServerStatus{Name: v.config.Name, From: v.from, State: v.state, Detail: v.detail, Tools: used}
	if v.link == nil {
		st.Tools = 0
		return st
	}
	notes := v.catalog.notes
	if n := len(v.catalog.tools) - used; n > 0 {
		notes = append(notes[:len(notes):len(notes)], fmt.Sprintf("%s not used: a conversation has at most %d of all servers", count(n, "tool"), maxSession))
	}
	if v.link.pipe != nil {
		if trace := v.link.pipe.trace(); trace != "" {
			notes = append(notes[:len(notes):len(notes)], trace)
		}
	}
	st.State, st.Detail = tool.ServerConnected, ""
	if len(notes) > 0 {
		st.State = tool.ServerDegraded
		st.Detail = oneLine(sentence(strings.Join(notes, "; ")), maxDetail)
	}
	return st
}
