package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"parley/internal/api/httpkit"
	v0 "parley/internal/api/v0"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/socketio"
)

// socketPath is where clients of the legacy API connect.
const socketPath = "/socket.io"

// live is the live side of the legacy API: its rooms, over Socket.IO.
type live struct {
	rooms   *v0.Rooms
	sockets *socketio.Server
}

// newLive makes the rooms, and tells the API's configuration of them.
func (a *App) newLive(cfg *v0.Config, auth *httpkit.Authenticator, streams *httpkit.Streams) *live {
	rooms := v0.NewRooms(*cfg, v0.RoomsConfig{Keys: auth, Demo: a.cfg.Demo, Log: a.log,
		Keep: func(ctx context.Context, owner, sandboxID string) { _, _ = a.fleet.Reach(ctx, owner, sandboxID, true) },
		Enter: func(ctx context.Context, who httpkit.Principal, id conversation.ID) (context.Context, func(), error) {
			return streams.Join(ctx, who, "socket.io", "socket.io "+string(id))
		}})
	cfg.Rooms = rooms
	return &live{rooms: rooms, sockets: socketio.New(socketio.Config{Log: a.log,
		Serve: func(ctx context.Context, s *socketio.Socket) error { return serveRoom(ctx, rooms, s) }})}
}

// serveRoom serves one client.
func serveRoom(ctx context.Context, rooms *v0.Rooms, s *socketio.Socket) error {
	err := rooms.Serve(ctx, roomSocket{s})
	if errors.Is(err, httpkit.ErrDraining) || errors.Is(err, httpkit.ErrRevoked) || fault.Is(err, fault.Unavailable) {
		return socketio.ErrServerClosed // the client comes again, and is told then
	}
	var refused *v0.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	out := &socketio.Refusal{Message: refused.Message}
	if refused.Data != nil {
		out.Data = refused.Data
	}
	return out
}

// roomSocket is a connection as rooms use it.
type roomSocket struct{ *socketio.Socket }

var _ v0.Socket = roomSocket{}

// Receive implements v0.Socket.
func (s roomSocket) Receive(ctx context.Context) (string, []json.RawMessage, error) {
	e, err := s.Socket.Receive(ctx)
	return e.Name, e.Args, err
}

// path is where it is mounted, "" if nowhere.
func (l *live) path() string {
	if l == nil {
		return ""
	}
	return socketPath
}

// handler serves the sockets, and everything else with next.
func (l *live) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.TrimRight(r.URL.Path, "/") == socketPath {
			httpkit.SetRoute(r, socketPath)
			l.sockets.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// close ends all connections, whose clients come again, and waits for what served them.
func (l *live) close(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if err := l.sockets.Close(ctx); err != nil {
		return err
	}
	l.rooms.Close()
	return nil
}
