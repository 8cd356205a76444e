package agentserver

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/workspace"
)

const (
	defaultMaxUpload = 1 << 30
	maxArchive       = 4 << 30 // bytes of the files in an archive
)

// absolute refuses relative paths (agent protocol 1.7), before the sandbox is woken.
func absolute(p string) error {
	if !path.IsAbs(p) {
		return fault.New(fault.Invalid, "bad_path", "The path must be absolute.").WithHint("Send a path inside the sandbox that begins with a slash.")
	}
	return nil
}

// atPath is inWorkspace with an absolute path.
func (s *Server) atPath(r *httpkit.Request) (pathQuery, *workspace.Workspace, error) {
	var q pathQuery
	if err := r.Params(&q); err != nil {
		return q, nil, err
	}
	if err := absolute(q.Path); err != nil {
		return q, nil, err
	}
	return s.inWorkspace(r)
}

func (s *Server) uploadFile(w http.ResponseWriter, r *httpkit.Request) error {
	q, ws, err := s.atPath(r)
	if err != nil {
		return err
	}
	limit := s.cfg.MaxUpload
	if limit == 0 {
		limit = defaultMaxUpload
	}
	file, err := uploaded(r)
	if err != nil {
		return err
	}
	if err := ws.Save(r.Context(), q.Path, file, limit); err != nil {
		return err
	}
	return writeSuccess(w, true)
}

// maxParts is how many parts of a form are skipped before the file.
const maxParts = 16

// uploaded finds the part "file" of a form.
func uploaded(r *httpkit.Request) (io.Reader, error) {
	form, err := r.MultipartReader()
	if err != nil {
		return nil, missingFile()
	}
	for range maxParts {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, badUpload(err)
		}
		if part.FormName() == "file" {
			return &upload{part}, nil
		}
	}
	return nil, missingFile()
}

func missingFile() error {
	return httpkit.InvalidFields(fault.Field{Loc: []any{"body", "file"}, Type: "missing", Msg: "Field required"})
}

func badUpload(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fault.Wrap(err, fault.Invalid, "body_too_slow", "The request body came too slowly.")
	}
	return fault.Wrap(err, fault.Invalid, "bad_upload", "The form that carries the file cannot be read.")
}

// upload tells errors of the client's form from those of the sandbox.
type upload struct{ io.Reader }

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = badUpload(err)
	}
	return n, err
}

func (s *Server) downloadFile(w http.ResponseWriter, r *httpkit.Request) error {
	q, ws, err := s.atPath(r)
	if err != nil {
		return err
	}
	file, err := ws.Open(r.Context(), q.Path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Body.Close() }()
	return sendFile(w, r.Request, file, "application/octet-stream", true)
}

// sendFile answers with a file. One that turns out shorter than it was cuts the
// connection.
func sendFile(w http.ResponseWriter, r *http.Request, file *workspace.File, media string, attach bool) error {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.FormatInt(file.Size, 10))
	if attach {
		h.Set("Content-Disposition", attachment(file.Name))
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	defer context.AfterFunc(r.Context(), func() { _ = file.Body.Close() })() // ends a read that waits
	n, err := io.Copy(w, file.Body)
	if err == nil && n < file.Size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// attachment names a file for saving it. Names of the sandbox may hold anything.
func attachment(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	if value := mime.FormatMediaType("attachment", map[string]string{"filename": plain}); value != "" {
		return value
	}
	return "attachment"
}

func (s *Server) createDirectory(w http.ResponseWriter, r *httpkit.Request) error {
	q, ws, err := s.atPath(r)
	if err != nil {
		return err
	}
	if err := ws.MakeDir(r.Context(), q.Path); err != nil {
		return err
	}
	return writeSuccess(w, true)
}

// location is a place to begin browsing at.
type location struct {
	Label string `json:"label"`
	Path  string `json:"path"`
}

type dirQuery struct {
	Path   string  `json:"path"`
	PageID *string `json:"page_id"`
	Limit  int     `json:"limit"`
	Hidden bool    `json:"include_hidden"`
}

func (s *Server) fileHome(w http.ResponseWriter, r *httpkit.Request) error {
	var q dirQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	if home := s.cfg.Home; home != "" {
		return httpkit.JSON(w, http.StatusOK, map[string]any{"home": home, "favorites": []location{{path.Base(home), home}}, "locations": []location{{"/", "/"}}})
	}
	ws, err := s.workspaceOf(r.Context(), r.Principal)
	if err != nil {
		return err
	}
	home, dirs, err := ws.Home(r.Context(), q.Hidden)
	if err != nil {
		return err
	}
	favorites := []location{}
	for _, d := range dirs {
		favorites = append(favorites, location{d.Name, d.Path})
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"home": home, "favorites": favorites, "locations": []location{{"/", "/"}}})
}

type subdir struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

func (s *Server) searchSubdirs(w http.ResponseWriter, r *httpkit.Request) error {
	var q dirQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	_, ws, err := s.atPath(r)
	if err != nil {
		return err
	}
	dirs, next, err := ws.Subdirs(r.Context(), q.Path, orEmpty(q.PageID), q.Limit, q.Hidden)
	if err != nil {
		return err
	}
	items := []subdir{}
	for _, d := range dirs {
		items = append(items, subdir{d.Name, d.Path})
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"items": items, "next_page_id": orNull(next)})
}

type archiveQuery struct {
	Path     string   `json:"path"`
	Format   string   `json:"format"`
	Defaults bool     `json:"use_default_excludes"`
	Exclude  []string `json:"exclude"`
}

// archiveDirectory streams a directory. Its headers tell what it was made of.
func (s *Server) archiveDirectory(w http.ResponseWriter, r *httpkit.Request) error {
	var q archiveQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	if q.Format != "tar.gz" {
		return fault.New(fault.Unsupported, "not_built", "Archives of the format %s are not built yet.", q.Format).WithHint("Ask for format=tar.gz.")
	}
	for _, pattern := range q.Exclude {
		if _, err := path.Match(pattern, ""); err != nil || strings.ContainsRune(pattern, 0) {
			return httpkit.BadField("the pattern cannot be read", pattern, "query", "exclude")
		}
	}
	_, ws, err := s.atPath(r)
	if err != nil {
		return err
	}
	switch dir, err := ws.IsDir(r.Context(), q.Path); {
	case err != nil:
		return err
	case !dir:
		return fault.New(fault.Invalid, "not_a_directory", "There is no directory at this path.")
	}
	if q.Defaults {
		q.Exclude = append(q.Exclude, workspace.BuildDirs()...)
	}
	h := w.Header()
	h.Set("Content-Type", "application/gzip")
	h.Set("Content-Disposition", attachment(path.Base(path.Clean(q.Path))+".tar.gz"))
	h.Set("X-Archive-Format", q.Format)
	h.Set("X-Archive-Path", url.PathEscape(path.Clean(q.Path)))
	w.WriteHeader(http.StatusOK)
	packed := gzip.NewWriter(w)
	if err := ws.Archive(r.Context(), q.Path, packed, q.Exclude, maxArchive); err != nil {
		return err
	}
	return packed.Close()
}
