package socketio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestParsePacket(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]packet{
		"0":                       {kind: '0', namespace: "/"},
		`0{"token":"1"}`:          {kind: '0', namespace: "/", data: []byte(`{"token":"1"}`)},
		"0/admin":                 {kind: '0', namespace: "/admin"},
		"0/admin,":                {kind: '0', namespace: "/admin"},
		`0/admin,{"a":1}`:         {kind: '0', namespace: "/admin", data: []byte(`{"a":1}`)},
		"1":                       {kind: '1', namespace: "/"},
		"1/admin,":                {kind: '1', namespace: "/admin"},
		`2["hello",1]`:            {kind: '2', namespace: "/", data: []byte(`["hello",1]`)},
		`2/admin,456["p",{}]`:     {kind: '2', namespace: "/admin", ack: "456", data: []byte(`["p",{}]`)},
		`312[]`:                   {kind: '3', namespace: "/", ack: "12", data: []byte(`[]`)},
		`4{"message":"no"}`:       {kind: '4', namespace: "/", data: []byte(`{"message":"no"}`)},
		`2["quoted [[[ \" { \\"]`: {kind: '2', namespace: "/", data: []byte(`["quoted [[[ \" { \\"]`)},
	} {
		p, err := parsePacket([]byte(text))
		if err != nil || p.kind != want.kind || p.namespace != want.namespace || p.ack != want.ack || !bytes.Equal(p.data, want.data) {
			t.Errorf("%s: %+v %v", text, p, err)
		}
	}
	for _, text := range []string{"", "7", "x", "2[", `2{"a"}`, "2[1]x", "2\xff", "0,", `2["a"]` + "\n]", "2" + strings.Repeat("[", 129) + strings.Repeat("]", 129)} {
		if p, err := parsePacket([]byte(text)); !errors.Is(err, errProtocol) {
			t.Errorf("%q is taken as %+v, %v", text, p, err)
		}
	}
	deepest := "2" + strings.Repeat("[", 128) + strings.Repeat("]", 128)
	if _, err := parsePacket([]byte(deepest)); err != nil {
		t.Errorf("nested as deeply as may be: %v", err)
	}
	for _, text := range []string{`51-["a",{"_placeholder":true,"num":0}]`, "6", "5\xff"} {
		if _, err := parsePacket([]byte(text)); !errors.Is(err, errBinary) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzPacket checks that what is parsed is bounded, valid, and says what the text
// did.
func FuzzPacket(f *testing.F) {
	for _, seed := range []string{"0", "0/a,{}", `2["a",{"b":[1,"\\\""]}]`, `2/x,12["a"]`, "51-[]", "2[[[", "3", `2["\ud800"]`, "2123"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parsePacket(text)
		if err != nil {
			if !errors.Is(err, errProtocol) && !errors.Is(err, errBinary) {
				t.Fatal(err)
			}
			return
		}
		again := string(p.kind)
		if p.namespace != "/" || bytes.HasPrefix(text[1:], []byte("/")) {
			again += p.namespace
			if bytes.Contains(text, []byte(",")) {
				again += ","
			}
		}
		if again += p.ack + string(p.data); again != string(text) {
			t.Fatalf("%q was read as %q", text, again)
		}
		if p.data != nil && !json.Valid(p.data) {
			t.Fatalf("%q is not JSON", p.data)
		}
		e, err := p.event()
		if err == nil && reserved(e.Name) {
			t.Fatalf("event %q", e.Name)
		}
		for _, arg := range e.Args {
			if !json.Valid(arg) {
				t.Fatalf("argument %q", arg)
			}
		}
		if _, err := p.object(); err != nil && !errors.Is(err, errProtocol) {
			t.Fatal(err)
		}
	})
}

// FuzzPayload sends what a client may as one POST: it is taken or refused, the
// session ends when it is refused, and everything can be joined.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{"40", "40\x1e42[\"a\"]\x1e41\x1e40", "1", "3\x1e3", "bAQID", "40\x1e451-[]\x1e42[]", "\x1e", "40/x,\x1e40/y", "421[\"a\"]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		server := New(Config{MaxPayload: 1 << 16, Serve: func(ctx context.Context, s *Socket) error {
			if err := s.Accept(ctx); err != nil {
				return err
			}
			for {
				if _, err := s.Receive(ctx); err != nil {
					return err
				}
			}
		}})
		open := httptest.NewRecorder()
		server.ServeHTTP(open, httptest.NewRequest(http.MethodGet, "/socket.io/?EIO=4&transport=polling", nil))
		var sid string
		for id := range server.sessions {
			sid = id
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/socket.io/?EIO=4&transport=polling&sid="+sid, bytes.NewReader(payload)))
		switch {
		case w.Code == http.StatusOK && w.Body.String() == "ok":
		case w.Code == http.StatusBadRequest || w.Code == http.StatusRequestEntityTooLarge && len(payload) > 1<<16:
			server.mu.Lock()
			session := server.sessions[sid]
			server.mu.Unlock()
			if session != nil && session.ctx.Err() == nil {
				t.Fatalf("%q is refused and the session goes on", payload)
			}
		default:
			t.Fatalf("%q: %d %s", payload, w.Code, w.Body)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
