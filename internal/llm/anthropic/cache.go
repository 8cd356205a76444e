package anthropic

// ttlBeta unlocks the hour: without it some endpoints refuse a ttl or take it
// for 5 minutes without a word.
const ttlBeta = "extended-cache-ttl-2025-04-11"

// maxMarkers is how many cache markers the API takes in one request.
const maxMarkers = 4

// mark sets the cache markers: behind the tools, behind the system prompt, at
// the end, and at the end of the user turn before, where the last request's
// prompt ended. All have the same retention, because longer ones must come first.
func (m *Model) mark(w *wireRequest, turns []*turn, refused refusals) (markers, ttl bool) {
	if m.cfg.NoCache || refused.has(refusedCache) {
		return false, false
	}
	ttl = m.hourly() && !refused.has(refusedTTL)
	c := &cacheControl{Type: "ephemeral", TTL: unless(!ttl, "1h")}
	left := maxMarkers
	if n := len(w.Tools); n > 0 {
		w.Tools[n-1].CacheControl = c
		left--
	}
	left -= markSystem(w.System, c)
	for i := len(turns) - 1; i >= 0 && left > 0; i-- {
		if t := turns[i]; t.role == roleUser {
			t.blocks[len(t.blocks)-1].CacheControl = c
			left--
		}
		if i < len(turns)-2 {
			break
		}
	}
	return true, ttl
}

// markSystem marks the blocks that ask for it, at most two, or else the last one.
func markSystem(system []*block, c *cacheControl) int {
	n := 0
	for i := len(system) - 1; i >= 0 && n < 2; i-- {
		if system[i].keep {
			system[i].CacheControl = c
			n++
		}
	}
	if n == 0 && len(system) > 0 {
		system[len(system)-1].CacheControl = c
		n = 1
	}
	return n
}
