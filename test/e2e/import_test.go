package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"parley/test/testkit/parleytest"
)

const imported = "0123456789abcdef0123456789abcdef"

// legacyStore writes what a server of the legacy API leaves behind.
func legacyStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("settings.json", `{"llm_model":"demo/scripted","llm_api_key":"sk-very-secret","language":"de"}`)
	put("sessions/"+imported+"/metadata.json", `{"conversation_id":"`+imported+`","title":"From elsewhere","created_at":"2025-11-20T09:00:00Z","trigger":"gui","accumulated_cost":0.5}`)
	for i, e := range []string{
		`"source":"environment","message":"","observation":"agent_state_changed","content":"","extras":{"agent_state":"loading","reason":""}`,
		`"source":"agent","message":"s","action":"system","args":{"content":"s","tools":[],"openhands_version":"0.62.0","agent_class":"CodeActAgent"}`,
		`"source":"user","message":"list","action":"message","args":{"content":"list","file_urls":null,"image_urls":null,"wait_for_response":false,"security_risk":-1}`,
		`"source":"agent","message":"Running command: ls","action":"run","args":{"command":"ls","is_input":false,"thought":"","blocking":false,"is_static":false,"cwd":null,"hidden":false,"confirmation_state":"confirmed","security_risk":-1},"timeout":120.0`,
		`"source":"agent","message":"m","cause":3,"observation":"run","content":"x.txt","extras":{"command":"ls","metadata":{"exit_code":0,"pid":3},"hidden":false},"success":true`,
		`"source":"agent","message":"All done!","action":"finish","args":{"final_thought":"There is x.txt.","outputs":{},"thought":""}`,
		`"source":"environment","message":"","observation":"agent_state_changed","content":"","extras":{"agent_state":"finished","reason":""}`,
	} {
		put(fmt.Sprintf("sessions/%s/events/%d.json", imported, i), fmt.Sprintf(`{"id":%d,"timestamp":"2025-11-20T09:00:0%d.000001",%s}`, i, i, e))
	}
	return dir
}

func importInto(t *testing.T, s *parleytest.Server, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(parleytest.Binary(t), append([]string{"import", "--data", s.Dir}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "SESSION_API_KEY=" + parleytest.Key}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "sk-very-secret") {
		t.Errorf("a secret was printed: %s", out)
	}
	return string(out), err
}

// What another server has stored comes over with its numbers, is there over both APIs,
// and goes on (issue 8, import).
func TestImport(t *testing.T) {
	s := parleytest.Start(t, parleytest.Options{Demo: true})
	dir := legacyStore(t)
	if out, err := importInto(t, s, dir, "--yes"); err == nil || !strings.Contains(out, "uses this data directory") {
		t.Errorf("while a server runs: %v\n%s", err, out)
	}
	s.Stop()
	if out, err := importInto(t, s, dir); err == nil || !strings.Contains(out, "--yes") || !strings.Contains(out, "From elsewhere") {
		t.Errorf("nobody was asked: %v\n%s", err, out)
	}
	if out, err := importInto(t, s, dir, "--dry-run"); err != nil || !strings.Contains(out, "From elsewhere") {
		t.Errorf("plan: %v\n%s", err, out)
	}
	out, err := importInto(t, s, dir, "--yes", "--json")
	var report struct {
		Done  bool
		Items []struct{ Kind, Status string }
	}
	if err != nil || json.Unmarshal([]byte(out), &report) != nil || !report.Done || len(report.Items) != 2 {
		t.Errorf("import: %v\n%s", err, out)
	}
	if out, err := importInto(t, s, dir); err != nil || !strings.Contains(out, "Nothing to import.") {
		t.Errorf("again: %v\n%s", err, out)
	}
	s.Again()

	var info map[string]any
	s.Call("GET", "/api/conversations/"+imported, nil, &info)
	if info["title"] != "From elsewhere" || info["status"] != "STOPPED" {
		t.Errorf("%v", info)
	}
	var page struct{ Events []legacyEvent }
	s.Call("GET", "/api/conversations/"+imported+"/events?limit=100", nil, &page)
	if len(page.Events) != 7 || page.Events[3].ID != 3 || page.Events[3].Action != "run" || page.Events[6].Extras["agent_state"] != "finished" {
		t.Errorf("%+v", page.Events)
	}
	if log := s.Events(imported); len(log) < 5 || log[0].Kind() != "MessageEvent" || log[1].Kind() != "ActionEvent" {
		t.Errorf("%v", log)
	}

	s.Call("POST", "/api/conversations/"+imported+"/start", map[string]any{}, nil)
	s.Eventually("the sandbox", func() bool {
		s.Call("GET", "/api/conversations/"+imported, nil, &info)
		return info["status"] == "RUNNING"
	})
	before := len(s.Events(imported))
	if code := s.Call("POST", "/api/conversations/"+imported+"/message", map[string]any{"message": "hello again"}, nil); code != 200 {
		t.Fatalf("message: %d", code)
	}
	s.WaitStatus(imported, "finished")
	log := s.Events(imported)
	parleytest.CheckLog(t, log)
	said := false
	for _, e := range log[before:] {
		said = said || e.Kind() == "MessageEvent" && strings.Contains(e.Text(), "hello again")
	}
	s.Call("GET", "/api/conversations/"+imported+"/events?limit=100", nil, &page)
	for i, e := range page.Events {
		if e.ID != i {
			t.Errorf("event %d has id %d", i, e.ID)
		}
	}
	if !said || len(page.Events) < 10 {
		t.Errorf("it did not go on (%v): %+v", said, page.Events)
	}
}
