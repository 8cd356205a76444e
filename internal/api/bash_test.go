package api_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func run(command string) map[string]any { return map[string]any{"command": command} }

// pollBash reads a command's outputs as the Python client does: after the last order
// it has seen, until there is an exit code.
func (p *place) pollBash(command string) (stdout, stderr string, code float64) {
	p.Helper()
	seen, order := map[string]bool{}, -1
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		a := p.agent(200, "GET", fmt.Sprintf("/api/bash/bash_events/search?command_id__eq=%s&sort_order=TIMESTAMP&limit=100&kind__eq=BashOutput&order__gt=%d", command, order), nil)
		for i := range a.list("items") {
			id := a.text("items", i, "id")
			if seen[id] {
				p.Fatalf("event %s comes twice", id)
			}
			seen[id] = true
			order++
			if got := a.at("items", i, "order"); got != float64(order) {
				p.Fatalf("order %v, want %d", got, order)
			}
			for name, to := range map[string]*string{"stdout": &stdout, "stderr": &stderr} {
				if text, ok := a.at("items", i, name).(string); ok {
					*to += text
				}
			}
			if c, ok := a.at("items", i, "exit_code").(float64); ok {
				return stdout, stderr, c
			}
		}
	}
	p.Fatal("the command does not end")
	return "", "", 0
}

func TestBashCommandsOverHTTP(t *testing.T) {
	p := newPlace(t, nil)
	started := p.agent(200, "POST", "/api/bash/start_bash_command", map[string]any{"command": "echo out; echo err >&2; exit 4", "cwd": "/", "timeout": 60})
	id := started.text("id")
	if started.text("cwd") != "/" || started.at("timeout") != 60.0 {
		t.Errorf("%s", started.body)
	}
	if out, errs, code := p.pollBash(id); out != "out\n" || errs != "err\n" || code != 4 {
		t.Errorf("%q %q %v", out, errs, code)
	}
	last := p.agent(200, "POST", "/api/bash/execute_bash_command", run("pwd"))
	if last.text("stdout") != p.dir+"\n" || last.at("exit_code") != 0.0 || last.at("stderr") != nil {
		t.Errorf("%s", last.body)
	}
	if a := p.agent(200, "GET", "/api/bash/bash_events/"+last.text("id"), nil); a.text("stdout") != p.dir+"\n" {
		t.Errorf("%s", a.body)
	}
	dashed := id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
	if a := p.agent(200, "GET", "/api/bash/bash_events/"+strings.ToUpper(dashed), nil); a.text("command") != "echo out; echo err >&2; exit 4" {
		t.Errorf("%s", a.body)
	}
	p.agent(404, "GET", "/api/bash/bash_events/00000000000000000000000000000000", nil)
	if a := p.agent(200, "GET", "/api/bash/bash_events/", []string{"nope", id}); a.at(0) != nil || a.text(1, "id") != id {
		t.Errorf("%s", a.body)
	}
	first := p.agent(200, "GET", "/api/bash/bash_events/search?limit=1", nil)
	if first.text("items", 0, "id") != id {
		t.Errorf("%s", first.body)
	}
	rest := p.agent(200, "GET", "/api/bash/bash_events/search?page_id="+first.text("next_page_id"), nil)
	all := p.agent(200, "GET", "/api/bash/bash_events/search?sort_order=TIMESTAMP_DESC&timestamp__gte=2020-01-01T00:00:00Z", nil)
	if len(all.list("items")) != 1+len(rest.list("items")) || all.text("items", 0, "id") != last.text("id") {
		t.Errorf("%s", all.body)
	}
	if a := p.agent(200, "GET", "/api/bash/bash_events/search?timestamp__lt=2020-01-01T00:00:00", nil); len(a.list("items")) != 0 {
		t.Errorf("%s", a.body)
	}
	for _, query := range []string{"limit=0", "limit=101", "kind__eq=Other", "timestamp__gte=yesterday"} {
		p.agent(422, "GET", "/api/bash/bash_events/search?"+query, nil)
	}
	for _, body := range []any{map[string]any{}, map[string]any{"command": 1}, map[string]any{"command": "x", "timeout": 0}, `{"command":`} {
		p.agent(422, "POST", "/api/bash/start_bash_command", body)
	}
	if a := p.agent(200, "DELETE", "/api/bash/bash_events", nil); a.at("cleared_count") != float64(len(all.list("items"))) {
		t.Errorf("%s", a.body)
	}
	if a := p.agent(200, "GET", "/api/bash/bash_events/search", nil); len(a.list("items")) != 0 {
		t.Errorf("%s", a.body)
	}
}

func TestBashBelongsToOneSandbox(t *testing.T) {
	p := newPlace(t, nil)
	id := p.agent(200, "POST", "/api/bash/execute_bash_command", run("echo private")).text("id")
	other := p.sandbox().SessionKey.Reveal()
	p.as(other, "GET", "/api/bash/bash_events/"+id, nil).is(404)
	if a := p.as(other, "GET", "/api/bash/bash_events/search", nil).is(200); len(a.list("items")) != 0 {
		t.Errorf("%s", a.body)
	}
	if a := p.as(other, "DELETE", "/api/bash/bash_events", nil).is(200); a.at("cleared_count") != 0.0 {
		t.Errorf("%s", a.body)
	}
	prefix := "/agent/" + p.box.ID
	p.as(other, "POST", prefix+"/api/bash/execute_bash_command", run("true")).is(401)
	p.as(otherKey, "POST", prefix+"/api/bash/execute_bash_command", run("true")).is(404)
	p.as("", "POST", prefix+"/api/bash/execute_bash_command", run("true")).is(401)
	p.call(200, "POST", prefix+"/api/bash/execute_bash_command", run("true"))
	p.call(200, "POST", "/api/v1/sandboxes/"+p.box.ID+"/pause", nil)
	p.call(200, "POST", prefix+"/api/bash/execute_bash_command", run("true"))
	p.call(200, "DELETE", "/api/v1/sandboxes/"+p.box.ID, nil)
	if a := p.as(userKey, "POST", prefix+"/api/bash/execute_bash_command", run("true")); a.status != 404 && a.status != 410 {
		t.Errorf("status %d", a.status)
	}
	p.eventually("its events are gone", func() bool {
		found, err := p.store.Commands().Batch(t.Context(), p.box.ID, []string{id})
		check(t, err)
		return found[0] == nil
	})
}

func TestBashSocket(t *testing.T) {
	p := newPlace(t, nil)
	old := p.agent(200, "POST", "/api/bash/execute_bash_command", run("echo old")).text("command_id")
	key := p.box.SessionKey.Reveal()

	c := p.dial("/sockets/bash-events", "") // the key comes first
	c.say(map[string]any{"type": "auth", "session_api_key": key})
	c.say(map[string]any{"type": "auth", "session_api_key": "again"}) // is ignored
	c.say(map[string]any{"command": 5})
	if e := c.read(); e["kind"] != "BashError" || e["code"] != "ValidationError" || !strings.Contains(fmt.Sprint(e["detail"]), "command") {
		t.Errorf("%v", e)
	}
	c.say("no JSON")
	if e := c.read(); e["kind"] != "BashError" {
		t.Errorf("%v", e)
	}
	c.say(map[string]any{"command": "echo one", "cwd": "/", "timeout": 30})
	c.say(map[string]any{"command": "echo two"})
	var commands, outputs []string
	for len(outputs) < 2 {
		switch e := c.read(); e["kind"] {
		case "BashCommand":
			commands = append(commands, fmt.Sprint(e["command"]))
		case "BashOutput":
			if _, ok := e["stderr"]; !ok || e["stderr"] != nil {
				t.Errorf("nulls are left out: %v", e)
			}
			if e["exit_code"] != nil {
				outputs = append(outputs, fmt.Sprint(e["command_id"]))
			}
		default:
			t.Fatalf("%v", e)
		}
	}
	if !slices.Equal(commands, []string{"echo one", "echo two"}) {
		t.Errorf("%v", commands)
	}
	again := p.dial("/sockets/bash-events?resend_mode=all", key)
	if e := again.read(); e["id"] != old {
		t.Errorf("begins with %v", e)
	}
	prefixed := p.dial("/agent/"+p.box.ID+"/sockets/bash-events?resend_all=true", userKey)
	if e := prefixed.read(); e["id"] != old {
		t.Errorf("begins with %v", e)
	}
}

func TestBashSocketRefusesStrangers(t *testing.T) {
	p := newPlace(t, func(c *config) { c.agent.AuthWait = 100 * time.Millisecond })
	for path, key := range map[string]string{"/sockets/bash-events": "wrong", "/agent/" + p.box.ID + "/sockets/bash-events": otherKey} {
		opt := &websocket.DialOptions{HTTPHeader: map[string][]string{"X-Session-Api-Key": {key}}}
		if conn, resp, err := p.dialWith(path, opt); err == nil || resp.StatusCode != 403 && resp.StatusCode != 404 {
			t.Errorf("%s: %v %v", path, conn, resp.StatusCode)
		}
	}
	for name, frame := range map[string]any{"nothing is said": nil, "a wrong key": map[string]any{"type": "auth", "session_api_key": "wrong"},
		"a user's key without a sandbox": map[string]any{"type": "auth", "session_api_key": userKey}} {
		c := p.dial("/sockets/bash-events", "")
		if frame != nil {
			c.say(frame)
		}
		_, _, err := c.conn.Read(t.Context())
		var closed websocket.CloseError
		if !errors.As(err, &closed) || closed.Code != 4001 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
