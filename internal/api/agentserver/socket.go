package agentserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"parley/internal/api/eventwire"
	"parley/internal/api/httpkit"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
	"parley/internal/stream"
)

// Close codes of the protocol (§1.5).
const (
	closeAuth     = httpkit.CloseAuth
	closeUnknown  = httpkit.CloseUnknown
	closeTryAgain = websocket.StatusTryAgainLater
)

// serveSocket is the event socket: credential, conversation, full_state, what is
// asked to be sent again, then live.
func (s *Server) serveSocket(w http.ResponseWriter, r *http.Request) {
	conn, cut, who := s.acceptSocket(w, r)
	if conn == nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	if err := s.follow(r, conn, cut, who); err != nil {
		s.cfg.Log.Error("event socket failed", "conversation", r.PathValue("conversation_id"), "error", err)
	}
}

// acceptSocket upgrades a request and finds out who asks. conn is nil if that is
// answered, or closed, already.
func (s *Server) acceptSocket(w http.ResponseWriter, r *http.Request) (conn *websocket.Conn, cut func(), who httpkit.Principal) {
	who, known, err := s.socketCredential(r)
	if err != nil {
		status := err
		if fault.Is(err, fault.Unauthenticated) { // refused before the upgrade, as the protocol does
			status = fault.New(fault.Forbidden, "unauthorized", "Authentication failed")
		}
		httpkit.WriteError(w, r, httpkit.AgentErrors, status)
		return nil, nil, who
	}
	if conn, cut = httpkit.AcceptSocket(w, r); conn == nil {
		return nil, nil, who // answered already
	}
	if !known {
		if who, err = s.firstFrame(r.Context(), conn); err != nil {
			_ = conn.Close(closeAuth, "Authentication failed")
			_ = conn.CloseNow()
			return nil, nil, who
		}
	}
	limit := s.cfg.MaxBody
	if limit == 0 {
		limit = httpkit.DefaultMaxBody
	}
	conn.SetReadLimit(limit)
	return conn, cut, who
}

// socketCredential reads the key of the query or the headers. known is false if
// there is none: it then comes in the first frame. A client without a key may
// send the text "null".
func (s *Server) socketCredential(r *http.Request) (who httpkit.Principal, known bool, err error) {
	key := httpkit.SocketKey(r)
	if key == "" && !s.cfg.Auth.Everybody.Known() {
		return who, false, nil
	}
	who, err = s.admitKey(r.Context(), key)
	return who, err == nil, err
}

// admitKey is authorize for a socket. At the root a user's key opens all of the
// user's conversations.
func (s *Server) admitKey(ctx context.Context, key string) (httpkit.Principal, error) {
	p, err := s.cfg.Auth.Resolve(ctx, key)
	if err != nil {
		return p, err
	}
	if _, mounted := ctx.Value(mountKey{}).(string); !mounted && p.UserID != "" {
		return p, nil
	}
	return s.admit(ctx, p)
}

// firstFrame waits for the frame that carries the key.
func (s *Server) firstFrame(ctx context.Context, conn *websocket.Conn) (httpkit.Principal, error) {
	key, err := httpkit.FirstKey(ctx, conn, s.cfg.AuthWait)
	if err != nil {
		return httpkit.Principal{}, err
	}
	return s.admitKey(ctx, key)
}

func (s *Server) follow(r *http.Request, conn *websocket.Conn, cut func(), who httpkit.Principal) error {
	sc := scopeOf(who)
	raw := r.PathValue("conversation_id")
	v, err := s.view(r.Context(), sc, raw)
	if err != nil {
		return closeFor(conn, err)
	}
	ctx, leave, err := s.cfg.Streams.Join(r.Context(), who, "ws", string(v.ID))
	if err != nil {
		return closeFor(conn, err)
	}
	defer leave()
	after, err := s.cursor(r, v)
	if err != nil {
		return closeFor(conn, err)
	}
	follower, err := s.cfg.Engine.Follow(ctx, sc.owner, v.ID, after)
	if err != nil {
		return closeFor(conn, err)
	}
	defer follower.Close()
	c := &client{s: s, sc: sc, id: v.ID}
	// Read again: the end of a run before the join is only seen in the state.
	first, err := c.state(ctx)
	if err != nil {
		return closeFor(conn, err)
	}
	socket := &httpkit.Socket{Conn: conn, Cut: cut, Source: follower, Encode: c.encode, Receive: c.receive, Ping: s.cfg.Ping}
	if err := socket.Write(ctx, first); err != nil {
		return nil // the client left
	}
	return socket.Serve(ctx)
}

// closeFor ends a socket with the code that fits, and returns errors that are
// ours.
func closeFor(conn *websocket.Conn, err error) error {
	switch fault.KindOf(err) {
	case fault.NotFound:
		_ = conn.Close(closeUnknown, "Conversation not found")
		return nil
	case fault.RateLimited, fault.Unavailable, fault.Canceled:
		_ = conn.Close(closeTryAgain, "Try again later")
		return nil
	}
	_ = conn.Close(websocket.StatusInternalError, "Internal error")
	return err
}

// cursor returns the seq of the last event that is not to be sent again. Without
// a resend mode that is the last one there is.
func (s *Server) cursor(r *http.Request, v *engine.View) (int64, error) {
	q := r.URL.Query()
	last := v.Summary.Head - 1
	if after, ok := httpkit.ParseCursor("", q.Get("after_seq")); ok {
		return min(after, last), nil
	}
	switch mode := q.Get("resend_mode"); {
	case mode == "all", mode == "" && isTrue(q.Get("resend_all")):
		return -1, nil
	case mode == "since" && q.Get("after_timestamp") != "":
		return s.since(r.Context(), v, q.Get("after_timestamp"))
	}
	return last, nil
}

func isTrue(s string) bool { return s == "true" || s == "1" || s == "True" }

// since finds the first event at or after a time; both compare as strings.
func (s *Server) since(ctx context.Context, v *engine.View, timestamp string) (int64, error) {
	found, err := s.cfg.Engine.Log().Search(ctx, store.EventQuery{Conversation: v.ID,
		From: eventwire.Timestamp(timestamp), Limit: 1})
	if err != nil {
		return 0, err
	}
	if len(found.Items) == 0 {
		return v.Summary.Head - 1, nil
	}
	return found.Items[0].Seq - 1, nil
}

// client is one open socket.
type client struct {
	s  *Server
	sc scope
	id conversation.ID
}

func (c *client) encode(ctx context.Context, item stream.Item) ([][]byte, error) {
	now := time.Now()
	switch {
	case item.Delta != nil:
		return one(eventwire.Delta(item.Delta, now))
	case item.Notice != nil:
		return one(eventwire.ServerError(item.Notice.Code, item.Notice.Detail, now))
	case item.Snapshot:
		frame, err := c.state(ctx)
		if fault.Is(err, fault.NotFound) {
			return nil, nil // deleted meanwhile, which the stream tells next
		}
		return one(frame, err)
	}
	frames := make([][]byte, len(item.Events))
	for i, e := range item.Events {
		raw, err := c.s.shared.withoutNulls(c.id, &e)
		if err != nil {
			return nil, err
		}
		frames[i] = raw
	}
	return frames, nil
}

func one(frame []byte, err error) ([][]byte, error) {
	return [][]byte{frame}, err
}

// state renders the full_state event. Its value keeps nulls: clients index it.
func (c *client) state(ctx context.Context) ([]byte, error) {
	return c.s.shared.state(ctx, stateKey{c.id, c.sc}, c.render)
}

func (c *client) render(ctx context.Context) ([]byte, error) {
	v, err := c.s.cfg.Engine.View(ctx, c.sc.owner, c.id)
	if err != nil {
		return nil, err
	}
	info, err := c.s.stateOf(ctx, c.sc, v)
	if err != nil {
		return nil, err
	}
	return eventwire.FullState(info, time.Now())
}

// receive handles a frame: a message, which always runs, or a repeated
// credential, which is ignored. What is wrong is told in a frame; the socket
// stays open.
func (c *client) receive(ctx context.Context, frame []byte) [][]byte {
	if isAuthFrame(frame) {
		return nil
	}
	var m struct {
		Content []content.Part `json:"content"`
	}
	err := httpkit.CheckJSON(c.s.socket, frame, &m, "message")
	if err == nil {
		err = c.s.cfg.Engine.Send(ctx, c.sc.owner, c.id, engine.Message{Parts: m.Content, Run: true})
	}
	if err == nil {
		return nil
	}
	answer, encodeErr := eventwire.ServerError(errorCode(err), errorText(err), time.Now())
	if encodeErr != nil {
		return nil
	}
	return [][]byte{answer}
}

// isAuthFrame reports whether a frame holds nothing but a credential.
func isAuthFrame(frame []byte) bool {
	var m map[string]json.RawMessage
	if json.Unmarshal(frame, &m) != nil || string(m["type"]) != `"auth"` {
		return false
	}
	delete(m, "type")
	delete(m, "session_api_key")
	return len(m) == 0
}

func errorCode(err error) string {
	if fault.Is(err, fault.Invalid) {
		return "ValidationError"
	}
	if code := fault.CodeOf(err); code != "" {
		return code
	}
	return "InternalError"
}

// errorText names the wrong members.
func errorText(err error) string {
	text := fault.PublicText(err)
	var f *fault.Error
	if !errors.As(err, &f) {
		return text
	}
	for _, field := range f.Fields {
		loc, encodeErr := json.Marshal(field.Loc)
		if encodeErr == nil {
			text += " " + string(loc) + ": " + field.Msg + "."
		}
	}
	return text
}
