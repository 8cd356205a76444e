package socketio

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// Config is what a Server needs. Only Serve must be set.
type Config struct {
	// Serve runs in a goroutine of its own for every client that asks to connect to
	// the namespace "/". It calls s.Accept, then emits and receives until it returns:
	//
	//   - a *Refusal before Accept is sent in place of the acceptance (CONNECT_ERROR);
	//     the client does not come back by itself;
	//   - nil disconnects the client, which does not come back by itself either
	//     ("io server disconnect");
	//   - any other error closes the connection, and the client comes back. It is
	//     logged if it is neither ErrGone nor ErrServerClosed.
	//
	// What was emitted before is delivered first. ctx ends when the client leaves
	// (cause ErrGone) or the server closes (ErrServerClosed); it carries the values of
	// the handshake's context. Serve must return then, see also Socket.Receive.
	Serve func(ctx context.Context, s *Socket) error

	// AllowOrigin decides whether the pages of a request's Origin may connect; nil =
	// all pages may. It is not asked for requests without that header.
	AllowOrigin func(r *http.Request) bool

	MaxPayload     int64         // bytes of one message or POST of a client; 0 = 4 MiB
	MaxSessions    int           // connections at a time, 0 = 4096. For one more, the one without a socket for longest goes.
	MaxQueued      int           // bytes that wait for a client, and from it for Serve; 0 = 4 MiB. One message may be larger.
	PingInterval   time.Duration // from a sign of life to the next ping; 0 = 25 s
	PingTimeout    time.Duration // from a ping to a sign of life, and for a last delivery; 0 = 20 s
	ConnectTimeout time.Duration // for a session that is not connected to the namespace; 0 = 45 s
	UpgradeTimeout time.Duration // from a WebSocket's opening to the end of the upgrade; 0 = 10 s
	WriteTimeout   time.Duration // for a client to take one message; 0 = 45 s
	Log            *slog.Logger  // nil = nothing is logged
}

// ErrGone says that the client has left, or was dropped because it broke the
// protocol, gave no sign of life, or did not take what it was sent.
var ErrGone = errors.New("the client is gone")

// ErrServerClosed says that the server was closed.
var ErrServerClosed = errors.New("the Socket.IO server is closed")

// Refusal is an error that a client is told in place of being connected.
type Refusal struct {
	Message string // what the client's connect_error event has as its message
	Data    any    // its data, encoded as JSON; nil = none
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

func orDefault[T int | int64 | time.Duration](v, preset T) T {
	if v == 0 {
		return preset
	}
	return v
}

func (c Config) withDefaults() Config {
	c.MaxPayload = orDefault(c.MaxPayload, 4<<20)
	c.MaxSessions = orDefault(c.MaxSessions, 4096)
	c.MaxQueued = orDefault(c.MaxQueued, 4<<20)
	c.PingInterval = orDefault(c.PingInterval, 25*time.Second)
	c.PingTimeout = orDefault(c.PingTimeout, 20*time.Second)
	c.ConnectTimeout = orDefault(c.ConnectTimeout, 45*time.Second)
	c.UpgradeTimeout = orDefault(c.UpgradeTimeout, 10*time.Second)
	c.WriteTimeout = orDefault(c.WriteTimeout, 45*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
