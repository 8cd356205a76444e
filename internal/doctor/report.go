package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Write prints the findings as a table for people.
func Write(w io.Writer, findings []Finding) error {
	var b strings.Builder
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Check))
	}
	indent := strings.Repeat(" ", len(Missing)+width+4)
	for _, f := range findings {
		fmt.Fprintf(&b, "%-*s  %-*s  %s\n", len(Missing), f.Level, width, f.Check, f.Found)
		if f.Follows != "" {
			fmt.Fprintf(&b, "%sso: %s\n", indent, f.Follows)
		}
		if f.Mend != "" {
			fmt.Fprintf(&b, "%smend: %s\n", indent, f.Mend)
		}
	}
	if Healthy(findings) {
		b.WriteString("\nNothing that is needed is missing.\n")
	} else {
		b.WriteString("\nSomething that is needed is missing.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
