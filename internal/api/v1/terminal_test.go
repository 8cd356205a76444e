package v1

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/fault"
)

func FuzzDecodeControl(f *testing.F) {
	for _, frame := range []string{`{"type":"resize","rows":24,"cols":80}`, `{"type":"ack","bytes":1}`, `{"type":"auth","session_api_key":"k"}`,
		`{"type":"resize","rows":1e9}`, `[]`, `{"type":7}`, ``} {
		f.Add([]byte(frame))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		c, err := decodeControl(frame)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid || fault.CodeOf(err) != "bad_control" || fault.PublicText(err) == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		switch {
		case c.Type == controlResize && c.Rows >= 1 && c.Rows <= 500 && c.Cols >= 1 && c.Cols <= 1000:
		case c.Type == controlAck && c.Bytes >= 1:
		case c.Type == controlAuth:
		default:
			t.Fatalf("%+v", c)
		}
	})
}

// TestSendWindow: whatever comes, no more is out than the window, and an ack for more
// than is out changes nothing.
func TestSendWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 100).Draw(t, "size")
		w := newSendWindow(size)
		out := 0
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "sends") {
				room, err := w.await(ended, 40)
				if (err == nil) != (out < size) || room > 40 || room > size-out {
					t.Fatalf("room %d, %v with %d of %d out", room, err, out, size)
				}
				n := rapid.IntRange(0, room).Draw(t, "sent")
				w.sent(n)
				out += n
				continue
			}
			n := rapid.IntRange(1, 120).Draw(t, "acked")
			if err := w.ack(n); (err == nil) != (n <= out) {
				t.Fatalf("ack %d of %d: %v", n, out, err)
			} else if err == nil {
				out -= n
			}
		}
	})
}
