package browser

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"parley/internal/tool"
	"parley/internal/tool/browser/cdp"
)

func TestAddress(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"https://example.com/a?b#c", "https://example.com/a?b#c"},
		{" example.com/x ", "https://example.com/x"},
		{"//example.com", "https://example.com"},
		{"example.com:8443/x", "https://example.com:8443/x"},
		{"localhost:3000", "http://localhost:3000"},
		{"localhost", "http://localhost"},
		{"127.0.0.1:80/x", "http://127.0.0.1:80/x"},
		{"[::1]:80", "http://[::1]:80"},
		{"10.1.2.3", "http://10.1.2.3"},
		{"app.localhost:1", "http://app.localhost:1"},
		{"/workspace/a b.html", "file:///workspace/a%20b.html"},
		{"file:///x", "file:///x"},
		{"data:text/html,<p>x", "data:text/html,<p>x"},
		{"about:blank", "about:blank"},
		{"", ""}, {"javascript:alert(1)", ""}, {"chrome://settings", ""}, {"mailto:a@b", ""}, {"http://", ""}, {"http://[", ""},
		{"data:" + strings.Repeat("x", maxAddress), ""},
	} {
		got, err := address(c.in)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%.60q: %q, %v; want %q", c.in, got, err, c.want)
		}
		if _, ok := tool.ForModel(err); err != nil && !ok {
			t.Errorf("%.60q: %v is not for the model", c.in, err)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"https://a.b", "localhost:1", "/x?y#z", "//", "a:b:c", "http://[::1", "\x00", "data:,"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := address(in)
		if err != nil {
			return
		}
		u, err := url.Parse(got)
		if err != nil || u.Scheme == "" || u.Scheme == "javascript" || u.Scheme == "chrome" {
			t.Fatalf("%q became %q, %v", in, got, err)
		}
	})
}

func TestParseAnnouncement(t *testing.T) {
	for _, c := range []struct {
		in   string
		port int
	}{
		{"noise\r\n\r\nDevTools listening on ws://127.0.0.1:40143/devtools/browser/1a-2b\r\nmore", 40143},
		{"DevTools listening on ws://127.0.0.1:40143/devtools/browser/1a-2", 0}, // maybe not whole yet
		{"DevTools listening on ws://127.0.0.1:99999/devtools/browser/1a\n", 0},
		{"", 0},
	} {
		if port, path, ok := parseAnnouncement(c.in); port != c.port || ok != (c.port > 0) || ok && path != "/devtools/browser/1a-2b" {
			t.Errorf("%q: %d %q %v", c.in, port, path, ok)
		}
	}
	if port, path, ok := parsePortFile("33001\n/devtools/browser/abc"); !ok || port != 33001 || path != "/devtools/browser/abc" {
		t.Errorf("%d %q %v", port, path, ok)
	}
}

func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{"1\n/devtools/browser/x", "DevTools listening on ws://h:1/devtools/browser/x\n", "0\n", "\n", "65536\n/devtools/browser/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for _, parse := range []func(string) (int, string, bool){parsePortFile, parseAnnouncement} {
			port, path, ok := parse(in)
			if ok && (port < 1 || port > 65535 || !endpointForm.MatchString(path)) || !ok && (port != 0 || path != "") {
				t.Fatalf("%q: %d %q %v", in, port, path, ok)
			}
		}
		if found := pick(in); len(found) > 3 {
			t.Fatalf("%q", found)
		}
	})
}

// sent collects commands.
type sent struct{ methods []string }

func (s *sent) Send(_, method string, _ any) { s.methods = append(s.methods, method) }
func (s *sent) Context() context.Context     { return context.Background() }

// FuzzEvents: whatever a browser says, what is known stays bounded and consistent,
// and every dialog is answered.
func FuzzEvents(f *testing.F) {
	attach := `{"sessionId":"S1","targetInfo":{"targetId":"T1","type":"page","url":"u","title":"t"}}`
	for method := range handlers {
		f.Add(method, "S1", attach)
		f.Add(method, "S1", `{"sessionId":"S1","targetId":"T1","frameId":"T1","guid":"g","state":"completed"}`)
		f.Add(method, "", `{"data":"AA==","sessionId":1}`)
		f.Add(method, "", `[`)
	}
	f.Fuzz(func(t *testing.T, method, session, params string) {
		tabs, conn := newTabs(), &sent{}
		tabs.handle(conn, cdp.Event{Method: "Target.attachedToTarget", Params: json.RawMessage(attach)})
		for range 3 {
			tabs.handle(conn, cdp.Event{Method: method, Session: session, Params: json.RawMessage(params)})
		}
		all, active := tabs.snapshot()
		if len(all) > maxTabs || len(tabs.notes) > maxNotes || len(tabs.downloads) > maxDownloads {
			t.Fatal("too much is kept")
		}
		if _, ok := tabs.current(); !ok && len(all) > 0 {
			t.Fatalf("of %d tabs none is active (%q)", len(all), active)
		}
		if method == "Page.javascriptDialogOpening" && conn.methods[len(conn.methods)-1] != "Page.handleJavaScriptDialog" {
			t.Fatal("a dialog was not answered")
		}
		for _, note := range tabs.takeNotes() {
			if len(note) > 4*800 {
				t.Fatalf("a note of %d bytes", len(note))
			}
		}
		_ = tabs.text()
	})
}

func TestTabLabels(t *testing.T) {
	all := []tab{{target: "AAAA1234"}, {target: "BBBB1234"}, {target: "CCCC5678"}}
	for i, want := range []string{"A1234", "B1234", "5678"} {
		if got := label(all, all[i].target); got != want {
			t.Errorf("%s is called %s, want %s", all[i].target, got, want)
		}
	}
	tabs := newTabs()
	for i := range all {
		tabs.list = append(tabs.list, &all[i])
	}
	if x, err := tabs.find("b1234"); err != nil || x.target != "BBBB1234" {
		t.Errorf("found %v, %v", x, err)
	}
	if _, err := tabs.find("1234"); err == nil {
		t.Error("a name of two tabs is accepted")
	}
}

func TestFramesAreFlattened(t *testing.T) {
	tree := frameTree{Frame: frameInfo{ID: "a"}, Children: []frameTree{{Frame: frameInfo{ID: "b"}, Children: []frameTree{{Frame: frameInfo{ID: "c"}}}}, {Frame: frameInfo{ID: "d"}}}}
	var ids string
	for _, f := range tree.flat(nil) {
		ids += f.ID
	}
	if ids != "abcd" {
		t.Errorf("the order is %s", ids)
	}
}

func TestClip(t *testing.T) {
	for _, s := range []string{"", "abc", strings.Repeat("\u00e4", 30)} {
		if got := clip(s, 10); utf8.RuneCountInString(got) > 10 || !utf8.ValidString(got) {
			t.Errorf("%q", got)
		}
	}
}

func TestRecordingIsBounded(t *testing.T) {
	tabs, now := newTabs(), time.Now()
	tabs.list, tabs.active = []*tab{{target: "T", session: "S"}, {target: "U", session: "V"}}, "T"
	rec := &recording{started: now}
	if _, _, ok := tabs.nextFrame("S", now); ok {
		t.Error("a picture without a recording")
	}
	tabs.record = rec
	if _, f, ok := tabs.nextFrame("S", now.Add(time.Second)); !ok || f.At != 1000 || f.File != "00001.jpg" {
		t.Errorf("%+v %v", f, ok)
	}
	if _, _, ok := tabs.nextFrame("S", now.Add(time.Second+frameDistance/2)); ok {
		t.Error("a picture too soon")
	}
	if _, _, ok := tabs.nextFrame("V", now.Add(time.Hour)); ok {
		t.Error("a picture of a tab that is not active")
	}
	rec.bytes = maxFrameBytes
	if _, _, ok := tabs.nextFrame("S", now.Add(time.Hour)); ok || !rec.full {
		t.Error("a recording without end")
	}
}
