package trajectory_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/internal/conversation"
	"parley/internal/store"
	"parley/internal/trajectory"
)

// slice is a log in memory: what Log asks for, without a store.
type slice []conversation.Event

// Search ends pages early, as a store does with large events.
func (s slice) Search(_ context.Context, q store.EventQuery) (store.EventPage, error) {
	from := min(int(*q.AtOrAfter), len(s))
	return store.EventPage{Items: s[from:min(from+min(q.Limit, 7), len(s))]}, nil
}

func logOf(ids ...string) slice {
	var s slice
	for i, id := range ids {
		s = append(s, conversation.Event{ID: id, Seq: int64(i), Raw: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
	}
	return s
}

func open(t interface{ Fatal(...any) }, archive []byte) (names []string, files map[string]string) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, f.Name)
		files[f.Name] = string(raw)
	}
	return names, files
}

// The archive has the log up to the head, in its order, whatever its length and
// whatever ids the events have; no name leads out of a directory.
func TestArchiveIsTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.String(), 0, 350).Draw(t, "ids")
		head := rapid.IntRange(0, len(ids)).Draw(t, "head")
		var b bytes.Buffer
		err := trajectory.Write(context.Background(), &b, logOf(ids...), trajectory.Archive{Conversation: "c", Head: int64(head),
			Meta: map[string]string{"id": "c"}, Modified: time.Unix(1e9, 0)})
		if err != nil {
			t.Fatal(err)
		}
		names, files := open(t, b.Bytes())
		if len(names) != head+1 || len(files) != head+1 || names[0] != trajectory.MetaFile {
			t.Fatalf("%d events became %v", head, names)
		}
		for i, name := range names[1:] {
			if !strings.HasPrefix(name, fmt.Sprintf("event_%06d_", i+1)) || path.Base(name) != name || strings.ContainsAny(name, "\\\x00:") || len(name) > 120 {
				t.Fatalf("event %d is in %q", i, name)
			}
			if files[name] != fmt.Sprintf(`{"n":%d}`, i) {
				t.Fatalf("event %d became %s", i, files[name])
			}
		}
	})
}

func TestSecretsAreMaskedInEveryFile(t *testing.T) {
	log := logOf("a", "b")
	log[0].Raw = json.RawMessage(`{"text":"the word is hunter22"}`)
	log[1].Raw = json.RawMessage(`{"a":"x","b":"y"}`)
	for _, c := range []struct{ secret, first, second string }{
		{"hunter22", `{"text":"the word is ***"}`, `{"a":"x","b":"y"}`},
		{`x","b`, string(log[0].Raw), `{"a":"***":"y"}`},
	} {
		var b bytes.Buffer
		mask := func(s string) string { return strings.ReplaceAll(s, c.secret, "***") }
		err := trajectory.Write(t.Context(), &b, log, trajectory.Archive{Head: 2, Meta: c.secret, Mask: mask})
		if err != nil {
			t.Fatal(err)
		}
		_, files := open(t, b.Bytes())
		for name, text := range files {
			if !json.Valid([]byte(text)) {
				t.Errorf("%s is no JSON: %s", name, text)
			}
			if strings.Contains(text, c.secret) {
				t.Errorf("%s holds the secret: %s", name, text)
			}
		}
		if got := files["event_000001_a.json"]; got != c.first {
			t.Errorf("event: %s", got)
		}
	}
}

// A log that lost events is an error, never an archive that looks whole.
func TestShortLogIsAnError(t *testing.T) {
	var b bytes.Buffer
	if err := trajectory.Write(t.Context(), &b, logOf("a"), trajectory.Archive{Head: 2}); err == nil {
		t.Fatal("no error")
	}
	if _, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len())); err == nil {
		t.Fatal("the archive opens")
	}
}
