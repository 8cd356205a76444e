package api_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"parley/internal/account"
	"parley/internal/conversation"
)

// unzip returns the names of an archive's files in their order, and their texts.
func unzip(t *testing.T, archive []byte) (names []string, files map[string]string) {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	check(t, err)
	files = map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		check(t, err)
		raw, err := io.ReadAll(r)
		check(t, err)
		names, files[f.Name] = append(names, f.Name), string(raw)
	}
	return names, files
}

func TestDownloadIsTheWholeConversation(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"echo hunter2-is-the-word"}`))
	id, conv := w.begin(message("hello"))
	w.waitFor(id, conversation.Finished)
	// A secret that is stored only now was in the log before.
	check(t, w.store.Accounts().UpdateSettings(t.Context(), account.FirstUserID, func(s *account.Settings) (*account.Settings, error) {
		s.Secrets.Custom = map[string]account.CustomSecret{"WORD": {Value: account.NewSecret("hunter2-is-the-word")}}
		return s, nil
	}))
	box, key := conv.text("sandbox_id"), conv.text("session_api_key")
	agent := w.as(key, "GET", "/api/file/download-trajectory/"+id, nil).is(200)
	w.call(200, "DELETE", "/api/v1/sandboxes/"+box, nil) // it works without one
	a := w.call(200, "GET", "/api/v1/app-conversations/"+id+"/download", nil)
	if got := a.header.Get("Content-Disposition"); got != `attachment; filename="conversation_`+id+`.zip"` {
		t.Errorf("Content-Disposition: %s", got)
	}
	events := w.events(id)
	for _, body := range [][]byte{a.body, agent.body} {
		names, files := unzip(t, body)
		if len(names) != len(events)+1 || names[0] != "meta.json" || names[1] != "event_000001_"+events[0].ID+".json" {
			t.Fatalf("files: %v for %d events", names, len(events))
		}
		all := ""
		for i, e := range events {
			var now conversation.Header
			check(t, json.Unmarshal([]byte(files[names[i+1]]), &now))
			if now.ID != e.ID || now.Kind != e.Kind {
				t.Errorf("event %d is %+v", i, now)
			}
			all += files[names[i+1]]
		}
		all += files["meta.json"]
		for _, secret := range []string{"hunter2-is-the-word", key, "sk-llm-key-of-the-user"} {
			if strings.Contains(all, secret) {
				t.Errorf("%q is in the archive", secret)
			}
		}
		if !strings.Contains(all, "echo ") {
			t.Error("the command is not in the archive")
		}
	}
	if meta := w.as(userKey, "HEAD", "/api/v1/app-conversations/"+id+"/download", nil).is(200); len(meta.body) != 0 {
		t.Error("HEAD has a body")
	}
}

func TestDownloadOfOthers(t *testing.T) {
	w := newWorld(t)
	id, _ := w.begin(map[string]any{})
	task := w.call(200, "GET", "/api/v1/app-conversations/start-tasks/search", nil).text("items", 0, "id")
	w.as(otherKey, "GET", "/api/v1/app-conversations/"+id+"/download", nil).is(404)
	w.as("", "GET", "/api/v1/app-conversations/"+id+"/download", nil).is(401)
	w.call(404, "GET", "/api/v1/app-conversations/"+task+"/download", nil)
	w.call(400, "GET", "/api/v1/app-conversations/nonsense/download", nil)
	w.call(200, "GET", "/api/v1/app-conversations/"+id+"/download", nil)
}
