package cli

import (
	"io"
	"strings"
	"unicode/utf8"
)

// table writes rows in columns. The columns whose index is in numbers are aligned
// to the right. Cells must be clean.
func table(out io.Writer, rows [][]string, numbers ...int) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	right := make([]bool, len(widths))
	for _, i := range numbers {
		right[i] = true
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if right[i] {
				cell, space = space+cell, ""
			}
			line.WriteString(cell + space + "  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
