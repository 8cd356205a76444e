package socketio_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/socketio"
)

// traveller is a client that changes its transport as it likes. It numbers what it
// sends, and gets it back.
type traveller struct {
	*polled
	t          *rapid.T
	wire       *wired // nil = it polls
	sent, back int
}

// take checks packets of the server.
func (c *traveller) take(payload string) {
	for packet := range strings.SplitSeq(payload, "\x1e") {
		if packet == "6" {
			continue
		}
		if want := fmt.Sprintf(`42["n-back",[%d]]`, c.back); packet != want {
			c.t.Fatalf("%q, want %q", packet, want)
		}
		c.back++
	}
}

// say sends n events.
func (c *traveller) say(n int) {
	var packets []string
	for range n {
		packets = append(packets, fmt.Sprintf(`42["n",%d]`, c.sent))
		c.sent++
	}
	if c.wire == nil {
		c.must(packets...)
		return
	}
	for _, packet := range packets {
		c.wire.send(packet)
	}
}

// hear takes what comes next. Something has to be due.
func (c *traveller) hear() {
	if c.wire != nil {
		c.take(c.wire.next())
		return
	}
	c.take(c.mustGet())
}

// change tries a WebSocket, and gives up after some steps or none.
func (c *traveller) change(steps int) {
	w := c.dial("EIO=4&transport=websocket&sid=" + c.sid)
	defer func() {
		if c.wire == nil {
			_ = w.conn.CloseNow()
		}
	}()
	if steps == 0 {
		return
	}
	// The server may not know yet that the attempt before was given up: it closes
	// this one then.
	if w.conn.Write(within(c.rig.t), 1, []byte("2probe")) != nil {
		return
	}
	if _, data, err := w.conn.Read(within(c.rig.t)); err != nil || string(data) != "3probe" {
		return
	}
	c.take(c.mustGet()) // the poll that is under way ends
	if steps > 1 {
		w.send("5")
		c.wire = w
	}
}

// Whatever a client does with its transports, each packet comes once and in order,
// both ways.
func TestPacketsComeOnceAndInOrderOverChangingTransports(t *testing.T) {
	t.Parallel()
	g := start(t, socketio.Config{})
	rapid.Check(t, func(t *rapid.T) {
		c := &traveller{polled: g.poll(""), t: t}
		c.must("40")
		c.packets(2) // the acceptance and auth
		t.Repeat(map[string]func(*rapid.T){
			"say": func(t *rapid.T) { c.say(rapid.IntRange(1, 5).Draw(t, "events")) },
			"hear": func(*rapid.T) {
				if c.back < c.sent {
					c.hear()
				}
			},
			"change": func(t *rapid.T) {
				if c.wire == nil {
					c.change(rapid.IntRange(0, 4).Draw(t, "steps"))
				}
			},
		})
		for c.back < c.sent {
			c.hear()
		}
		if c.wire != nil {
			c.wire.send("1")
			c.wire.closed()
		} else {
			c.must("1")
		}
	})
}
