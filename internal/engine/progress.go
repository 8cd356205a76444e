package engine

import (
	"slices"
	"sync"
	"time"

	"parley/internal/content"
	"parley/internal/conversation"
)

const (
	// progressPause is the least time between two notes on how far a call is: each is an
	// event of the log.
	progressPause = 5 * time.Second
	maxProgress   = 200 // characters of a note
)

// progress shows how far a call is. The returned function may be called from any
// goroutine and does not block.
func (l *live) progress(call *conversation.ActionEvent) func(text string) {
	var mu sync.Mutex
	var last time.Time
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(last) < progressPause {
			return
		}
		last = time.Now()
		l.e.job(func() { l.post(func(l *live) { l.noteProgress(call.ToolCallID, text) }) })
	}
}

// noteProgress tells how far a call is, unless it is answered already.
func (l *live) noteProgress(call, text string) {
	open := slices.ContainsFunc(l.state.Pending, func(a *conversation.ActionEvent) bool { return a.ToolCallID == call })
	if !open || l.stalled != nil || l.quit != nil {
		return
	}
	notes := withoutProgress(l.state.Notes, call)
	notes.Progress = append(notes.Progress, conversation.CallProgress{ToolCallID: call, Text: l.masker.Mask(content.Short(text, maxProgress))})
	l.note(notes)
}

// withoutProgress takes back what was told about a call.
func withoutProgress(notes conversation.AgentNotes, call string) conversation.AgentNotes {
	notes.Progress = slices.DeleteFunc(slices.Clone(notes.Progress), func(p conversation.CallProgress) bool { return p.ToolCallID == call })
	if len(notes.Progress) == 0 {
		notes.Progress = nil
	}
	return notes
}
