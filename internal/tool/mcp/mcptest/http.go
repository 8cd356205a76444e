package mcptest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Handler serves streamable HTTP without sessions and without a stream of the server's
// own messages: every request is answered with JSON, or with a stream if the mode is one
// that says more.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		raw, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
		var m message
		if err != nil || json.Unmarshal(raw, &m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if s.Mode == Hang || s.Mode == HangList && m.Method == "tools/list" || m.Method == "tools/call" && s.Mode == Die {
			s.stop(w, r, m)
			return
		}
		if m.ID == nil || m.Method == "" {
			if m.Method != "notifications/initialized" { // nothing is said unasked
				s.Handle(m, func(any) {})
			}
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if s.Mode == Flood && m.Method == "tools/call" {
			flood(w, r)
			return
		}
		var answers []any
		s.Handle(m, func(v any) { answers = append(answers, v) })
		w.Header().Set("Content-Type", "text/event-stream")
		for _, a := range answers {
			raw, err := json.Marshal(a)
			if err != nil {
				panic(err)
			}
			_, _ = fmt.Fprintf(w, "data: %s\n\n", raw)
		}
		if len(answers) == 0 || m.Method == "tools/call" && strings.Contains(string(raw), `"slow"`) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	})
}

// stop breaks off a call, or waits for the client to do so.
func (s *Server) stop(w http.ResponseWriter, r *http.Request, m message) {
	if m.Method != "tools/call" {
		<-r.Context().Done()
		return
	}
	s.calls.Add(1)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

func flood(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	line := []byte(strings.Repeat("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n", 100))
	for r.Context().Err() == nil {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}
