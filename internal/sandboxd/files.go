package sandboxd

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/tool"
)

// wireInfo carries a FileInfo whose names may be no UTF-8, which JSON would mend.
type wireInfo struct {
	tool.FileInfo
	RawPath []byte `json:"raw_path,omitempty"`
	RawLink []byte `json:"raw_link,omitempty"`
	RawReal []byte `json:"raw_real,omitempty"`
}

func toWireInfo(info tool.FileInfo) wireInfo {
	w := wireInfo{FileInfo: info}
	if !utf8.ValidString(info.Path) {
		w.RawPath = []byte(info.Path)
	}
	if !utf8.ValidString(info.Link) {
		w.RawLink = []byte(info.Link)
	}
	if !utf8.ValidString(info.Real) {
		w.RawReal = []byte(info.Real)
	}
	return w
}

func (w wireInfo) info() tool.FileInfo {
	if w.RawPath != nil {
		w.Path = string(w.RawPath)
	}
	if w.RawLink != nil {
		w.Link = string(w.RawLink)
	}
	if w.RawReal != nil {
		w.Real = string(w.RawReal)
	}
	return w.FileInfo
}

func fileInfo(name string, info fs.FileInfo) tool.FileInfo {
	return tool.FileInfo{Path: name, Size: info.Size(), Mode: info.Mode(), ModTime: info.ModTime(), IsDir: info.IsDir()}
}

func (d *daemon) statFile(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	path := q.path("path")
	if q.err != nil {
		return q.err
	}
	info, err := statPath(path)
	if err != nil {
		return absentPath(err, "stat", path)
	}
	return writeJSON(w, toWireInfo(info))
}

// statPath describes what path means, with the link if it is one, and where it is.
func statPath(path string) (tool.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return tool.FileInfo{}, err
	}
	found := fileInfo(path, info)
	found.Real, _ = filepath.EvalSymlinks(path) // some links of /proc name no path
	found.Link, err = readLink(path)
	return found, err
}

// absentPath is pathFault where a part of the path that is a file means that
// there can be nothing below it.
func absentPath(err error, verb, path string) error {
	if errors.Is(err, unix.ENOTDIR) {
		return fault.Wrap(err, fault.NotFound, CodeNotDirectory, "Cannot %s %s: a part of its path is not a directory.", verb, path)
	}
	return pathFault(err, verb, path)
}

func (d *daemon) readFile(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	path := q.path("path")
	limit := q.number("max", 1, MaxFileBytes)
	if q.err != nil {
		return q.err
	}
	if limit == 0 {
		limit = defaultReadFile
	}
	data, err := readRegular(path, limit)
	if err != nil {
		return absentPath(err, "read", path)
	}
	writeRaw(w, data)
	return nil
}

// readRegular reads a regular file. It looks before it opens, because opening a
// device or a pipe may already do something, and again after, in case it changed.
func readRegular(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(info); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err = file.Stat(); err != nil {
		return nil, err
	}
	if err := checkRegular(info); err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fileTooLarge(path, limit)
	}
	return readUpTo(file, path, info.Size(), limit)
}

// readUpTo does not trust size: files grow, and those of /proc say 0.
func readUpTo(file io.Reader, path string, size, limit int64) ([]byte, error) {
	data := make([]byte, 0, size+512)
	for {
		n, err := file.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if int64(len(data)) > limit {
			return nil, fileTooLarge(path, limit)
		}
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
	}
}

func checkRegular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return unix.EISDIR
	case !info.Mode().IsRegular():
		return unix.ENXIO
	}
	return nil
}

func fileTooLarge(path string, limit int64) error {
	return fault.New(fault.TooLarge, CodeTooLarge, "The file %s is larger than %d bytes.", path, limit).
		WithHint("Read a part of it with a command.")
}

func (d *daemon) removeFile(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	path := q.path("path")
	if q.err != nil {
		return q.err
	}
	err := unix.Unlink(path)
	if err != nil && err != unix.ENOENT && err != unix.ENOTDIR {
		return pathFault(err, "remove", path)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (d *daemon) writeFile(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r.URL.RawQuery)
	path := q.path("path")
	opt := tool.WriteOptions{
		Parents: q.flag("parents"), New: q.flag("new"), Mode: fs.FileMode(q.number("mode", 0, 0o777)),
	}
	if q.err != nil {
		return q.err
	}
	if last := q.values.Get("path"); last[len(last)-1] == '/' {
		return pathFault(unix.EISDIR, "write", path)
	}
	data, err := readBody(w, r, MaxFileBytes)
	if err != nil {
		return err
	}
	if err := writeRegular(path, data, opt); err != nil {
		return pathFault(err, "write", path)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// writeRegular replaces the file that path means, or makes it. Other names (hard
// links) of a replaced file keep the old content.
func writeRegular(path string, data []byte, opt tool.WriteOptions) error {
	if opt.Parents {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
	}
	if opt.New {
		// Before the data is written; rename decides.
		if _, err := os.Lstat(path); err == nil {
			return unix.EEXIST
		}
	} else {
		target, err := resolve(path)
		if err != nil {
			return err
		}
		path = target
	}
	temp, err := newReplacement(path, opt)
	if err != nil {
		return err
	}
	if err := temp.fill(data); err != nil {
		temp.discard()
		return err
	}
	return temp.commit(opt.New)
}
