package agentserver

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/stream"
)

// sessionCookie carries a key for what browsers load by themselves, which cannot send
// headers (agent protocol 1.1).
const sessionCookie = "oh_workspace_session_key"

// streamEvents is the event socket as server-sent events: full_state, what is asked
// to be sent again, then live. The id of a message is the number of its event in the
// log; that of the first full_state is where the stream begins, so that a browser that
// reconnects before there was an event misses none.
func (s *Server) streamEvents(w http.ResponseWriter, r *httpkit.Request) error {
	sc, v, err := s.find(r)
	if err != nil {
		return err
	}
	ctx, leave, err := s.cfg.Streams.Join(r.Context(), r.Principal, "sse", string(v.ID))
	if err != nil {
		return err
	}
	defer leave()
	after, ok := httpkit.ParseCursor(r.Header.Get("Last-Event-ID"), "")
	if !ok {
		after, err = s.cursor(r.Request, v)
	}
	if err != nil {
		return err
	}
	after = min(after, v.Summary.Head-1) // a cursor beyond the log would skip what comes next
	follower, err := s.cfg.Engine.Follow(ctx, sc.owner, v.ID, after)
	if err != nil {
		return err
	}
	defer follower.Close()
	e := &sseEncoder{client: client{s: s, sc: sc, id: v.ID}, begin: after}
	sse := &httpkit.SSE{Source: &stateFirst{Follower: follower}, Encode: e.encode, Heartbeat: s.cfg.Heartbeat, HeadersOnly: r.Method == http.MethodHead}
	return sse.Serve(ctx, w)
}

// stateFirst shows the state before all else.
type stateFirst struct {
	*stream.Follower
	shown bool
}

// Next implements httpkit.Source.
func (f *stateFirst) Next(ctx context.Context) (stream.Item, error) {
	if !f.shown {
		f.shown = true
		return stream.Item{Snapshot: true}, nil
	}
	return f.Follower.Next(ctx)
}

// sseEncoder renders what the socket renders, with ids.
type sseEncoder struct {
	client
	begin int64 // seq of the last event that is not sent
	begun bool
}

func (e *sseEncoder) encode(ctx context.Context, item stream.Item) ([]httpkit.Frame, error) {
	if item.Deleted {
		return []httpkit.Frame{{Event: "deleted", Data: []byte("{}")}}, nil
	}
	raw, err := e.client.encode(ctx, item)
	frames := make([]httpkit.Frame, len(raw))
	for i, data := range raw {
		frames[i].Data = data
		if len(item.Events) > 0 {
			frames[i].ID = strconv.FormatInt(item.Events[i].Seq, 10)
		}
	}
	if !e.begun && len(frames) > 0 {
		frames[0].ID = strconv.FormatInt(e.begin, 10)
	}
	e.begun = true
	return frames, err
}

// isStream reports whether a path is that of the event stream.
func isStream(path string) bool {
	rest, ok := strings.CutPrefix(path, "/api/conversations/")
	id, ok2 := strings.CutSuffix(rest, "/events/stream")
	return ok && ok2 && id != "" && !strings.Contains(id, "/")
}

// cookieKey returns the key in the cookie of a request for the event stream, if there
// is none in its headers.
func cookieKey(r *http.Request) string {
	c, err := r.Cookie(sessionCookie)
	if err != nil || !isStream(r.URL.EscapedPath()) || httpkit.Credential(r) != "" {
		return ""
	}
	return c.Value
}
