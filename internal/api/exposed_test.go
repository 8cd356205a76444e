package api_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fleet"
	"parley/internal/sandbox"
	"parley/internal/store"
)

// exposedURLs are a sandbox's by name.
func (w *world) exposedURLs(id string) map[string]map[string]any {
	w.Helper()
	found := map[string]map[string]any{}
	list, _ := w.call(200, "GET", "/api/v1/sandboxes?id="+id, nil).at(0, "exposed_urls").([]any)
	for _, e := range list {
		u := e.(map[string]any)
		found[u["name"].(string)] = u
	}
	return found
}

// workerAt returns the worker of a port, "" if there is none.
func (w *world) workerAt(id string, port int) string {
	w.Helper()
	for name, u := range w.exposedURLs(id) {
		if u["port"] == float64(port) && strings.HasPrefix(name, "WORKER_") {
			return name
		}
	}
	return ""
}

func TestWhatListensIsExposed(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	port := lis.Addr().(*net.TCPAddr).Port
	var name string
	w.eventually("the worker", func() bool { name = w.workerAt(s.ID, port); return name != "" })
	if u := w.exposedURLs(s.ID)[name]; u["url"] != w.server.URL+preview(s, port)+"/" {
		t.Errorf("%v", u)
	}
	last, number := 0, 0
	list, _ := w.call(200, "GET", "/api/v1/sandboxes/search", nil).at("items", 0, "exposed_urls").([]any)
	for i, e := range list {
		u := e.(map[string]any)
		switch {
		case i == 0:
			if u["name"] != "AGENT_SERVER" {
				t.Errorf("%v comes first", u)
			}
		case strings.HasPrefix(u["name"].(string), "WORKER_"):
			number++
			if u["name"] != "WORKER_"+strconv.Itoa(number) || int(u["port"].(float64)) <= last {
				t.Errorf("%v after port %d", u, last)
			}
			last = int(u["port"].(float64))
		}
	}
	check(t, lis.Close())
	w.eventually("its end", func() bool { return w.workerAt(s.ID, port) == "" })
	w.call(200, "POST", "/api/v1/sandboxes/"+s.ID+"/pause", nil)
	if a := w.call(200, "GET", "/api/v1/sandboxes?id="+s.ID, nil); a.at(0, "exposed_urls") != nil {
		t.Errorf("%s", a.body)
	}
}

// fakeEditor serves what it was called with: python or a shell is not needed inside,
// the test is the program.
func fakeEditor(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755)) //nolint:gosec // a program
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestEditorIsStartedWhenItIsLookedAt(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	fakeEditor(t, "openvscode-server", `echo "$@" >`+started+"\nexec sleep 1000\n")
	w := newWorld(t)
	s := w.sandbox()
	var editor map[string]any
	w.eventually("VSCODE", func() bool { editor = w.exposedURLs(s.ID)["VSCODE"]; return editor != nil })
	at := preview(s, fleet.EditorPort)
	if u := editor["url"].(string); !strings.HasPrefix(u, w.server.URL+at+"/?folder=%2F") || editor["port"] != float64(fleet.EditorPort) {
		t.Errorf("%v", editor)
	}
	answers := make(chan *answer, 1)
	go func() { answers <- w.keyed(userKey, at+"/static/x?y=1", "Origin", w.server.URL) }()
	w.eventually("the start", func() bool { _, err := os.Stat(started); return err == nil })
	lis, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(fleet.EditorPort))
	check(t, err)
	srv := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, r.RequestURI+" "+r.Header.Get("Origin"))
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	a := (<-answers).is(200)
	if string(a.body) != at+"/static/x?y=1 "+w.server.URL { // it knows its base path, and compares origins with X-Forwarded-Host
		t.Errorf("%s", a.body)
	}
	check(t, srv.Close())
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	args, err := os.ReadFile(started)
	check(t, err)
	if want := "--host 127.0.0.1 --port 60001 --without-connection-token --server-base-path " + at; strings.TrimSpace(string(args)) != want {
		t.Errorf("%s", args)
	}
}

func TestASandboxWithoutAnEditorShowsNone(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	if u := w.exposedURLs(s.ID)["VSCODE"]; u != nil {
		t.Errorf("%v", u)
	}
	if a := w.keyed(userKey, preview(s, fleet.EditorPort)+"/").is(502); a.text("code") != "port_closed" {
		t.Errorf("%s", a.body)
	}
}

func TestNetworkLog(t *testing.T) {
	w := newWorld(t, say("ok"))
	id, a := w.begin(map[string]any{})
	box := a.text("sandbox_id")
	at := time.Date(2026, 1, 2, 3, 4, 5, 600_000_000, time.UTC)
	check(t, w.store.NetworkLog().Write(t.Context(), []store.NetworkEntry{
		{SandboxID: box, ID: "a", Began: at, Lasted: 1500 * time.Millisecond, Protocol: "tcp", Host: "example.org", Address: "93.184.216.34",
			Port: 443, Sent: 10, Received: 20, Verdict: "allowed"},
		{SandboxID: box, ID: "b", Began: at.Add(time.Second), Protocol: "tcp", Address: "169.254.169.254", Port: 80, Verdict: "refused", Reason: "It is link-local."},
		{SandboxID: box, ID: "c", Began: at.Add(2 * time.Second), Protocol: "dns", Host: "example.net", Verdict: "allowed"},
		{SandboxID: "sb-other", ID: "d", Began: at, Protocol: "dns", Host: "hush", Verdict: "allowed"},
	}, 100))
	for _, path := range []string{"/api/v1/sandboxes/" + box + "/network", "/api/v1/app-conversations/" + id + "/network"} {
		got := w.call(200, "GET", path, nil)
		if items := got.list("items"); len(items) != 3 || got.at("next_page_id") != nil || got.text("items", 0, "id") != "c" {
			t.Fatalf("%s", got.body)
		}
		want := map[string]any{"id": "a", "time": "2026-01-02T03:04:05.600000Z", "protocol": "tcp", "host": "example.org", "address": "93.184.216.34",
			"port": 443.0, "bytes_sent": 10.0, "bytes_received": 20.0, "verdict": "allowed", "reason": nil, "open": false, "duration_ms": 1500.0}
		for name, v := range want {
			if got.at("items", 2, name) != v {
				t.Errorf("%s: %v, want %v", name, got.at("items", 2, name), v)
			}
		}
		if got.at("items", 0, "address") != nil || got.at("items", 0, "port") != nil || got.at("items", 1, "reason") == nil {
			t.Errorf("%s", got.body)
		}
		for query, ids := range map[string]string{"?verdict=refused": "b", "?host=EXAMPLE": "ca", "?host=169.254": "b", "?verdict=allowed&host=org": "a", "?host=hush": ""} {
			var found string
			for _, e := range w.call(200, "GET", path+query, nil).list("items") {
				found += e.(map[string]any)["id"].(string)
			}
			if found != ids {
				t.Errorf("%s: %q, want %q", query, found, ids)
			}
		}
		first := w.call(200, "GET", path+"?limit=2", nil)
		if rest := w.call(200, "GET", path+"?limit=2&page_id="+first.text("next_page_id"), nil); rest.text("items", 0, "id") != "a" || rest.at("next_page_id") != nil {
			t.Errorf("%s", rest.body)
		}
		w.call(422, "GET", path+"?verdict=maybe", nil)
		w.call(422, "GET", path+"?limit=101", nil)
		w.as(otherKey, "GET", path, nil).is(404)
		w.as("", "GET", path, nil).is(401)
	}
	w.call(404, "GET", "/api/v1/sandboxes/sb-other/network", nil)
	w.call(404, "GET", "/api/v1/app-conversations/"+strings.Repeat("0", 32)+"/network", nil)
}

func TestSandboxUsage(t *testing.T) {
	w := newWorld(t)
	s := w.sandbox()
	path := "/api/v1/sandboxes/" + s.ID + "/usage"
	if a := w.call(200, "GET", path, nil); a.at("cpu_seconds") != nil || a.at("memory_bytes") != nil || a.at("limits", "memory_bytes") != nil {
		t.Errorf("%s", a.body)
	}
	u := sandbox.Unknown()
	u.CPU, u.MemoryBytes, u.Processes = 1500*time.Millisecond, 7<<20, 0
	w.boxes.SetUsage(s.ID, u)
	a := w.call(200, "GET", path, nil)
	if a.at("cpu_seconds") != 1.5 || a.at("memory_bytes") != float64(7<<20) || a.at("processes") != 0.0 || a.at("disk_bytes") != nil {
		t.Errorf("%s", a.body)
	}
	w.as(otherKey, "GET", path, nil).is(404)
	w.call(404, "GET", "/api/v1/sandboxes/none/usage", nil)
	spec := w.call(200, "GET", "/api/v1/sandbox-specs/search", nil)
	if spec.text("items", 0, "backend") != "bench" || spec.at("items", 0, "image") != nil || spec.text("items", 0, "network", "mode") != "open" ||
		spec.at("items", 0, "limits", "cpus") != nil {
		t.Errorf("%s", spec.body)
	}
}

func TestForkOverV1(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"echo kept > file"}`), say("done"))
	id, a := w.begin(map[string]any{"title": "first", "initial_message": userSays("write")})
	w.waitFor(id, conversation.Finished)
	path, box := "/api/v1/app-conversations/"+id+"/fork", a.text("sandbox_id")
	made := w.call(201, "POST", path, map[string]any{"title": "second", "tags": map[string]any{"k": "v"}})
	if made.text("title") != "second" || made.text("tags", "k") != "v" || made.text("sandbox_id") == box || made.text("id") == id ||
		made.at("metrics", "accumulated_cost") != 0.0 {
		t.Errorf("%s", made.body)
	}
	copied := made.text("sandbox_id")
	w.eventually("RUNNING", func() bool {
		return w.call(200, "GET", "/api/v1/sandboxes?id="+copied, nil).text(0, "status") == "RUNNING"
	})
	v, err := w.engine.View(t.Context(), account.FirstUserID, conversation.ID(made.text("id")))
	check(t, err)
	if text, err := os.ReadFile(filepath.Join(v.Options.WorkingDir, "file")); err != nil || string(text) != "kept\n" || !strings.Contains(v.Options.WorkingDir, copied) {
		t.Errorf("%q %v in %s", text, err, v.Options.WorkingDir)
	}
	same := w.call(201, "POST", path, map[string]any{"copy_sandbox": false, "reset_metrics": false})
	if same.text("sandbox_id") != box || same.at("metrics", "accumulated_cost") == 0.0 {
		t.Errorf("%s", same.body)
	}
	if all := w.call(201, "POST", path, nil); all.text("title") != "first" || all.text("sandbox_id") == box {
		t.Errorf("%s", all.body)
	}
	w.call(404, "POST", path, map[string]any{"from_event_id": "none"})
	w.call(422, "POST", path, map[string]any{"title": strings.Repeat("x", 1001)})
	w.as(otherKey, "POST", path, nil).is(404)
	w.call(200, "DELETE", "/api/v1/sandboxes/"+box, nil)
	if a := w.call(410, "POST", path, nil); a.text("code") != "sandbox_missing" {
		t.Errorf("%s", a.body)
	}
}

func TestStartChoosesItsSandbox(t *testing.T) {
	w := newWorld(t)
	start := "/api/v1/app-conversations"
	w.call(404, "POST", start, map[string]any{"sandbox_spec_id": "none"})
	for loc, network := range map[string]any{
		"mode":  map[string]any{"mode": "closed"},
		"allow": map[string]any{"mode": "allow", "allow": []any{"https://example.org/x"}},
		"field": map[string]any{"allow": []any{}},
	} {
		a := w.call(422, "POST", start, map[string]any{"sandbox_network": network})
		if !strings.Contains(string(a.body), `"body","sandbox_network"`) {
			t.Errorf("%s: %s", loc, a.body)
		}
	}
	w.call(501, "POST", start, map[string]any{"sandbox_network": map[string]any{"mode": "none"}}) // this backend cannot
	id, a := w.begin(map[string]any{"sandbox_spec_id": "bench", "sandbox_network": map[string]any{"mode": "open", "allow": []any{"10.0.0.0/8"}}})
	conv, err := w.store.Conversations().Get(t.Context(), "", conversation.ID(id))
	check(t, err)
	if n := conv.Options.Sandbox.Network; n == nil || n.Mode != "open" || len(n.Allow) != 1 || conv.Options.SpecID != "bench" {
		t.Errorf("%+v", conv.Options.Sandbox)
	}
	task := w.call(200, "GET", start+"/start-tasks/search?conversation_id__eq="+id, nil)
	if task.text("items", 0, "request", "sandbox_network", "mode") != "open" || task.text("items", 0, "request", "sandbox_spec_id") != "bench" {
		t.Errorf("%s", task.body)
	}
	if box := w.call(200, "GET", "/api/v1/sandboxes?id="+a.text("sandbox_id"), nil); box.text(0, "sandbox_spec_id") != "bench" {
		t.Errorf("%s", box.body)
	}
}
