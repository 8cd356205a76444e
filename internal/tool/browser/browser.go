// Package browser is the tool set that drives a web browser.
//
// Each conversation has one Chromium inside its sandbox, started with the first
// call and driven over the DevTools protocol through the sandbox's daemon
// (tool.Ports). The browser is the program of a terminal, so that it belongs to the
// sandbox and outlives the server: a server that restarts finds it again. What the
// model reads of a page is made by page.js, inside the page but out of its reach:
// an outline with roles and names of the accessibility tree, whose elements are
// numbered, and the text as Markdown. A number stays with its element as long as
// that is in the page, and is never given to another one.
//
// It promises that no page can wedge it: dialogs are answered at once, each step has
// a time limit, what comes out of a page is bounded, and after three failures in a
// row the browser is started anew. It does not promise to read closed shadow roots
// and frames in another process, and PDF and media are shown in screenshots only.
//
// Chromium's own sandbox is off (--no-sandbox): it does not start as root, and needs
// namespaces that not every sandbox may make. What it would protect is the rest of the
// sandbox, which is the boundary anyway.
package browser

import (
	"cmp"
	"context"
	"sync"
	"time"

	"parley/internal/tool"
)

// SetName is the name under which conversations ask for all tools of this package.
const SetName = "browser_tool_set"

// ObservationKind is the kind of the observations of all tools.
const ObservationKind = "BrowserObservation"

// maxBrowsers is how many conversations' browsers are remembered; those that are
// forgotten go on running, and are found again.
const maxBrowsers = 1024

// Browsers are the browsers of all conversations, as this server knows them.
type Browsers struct {
	times  Times
	mu     sync.Mutex
	byID   map[string]*browser
	closed bool
}

// Times are how long things may take; 0 = the default.
type Times struct {
	Action time.Duration // a call with all that it does; 300 s
	Init   time.Duration // to find, start and reach a browser; 30 s
	Step   time.Duration // one thing that a page or the browser does for us; 20 s
	Commit time.Duration // until a server answers; 60 s
	Load   time.Duration // until a page that has begun is reported as it is; 10 s
}

func (t Times) withDefaults() Times {
	return Times{
		Action: cmp.Or(t.Action, 300*time.Second), Init: cmp.Or(t.Init, 30*time.Second), Step: cmp.Or(t.Step, 20*time.Second),
		Commit: cmp.Or(t.Commit, 60*time.Second), Load: cmp.Or(t.Load, 10*time.Second),
	}
}

// New makes a value that serves all conversations. Close ends its connections.
func New(times Times) *Browsers {
	return &Browsers{times: times.withDefaults(), byID: map[string]*browser{}}
}

// Close leaves all browsers: it ends the connections and waits until nothing
// handles their events any more. The browsers go on. Later calls fail.
func (s *Browsers) Close() {
	s.mu.Lock()
	s.closed = true
	all := s.byID
	s.byID = map[string]*browser{}
	s.mu.Unlock()
	var closing sync.WaitGroup
	for _, b := range all {
		closing.Go(b.leave)
	}
	closing.Wait()
}

// claims is the same for every action: two that overlap would see each other's page.
func claims[In any](In) []tool.Claim { return []tool.Claim{{Name: "browser", Write: true}} }

// of returns the conversation's browser, which nobody else uses until release.
func (s *Browsers) of(ctx context.Context, env *tool.Env) (b *browser, release func(), err error) {
	s.mu.Lock()
	b = s.byID[env.ConversationID]
	if b == nil {
		s.forgetLocked()
		b = newBrowser(env, s.times)
		if !s.closed {
			s.byID[env.ConversationID] = b
		}
	}
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, nil, tool.ErrDetach
	}
	select {
	case b.lock <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	b.env = env
	return b, func() { <-b.lock }, nil
}

// forgetLocked makes room, by leaving a browser that nobody uses right now.
func (s *Browsers) forgetLocked() {
	if len(s.byID) < maxBrowsers {
		return
	}
	for id, b := range s.byID {
		select {
		case b.lock <- struct{}{}:
			delete(s.byID, id)
			b.disconnect()
			<-b.lock
			return
		default:
		}
	}
}
