package forge

import (
	"context"
	"encoding/base64"
	"strings"
	"unicode"

	"parley/internal/fault"
	"parley/internal/forge/rest"
)

// Bounds of what is read of a repository's files.
const (
	MaxFiles = 100     // paths of one list
	MaxFile  = 1 << 20 // bytes of one file
	maxPath  = 500     // bytes
	maxDirs  = 20      // directories of one list, where a service lists them one by one
)

// CheckPath refuses what is no path of a file or a directory in a repository: it has no
// slash at its ends and no segments that lead elsewhere. Errors are Invalid.
func CheckPath(p string) error {
	if p == "" || len(p) > maxPath || strings.HasPrefix(p, "/") || strings.HasSuffix(p, "/") || strings.Contains(p, "//") || hasDots(p) ||
		strings.ContainsFunc(p, func(r rune) bool { return unicode.IsControl(r) || r == '\\' || r == unicode.ReplacementChar }) {
		return fault.New(fault.Invalid, "bad_path", "The path %.100q is not valid.", p).
			WithHint("Write it relative to the repository, with slashes.")
	}
	return nil
}

// Entry is a file or a directory in the contents APIs of GitHub and Forgejo.
type Entry struct {
	Type     string `json:"type"` // "file", "dir", or others that are neither
	Path     string `json:"path"`
	Encoding string `json:"encoding"` // of Content, in answers about one file
	Content  string `json:"content"`
}

// WalkContents lists the files below a directory with an API that lists one directory at
// a time. One that is not there has no files.
func WalkContents(ctx context.Context, dir string, list func(ctx context.Context, dir string) ([]Entry, error)) ([]string, error) {
	var files []string
	for dirs, n := []string{dir}, 0; len(dirs) > 0 && n < maxDirs && len(files) < MaxFiles; n++ {
		at := dirs[0]
		dirs = dirs[1:]
		entries, err := list(ctx, at)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			switch {
			case CheckPath(e.Path) != nil || !strings.HasPrefix(e.Path, dir+"/"):
			case e.Type == "file":
				files = append(files, e.Path)
			case e.Type == "dir":
				dirs = append(dirs, e.Path)
			}
		}
	}
	return files[:min(len(files), MaxFiles)], nil
}

// Bytes is the file of an entry. Errors are TooLarge and Unavailable.
func (e *Entry) Bytes() ([]byte, error) {
	if e.Encoding != "base64" {
		return nil, fault.New(fault.TooLarge, rest.CodeRefused, "This is no file, or one that is too large to be read.")
	}
	return FromBase64(e.Content)
}

// FromBase64 is a file as APIs write it, with line breaks.
func FromBase64(text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(strings.NewReplacer("\n", "", "\r", "").Replace(text))
	if err != nil {
		return nil, fault.New(fault.Unavailable, rest.CodeFailed, "The service sent a file that cannot be read.")
	}
	return AtMostFile(data)
}

// AtMostFile refuses a file above MaxFile: TooLarge.
func AtMostFile(data []byte) ([]byte, error) {
	if len(data) > MaxFile {
		return nil, fault.New(fault.TooLarge, rest.CodeRefused, "The file is larger than %d KiB.", MaxFile>>10)
	}
	return data, nil
}
