package v0

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/forge"
)

func (h *handlers) userHandlers() httpkit.Handlers {
	return httpkit.Handlers{
		"get_user_installations":       h.withGit(h.installations),
		"get_user_repositories":        h.withGit(h.repositories),
		"get_user":                     h.withGit(h.gitUser),
		"search_repositories":          h.withGit(h.searchRepositories),
		"search_branches":              h.withGit(h.searchBranches),
		"get_suggested_tasks":          h.withGit(h.suggestedTasks),
		"get_repository_branches":      h.withGit(h.repositoryBranches),
		"get_repo_microagents":         h.withGit(h.repoMicroagents),
		"get_microagent_content":       h.withGit(h.microagentContent),
		"get_microagent_conversations": h.microagentConversations,
	}
}

// What users without any token read (legacy API 15).
const (
	needToken     = "Git provider token required."
	needTokenLike = "Git provider token required. (such as GitHub)."
	needProviders = "No providers set."
	needValid     = "Need valid provider token"
)

func userEncoders() map[string]httpkit.ErrorEncoder {
	return map[string]httpkit.ErrorEncoder{
		"get_user_installations":  gitErrors(needTokenLike),
		"get_user_repositories":   gitErrors(needTokenLike),
		"get_user":                gitErrors(needTokenLike),
		"search_repositories":     gitErrors(needToken),
		"search_branches":         gitErrors(needToken),
		"get_suggested_tasks":     gitErrors(needProviders),
		"get_repository_branches": gitErrors(needTokenLike),
		"get_repo_microagents":    gitErrors(needToken),
		"get_microagent_content":  gitErrors(needToken),
	}
}

// gitErrors is the shape of these routes: a bare text. None of their clients tells one
// fault of a provider from another, so all but those of tokens are 500.
func gitErrors(missing string) httpkit.ErrorEncoder {
	return func(r *http.Request, p *httpkit.Problem) (int, any) {
		switch {
		case p.Code == forge.CodeNoProvider:
			return http.StatusUnauthorized, missing
		case p.Kind == fault.Unauthenticated && strings.HasPrefix(p.Code, "git_"):
			return http.StatusUnauthorized, p.Text
		case isFrameworks(p):
			return detailErrors(r, p)
		case p.Kind == fault.Invalid:
			return http.StatusBadRequest, p.Text
		case p.Kind == fault.Unsupported:
			return p.Status, p.Text
		}
		return http.StatusInternalServerError, p.Text
	}
}

func (h *handlers) withGit(next httpkit.Handler) httpkit.Handler {
	return func(w http.ResponseWriter, r *httpkit.Request) error {
		if h.git == nil {
			return fault.New(fault.Unsupported, "not_built", "This server talks to no git hosting service.")
		}
		return next(w, r)
	}
}

// maxListed bounds lists that clients do not page through.
const maxListed = 1000

// installations are known at three services; others are told apart by no installation.
func (h *handlers) installations(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Provider string `json:"provider"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	if _, err := h.git.Configured(r.Context(), r.Principal.UserID); err != nil {
		return err
	}
	if q.Provider == forge.GitLab || q.Provider == "enterprise_sso" {
		return fault.New(fault.Invalid, "no_installations", "Provider %s doesn't support installations", q.Provider)
	}
	host, err := h.git.Host(r.Context(), r.Principal.UserID, q.Provider)
	if err != nil {
		return err
	}
	names, err := forge.All(r.Context(), maxListed, host.Installations)
	if err != nil {
		return err
	}
	return ok(w, append([]string{}, names...))
}

// repository is one as lists show it.
type repository struct {
	ID         string  `json:"id"`
	FullName   string  `json:"full_name"`
	Provider   string  `json:"git_provider"`
	Public     bool    `json:"is_public"`
	Stars      *int    `json:"stargazers_count"`
	LinkHeader *string `json:"link_header"` // where clients find the number of the next page
	PushedAt   *string `json:"pushed_at"`
	OwnerType  *string `json:"owner_type"`
	MainBranch *string `json:"main_branch"`
}

func viewRepositories(items []forge.Repository, link string) []repository {
	out := make([]repository, len(items))
	for i, x := range items {
		out[i] = repository{ID: x.ID, FullName: x.FullName, Provider: x.Provider, Public: x.Public, Stars: x.Stars, LinkHeader: unlessEmpty(link),
			PushedAt: unlessEmpty(x.PushedAt), OwnerType: unlessEmpty(string(x.OwnerType)), MainBranch: unlessEmpty(x.MainBranch)}
	}
	return out
}

const perPage = 30 // where a request says nothing else

func (h *handlers) repositories(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Sort         string  `json:"sort"`
		Provider     *string `json:"selected_provider"`
		Page         *int    `json:"page"`
		PerPage      *int    `json:"per_page"`
		Installation *string `json:"installation_id"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	by := forge.RepositoryQuery{Installation: text(q.Installation)}
	if q.Sort == "updated" || q.Sort == "stars" {
		by.Sort = q.Sort
	}
	if text(q.Provider) == "" {
		return h.allRepositories(w, r, by)
	}
	p := pageOf(q.Page, q.PerPage)
	l, err := readPage(r.Context(), p, p.repositories(*q.Provider, by.Installation), func(ctx context.Context, at forge.Page) (forge.List[forge.Repository], error) {
		by.Page = at
		return h.git.Repositories(ctx, r.Principal.UserID, *q.Provider, by)
	})
	if err != nil {
		return err
	}
	link := ""
	if l.Next != "" {
		next := url.Values{"page": {strconv.Itoa(p.number + 1)}, "per_page": {strconv.Itoa(p.size)}, "selected_provider": {*q.Provider}}
		link = fmt.Sprintf(`<%s/api/user/repositories?%s>; rel="next"`, h.urls.Base(r.Request), next.Encode())
	}
	return ok(w, viewRepositories(l.Items, link))
}

// allRepositories are those of all providers. One that fails is left out, unless all do.
func (h *handlers) allRepositories(w http.ResponseWriter, r *httpkit.Request, by forge.RepositoryQuery) error {
	found, err := everywhere(r.Context(), h, r.Principal.UserID, "", func(ctx context.Context, provider string) ([]forge.Repository, error) {
		return forge.All(ctx, maxListed, func(ctx context.Context, at forge.Page) (forge.List[forge.Repository], error) {
			by.Page = at
			return h.git.Repositories(ctx, r.Principal.UserID, provider, by)
		})
	})
	if err != nil {
		return err
	}
	return ok(w, viewRepositories(found, ""))
}

// everywhere asks one provider, or all that the user has a token of, and joins what they
// say. One that fails is left out, unless all do.
func everywhere[T any](ctx context.Context, h *handlers, owner, only string, ask func(ctx context.Context, provider string) ([]T, error)) ([]T, error) {
	providers, err := h.git.Configured(ctx, owner)
	if err != nil {
		return nil, err
	}
	if only != "" {
		providers = []string{only}
	}
	all, failed, answered := []T{}, error(nil), false
	for _, p := range providers {
		items, err := ask(ctx, p)
		switch {
		case err == nil:
			all, answered = append(all, items...), true
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		default:
			failed = errors.Join(failed, err)
			h.log.Warn("a git provider did not answer", "provider", p, "error", err)
		}
	}
	if !answered {
		return nil, failed
	}
	return all, nil
}

// gitUser is whom the first good token belongs to.
func (h *handlers) gitUser(w http.ResponseWriter, r *httpkit.Request) error {
	u, err := h.git.User(r.Context(), r.Principal.UserID)
	if err != nil && fault.CodeOf(err) != forge.CodeNoProvider && !fault.Is(err, fault.Canceled) {
		return fault.Wrap(err, fault.Unauthenticated, codeInvalidToken, needValid)
	}
	if err != nil {
		return err
	}
	return ok(w, struct {
		ID        string  `json:"id"`
		Login     string  `json:"login"`
		AvatarURL string  `json:"avatar_url"`
		Company   *string `json:"company"`
		Name      *string `json:"name"`
		Email     *string `json:"email"`
	}{u.ID, u.Login, u.AvatarURL, unlessEmpty(u.Company), unlessEmpty(u.Name), unlessEmpty(u.Email)})
}

func (h *handlers) searchRepositories(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Query    string  `json:"query"`
		PerPage  int     `json:"per_page"`
		Sort     string  `json:"sort"`
		Order    string  `json:"order"`
		Provider *string `json:"selected_provider"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	by := forge.RepositoryQuery{Text: q.Query, Ascending: q.Order == "asc", Page: forge.Page{Limit: min(max(q.PerPage, 1), maxPage)}}
	if slices.Contains([]string{"stars", "forks", "updated"}, q.Sort) {
		by.Sort = q.Sort
	}
	found, err := everywhere(r.Context(), h, r.Principal.UserID, text(q.Provider), func(ctx context.Context, provider string) ([]forge.Repository, error) {
		l, err := h.git.Repositories(ctx, r.Principal.UserID, provider, by)
		return l.Items, err
	})
	if err != nil {
		return err
	}
	return ok(w, viewRepositories(found, ""))
}

type branch struct {
	Name      string  `json:"name"`
	Commit    string  `json:"commit_sha"`
	Protected bool    `json:"protected"`
	PushedAt  *string `json:"last_push_date"`
}

func viewBranches(items []forge.Branch) []branch {
	out := make([]branch, len(items))
	for i, b := range items {
		out[i] = branch{b.Name, b.Commit, b.Protected, unlessEmpty(b.PushedAt)}
	}
	return out
}

// searchBranches answers with nothing where a provider fails: clients search while the
// user types.
func (h *handlers) searchBranches(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Repository string  `json:"repository"`
		Query      string  `json:"query"`
		PerPage    int     `json:"per_page"`
		Provider   *string `json:"selected_provider"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	by := forge.BranchQuery{Repository: q.Repository, Text: q.Query, Page: forge.Page{Limit: min(max(q.PerPage, 1), maxPage)}}
	l, err := h.branchesOf(r, text(q.Provider), func(ctx context.Context, provider string) (forge.List[forge.Branch], error) {
		return h.git.Branches(ctx, r.Principal.UserID, provider, by)
	})
	if fault.CodeOf(err) == forge.CodeNoProvider {
		return err
	}
	return ok(w, viewBranches(l.Items))
}

// branchesOf asks the providers for the branches of a repository until one has it.
func (h *handlers) branchesOf(r *httpkit.Request, only string, ask func(ctx context.Context, provider string) (forge.List[forge.Branch], error)) (l forge.List[forge.Branch], err error) {
	providers, err := h.git.Configured(r.Context(), r.Principal.UserID)
	if err != nil {
		return l, err
	}
	if only != "" {
		providers = []string{only}
	}
	for _, p := range providers {
		if l, err = ask(r.Context(), p); err == nil {
			return l, nil
		}
	}
	return forge.List[forge.Branch]{}, fault.Wrap(err, fault.NotFound, "no_branches", "No provider has the repository.")
}

// branchPage is a page of branches (choice 15 of the contract's section 20).
type branchPage struct {
	Branches []branch `json:"branches"`
	More     bool     `json:"has_next_page"`
	Page     int      `json:"current_page"`
	PerPage  int      `json:"per_page"`
	Total    *int     `json:"total_count"`
}

func (h *handlers) repositoryBranches(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Repository string `json:"repository"`
		Page       *int   `json:"page"`
		PerPage    *int   `json:"per_page"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	p := pageOf(q.Page, q.PerPage)
	l, err := h.branchesOf(r, "", func(ctx context.Context, provider string) (forge.List[forge.Branch], error) {
		return readPage(ctx, p, p.branches(provider), func(ctx context.Context, at forge.Page) (forge.List[forge.Branch], error) {
			return h.git.Branches(ctx, r.Principal.UserID, provider, forge.BranchQuery{Repository: q.Repository, Page: at})
		})
	})
	if fault.CodeOf(err) == forge.CodeNoProvider {
		return err
	}
	out := branchPage{Branches: viewBranches(l.Items), More: l.Next != "", Page: p.number, PerPage: p.size}
	if err != nil {
		out.Total = ref(0)
	}
	return ok(w, out)
}

// suggestedTasks leaves out the kinds that no client of this API knows.
func (h *handlers) suggestedTasks(w http.ResponseWriter, r *httpkit.Request) error {
	tasks, err := h.git.Tasks(r.Context(), r.Principal.UserID)
	if err != nil {
		return err
	}
	return ok(w, append([]conversation.SuggestedTask{}, slices.DeleteFunc(tasks, func(t conversation.SuggestedTask) bool {
		return t.TaskType == conversation.TaskOpenPR
	})...))
}

// numbered is a page by its number, from 1 on.
type numbered struct{ number, size int }

func pageOf(number, size *int) numbered {
	p := numbered{number: 1, size: perPage}
	if number != nil {
		p.number = max(*number, 1)
	}
	if size != nil {
		p.size = min(max(*size, 1), maxPage)
	}
	return p
}

func (p numbered) id() string     { return strconv.Itoa(p.number) }
func (p numbered) offset() string { return strconv.Itoa((p.number - 1) * p.size) }

// repositories is the page's id at a provider, "" where its pages have no numbers.
func (p numbered) repositories(provider, installation string) string {
	switch {
	case provider == forge.GitHub || provider == forge.GitLab || provider == forge.Bitbucket && installation != "":
		return p.id()
	case provider == forge.BitbucketDataCenter || provider == forge.AzureDevOps:
		return p.offset()
	}
	return ""
}

// branches is likewise of lists of branches.
func (p numbered) branches(provider string) string {
	switch provider {
	case forge.GitHub, forge.GitLab, forge.Bitbucket:
		return p.id()
	case forge.BitbucketDataCenter:
		return p.offset()
	}
	return ""
}

const (
	lastNumbered = 2000    // last item that can be reached where pages have no numbers
	maxNumber    = 1 << 13 // last page that providers are asked for
)

// readPage reads a page: at once by its id, or by reading the list up to it.
func readPage[T any](ctx context.Context, p numbered, id string, read func(context.Context, forge.Page) (forge.List[T], error)) (l forge.List[T], err error) {
	if p.number > maxNumber {
		return l, nil
	}
	if id != "" {
		return read(ctx, forge.Page{ID: id, Limit: p.size})
	}
	from, to := (p.number-1)*p.size, p.number*p.size
	all, err := forge.All(ctx, min(to+1, lastNumbered), read)
	if err != nil {
		return l, err
	}
	l.Items = all[min(from, len(all)):min(to, len(all))]
	if to < len(all) {
		l.Next = strconv.Itoa(p.number + 1)
	}
	return l, nil
}
