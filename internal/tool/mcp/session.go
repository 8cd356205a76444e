package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"parley/internal/account"
	"parley/internal/tool"
)

// session are the servers of one conversation.
type session struct {
	host   *Host
	opt    tool.ServerOptions
	slots  chan struct{} // for starts
	ctx    context.Context
	cancel context.CancelFunc

	setting sync.Mutex // one Set or Close at a time

	mu      sync.Mutex
	closed  bool
	servers []*server       // in the order of Set
	leaving []*server       // stopped, not ended yet
	tools   []tool.Tool     // the snapshot
	used    map[*server]int // tools of each in it
	news    chan struct{}   // closed at the next change
}

var _ tool.ServerSession = (*session)(nil)

func newSession(h *Host, opt tool.ServerOptions) *session {
	s := &session{host: h, opt: opt, slots: make(chan struct{}, h.cfg.PerSession), news: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Set implements tool.ServerSession. A server that stays and is not connected is tried
// again at once.
func (s *session) Set(servers []tool.Server) {
	s.setting.Lock()
	defer s.setting.Unlock()
	keys := make([]string, len(servers))
	for i := range servers {
		keys[i] = fingerprint(&servers[i], s.opt.Secret)
	}
	s.mu.Lock()
	if s.closed || s.has(servers, keys) {
		s.mu.Unlock()
		return
	}
	old := s.servers
	s.servers = nil
	var fresh []*server
	for i, config := range servers {
		at := slices.IndexFunc(old, func(v *server) bool { return v.key == keys[i] })
		if at >= 0 {
			old[at].from = config.From
			s.servers = append(s.servers, old[at])
			if old[at].link == nil {
				signal(old[at].wake)
			}
			old = slices.Delete(slices.Clone(old), at, at+1)
			continue
		}
		v := newServer(s, config, keys[i])
		s.servers = append(s.servers, v)
		fresh = append(fresh, v)
	}
	s.leaving = append(slices.DeleteFunc(s.leaving, (*server).isOver), old...)
	s.refresh()
	s.mu.Unlock()
	for _, v := range old {
		v.cancel()
	}
	for _, v := range fresh {
		go v.run()
	}
	s.changed()
}

// has reports whether these are the servers that there are, and tries those again that
// are not connected. Nothing changes then: new tools for the same would make everything
// anew that is made of tools. It is called with the lock held.
func (s *session) has(servers []tool.Server, keys []string) bool {
	same := slices.EqualFunc(s.servers, keys, func(v *server, key string) bool { return v.key == key })
	for i := range servers {
		same = same && s.servers[i].from == servers[i].From
	}
	for _, v := range s.servers {
		if same && v.link == nil {
			signal(v.wake)
		}
	}
	return same
}

func (v *server) isOver() bool {
	select {
	case <-v.ended:
		return true
	default:
		return false
	}
}

// fingerprint tells configurations apart by all that a server is started with, the
// values of its secrets now included. It is a hash: no value is kept.
func fingerprint(config *tool.Server, secret lookup) string {
	h := sha256.New()
	put := func(parts ...any) {
		for _, p := range parts {
			_, _ = fmt.Fprintf(h, "%d:%v;", len(fmt.Sprint(p)), p)
		}
	}
	reveal := func(text string) {
		put(text)
		for _, m := range bare.FindAllStringSubmatch(text, -1) {
			if secret != nil {
				put(secret(orElse(m[1], m[4])))
			}
		}
	}
	put(config.Name, config.SSE, config.Dir)
	if s := config.Stdio; s != nil {
		put("stdio", s.Command, s.Cwd, timeoutOf(s.Timeout))
		for _, arg := range s.Args {
			reveal(arg)
		}
		for _, name := range slices.Sorted(maps.Keys(s.Env)) {
			put(name)
			reveal(s.Env[name].Reveal())
		}
	}
	if s := config.HTTP; s != nil {
		put("http", timeoutOf(s.Timeout))
		reveal(s.URL)
		reveal(s.APIKey.Reveal())
		for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
			put(name)
			reveal(s.Headers[name].Reveal())
		}
		if a := s.Auth; a != nil {
			put(a.Strategy, a.Header)
			reveal(a.Username)
			reveal(a.Value.Reveal())
			for _, name := range slices.Sorted(maps.Keys(a.Headers)) {
				put(name)
				reveal(a.Headers[name].Reveal())
			}
			putOAuth(put, a.OAuth)
		}
	}
	return string(h.Sum(nil))
}

func putOAuth(put func(...any), o *account.MCPOAuth) {
	if o == nil {
		return
	}
	shown, _ := json.Marshal(o) // masks its secret
	put(string(shown), o.ClientSecret.Reveal(), o.State.Reveal())
}

func timeoutOf(seconds *int) int {
	if seconds == nil {
		return 0
	}
	return *seconds
}

// refresh makes the snapshot anew. It is called with the lock held.
func (s *session) refresh() {
	s.tools, s.used = s.snapshot()
	close(s.news)
	s.news = make(chan struct{})
}

// changed tells the conversation, without the lock.
func (s *session) changed() {
	if s.opt.Changed != nil {
		s.opt.Changed()
	}
}

// snapshot are the tools of the connected servers, sorted by server. Names count also
// those of servers that are only away, so that they do not change with every crash.
func (s *session) snapshot() ([]tool.Tool, map[*server]int) {
	sorted := slices.SortedFunc(slices.Values(s.servers), func(a, b *server) int { return strings.Compare(a.config.Name, b.config.Name) })
	var all []owned
	labels := map[*server]string{}
	for i, v := range sorted {
		labels[v] = v.config.Name
		if i > 0 && sorted[i-1].config.Name == v.config.Name { // against the contract
			labels[v] = labels[sorted[i-1]] + "_2"
		}
		if v.catalog != nil {
			for _, o := range v.catalog.tools {
				all = append(all, owned{labels[v], o.name})
			}
		}
	}
	names := nameTools(all, append(slices.Clone(s.host.cfg.Reserved), ownNames()...))
	var tools []tool.Tool
	used := map[*server]int{}
	for _, v := range sorted {
		if v.link == nil {
			continue
		}
		for _, o := range v.catalog.tools {
			if len(tools) == maxSession {
				break
			}
			tools = append(tools, newTool(v, o, names[owned{labels[v], o.name}]))
			used[v]++
		}
	}
	return append(tools, s.ownTools(sorted)...), used
}

// Tools implements tool.ServerSession.
func (s *session) Tools() []tool.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tools)
}

// Status implements tool.ServerSession.
func (s *session) Status() []tool.ServerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]tool.ServerStatus, len(s.servers))
	for i, v := range s.servers {
		out[i] = v.status(s.used[v])
	}
	return out
}

// Settle implements tool.ServerSession.
func (s *session) Settle(ctx context.Context) {
	for {
		s.mu.Lock()
		settled := !slices.ContainsFunc(s.servers, func(v *server) bool { return !v.settled })
		news := s.news
		s.mu.Unlock()
		if settled {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// Close implements tool.ServerSession. It waits at most Config.CloseTimeout.
func (s *session) Close() {
	s.setting.Lock()
	defer s.setting.Unlock()
	s.mu.Lock()
	s.closed = true
	all := append(slices.Clone(s.servers), s.leaving...)
	s.mu.Unlock()
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), s.host.cfg.CloseTimeout)
	defer cancel()
	for _, v := range all {
		select {
		case <-v.ended:
		case <-ctx.Done():
		}
	}
	s.host.forget(s)
}

// connected returns the connection of a server, or what keeps it from having one.
func (s *session) connected(v *server) (*link, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.link == nil {
		return nil, orElse(v.detail, "It is "+v.state+".")
	}
	return v.link, ""
}
