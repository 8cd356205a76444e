package files

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"unicode/utf8"

	"parley/internal/tool"
	"parley/internal/tool/textfile"
)

// NameRead is the name of the tool that reads a file.
const NameRead = "read_file"

//go:embed read_file.md
var readDescription string

// maxLines is how many lines are read if nobody says how many.
const maxLines = 1000

// ReadAction is the input of read_file.
type ReadAction struct {
	FilePath string `json:"file_path" desc:"Path of the file, absolute or relative to the working directory."`
	Offset   *int   `json:"offset,omitempty" min:"0" desc:"How many lines to skip; 0 is the beginning."`
	Limit    *int   `json:"limit,omitempty" min:"1" desc:"How many lines to read at most; 1000 if absent."`
}

type readMembers struct {
	FilePath    string  `json:"file_path"`
	FileContent string  `json:"file_content"`
	IsTruncated bool    `json:"is_truncated"`
	LinesShown  *[2]int `json:"lines_shown,omitempty"`
	TotalLines  *int    `json:"total_lines,omitempty"`
}

// Read returns the tool that reads a file.
func Read() tool.Tool {
	spec := tool.Spec{Name: NameRead, Description: readDescription, ReadOnly: true, Idempotent: true}
	return tool.New(spec, runRead, tool.WithClaims(func(a ReadAction) []tool.Claim { return []tool.Claim{tool.ClaimFile(a.FilePath, false)} }))
}

func runRead(ctx context.Context, env *tool.Env, a ReadAction) (tool.Result, error) {
	m, note, err := read(ctx, env, a)
	return observe("ReadFileObservation", m.FileContent+note, m, err)
}

func read(ctx context.Context, env *tool.Env, a ReadAction) (m readMembers, note string, err error) {
	m.FilePath = a.FilePath
	if m.FilePath, err = placeFile(env, a.FilePath); err != nil {
		return m, "", err
	}
	f, _, err := load(ctx, env, m.FilePath)
	if err != nil {
		return m, "", err
	}
	lines, ended := textfile.SplitLines(f.Text)
	total, offset, limit := len(lines), 0, maxLines
	m.TotalLines = &total
	if a.Offset != nil {
		offset = *a.Offset
	}
	if a.Limit != nil {
		limit = *a.Limit
	}
	if offset > 0 && offset >= total {
		return m, "", tool.Wrong("The offset is %d, but %s has %d lines.", offset, m.FilePath, total)
	}
	last := offset + min(limit, total-offset)
	last = fit(lines, offset, last)
	m.FileContent = strings.Join(lines[offset:last], "\n")
	if last > offset && (last < total || ended) {
		m.FileContent += "\n"
	}
	return m, m.cut(offset, last, total), nil
}

// fit returns how many of the lines up to last a model gets: at least one.
func fit(lines []string, first, last int) int {
	used := 0
	for i := first; i < last; i++ {
		if used += utf8.RuneCountInString(lines[i]) + 1; used > maxText && i > first {
			return i
		}
	}
	return last
}

// cut says what is not shown.
func (m *readMembers) cut(first, last, total int) string {
	if short := firstRunes(m.FileContent, maxText); short != m.FileContent {
		m.FileContent, m.IsTruncated = short, true
	}
	if first == 0 && last == total && !m.IsTruncated {
		if total == 0 {
			return "[The file is empty.]"
		}
		return ""
	}
	m.IsTruncated = true
	m.LinesShown = &[2]int{first + 1, last}
	note := fmt.Sprintf("\n[Lines %d to %d of %d.", first+1, last, total)
	if last < total {
		note += fmt.Sprintf(" Read on with offset %d.", last)
	}
	return note + "]"
}
