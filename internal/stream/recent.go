package stream

import "parley/internal/conversation"

// Bounds of what is kept of one log.
const (
	maxRecent      = 256
	maxRecentBytes = 4 << 20
)

// recent is the end of a log that somebody follows, so that a thousand followers who
// are up to date do not each read the log for the same event.
type recent struct {
	events []conversation.Event // without gaps
	bytes  int
}

// add appends events that were committed just now. What does not continue what is
// there takes its place.
func (r *recent) add(events []conversation.Event) {
	if len(events) == 0 {
		return
	}
	if n := len(r.events); n > 0 && r.events[n-1].Seq+1 != events[0].Seq {
		r.events, r.bytes = nil, 0
	}
	for _, e := range events {
		r.bytes += len(e.Raw)
	}
	// Followers hold parts of the array; what is appended is behind all of them.
	r.events = append(r.events, events...)
	drop := 0
	for drop < len(r.events) && (len(r.events)-drop > maxRecent || r.bytes > maxRecentBytes) {
		r.bytes -= len(r.events[drop].Raw)
		drop++
	}
	r.events = r.events[drop:]
}

// after returns up to limit events that follow a seq; none if they are not all here.
func (r *recent) after(seq int64, limit int) []conversation.Event {
	if len(r.events) == 0 || seq+1 < r.events[0].Seq {
		return nil
	}
	from := min(seq+1-r.events[0].Seq, int64(len(r.events)))
	to := min(from+int64(limit), int64(len(r.events)))
	return r.events[from:to:to]
}
