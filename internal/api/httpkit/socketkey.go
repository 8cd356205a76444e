package httpkit

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// Close codes of our sockets, those of the agent protocol (1.5) among them.
const (
	CloseAuth    websocket.StatusCode = 4001 // the credential opens nothing here
	CloseUnknown websocket.StatusCode = 4004 // there is no such thing
)

const (
	keyWait     = 10 * time.Second
	maxKeyFrame = 16 << 10 // bytes, of a client that is not known yet
)

// SocketKey returns the key that a request for a socket carries: in the query, because
// browsers cannot set headers, or in the headers; "" if it comes in the first frame. A
// client without a key may send the text "null".
func SocketKey(r *http.Request) string {
	if key := r.URL.Query().Get("session_api_key"); key != "" && key != "null" {
		return key
	}
	return Credential(r)
}

type keyFrame struct {
	Type string `json:"type"`
	Key  string `json:"session_api_key"`
}

var errNoKey = errors.New("no credential in the first frame")

// FirstKey waits for the frame that carries the key, wait at most (0 = 10 s). After an
// error the socket is of no use any more: close it with CloseAuth.
func FirstKey(ctx context.Context, conn *websocket.Conn, wait time.Duration) (string, error) {
	conn.SetReadLimit(maxKeyFrame)
	type frame struct {
		data []byte
		err  error
	}
	// The read must not be given a deadline: its end would cut the connection
	// before a close code can be sent.
	got := make(chan frame, 1)
	go func() {
		_, data, err := conn.Read(context.WithoutCancel(ctx))
		got <- frame{data, err}
	}()
	timer := time.NewTimer(orDefault(wait, keyWait))
	defer timer.Stop()
	select {
	case f := <-got:
		var k keyFrame
		if f.err != nil || json.Unmarshal(f.data, &k) != nil || k.Type != "auth" {
			return "", errNoKey
		}
		return k.Key, nil
	case <-timer.C:
		_ = conn.Close(CloseAuth, "Authentication failed") // ends the read
		<-got
		return "", errNoKey
	}
}
