package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"parley/internal/fault"
	"parley/internal/imports"
)

// ImportSource is a source with the data directory that it is imported into.
type ImportSource interface {
	// Plan hands over what would be done, Do what was done.
	Plan(ctx context.Context, told func(imports.Item)) error
	Do(ctx context.Context, told func(imports.Item)) error
}

// ImportHow says how an import is carried out.
type ImportHow struct {
	DryRun bool      // show only
	Yes    bool      // do not ask
	JSON   bool      // one JSON object instead of text
	In     io.Reader // who is asked; nil = nobody can be
}

// importReport is what an import prints as JSON.
type importReport struct {
	Done  bool           `json:"done"` // false = this is what would be done
	Items []imports.Item `json:"items"`
}

// Import shows what an import will do, asks, and does it.
func Import(ctx context.Context, src ImportSource, out io.Writer, how ImportHow) error {
	report := importReport{Items: []imports.Item{}}
	take := func(i imports.Item) { report.Items = append(report.Items, i) }
	if err := src.Plan(ctx, take); err != nil {
		return err
	}
	if !how.JSON {
		if err := showImport(out, report.Items); err != nil {
			return err
		}
	}
	if work := toDo(report.Items); !how.DryRun && work > 0 {
		if err := agree(out, how); err != nil {
			return err
		}
		report = importReport{Done: true, Items: []imports.Item{}}
		if err := src.Do(ctx, take); err != nil {
			return err
		}
		if !how.JSON {
			_, err := fmt.Fprintf(out, "Imported: %d.\n", toDo(report.Items))
			return err
		}
	}
	if how.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	return nil
}

// toDo is how many things are, or were, imported.
func toDo(items []imports.Item) (n int) {
	for _, i := range items {
		if i.Status == imports.New || i.Status == imports.Replaced {
			n++
		}
	}
	return n
}

// agree asks whether to go on.
func agree(out io.Writer, how ImportHow) error {
	if how.Yes {
		return nil
	}
	if how.In == nil || how.JSON {
		return fault.New(fault.Invalid, "not_agreed", "Nobody can be asked.").
			WithHint("Repeat the command with --yes to import, or with --dry-run to look only.")
	}
	if _, err := fmt.Fprint(out, "Import this? [y/N] "); err != nil {
		return err
	}
	answer, err := bufio.NewReader(how.In).ReadString('\n')
	if err != nil && answer == "" {
		return fault.New(fault.Canceled, "not_agreed", "Nothing was imported.")
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return fault.New(fault.Canceled, "not_agreed", "Nothing was imported.")
	}
	return nil
}

// importWords say what becomes of things.
var importWords = map[imports.Status]string{
	imports.New:       "import",
	imports.Same:      "imported before",
	imports.Changed:   "imported before, has changed since: stays as it is here",
	imports.Taken:     "another conversation has this id: left out",
	imports.Broken:    "cannot be read: left out",
	imports.Kept:      "has its own already: left out",
	imports.Replaced:  "replaces its own",
	imports.Elsewhere: "found twice: left out",
}

func showImport(out io.Writer, items []imports.Item) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(out, "There is nothing here that can be imported.")
		return err
	}
	rows := [][]string{{"WHAT", "EVENTS", "TITLE", "WHAT BECOMES OF IT"}}
	for _, i := range items {
		events := "-"
		if i.Kind == imports.KindConversation {
			events = fmt.Sprint(i.Events)
		}
		rows = append(rows, []string{CleanLine(i.Path), events, CleanLine(i.Title), importWords[i.Status]})
	}
	if err := table(out, rows, 1); err != nil {
		return err
	}
	for _, i := range items {
		for _, p := range i.Problems {
			if _, err := fmt.Fprintf(out, "%s: %s\n", CleanLine(i.Path), CleanLine(p)); err != nil {
				return err
			}
		}
	}
	if toDo(items) == 0 {
		_, err := fmt.Fprintln(out, "Nothing to import.")
		return err
	}
	return nil
}
