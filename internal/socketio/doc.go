// Package socketio serves the Socket.IO protocol, version 5, over Engine.IO
// version 4, as the official clients speak it: WebSocket, HTTP long-polling, and
// the change from one to the other.
//
// It knows one namespace, "/", text packets, and no rooms: Config.Serve gets every
// client that asks to connect, as a Socket, and decides what it is told.
//
// A client's state has one owner, its session. Packets go through two bounded
// queues: a slow client stops who emits to it, a slow Serve stops the client. One
// writer at a time takes from the outgoing queue, a poll or the WebSocket, so that
// the order stays over an upgrade.
package socketio
