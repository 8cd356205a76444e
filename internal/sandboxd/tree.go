package sandboxd

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// tree is a program and what it started: its descendants, and all in its session
// and in those that they made. Who left the session and then lost its parent is not
// seen any more.
type tree struct {
	root  int             // leads a session
	ended <-chan struct{} // closed when root has been collected

	mu       sync.Mutex
	sessions map[int]struct{} // all that were seen
}

func newTree(root int, ended <-chan struct{}) *tree {
	return &tree{root: root, ended: ended, sessions: map[int]struct{}{root: {}}}
}

func (t *tree) collected() bool {
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// members picks the tree's processes and remembers their sessions: when parents die,
// these still tell who belongs to it. collected says that root was collected before
// the table was read.
func (t *tree) members(table []process, collected bool) []process {
	t.mu.Lock()
	defer t.mu.Unlock()
	inside := make(map[int]bool, len(table))
	for _, p := range table {
		if p.pid == t.root && collected {
			delete(t.sessions, t.root) // the number went round: somebody else's session
		}
	}
	var found []process
	for grown := true; grown; {
		grown = false
		for _, p := range table {
			if inside[p.pid] || !t.owns(p, inside) {
				continue
			}
			inside[p.pid], grown = true, true
			t.sessions[p.session] = struct{}{}
			found = append(found, p)
		}
	}
	return found
}

func (t *tree) owns(p process, inside map[int]bool) bool {
	_, ours := t.sessions[p.session]
	return ours || inside[p.parent]
}

// look finds the tree's sessions. It must come before what may end a parent.
func (t *tree) look() []process {
	collected := t.collected()
	return t.members(livingProcesses(), collected)
}

// terminate asks all of the tree to end and reports whether there was any of it.
func (t *tree) terminate() bool {
	found := t.look()
	leads := !t.collected()
	if leads {
		_ = unix.Kill(-t.root, unix.SIGTERM)
	}
	for _, p := range found {
		if p.group != t.root || !leads {
			_ = unix.Kill(p.pid, unix.SIGTERM)
		}
	}
	return leads || len(found) > 0
}

// await returns when none of the tree lives, after grace, or when stop is closed.
func (t *tree) await(grace time.Duration, stop <-chan struct{}) {
	const first, longest = 5 * time.Millisecond, 200 * time.Millisecond
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for pause := first; ; pause = min(2*pause, longest) {
		if len(t.look()) == 0 && t.collected() { // in this order: each look finds new sessions
			return
		}
		select {
		case <-time.After(pause):
		case <-timer.C:
			return
		case <-stop:
			return
		}
	}
}

// kill kills what is left and returns when none lives.
func (t *tree) kill() {
	t.look() // while root can still be seen as their parent
	if !t.collected() {
		_ = unix.Kill(-t.root, unix.SIGKILL)
	}
	collected := t.collected()
	killAll(func(table []process) []int {
		var pids []int
		for _, p := range t.members(table, collected) {
			pids = append(pids, p.pid)
		}
		collected = t.collected()
		return pids
	})
	<-t.ended
}
