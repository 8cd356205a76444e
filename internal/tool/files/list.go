package files

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"strings"
	"time"

	"parley/internal/tool"
	"parley/internal/tool/editing"
)

// NameList is the name of the tool that lists a directory.
const NameList = "list_directory"

//go:embed list_directory.md
var listDescription string

const (
	// maxEntries is how many entries a model gets.
	maxEntries = 500
	// maxCounted is how many entries are looked at.
	maxCounted = 20_000
)

// ListAction is the input of list_directory.
type ListAction struct {
	DirPath   string `json:"dir_path" default:"." desc:"Path of the directory, absolute or relative to the working directory."`
	Recursive bool   `json:"recursive" default:"false" desc:"List the directories in it as well (two levels)."`
}

type listMembers struct {
	DirPath     string  `json:"dir_path"`
	Entries     []entry `json:"entries"`
	TotalCount  int     `json:"total_count"`
	IsTruncated bool    `json:"is_truncated"`
}

type entry struct {
	Name         string    `json:"name"`
	Path         string    `json:"path"`
	IsDirectory  bool      `json:"is_directory"`
	Size         int64     `json:"size"` // 0 for directories
	ModifiedTime time.Time `json:"modified_time"`
}

// List returns the tool that lists a directory.
func List() tool.Tool {
	spec := tool.Spec{Name: NameList, Description: listDescription, ReadOnly: true, Idempotent: true}
	return tool.New(spec, runList, tool.WithClaims(func(a ListAction) []tool.Claim { return []tool.Claim{tool.ClaimFile(a.DirPath, false)} }))
}

func runList(ctx context.Context, env *tool.Env, a ListAction) (tool.Result, error) {
	m, err := list(ctx, env, a)
	return observe("ListDirectoryObservation", m.text(), m, err)
}

func list(ctx context.Context, env *tool.Env, a ListAction) (m listMembers, err error) {
	m.DirPath, m.Entries = a.DirPath, []entry{}
	if m.DirPath, err = place(env, a.DirPath); err != nil {
		return m, err
	}
	if err := editing.Check(ctx, env, m.DirPath); err != nil {
		return m, err
	}
	depth := 1
	if a.Recursive {
		depth = 2
	}
	infos, err := env.Hands.ListDir(ctx, m.DirPath, depth, maxCounted)
	if err != nil {
		return m, err
	}
	m.TotalCount = len(infos)
	m.IsTruncated = len(infos) > maxEntries
	for _, info := range infos[:min(len(infos), maxEntries)] {
		m.Entries = append(m.Entries, entryOf(m.DirPath, info))
	}
	return m, nil
}

func entryOf(dir string, info tool.FileInfo) entry {
	name := strings.ToValidUTF8(info.Path, "\ufffd")
	e := entry{Name: path.Base(name), Path: path.Join(dir, name), IsDirectory: info.IsDir, ModifiedTime: info.ModTime.UTC()}
	if !info.IsDir {
		e.Size = info.Size
	}
	return e
}

// text is what a model reads: directories end with a slash.
func (m *listMembers) text() string {
	if len(m.Entries) == 0 {
		return m.DirPath + " is empty."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d entries:\n", m.DirPath, m.TotalCount)
	for i, e := range m.Entries {
		if b.Len() > maxText {
			fmt.Fprintf(&b, "[%d more are not shown.]\n", m.TotalCount-i)
			return b.String()
		}
		if e.IsDirectory {
			b.WriteString(e.Path + "/\n")
		} else {
			fmt.Fprintf(&b, "%s (%d bytes)\n", e.Path, e.Size)
		}
	}
	if m.IsTruncated {
		fmt.Fprintf(&b, "[%d more are not shown. List a directory further down, or use glob.]\n", m.TotalCount-len(m.Entries))
	}
	return b.String()
}
