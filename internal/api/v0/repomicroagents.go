package v0

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/forge"
	"parley/internal/skill"
	"parley/internal/store"
)

// Paths of the two routes whose parameter has slashes.
const (
	repositoryPrefix  = "/api/user/repository/"
	microagentsSuffix = "/microagents"
	contentSuffix     = "/microagents/content"
)

// joinName escapes the slashes in the name of a repository, as clients do not.
func joinName(escaped string) string {
	rest, ok := strings.CutPrefix(escaped, repositoryPrefix)
	if !ok {
		return escaped
	}
	for _, suffix := range []string{contentSuffix, microagentsSuffix} {
		if name, ok := strings.CutSuffix(rest, suffix); ok && name != "" {
			return repositoryPrefix + strings.ReplaceAll(name, "/", "%2F") + suffix
		}
	}
	return escaped
}

// Where a repository has its microagents: in a directory, and one file beside it.
const (
	microagentDir  = ".openhands/microagents"
	ofOrganization = "microagents" // in a repository that has nothing else
	cursorRules    = ".cursorrules"
)

func dirOfMicroagents(repository string) string {
	if name := path.Base(repository); name == ".openhands" || name == "openhands-config" {
		return ofOrganization
	}
	return microagentDir
}

type microagentFile struct {
	Name      string `json:"name"`
	Path      string `json:"path"`
	CreatedAt string `json:"created_at"`
}

// repoMicroagents lists the microagents of a repository, none without a token (legacy
// API 15).
func (h *handlers) repoMicroagents(w http.ResponseWriter, r *httpkit.Request) error {
	name := r.PathValue("repository_name")
	files := []microagentFile{}
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000") // without a zone, as dates of these files are
	_, host, err := h.hostOf(r, name)
	if fault.CodeOf(err) == forge.CodeNoProvider {
		return ok(w, files)
	}
	if err != nil {
		return err
	}
	dir := dirOfMicroagents(name)
	found, err := host.Files(r.Context(), name, dir)
	if err != nil {
		return err
	}
	_, err = host.File(r.Context(), name, cursorRules)
	switch {
	case err == nil:
		files = append(files, microagentFile{"cursorrules", cursorRules, now})
	case !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.TooLarge):
		return err
	}
	slices.Sort(found)
	for _, p := range found {
		name, markdown := strings.CutSuffix(strings.TrimPrefix(p, dir+"/"), ".md")
		if markdown && !strings.EqualFold(path.Base(name), "README") {
			files = append(files, microagentFile{name, p, now})
		}
	}
	return ok(w, files)
}

// hostOf finds the service that has a repository among those that the user has a token
// of. Unauthenticated where none has it.
func (h *handlers) hostOf(r *httpkit.Request, name string) (provider string, host forge.Host, err error) {
	providers, err := h.git.Configured(r.Context(), r.Principal.UserID)
	if err != nil {
		return "", nil, err
	}
	for _, provider = range providers {
		if host, err = h.git.Host(r.Context(), r.Principal.UserID, provider); err == nil {
			_, err = host.Repository(r.Context(), name)
		}
		if err == nil {
			return provider, host, nil
		}
		if r.Context().Err() != nil {
			return "", nil, context.Cause(r.Context())
		}
	}
	return "", nil, noAccess(err, name)
}

// codeNoAccess is the code of a repository that cannot be read.
const codeNoAccess = "git_no_access"

func noAccess(err error, repository string) error {
	return fault.Wrap(err, fault.Unauthenticated, codeNoAccess, "Unable to access repo %s", repository)
}

type microagentContent struct {
	Content  string   `json:"content"`
	Path     string   `json:"path"`
	Triggers []string `json:"triggers"`
	Provider *string  `json:"git_provider"`
}

// microagentContent reads one file without its front matter. A file that is broken is
// shown as it is.
func (h *handlers) microagentContent(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Path string `json:"file_path"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	name := r.PathValue("repository_name")
	provider, host, err := h.hostOf(r, name)
	if err != nil {
		return err
	}
	data, err := host.File(r.Context(), name, q.Path)
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(err, fault.Unauthenticated, codeNoAccess, "Microagent file %s not found in %s", q.Path, name)
	}
	if err != nil {
		return err
	}
	out := microagentContent{Content: strings.ToValidUTF8(string(data), "\uFFFD"), Path: q.Path, Triggers: []string{}, Provider: &provider}
	if s, err := skill.Parse(q.Path, data, ""); err == nil {
		out.Content, out.Triggers = s.Content, append(out.Triggers, s.Triggers...)
	}
	return ok(w, out)
}

// microagentConversations are those that were made to write microagents of a repository,
// unless their last pull request is closed.
func (h *handlers) microagentConversations(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Repository string  `json:"selected_repository"`
		PageID     *string `json:"page_id"`
		Limit      int     `json:"limit"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	cursor, offset, err := parsePage(text(q.PageID))
	if err != nil {
		return err
	}
	page, err := h.searchFrom(r.Context(), store.ConversationQuery{Owner: r.Principal.UserID, Repository: q.Repository,
		Trigger: triggerMicroagent, Order: store.CreatedDesc, Cursor: cursor, Limit: min(max(q.Limit, 1), maxPage)}, offset)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), closedTime)
	defer cancel()
	results := []info{}
	for _, v := range page.Items {
		if n := len(v.PRNumbers); n > 0 && h.isClosed(ctx, v.Owner, v.GitProvider, v.Repository, v.PRNumbers[n-1]) {
			continue
		}
		c, err := h.conditionOf(r.Context(), v)
		if err != nil {
			return err
		}
		results = append(results, h.describe(r, v, c))
	}
	return ok(w, map[string]any{"results": results, "next_page_id": formatPage(page.Next)})
}

// closedTime is how long services are asked about the pull requests of one page. What
// nobody has said by then is open.
const closedTime = 10 * time.Second

// isClosed reports whether a pull request is known to be closed. Where nobody can say
// it, it is not.
func (h *handlers) isClosed(ctx context.Context, owner, provider, repository string, number int) bool {
	if h.git == nil || ctx.Err() != nil {
		return false
	}
	if provider == "" {
		provider = forge.GitHub
	}
	host, err := h.git.Host(ctx, owner, provider)
	if err != nil {
		return false
	}
	open, err := host.IsOpen(ctx, repository, number)
	return err == nil && !open
}
