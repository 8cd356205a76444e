package wire

import (
	"encoding/json"
	"sync"
)

// Bounds of a memo. What is over them starts it anew.
const (
	maxMemos     = 512
	maxMemoBytes = 4 << 20
	maxMemo      = 64 << 10 // longer ones are not kept
)

// memo keeps what a pure function made of the last texts: every call of a model sends
// the same tools. Results must not be changed. The zero value is usable.
type memo struct {
	mu    sync.RWMutex
	made  map[string]json.RawMessage
	bytes int
}

// get returns what make makes of raw.
func (m *memo) get(raw json.RawMessage, make func(json.RawMessage) json.RawMessage) json.RawMessage {
	m.mu.RLock()
	out, ok := m.made[string(raw)]
	m.mu.RUnlock()
	if ok {
		return out
	}
	out = make(raw)
	if len(raw) <= maxMemo {
		m.put(string(raw), out)
	}
	return out
}

func (m *memo) put(text string, out json.RawMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if size := len(text) + len(out); m.made == nil || len(m.made) >= maxMemos || m.bytes+size > maxMemoBytes {
		m.made, m.bytes = map[string]json.RawMessage{}, 0
	}
	if _, ok := m.made[text]; !ok {
		m.bytes += len(text) + len(out)
	}
	m.made[text] = append(json.RawMessage(nil), out...) // not the caller's array
}
