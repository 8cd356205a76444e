package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"parley/test/testkit/parleytest"
)

// ordinary is a user id that owns nothing.
const ordinary = 64731

// The server works for a user without any rights.
func TestOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can start the server as another user; the other tests run as this ordinary user anyway")
	}
	dir, err := os.MkdirTemp("", "pu-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chown(dir, ordinary, ordinary); err != nil {
		t.Fatal(err)
	}
	s := parleytest.Start(t, parleytest.Options{Dir: dir, Demo: true, Cred: &syscall.Credential{Uid: ordinary, Gid: ordinary}})
	id := s.Conversation("write a.txt: by the agent\nrun: id -u; touch /usr/local/lib/made-inside && echo may-install; ls /root /home; cat /etc/shadow | cut -d: -f2 | sort -u; echo end-of-output")
	s.WaitStatus(id, "finished")
	log := texts(s.Events(id))
	for _, want := range []string{"may-install", "end-of-output", "by the agent"} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is missing in %s", want, log)
		}
	}
	if _, err := os.Stat("/usr/local/lib/made-inside"); err == nil {
		t.Error("a file made inside the sandbox is on the host")
	}
	sandboxID, _ := s.Info(id)["sandbox_id"].(string)
	for _, action := range []string{"pause", "resume"} {
		if code := s.Call("POST", "/api/v1/sandboxes/"+sandboxID+"/"+action, nil, nil); code != 200 {
			t.Errorf("%s: %d", action, code)
		}
	}
}

// chat runs the terminal client and returns its exit code and what it printed.
func chat(t *testing.T, s *parleytest.Server, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), parleytest.Binary(t), append([]string{"chat", "--server", s.URL}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PARLEY_API_KEY=" + parleytest.Key}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errOut.String()
}

func TestChatWorksInADirectoryOfThisMachine(t *testing.T) {
	s := demo(t)
	dir, err := os.MkdirTemp("", "pc-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "in.txt"), []byte("from the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := chat(t, s, dir, "--dir", ".", "run: cat in.txt\nwrite out.txt: from the agent")
	if code != 0 || !strings.Contains(out, "from the host") {
		t.Fatalf("exit %d\n%s\n%s", code, out, errOut)
	}
	got, err := os.ReadFile(filepath.Join(dir, "out.txt"))
	if err != nil || strings.TrimSpace(string(got)) != "from the agent" {
		t.Errorf("out.txt: %q, %v", got, err)
	}
	info, err := os.Stat(filepath.Join(dir, "out.txt"))
	if err == nil && int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		t.Errorf("out.txt belongs to user %d", info.Sys().(*syscall.Stat_t).Uid)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

func TestChatAsJSONAndResumed(t *testing.T) {
	s := demo(t)
	dir := t.TempDir()
	code, out, errOut := chat(t, s, dir, "--json", "run: echo json-lines")
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, errOut)
	}
	var kinds []string
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var e parleytest.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		kinds = append(kinds, e.Kind())
	}
	if !strings.Contains(strings.Join(kinds, " "), "ActionEvent") || !strings.Contains(out, "json-lines") {
		t.Errorf("kinds %v", kinds)
	}
	var page struct {
		Items []struct{ ID string } `json:"items"`
	}
	s.Call("GET", "/api/v1/app-conversations/search", nil, &page)
	code, out, errOut = chat(t, s, dir, "--conversation", page.Items[0].ID, "run: echo second-message")
	if code != 0 || !strings.Contains(out, "second-message") {
		t.Errorf("resume: exit %d\n%s\n%s", code, out, errOut)
	}
	if code, _, _ := chat(t, s, dir, "error: auth"); code != 3 {
		t.Errorf("a model error ends with exit code %d", code)
	}
	s.Stop()
	if code, _, errOut := chat(t, s, dir, "hello"); code != 7 || !strings.Contains(errOut, "parley serve") {
		t.Errorf("without a server: exit %d, %s", code, errOut)
	}
}
