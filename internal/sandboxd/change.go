package sandboxd

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"parley/internal/fault"
	"parley/internal/tool"
)

const maxChangeBody = MaxChangeBytes/3*4 + 8<<20 // base64, and the paths

// changeRequest is the body of POST /files/change.
type changeRequest struct {
	Root    string            `json:"root"`
	Changes []tool.FileChange `json:"changes"`
}

func (d *daemon) changeFiles(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r, maxChangeBody)
	if err != nil {
		return err
	}
	req, err := decodeChange(body)
	if err != nil {
		return err
	}
	d.changing.Lock()
	err = runBatch(req)
	d.changing.Unlock()
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func decodeChange(body []byte) (changeRequest, error) {
	var req changeRequest
	err := decodeJSON(body, &req)
	if err == nil && len(req.Changes) > MaxChanges {
		err = invalid("There are more than %d changes.", MaxChanges)
	}
	if err == nil {
		req.Root, err = cleanPath(req.Root)
	}
	for i := range req.Changes {
		if c := &req.Changes[i]; err == nil {
			c.Path, err = cleanPath(c.Path)
			c.Mode &= fs.ModePerm
		}
	}
	return req, err
}

// edit is one change on its way.
type edit struct {
	tool.FileChange
	target string       // without links
	temp   *replacement // what it will hold; nil when it is removed
	backup string       // what it held; "" if it did not exist, or is not yet changed
	done   bool
}

// batch are edits that happen together.
type batch struct {
	root  string // without links
	edits []*edit
	made  []string // directories, outermost first
}

// runBatch checks all, then stages all, then changes all.
func runBatch(req changeRequest) error {
	root, err := filepath.EvalSymlinks(req.Root)
	if err != nil {
		return pathFault(err, "change files in", req.Root)
	}
	b := &batch{root: root}
	taken := map[string]bool{}
	for _, c := range req.Changes {
		e, err := b.locate(c)
		if err != nil {
			return pathFault(err, "change", c.Path)
		}
		if taken[e.target] {
			return invalid("%s is to be changed twice.", c.Path)
		}
		taken[e.target] = true
		b.edits = append(b.edits, e)
	}
	for _, step := range []func(*edit) error{b.stage, b.commit} {
		for _, e := range b.edits {
			if err := step(e); err != nil {
				b.rollBack()
				return pathFault(err, "change", e.Path)
			}
		}
	}
	b.finish()
	return nil
}

// locate finds what a change is about and checks that it is as the change says.
func (b *batch) locate(c tool.FileChange) (*edit, error) {
	target, err := realPath(c.Path, !c.Remove)
	if err != nil {
		return nil, err
	}
	if rel, ok := relative(b.root, target); !ok || rel == "" {
		return nil, fault.New(fault.Forbidden, CodeOutside, "%s is not inside %s, where files may be changed.", c.Path, b.root)
	}
	return &edit{FileChange: c, target: target}, checkBefore(c, target)
}

func checkBefore(c tool.FileChange, target string) error {
	now, err := readRegular(target, MaxFileBytes)
	sum := sha256.Sum256(now)
	switch {
	case errors.Is(err, fs.ErrNotExist) && c.Before == nil && !c.Remove:
		return nil
	case err != nil:
		return err
	case c.Before == nil:
		return unix.EEXIST
	case !bytes.Equal(sum[:], c.Before):
		return fault.New(fault.Conflict, CodeChanged, "%s was changed meanwhile.", c.Path).WithHint("Read it again.")
	}
	return nil
}

// realPath follows the links of a path that need not exist; of its last name only
// if last is set. A link that leads nowhere is refused: what is behind it cannot be
// told.
func realPath(path string, last bool) (string, error) {
	if last || path == "/" {
		real, err := filepath.EvalSymlinks(path)
		if !errors.Is(err, fs.ErrNotExist) || path == "/" {
			return real, err
		}
	}
	dir, err := realPath(filepath.Dir(path), true)
	if err != nil {
		return "", err
	}
	target := below(dir, filepath.Base(path))
	if link, err := readLink(target); last && (err != nil || link != "") {
		return "", fault.Wrap(err, fault.NotFound, CodeNotFound, "%s is a symbolic link that leads nowhere.", path)
	}
	return target, nil
}

// stage writes what a file will hold beside it.
func (b *batch) stage(e *edit) error {
	if e.Remove {
		return unix.Access(filepath.Dir(e.target), unix.W_OK)
	}
	if err := b.makeDirs(filepath.Dir(e.target)); err != nil {
		return err
	}
	var err error
	if e.temp, err = newReplacement(e.target, tool.WriteOptions{Mode: e.Mode}); err != nil {
		e.temp = nil
		return err
	}
	if err := e.temp.fill(e.Data); err != nil {
		e.temp.discard()
		e.temp = nil
		return err
	}
	return nil
}

// makeDirs makes missing directories and remembers them.
func (b *batch) makeDirs(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return unix.ENOTDIR
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := b.makeDirs(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	b.made = append(b.made, dir)
	return nil
}

// commit changes the file and keeps what it was, for as long as another change may
// fail: a single one leaves nothing beside the file, even when the daemon is killed.
func (b *batch) commit(e *edit) error {
	if len(b.edits) == 1 {
		return e.commitAlone()
	}
	return e.commit()
}

func (e *edit) commitAlone() error {
	if e.Remove {
		return unix.Unlink(e.target)
	}
	temp := e.temp
	e.temp = nil
	return temp.commit(e.Before == nil)
}

func (e *edit) commit() error {
	backup := directory(e.target) + ".parley-" + rand.Text()[:16] + ".old"
	temp := e.temp
	e.temp = nil
	switch {
	case e.Remove:
		if err := unix.Rename(e.target, backup); err != nil {
			return err
		}
	case e.Before == nil:
		if err := temp.commit(true); err != nil {
			return err
		}
		backup = ""
	default:
		if err := unix.Link(e.target, backup); err != nil {
			temp.discard()
			return err
		}
		if err := temp.commit(false); err != nil {
			_ = unix.Unlink(backup)
			return err
		}
	}
	e.backup, e.done = backup, true
	return nil
}

// rollBack takes back what was done, the last first.
func (b *batch) rollBack() {
	for i := len(b.edits) - 1; i >= 0; i-- {
		e := b.edits[i]
		if e.temp != nil {
			e.temp.discard()
		}
		switch {
		case !e.done:
		case e.backup != "":
			_ = unix.Rename(e.backup, e.target)
		default:
			_ = unix.Unlink(e.target)
		}
	}
	for i := len(b.made) - 1; i >= 0; i-- {
		_ = unix.Rmdir(b.made[i])
	}
}

// finish forgets what files were.
func (b *batch) finish() {
	for _, e := range b.edits {
		if e.backup != "" {
			_ = unix.Unlink(e.backup)
		}
	}
}
