package parley

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFramesAreReadAsTheyAreSent(t *testing.T) {
	stream := ": hello\nretry: 1000\n\nid: 0\ndata: {\"a\":1}\n\nevent: delta\r\ndata: x\r\ndata:y\r\n\r\n: beat\n\nid: 1\ndata: cut off"
	type flat struct{ ID, Event, Data string }
	var got []flat
	f := newFrames(strings.NewReader(stream))
	for {
		next, err := f.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, flat{next.id, next.event, string(next.data)})
	}
	if diff := cmp.Diff([]flat{{"0", "", `{"a":1}`}, {"", "delta", "x\ny"}}, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzStream: whatever a server sends, stored events come once and in order.
func FuzzStream(f *testing.F) {
	f.Add([]byte("id: 0\ndata: {\"kind\":\"A\"}\n\nid: 0\ndata: {}\n\nevent: deleted\ndata: {}\n\n"))
	f.Add([]byte("id: 5\ndata: x\n\nid: -3\ndata: {}\n\nevent: delta\ndata: {\"content\":\"a\"}\n\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		after := int64(FromStart)
		follow := &follower{after: FromStart, yield: func(e Event, _ error) bool {
			if e.Seq != LiveOnly {
				if e.Seq <= after {
					t.Fatalf("event %d after event %d", e.Seq, after)
				}
				after = e.Seq
			}
			e.Status()
			e.Text()
			return true
		}}
		frames := newFrames(strings.NewReader(string(raw)))
		for next, err := frames.next(); err == nil && !follow.done; next, err = frames.next() {
			follow.take(next)
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add([]byte(`{"detail":"no","code":"x"}`))
	f.Add([]byte(`{"detail":[{"loc":["body",1],"msg":"bad"}]}`))
	f.Add([]byte(`{"detail":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if e := refusal(&http.Response{StatusCode: http.StatusBadRequest}, raw); e.Message == "" {
			t.Fatalf("no message for %q", raw)
		}
	})
}
