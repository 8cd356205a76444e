package e2e_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"parley/test/testkit/parleytest"
)

// client is what SDKs do in a sandbox, over its agent protocol.
type client struct {
	*parleytest.Server
	t         *testing.T
	base, key string
}

type bashEvent struct {
	ID        string  `json:"id"`
	CommandID string  `json:"command_id"`
	Order     int     `json:"order"`
	ExitCode  *int    `json:"exit_code"`
	Stdout    *string `json:"stdout"`
	Stderr    *string `json:"stderr"`
}

func (c *client) call(want int, method, path string, body, out any) {
	c.t.Helper()
	if code := c.CallAs(c.key, method, c.base+path, body, out); code != want {
		c.t.Fatalf("%s %s: %d, want %d\n%s", method, path, code, want, c.Log())
	}
}

func (c *client) execute(command string) (string, int) {
	c.t.Helper()
	var e bashEvent
	c.call(200, "POST", "/api/bash/execute_bash_command", map[string]any{"command": command}, &e)
	out := ""
	for _, part := range []*string{e.Stdout, e.Stderr} {
		if part != nil {
			out += *part
		}
	}
	return out, *e.ExitCode
}

// outputs are the outputs of a command so far.
func (c *client) outputs(command string) (all []bashEvent) {
	c.t.Helper()
	var page struct {
		Items []bashEvent `json:"items"`
	}
	c.call(200, "GET", "/api/bash/bash_events/search?kind__eq=BashOutput&command_id__eq="+command, nil, &page)
	return page.Items
}

func (c *client) upload(path string, data []byte) {
	c.t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	part, err := m.CreateFormFile("file", "f")
	if err == nil {
		_, err = part.Write(data)
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), "POST", c.base+"/api/file/upload?path="+url.QueryEscape(path), &b)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", m.FormDataContentType())
	req.Header.Set("X-Session-API-Key", c.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 200 {
		c.t.Fatalf("upload: %d\n%s", resp.StatusCode, c.Log())
	}
}

// TestClientsWorkInASandbox: commands, files and git in an isolated sandbox, through a
// crash of the server.
func TestClientsWorkInASandbox(t *testing.T) {
	t.Parallel()
	s := parleytest.Start(t, parleytest.Options{Demo: true})
	id := s.Conversation("")
	address, key := s.AgentURL(id)
	base, _, _ := strings.Cut(address, "/api/conversations/")
	c := &client{s, t, base, key}
	workspace, _ := s.Info(id)["workspace"].(map[string]any)
	dir := fmt.Sprint(workspace["working_dir"])

	if out, code := c.execute("pwd; echo err >&2; exit 3"); out != dir+"\nerr\n" || code != 3 {
		t.Errorf("%q %d", out, code)
	}
	large := bytes.Repeat([]byte("all work and no play\n"), 300_000)
	c.upload(dir+"/deep/large", large)
	if out, code := c.execute("wc -c <deep/large"); strings.TrimSpace(out) != fmt.Sprint(len(large)) || code != 0 {
		t.Errorf("%q %d", out, code)
	}
	status, back, err := s.Raw(t.Context(), key, "GET", base+"/api/file/download?path="+url.QueryEscape(dir+"/deep/large"), nil)
	if err != nil || status != 200 || !bytes.Equal(back, large) {
		t.Errorf("download: %d, %d bytes, %v", status, len(back), err)
	}
	c.call(404, "GET", "/api/file/download?path=/etc/no-such-file", nil, nil)
	if name, err := os.Hostname(); err == nil && os.Geteuid() == 0 {
		_ = os.WriteFile("/root/.parley-e2e-"+name, []byte("the machine's"), 0o600)
		defer func() { _ = os.Remove("/root/.parley-e2e-" + name) }()
		for _, path := range []string{"/root/.parley-e2e-" + name, "/proc/1/root/root/.parley-e2e-" + name} {
			if status, body, _ := s.Raw(t.Context(), key, "GET", base+"/api/file/download?path="+url.QueryEscape(path), nil); status == 200 {
				t.Errorf("%s of the machine is shown: %s", path, body)
			}
		}
	}
	if out, code := c.execute("git init -q . 2>&1; git add deep && git -c user.name=a -c user.email=a@b commit -qm one && echo x >fresh"); code != 0 {
		t.Fatalf("git in the sandbox: %s", out)
	}
	var changes []map[string]string
	c.call(200, "GET", "/api/git/changes/"+url.PathEscape(dir)+"?ref=HEAD", nil, &changes)
	if len(changes) != 1 || changes[0]["path"] != "fresh" || changes[0]["status"] != "ADDED" {
		t.Errorf("%v", changes)
	}
	if status, page, err := s.Raw(t.Context(), key, "GET", base+"/api/conversations/"+id+"/workspace/fresh", nil); status != 200 || string(page) != "x\n" {
		t.Errorf("workspace: %d %q %v", status, page, err)
	}
	c.crash()
}

// crash kills the server while a command runs: its client hears of it, once.
func (c *client) crash() {
	var started bashEvent
	c.call(200, "POST", "/api/bash/start_bash_command", map[string]any{"command": "echo alive; sleep 120"}, &started)
	c.Eventually("its first output", func() bool { return len(c.outputs(started.ID)) == 1 })
	c.Kill()
	c.Again()
	all := c.outputs(started.ID)
	if last := all[len(all)-1]; len(all) != 2 || last.ExitCode == nil || *last.ExitCode != -1 || last.Order != 1 || last.Stderr == nil {
		c.t.Errorf("after the crash: %+v", all)
	}
	c.Eventually("the sandbox to be back", func() bool {
		code := c.CallAs(c.key, "POST", c.base+"/api/bash/execute_bash_command", map[string]any{"command": "true"}, nil)
		return code == 200
	})
	c.Eventually("the command to end with its server", func() bool {
		out, _ := c.execute("ps ax 2>/dev/null | grep 'sleep 12[0]' || echo none")
		return strings.Contains(out, "none")
	})
}
