package files

import (
	"context"
	_ "embed"
	"errors"

	"parley/internal/tool"
)

// NameWrite is the name of the tool that writes a file.
const NameWrite = "write_file"

//go:embed write_file.md
var writeDescription string

// WriteAction is the input of write_file.
type WriteAction struct {
	FilePath string `json:"file_path" desc:"Path of the file, absolute or relative to the working directory."`
	Content  string `json:"content" desc:"The whole new content of the file."`
}

type writeMembers struct {
	FilePath   string  `json:"file_path"`
	IsNewFile  bool    `json:"is_new_file"`
	OldContent *string `json:"old_content,omitempty"`
	NewContent *string `json:"new_content,omitempty"`
}

// Write returns the tool that writes a file.
func Write() tool.Tool {
	spec := tool.Spec{Name: NameWrite, Description: writeDescription, Destructive: true, Idempotent: true}
	return tool.New(spec, runWrite, tool.WithClaims(func(a WriteAction) []tool.Claim { return []tool.Claim{tool.ClaimFile(a.FilePath, true)} }))
}

func runWrite(ctx context.Context, env *tool.Env, a WriteAction) (tool.Result, error) {
	m, note, err := write(ctx, env, a)
	text := "Wrote " + m.FilePath + "."
	if m.IsNewFile {
		text = "Created " + m.FilePath + "."
	}
	return observe("WriteFileObservation", text+note, m, err)
}

func write(ctx context.Context, env *tool.Env, a WriteAction) (m writeMembers, note string, err error) {
	m.FilePath = a.FilePath
	if m.FilePath, err = placeFile(env, a.FilePath); err != nil {
		return m, "", err
	}
	f, before, err := load(ctx, env, m.FilePath)
	var none *missing
	switch {
	case errors.As(err, &none):
		if note, err = create(ctx, env, m.FilePath, a.Content); err == nil {
			m.IsNewFile, m.NewContent = true, recorded(a.Content)
		}
	case err == nil:
		m.OldContent, m.NewContent = recorded(f.Text), recorded(a.Content)
		note, err = replace(ctx, env, m.FilePath, f, before, f.Adapt(a.Content))
	}
	return m, note, err
}
