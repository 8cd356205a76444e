package tool

import (
	"io/fs"
	"time"
)

// SearchRequest says what to search for. Hidden files, what .gitignore files
// exclude, and symbolic links are left out, but for what Names or Root name
// themselves. A Root that is a file is searched whatever its name is.
type SearchRequest struct {
	Root    string        `json:"root"`              // absolute
	Names   string        `json:"names,omitempty"`   // pattern of paths below Root (package glob); "" = all
	Text    string        `json:"text,omitempty"`    // RE2 expression that a line must match, case ignored; "" = any file
	Max     int           `json:"max,omitempty"`     // files returned, the newest; 0 = 100, at most 10,000
	Timeout time.Duration `json:"timeout,omitempty"` // 0 = 20 s, at most 2 min; what was found until then is returned
}

// Reasons why a search ended before it had seen everything.
const (
	PartialTime = "time" // Timeout
	PartialSize = "size" // the tree has more files than are looked at
)

// SearchResult is what was found.
type SearchResult struct {
	Files      []FileInfo `json:"files"`                // with absolute paths, newest first
	Truncated  bool       `json:"truncated,omitempty"`  // more than Max were found
	Partial    string     `json:"partial,omitempty"`    // "" = everything was looked at
	Excluded   bool       `json:"excluded,omitempty"`   // something was left out because of a .gitignore
	Unreadable int        `json:"unreadable,omitempty"` // directories and files that could not be read
}

// FileChange is what becomes of one file.
type FileChange struct {
	Path   string      `json:"path"` // absolute
	Data   []byte      `json:"data,omitempty"`
	Remove bool        `json:"remove,omitempty"`
	Mode   fs.FileMode `json:"mode,omitempty"`   // of a new file; 0 = 0644. An existing one keeps its own
	Before []byte      `json:"before,omitempty"` // SHA-256 of what it holds now; nil = it does not exist
}
