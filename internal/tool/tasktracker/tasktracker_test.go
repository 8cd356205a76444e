package tasktracker_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"parley/internal/fault"
	"parley/internal/tool/tasktracker"
	"parley/internal/tool/tooltest"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type observation struct {
	Command  string             `json:"command"`
	TaskList []tasktracker.Task `json:"task_list"`
}

func task(title, notes, status string) map[string]any {
	return map[string]any{"title": title, "notes": notes, "status": status}
}

func TestPlanAndView(t *testing.T) {
	b := tooltest.New(t)
	var o observation
	if text := b.OK(tasktracker.New(), map[string]any{}, &o); !strings.Contains(text, "no tasks") || o.Command != "view" || o.TaskList == nil {
		t.Errorf("%q %+v", text, o)
	}
	list := []any{task("one", "n\nm", "done"), task("two", "", "in_progress"), map[string]any{"title": "three"}}
	want := []tasktracker.Task{{Title: "one", Notes: "n\nm", Status: "done"}, {Title: "two", Status: "in_progress"}, {Title: "three", Status: "todo"}}
	b.OK(tasktracker.New(), map[string]any{"command": "plan", "task_list": list}, &o)
	if diff := cmp.Diff(want, o.TaskList); diff != "" || o.Command != "plan" {
		t.Error(diff)
	}
	text := b.OK(tasktracker.New(), map[string]any{"command": "view"}, &o) // a new value, as after a restart
	if diff := cmp.Diff(want, o.TaskList); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(text, "1 of 3 tasks are done.\n1. [x] one\n   n\n   m\n2. [>] two\n3. [ ] three\n") {
		t.Errorf("text %q", text)
	}
	if info, err := os.Stat(filepath.Join(b.Env.StateDir(), "TASKS.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	b.OK(tasktracker.New(), map[string]any{"command": "plan", "task_list": []any{}}, &o)
	if len(o.TaskList) != 0 {
		t.Errorf("list %v", o.TaskList)
	}
	other := *b.Env
	other.ConversationID += "-other"
	b.Env = &other
	b.OK(tasktracker.New(), map[string]any{}, &o)
	if len(o.TaskList) != 0 {
		t.Errorf("another conversation sees %v", o.TaskList)
	}
}

func TestRefused(t *testing.T) {
	many := strings.Repeat(`{"title":"t"},`, 201)
	for _, args := range []string{
		`{"command":"plan","task_list":[{"title":" "}]}`, `{"command":"plan","task_list":[{"notes":"x"}]}`, `{"command":"drop"}`,
		`{"command":"plan","task_list":[{"title":"t","status":"maybe"}]}`, `{"command":"plan","task_list":[` + many[:len(many)-1] + `]}`,
		`{"command":"plan","task_list":[{"title":"` + strings.Repeat("x", 70_000) + `"}]}`,
	} {
		if action, err := tasktracker.New().Parse([]byte(args)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.80s: %.80s %v", args, action, err)
		}
	}
}

// TestSpoiled: programs in the sandbox can write the file as well.
func TestSpoiled(t *testing.T) {
	b := tooltest.New(t)
	file := filepath.Join(b.Env.StateDir(), "TASKS.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "{", `{"a":1}`, `[{"title":""}]`, strings.Repeat("[", 10_000), "\xff", "[" + strings.Repeat(`{"title":"a"},`, 300) + `{"title":"b"}]`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var o observation
		if said := b.OK(tasktracker.New(), map[string]any{}, &o); len(o.TaskList) != 0 || !strings.Contains(said, "cannot be read") {
			t.Errorf("%.20q: %q %v", text, said, o.TaskList)
		}
	}
	if err := os.WriteFile(file, []byte(`[{"title":"a","status":"odd"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	var o observation
	if b.OK(tasktracker.New(), map[string]any{}, &o); len(o.TaskList) != 1 || o.TaskList[0].Status != "todo" {
		t.Errorf("list %v", o.TaskList)
	}
	if err := os.WriteFile(file, []byte(strings.Repeat(" ", 2<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Refused(tasktracker.New(), map[string]any{}, "larger")
	b.OK(tasktracker.New(), map[string]any{"command": "plan", "task_list": []any{task("a", "", "todo")}}, nil)
}

func TestGolden(t *testing.T) {
	b := tooltest.New(t)
	b.Golden(tasktracker.New(), map[string]any{"command": "plan", "task_list": []any{task("a", "n", "in_progress")}}, "testdata/plan.json")
	b.Golden(tasktracker.New(), map[string]any{}, "testdata/view.json")
	want, err := os.ReadFile("testdata/schema.json")
	if got := string(tasktracker.New().Spec().Parameters) + "\n"; err != nil || got != string(want) {
		t.Errorf("schema %s, %v", got, err)
	}
}
