package cdp

import (
	"encoding/json"
	"testing"
)

// FuzzMessage: no message harms, and a call has one answer at most.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{`{"id":1,"result":{}}`, `{"id":1,"error":{"message":"x"}}`, `{"method":"Inspector.targetCrashed","sessionId":"S"}`,
		`{"method":"Target.detachedFromTarget","params":{"sessionId":"S"}}`, `{"id":1}`, `[]`, `{"id":"x"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		call := pending{session: "S", answer: make(chan answer, 1)}
		c := &Conn{handle: func(*Conn, Event) {}, calls: map[int64]pending{1: call}}
		for range 3 {
			var m message
			if json.Unmarshal(data, &m) == nil {
				c.take(m)
			}
		}
		if answered := len(call.answer) == 1; answered == (len(c.calls) == 1) {
			t.Fatalf("answered %v, and %d calls wait", answered, len(c.calls))
		}
	})
}
