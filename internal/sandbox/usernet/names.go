package usernet

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bounds of what is remembered of answers. Programs keep addresses for longer than
// answers say, so an answer holds for leastLife at least, and from each use again.
const (
	maxKnown    = 4096 // names of addresses, in all
	maxHosts    = 16   // names of one address
	leastLife   = 10 * time.Minute
	longestLife = 24 * time.Hour
)

// names remembers which names led the box to which addresses.
type names struct {
	mu    sync.Mutex
	of    map[netip.Addr][]knownHost // the latest first
	count int                        // of hosts, in all
}

type knownHost struct {
	host  string // as netpolicy.Canonical has it
	until time.Time
}

func newNames() *names { return &names{of: map[netip.Addr][]knownHost{}} }

// learn remembers the addresses that a name was answered with. life is the
// answer's.
func (n *names) learn(host string, addrs []netip.Addr, life time.Duration) {
	now := time.Now()
	until := now.Add(min(max(life, leastLife), longestLife))
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range addrs {
		list := slices.DeleteFunc(n.of[a], func(k knownHost) bool { return k.host == host })
		list = slices.Insert(list, 0, knownHost{host, until})
		list = list[:min(len(list), maxHosts)]
		n.count += len(list) - len(n.of[a])
		n.of[a] = list
	}
	if n.count > maxKnown {
		n.shrink(now)
	}
}

// shrink forgets what has expired and, if that is not enough, what expires first,
// down to half of the bound.
func (n *names) shrink(now time.Time) {
	var ends []time.Time
	for _, list := range n.of {
		for _, k := range list {
			ends = append(ends, k.until)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	limit := now
	if spare := len(ends) - maxKnown/2; spare > 0 && ends[spare-1].After(limit) {
		limit = ends[spare-1]
	}
	n.count = 0
	for a, list := range n.of {
		list = slices.DeleteFunc(list, func(k knownHost) bool { return !k.until.After(limit) })
		if n.of[a] = list; len(list) == 0 {
			delete(n.of, a)
		}
		n.count += len(list)
	}
}

// hosts returns the names that led to an address, the latest first. They hold on.
func (n *names) hosts(a netip.Addr) []string {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	list := n.of[a]
	for i, k := range list {
		if k.until.After(now) {
			out = append(out, k.host)
			if again := now.Add(leastLife); again.After(k.until) {
				list[i].until = again
			}
		}
	}
	return out
}
