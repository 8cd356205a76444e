package agentserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/stream"
)

func errLargeBatch(most int) error {
	return fault.New(fault.TooLarge, "batch_too_large", "The events are larger than %d bytes together.", most).
		WithHint("Ask for fewer at once.")
}

// serveBashSocket is the socket of commands: events as they come, and commands that the
// client sends.
func (s *Server) serveBashSocket(w http.ResponseWriter, r *http.Request) {
	conn, cut, who := s.acceptSocket(w, r)
	if conn == nil {
		return
	}
	defer func() { _ = conn.CloseNow() }()
	if who.SandboxID == "" { // a user's key at the root says nothing of a sandbox
		_ = conn.Close(closeAuth, "Authentication failed")
		return
	}
	if err := s.followBash(r, conn, cut, who); err != nil {
		s.cfg.Log.Error("bash socket failed", "sandbox", who.SandboxID, "error", err)
	}
}

func (s *Server) followBash(r *http.Request, conn *websocket.Conn, cut func(), who httpkit.Principal) error {
	ctx, leave, err := s.cfg.Streams.Join(r.Context(), who, "ws", "bash:"+who.SandboxID)
	if err != nil {
		return closeFor(conn, err)
	}
	defer leave()
	q := r.URL.Query()
	all := q.Get("resend_mode") == "all" || q.Get("resend_mode") == "" && isTrue(q.Get("resend_all"))
	follower, err := s.cfg.Commands.Follow(ctx, who.SandboxID, all)
	if err != nil {
		return closeFor(conn, err)
	}
	defer follower.Close()
	socket := &httpkit.Socket{Conn: conn, Cut: cut, Source: follower, Encode: rawFrames, Ping: s.cfg.Ping,
		Receive: func(ctx context.Context, frame []byte) [][]byte { return s.receiveBash(ctx, who, frame) }}
	return socket.Serve(ctx)
}

// rawFrames sends events as they are stored, nulls included.
func rawFrames(_ context.Context, item stream.Item) ([][]byte, error) {
	frames := make([][]byte, len(item.Events))
	for i, e := range item.Events {
		frames[i] = e.Raw
	}
	return frames, nil
}

// bashError tells what is wrong with a frame.
type bashError struct {
	Kind      string `json:"kind"`
	ID        string `json:"id"`
	Timestamp string `json:"timestamp"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

// receiveBash runs a command that a client sends. Its event comes with the others, in
// the order of the frames.
func (s *Server) receiveBash(ctx context.Context, who httpkit.Principal, frame []byte) [][]byte {
	if isAuthFrame(frame) {
		return nil
	}
	var b bashRequest
	err := httpkit.CheckJSON(s.bash, frame, &b, "body")
	if err == nil {
		_, err = s.cfg.Commands.Start(ctx, who.Owner, who.SandboxID, b.request())
	}
	if err == nil {
		return nil
	}
	answer, encodeErr := json.Marshal(bashError{"BashError", strings.ReplaceAll(uuid.NewString(), "-", ""), httpkit.FormatTime(time.Now().UTC()), errorCode(err), errorText(err)})
	if encodeErr != nil {
		return nil
	}
	return [][]byte{answer}
}
