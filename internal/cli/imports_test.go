package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"parley/internal/cli"
	"parley/internal/imports"
)

// importSource remembers what it was asked.
type importSource struct {
	items []imports.Item
	done  bool
}

func (s *importSource) Plan(_ context.Context, told func(imports.Item)) error {
	for _, i := range s.items {
		told(i)
	}
	return nil
}

func (s *importSource) Do(ctx context.Context, told func(imports.Item)) error {
	s.done = true
	return s.Plan(ctx, told)
}

// An import happens only if somebody said so, and what sources say cannot drive the
// terminal.
func TestImportAsks(t *testing.T) {
	fresh := []imports.Item{{Kind: imports.KindConversation, Path: "sessions/x\x1b[2J", Title: "T\nU", Events: 3, Status: imports.New, Problems: []string{"events/1.json: \x07bad"}}}
	same := []imports.Item{{Kind: imports.KindConversation, Path: "sessions/x", Status: imports.Same}}
	for name, c := range map[string]struct {
		items     []imports.Item
		how       cli.ImportHow
		done, bad bool
		want      string
	}{
		"yes on the command line": {items: fresh, how: cli.ImportHow{Yes: true}, done: true, want: "Imported: 1."},
		"yes when asked":          {items: fresh, how: cli.ImportHow{In: strings.NewReader("y\n")}, done: true, want: "[y/N]"},
		"no when asked":           {items: fresh, how: cli.ImportHow{In: strings.NewReader("n\n")}, bad: true},
		"an empty answer":         {items: fresh, how: cli.ImportHow{In: strings.NewReader("\n")}, bad: true},
		"nobody there":            {items: fresh, bad: true},
		"JSON does not ask":       {items: fresh, how: cli.ImportHow{JSON: true, In: strings.NewReader("y\n")}, bad: true},
		"look only":               {items: fresh, how: cli.ImportHow{DryRun: true}, want: "T U"},
		"nothing new":             {items: same, want: "Nothing to import."},
		"nothing there":           {want: "nothing here"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			src := &importSource{items: c.items}
			err := cli.Import(t.Context(), src, &out, c.how)
			if src.done != c.done || (err != nil) != c.bad || !strings.Contains(out.String(), c.want) || strings.ContainsAny(out.String(), "\x1b\x07") {
				t.Errorf("done %v, %v, %q", src.done, err, out.String())
			}
		})
	}
}

func TestImportAsJSON(t *testing.T) {
	var out bytes.Buffer
	check := func(how cli.ImportHow, done bool) {
		t.Helper()
		out.Reset()
		how.JSON = true
		src := &importSource{items: []imports.Item{{Kind: imports.KindSettings, Path: "settings.json", Status: imports.New}}}
		if err := cli.Import(t.Context(), src, &out, how); err != nil {
			t.Fatal(err)
		}
		var report struct {
			Done  bool           `json:"done"`
			Items []imports.Item `json:"items"`
		}
		dec := json.NewDecoder(&out)
		if err := dec.Decode(&report); err != nil || report.Done != done || len(report.Items) != 1 {
			t.Errorf("%v %+v", err, report)
		}
		if _, err := dec.Token(); err != io.EOF {
			t.Errorf("more than one object: %v", err)
		}
	}
	check(cli.ImportHow{DryRun: true}, false)
	check(cli.ImportHow{Yes: true}, true)
}
