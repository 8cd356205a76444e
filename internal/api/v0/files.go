package v0

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/internal/api/httpkit"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/sandbox"
	"parley/internal/tool"
	"parley/internal/workspace"
)

// Bounds of the routes of a workspace.
const (
	maxShown      = 10 << 20 // bytes of a file that is shown as text
	maxArchive    = 4 << 30  // bytes of the files in an archive
	maxUploads    = 1000     // files of one upload
	defaultUpload = 1 << 30  // bytes of one file
)

// Sandboxes reaches into the sandboxes of conversations.
type Sandboxes interface {
	Ensure(ctx context.Context, owner, id string, wake bool) (tool.Hands, error)
}

// workspaceOf returns the workspace of a conversation that runs. Its directory is the
// one that the repository was cloned into, if there is one: paths begin with the
// repository's name (V0 section 12).
func (h *handlers) workspaceOf(r *httpkit.Request) (*workspace.Workspace, error) {
	id, err := idOf(r)
	if err != nil {
		return nil, err
	}
	v, err := h.attached(r.Context(), r.Principal.UserID, id)
	if err != nil {
		return nil, err
	}
	hands, err := h.sandboxes.Ensure(r.Context(), v.Owner, v.SandboxID, true)
	if err != nil {
		return nil, err
	}
	return workspace.New(hands, rootOf(v)), nil
}

func rootOf(v *engine.View) string {
	dir := cmp.Or(v.Options.WorkingDir, sandbox.WorkingDir)
	name := strings.TrimSuffix(path.Base(v.Repository), ".git")
	if v.Repository != "" && path.Base(dir) == name && path.Dir(dir) != "/" {
		return path.Dir(dir)
	}
	return dir
}

func (h *handlers) listFiles(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Path *string `json:"path"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	ws, err := h.workspaceOf(r)
	if err != nil {
		return err
	}
	names, err := ws.Entries(r.Context(), text(q.Path))
	if err != nil {
		return lead(err, "Error listing files: ")
	}
	return ok(w, names)
}

// selectFile shows a text. Absolute paths may lead anywhere in the sandbox.
func (h *handlers) selectFile(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		File string `json:"file"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	ws, err := h.workspaceOf(r)
	if err != nil {
		return err
	}
	code, err := readText(r.Context(), ws, q.File)
	if err != nil {
		return err
	}
	return ok(w, map[string]string{"code": code})
}

func readText(ctx context.Context, ws *workspace.Workspace, name string) (string, error) {
	file, err := ws.Absolute(name)
	if err != nil {
		return "", lead(err, "Error opening file: ")
	}
	opened, err := ws.Open(ctx, file)
	if fault.Is(err, fault.NotFound) {
		return "", fault.New(fault.NotFound, "file_not_found", "Error opening file: File not found: %.1000s", name)
	}
	if err != nil {
		return "", lead(err, "Error opening file: ")
	}
	defer func() { _ = opened.Body.Close() }()
	defer context.AfterFunc(ctx, func() { _ = opened.Body.Close() })() // ends a read that waits
	raw, err := io.ReadAll(io.LimitReader(opened.Body, maxShown+1))
	switch {
	case err != nil:
		return "", fault.Wrap(err, fault.Unavailable, "file_unreadable", "Error opening file: it could not be read to its end.")
	case len(raw) > maxShown:
		return "", fault.New(fault.TooLarge, "file_too_large", "Error opening file: it is larger than %d bytes.", maxShown)
	case bytes.IndexByte(raw, 0) >= 0 || !utf8.Valid(raw):
		return "", errBinary(name)
	}
	return string(raw), nil
}

const codeBinary = "binary_file"

func errBinary(name string) error {
	return fault.New(fault.Invalid, codeBinary, "Unable to open binary file: %.1000s", name)
}

// zipDirectory streams the workspace; an error in the middle cuts the connection.
func (h *handlers) zipDirectory(w http.ResponseWriter, r *httpkit.Request) error {
	ws, err := h.workspaceOf(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Header().Set("Content-Disposition", `attachment; filename="workspace.zip"`)
	err = ws.Zip(r.Context(), ws.Dir(), w, maxArchive)
	if err != nil {
		w.Header().Del("Content-Disposition")
	}
	return err
}

// gitChange is a changed file: M, A, D or U.
type gitChange struct {
	Status string `json:"status"`
	Path   string `json:"path"`
}

func (h *handlers) gitChanges(w http.ResponseWriter, r *httpkit.Request) error {
	ws, err := h.workspaceOf(r)
	if err != nil {
		return err
	}
	changes, err := ws.Changes(r.Context(), "", "")
	if err != nil {
		return err
	}
	out := []gitChange{}
	for _, c := range changes {
		switch c.Status {
		case workspace.Moved: // to these clients a file that went and one that came
			out = append(out, gitChange{"D", c.From}, gitChange{"A", c.Path})
		case workspace.Added:
			out = append(out, gitChange{"A", c.Path})
		case workspace.Deleted:
			out = append(out, gitChange{"D", c.Path})
		default:
			out = append(out, gitChange{"M", c.Path})
		}
	}
	slices.SortStableFunc(out, func(a, b gitChange) int { return strings.Compare(a.Path, b.Path) })
	return ok(w, out)
}

func (h *handlers) gitDiff(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Path string `json:"path"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	ws, err := h.workspaceOf(r)
	if err != nil {
		return err
	}
	diff, err := ws.FileDiff(r.Context(), q.Path, "", "")
	if err != nil {
		return err
	}
	if diff.Modified == nil || diff.Original == nil {
		return errBinary(q.Path)
	}
	return ok(w, map[string]string{"modified": *diff.Modified, "original": *diff.Original})
}

// skipped is a file of an upload that was not stored.
type skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// uploads is the answer to an upload.
type uploads struct {
	Uploaded []string  `json:"uploaded_files"`
	Skipped  []skipped `json:"skipped_files"`

	ws    *workspace.Workspace
	limit int64
	taken map[string]bool
}

// uploadFiles stores the parts "files" of a form under their base names, byte by
// byte. What was there is replaced; of two files of one upload with the same name the
// second is skipped.
func (h *handlers) uploadFiles(w http.ResponseWriter, r *httpkit.Request) error {
	form, err := r.MultipartReader()
	if err != nil {
		return missingFiles()
	}
	ws, err := h.workspaceOf(r)
	if err != nil {
		return err
	}
	out := &uploads{Uploaded: []string{}, Skipped: []skipped{}, ws: ws, limit: cmp.Or(h.maxUpload, defaultUpload), taken: map[string]bool{}}
	for count := 0; ; {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return badForm(err)
		}
		if part.FormName() != "files" || part.FileName() == "" {
			continue
		}
		if count++; count > maxUploads {
			return fault.New(fault.TooLarge, "too_many_files", "An upload has at most %d files.", maxUploads)
		}
		if err := out.take(r.Context(), part.FileName(), &formFile{part}); err != nil {
			return err
		}
	}
	if len(out.Uploaded)+len(out.Skipped) == 0 {
		return missingFiles()
	}
	return ok(w, out)
}

// take stores a file, or says why it is skipped.
func (u *uploads) take(ctx context.Context, sent string, body io.Reader) error {
	name := path.Base(strings.ReplaceAll(sent, `\`, "/"))
	skip := func(reason string) error {
		u.Skipped = append(u.Skipped, skipped{sent, reason})
		return nil
	}
	switch {
	case name == "." || name == ".." || name == "/" || strings.ContainsFunc(name, isControl) || !utf8.ValidString(name):
		return skip("The name cannot be used.")
	case u.taken[name]:
		return skip("Another file of this upload has the same name.")
	}
	u.taken[name] = true
	file := path.Join(u.ws.Dir(), name)
	err := u.ws.Save(ctx, file, body, u.limit)
	if fault.Is(err, fault.Invalid) && fault.CodeOf(err) != codeBadForm || fault.Is(err, fault.Forbidden) {
		return skip(fault.PublicText(err))
	}
	if err == nil {
		u.Uploaded = append(u.Uploaded, file)
	}
	return err
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

func missingFiles() error {
	return httpkit.InvalidFields(fault.Field{Loc: []any{"body", "files"}, Type: "missing", Msg: "Field required"})
}

const codeBadForm = "bad_upload"

func badForm(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault.Wrap(err, fault.Invalid, codeBadForm, "The request body came too slowly.")
	}
	return fault.Wrap(err, fault.Invalid, codeBadForm, "There was an error parsing the body")
}

// formFile tells errors of the client's form from those of the sandbox.
type formFile struct{ io.Reader }

func (f *formFile) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = badForm(err)
	}
	return n, err
}

// fileErrors is the shape of the routes of a workspace.
func fileErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	switch {
	case isFrameworks(p) && p.Kind != fault.TooLarge, p.Code == codeNotFound:
		return detailErrors(r, p)
	case p.Code == codeBinary:
		return http.StatusUnsupportedMediaType, map[string]any{"error": p.Text}
	case p.Code == "not_a_repository":
		return http.StatusNotFound, map[string]any{"error": "Not a git repository"}
	case p.Kind == fault.Invalid && p.Code == codeBadForm:
		return p.Status, map[string]any{"detail": p.Text}
	}
	return p.Status, map[string]any{"error": p.Text}
}

func (h *handlers) workspaceHandlers() httpkit.Handlers {
	return httpkit.Handlers{
		"list_files":    h.listFiles,
		"select_file":   h.selectFile,
		"zip_directory": h.zipDirectory,
		"upload_files":  h.uploadFiles,
		"git_changes":   h.gitChanges,
		"git_diff":      h.gitDiff,
	}
}

func workspaceEncoders() map[string]httpkit.ErrorEncoder {
	return map[string]httpkit.ErrorEncoder{
		"list_files":    fileErrors,
		"select_file":   fileErrors,
		"zip_directory": fileErrors,
		"upload_files":  fileErrors,
		"git_changes":   fileErrors,
		"git_diff":      fileErrors,
	}
}
