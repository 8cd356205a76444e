package feedback_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/internal/fault"
	"parley/internal/feedback"
)

func lines(t *testing.T, path string) []feedback.Entry {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []feedback.Entry
	for line := range strings.Lines(string(raw)) {
		var e feedback.Entry
		if json.Unmarshal([]byte(line), &e) == nil {
			all = append(all, e)
		}
	}
	return all
}

func TestEveryEntryIsALineOfItsOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feedback.jsonl")
	j := feedback.New(path)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if err := j.Add(feedback.Entry{ID: "x", Email: "a\nb", Time: time.Now()}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := lines(t, path); len(got) != 20 || got[0].Email != "a\nb" {
		t.Errorf("%d entries", len(got))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestAHalfLineOfACrashSpoilsNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feedback.jsonl")
	if err := os.WriteFile(path, []byte("{\"feedback_id\":\"half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := feedback.New(path).Add(feedback.Entry{ID: "whole"}); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, path); len(got) != 1 || got[0].ID != "whole" {
		t.Errorf("%v", got)
	}
}

func TestAFullFileTakesNoMore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feedback.jsonl")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, feedback.MaxFile-1); err != nil {
		t.Fatal(err)
	}
	if err := feedback.New(path).Add(feedback.Entry{ID: "x"}); fault.CodeOf(err) != "feedback_full" {
		t.Errorf("%v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := feedback.New(path).Add(feedback.Entry{ID: "x"}); err != nil {
		t.Error(err)
	}
}

func TestWhereThereIsNoDirectoryIsAnError(t *testing.T) {
	if err := feedback.New(filepath.Join(t.TempDir(), "no", "file")).Add(feedback.Entry{}); err == nil {
		t.Error("written")
	}
}
