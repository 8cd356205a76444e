package compat_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"parley/test/compat/facts"
	"parley/test/testkit/parleytest"
)

var update = flag.Bool("update", false, "remove rows of docs/compatibility.md that have no difference any more")

const (
	page = "../../docs/compatibility.md"
	// The rows are between these lines.
	pageBegin = "<!-- differences: a test compares these rows -->"
	pageEnd   = "<!-- end of differences -->"
)

// row explains differences: patterns, in which a star is anything.
type row struct {
	api, operation, what string
	line                 int
	reason               string
	used                 bool
}

// TestEveryDifferenceIsExplained compares what the server says of itself with what is
// known of the servers that it is compatible with. A difference needs a row with its
// reason in docs/compatibility.md, and a row a difference.
func TestEveryDifferenceIsExplained(t *testing.T) {
	t.Parallel()
	server := parleytest.Start(t, parleytest.Options{})
	var raw map[string]any
	if code := server.Call("GET", "/openapi.json", nil, &raw); code != http.StatusOK {
		t.Fatalf("GET /openapi.json: %d", code)
	}
	ours, err := facts.Read(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows := readRows(t)
	for _, api := range []struct{ name, before string }{{"v0", ""}, {"v1", ""}, {"agent", "/agent/{sandbox_id}"}} {
		place := func(path string) string { return api.before + path }
		for _, d := range facts.Compare(reference(t, api.name), ours, place) {
			if !explained(rows, api.name, d) {
				t.Errorf("no row in docs/compatibility.md for this difference: | %s | `%s` | `%s` | (reason) |", api.name, d.Operation, d.What)
			}
		}
	}
	obsolete := map[int]bool{}
	for _, r := range rows {
		if r.used {
			continue
		}
		if obsolete[r.line] = true; !*update {
			t.Errorf("docs/compatibility.md:%d explains a difference that is not there (any more): %s %s; -update removes it", r.line, r.operation, r.what)
		}
	}
	if *update {
		removeLines(t, obsolete)
	}
}

// TestRoutesThatAreNotServedAnswerInJSON: what is out of scope is 404, and what is not
// built says so; never a page, never a crash.
func TestRoutesThatAreNotServedAnswerInJSON(t *testing.T) {
	t.Parallel()
	server := parleytest.Start(t, parleytest.Options{})
	var raw map[string]any
	server.Call("GET", "/openapi.json", nil, &raw)
	ours, err := facts.Read(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	braces := regexp.MustCompile(`\{[^}]*\}`)
	for _, d := range facts.Compare(reference(t, "v1"), ours, func(path string) string { return path }) {
		method, path, _ := strings.Cut(d.Operation, " ")
		if d.What != facts.Missing || !strings.HasPrefix(path, "/api/") {
			continue
		}
		status, body, err := server.Raw(t.Context(), parleytest.Key, method, braces.ReplaceAllString(path, "1"), nil)
		if err != nil {
			t.Fatal(err)
		}
		known := status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented
		// A path of a route that is served, with another meaning.
		known = known || status == http.StatusUnprocessableEntity
		if !known || !json.Valid(body) {
			t.Errorf("%s: %d %.100s", d.Operation, status, body)
		}
	}
}

func reference(t *testing.T, name string) facts.Document {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var out facts.Document
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// readRows reads the table of the page.
func readRows(t *testing.T) []*row {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := strings.Cut(string(raw), pageBegin)
	var out []*row
	inside := false
	for i, line := range strings.Split(string(raw), "\n") {
		switch {
		case line == pageBegin:
			inside = true
		case line == pageEnd:
			inside = false
		case inside && (strings.HasPrefix(line, "| v0 |") || strings.HasPrefix(line, "| v1 |")) || inside && strings.HasPrefix(line, "| agent |"):
			cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "| "), `\|`, "\x00"), " | ")
			if len(cells) != 4 || strings.TrimSpace(cells[3]) == "" {
				t.Fatalf("%s:%d: a row has an API, an operation, a difference and a reason: %s", page, i+1, line)
			}
			out = append(out, &row{api: cells[0], operation: cell(cells[1]), what: cell(cells[2]), line: i + 1, reason: cells[3]})
		}
	}
	if before == string(raw) || len(out) == 0 {
		t.Fatalf("%s has no table of differences", page)
	}
	return out
}

func cell(text string) string {
	return strings.ReplaceAll(strings.Trim(strings.TrimSpace(text), "`"), "\x00", "|")
}

// explained marks the rows that explain a difference. The first that does counts.
func explained(rows []*row, api string, d facts.Difference) bool {
	for _, r := range rows {
		if r.api == api && matches(r.operation, d.Operation) && matches(r.what, d.What) {
			r.used = true
			return true
		}
	}
	return false
}

// matches compares with a pattern in which a star is any text.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = after
	}
	return strings.HasSuffix(text, last)
}

func removeLines(t *testing.T, numbers map[int]bool) {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for i, line := range strings.Split(string(raw), "\n") {
		if !numbers[i+1] {
			kept = append(kept, line)
		}
	}
	if err := os.WriteFile(page, []byte(strings.Join(kept, "\n")), 0o644); err != nil {
		t.Fatal(fmt.Errorf("write %s: %w", page, err))
	}
}
