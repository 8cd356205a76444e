package v1

import (
	"context"
	"net/http"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/forge"
)

// Git is what the API needs of the git hosting services.
type Git interface {
	Host(ctx context.Context, owner, provider string) (forge.Host, error)
	Repositories(ctx context.Context, owner, provider string, q forge.RepositoryQuery) (forge.List[forge.Repository], error)
	Branches(ctx context.Context, owner, provider string, q forge.BranchQuery) (forge.List[forge.Branch], error)
	Tasks(ctx context.Context, owner string) ([]conversation.SuggestedTask, error)
	User(ctx context.Context, owner string) (forge.User, error)
	Organizations(ctx context.Context, owner string) (provider string, names []string, err error)
	Check(ctx context.Context, provider string, t account.ProviderToken) (forge.User, error)
	Try(ctx context.Context, provider string, t account.ProviderToken) forge.Trial
	Issue(owner, provider string) (token string, expires time.Time, err error)
	Redeem(ctx context.Context, access string) (account.Secret, error)
}

// gitErrors is a text where it is the provider that does not know the user (V1 0.4).
func gitErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	if p.Status == http.StatusUnauthorized && strings.HasPrefix(p.Code, "git_") {
		return p.Status, p.Text
	}
	return httpkit.DetailErrors(r, p)
}

// providerErrors has the text in "error", where clients of these routes look.
func providerErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	if p.Status == http.StatusUnauthorized && strings.HasPrefix(p.Code, "git_") {
		return p.Status, map[string]any{"error": p.Text, "code": p.Code}
	}
	return settingsErrors(r, p)
}

func (h *handlers) withGit(next httpkit.Handler) httpkit.Handler {
	return func(w http.ResponseWriter, r *httpkit.Request) error {
		if h.Git == nil {
			return fault.New(fault.Unsupported, "not_built", "This server talks to no git hosting service.")
		}
		return next(w, r)
	}
}

type gitQuery struct {
	Provider string `json:"provider"`
	pageQuery
}

func (q *gitQuery) page() forge.Page { return forge.Page{ID: orEmpty(q.PageID), Limit: q.Limit} }

func (h *handlers) searchInstallations(w http.ResponseWriter, r *httpkit.Request) error {
	var q gitQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	host, err := h.Git.Host(r.Context(), r.Principal.UserID, q.Provider)
	if err != nil {
		return err
	}
	l, err := host.Installations(r.Context(), q.page())
	if err != nil {
		return err
	}
	return writePage(w, l.Items, l.Next)
}

type repository struct {
	ID         string  `json:"id"`
	FullName   string  `json:"full_name"`
	Provider   string  `json:"git_provider"`
	Public     bool    `json:"is_public"`
	Stars      *int    `json:"stargazers_count"`
	LinkHeader *string `json:"link_header"` // of old clients; the page has next_page_id
	PushedAt   *string `json:"pushed_at"`
	OwnerType  *string `json:"owner_type"`
	MainBranch *string `json:"main_branch"`
}

func (h *handlers) searchRepositories(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		gitQuery
		Query        *string `json:"query"`
		Installation *string `json:"installation_id"`
		Sort         *string `json:"sort_order"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	by, direction, _ := strings.Cut(orEmpty(q.Sort), "-")
	l, err := h.Git.Repositories(r.Context(), r.Principal.UserID, q.Provider, forge.RepositoryQuery{Text: orEmpty(q.Query),
		Installation: orEmpty(q.Installation), Sort: by, Ascending: direction == "asc", Page: q.page()})
	if err != nil {
		return err
	}
	items := make([]repository, len(l.Items))
	for i, x := range l.Items {
		items[i] = repository{ID: x.ID, FullName: x.FullName, Provider: x.Provider, Public: x.Public, Stars: x.Stars,
			PushedAt: orNull(x.PushedAt), OwnerType: orNull(x.OwnerType), MainBranch: orNull(x.MainBranch)}
	}
	return writePage(w, items, l.Next)
}

type branch struct {
	Name      string  `json:"name"`
	Commit    string  `json:"commit_sha"`
	Protected bool    `json:"protected"`
	PushedAt  *string `json:"last_push_date"`
}

func (h *handlers) searchBranches(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		gitQuery
		Repository string `json:"repository"`
		Query      string `json:"query"`
	}
	if err := r.Params(&q); err != nil {
		return err
	}
	l, err := h.Git.Branches(r.Context(), r.Principal.UserID, q.Provider,
		forge.BranchQuery{Repository: q.Repository, Text: q.Query, Page: q.page()})
	if err != nil {
		return err
	}
	items := make([]branch, len(l.Items))
	for i, b := range l.Items {
		items[i] = branch{b.Name, b.Commit, b.Protected, orNull(b.PushedAt)}
	}
	return writePage(w, items, l.Next)
}

func (h *handlers) searchTasksToDo(w http.ResponseWriter, r *httpkit.Request) error {
	var q pageQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	tasks, err := h.Git.Tasks(r.Context(), r.Principal.UserID)
	if err != nil {
		return err
	}
	items, next := cutPage(tasks, q)
	return writePage(w, items, next)
}

func (h *handlers) gitInfo(w http.ResponseWriter, r *httpkit.Request) error {
	u, err := h.Git.User(r.Context(), r.Principal.UserID)
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, struct {
		ID        string  `json:"id"`
		Login     string  `json:"login"`
		AvatarURL string  `json:"avatar_url"`
		Company   *string `json:"company"`
		Name      *string `json:"name"`
		Email     *string `json:"email"`
	}{u.ID, u.Login, u.AvatarURL, orNull(u.Company), orNull(u.Name), orNull(u.Email)})
}

func (h *handlers) gitOrganizations(w http.ResponseWriter, r *httpkit.Request) error {
	provider, names, err := h.Git.Organizations(r.Context(), r.Principal.UserID)
	if err != nil {
		return err
	}
	if names == nil {
		names = []string{}
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"provider": provider, "organizations": names})
}

// storeGitProviders asks the providers before it stores anything.
func (h *handlers) storeGitProviders(w http.ResponseWriter, r *httpkit.Request) error {
	var in struct {
		Tokens map[string]account.TokenChange `json:"provider_tokens"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	now, err := h.book().Settings(r)
	if err != nil {
		return err
	}
	_, check := account.ReplaceTokens(now.Secrets.ProviderTokens, in.Tokens)
	for _, provider := range forge.Providers() { // one after the other: the first wrong one is told
		if t, ok := check[provider]; ok {
			if err := h.checkToken(r.Context(), provider, t); err != nil {
				return err
			}
			delete(check, provider)
		}
	}
	for provider := range check { // no service that could be asked
		return httpkit.BadField("tokens of this provider cannot be checked, and are not stored", nil, "body", "provider_tokens", provider)
	}
	if len(in.Tokens) > 0 {
		err = h.book().Change(r, func(s *account.Settings) error {
			next, _ := account.ReplaceTokens(s.Secrets.ProviderTokens, in.Tokens)
			s.SetTokens(next)
			return nil
		})
	}
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]string{"message": "Git providers stored"})
}

// checkToken takes a token that its provider takes, be it with too few rights to say
// whose it is.
func (h *handlers) checkToken(ctx context.Context, provider string, t account.ProviderToken) error {
	_, err := h.Git.Check(ctx, provider, t)
	if fault.CodeOf(err) == forge.CodeForbidden {
		return nil
	}
	if fault.CodeOf(err) == forge.CodeRejected {
		return fault.Wrap(err, fault.Unauthenticated, forge.CodeRejected, "Invalid token. %s", fault.PublicText(err))
	}
	return err
}

func (h *handlers) deleteGitProviders(w http.ResponseWriter, r *httpkit.Request) error {
	err := h.Settings.UpdateSettings(r.Context(), r.Principal.UserID, func(old *account.Settings) (*account.Settings, error) {
		if old == nil {
			return nil, nil // nothing to delete, and nothing to store
		}
		next := *old
		next.SetTokens(map[string]account.ProviderToken{})
		return &next, nil
	})
	if err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]string{"message": "Unset Git provider tokens"})
}

func (h *handlers) issueAccessToken(w http.ResponseWriter, r *httpkit.Request) error {
	var in struct {
		Provider string `json:"provider"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	token, expires, err := h.Git.Issue(r.Principal.UserID, in.Provider)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return httpkit.JSON(w, http.StatusCreated, map[string]string{"token": token, "expires_at": httpkit.FormatTime(expires),
		"url": h.URLs.Base(r.Request) + "/api/v1/webhooks/secrets"})
}

// redeemAccessToken has no other credential than the access token.
func (h *handlers) redeemAccessToken(w http.ResponseWriter, r *httpkit.Request) error {
	token, err := h.Git.Redeem(r.Context(), r.Header.Get("X-Access-Token"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, err = w.Write([]byte(token.Reveal()))
	return err
}
