// Package forgejo is the API of Forgejo and Gitea, version 1.
package forgejo

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"parley/internal/conversation"
	"parley/internal/forge"
	"parley/internal/forge/rest"
)

type host struct {
	place forge.Place
	rest  *rest.Client
}

// Open implements forge.Opener.
func Open(c forge.Conn) (forge.Host, error) {
	h := http.Header{"Authorization": {"token " + c.Token.Reveal()}, "Accept": {"application/json"}, "User-Agent": {"parley"}}
	return &host{place: c.Place, rest: rest.New(rest.Config{Name: c.Place.Title(), Base: c.Place.API(), Header: h, HTTP: c.HTTP})}, nil
}

// User implements forge.Host.
func (h *host) User(ctx context.Context) (forge.User, error) {
	var u struct {
		ID        int64  `json:"id"`
		Login     string `json:"login"`
		AvatarURL string `json:"avatar_url"`
		FullName  string `json:"full_name"`
		Email     string `json:"email"`
	}
	_, err := h.rest.Get(ctx, "/user", nil, &u)
	return forge.User{ID: strconv.FormatInt(u.ID, 10), Login: u.Login, AvatarURL: u.AvatarURL, Name: u.FullName, Email: u.Email}, err
}

func (h *host) paged(ctx context.Context, path string, q url.Values, p forge.Page, v any) (next string, err error) {
	q.Set("limit", strconv.Itoa(p.Limit)) // the server may give fewer
	q.Set("page", strconv.Itoa(rest.PageNumber(p.ID, 1)))
	header, err := h.rest.Get(ctx, path, q, v)
	return rest.NextPage(header, "page"), err
}

// Organizations implements forge.Host.
func (h *host) Organizations(ctx context.Context) ([]string, error) {
	return forge.All(ctx, forge.MaxOrganizations, h.Installations)
}

// Installations implements forge.Host.
func (h *host) Installations(ctx context.Context, p forge.Page) (l forge.List[string], err error) {
	var orgs []struct {
		Name     string `json:"name"`
		Username string `json:"username"` // of old versions
	}
	l.Next, err = h.paged(ctx, "/user/orgs", url.Values{}, p, &orgs)
	for _, o := range orgs {
		l.Items = append(l.Items, cmp.Or(o.Name, o.Username))
	}
	return l, err
}

type repository struct {
	ID            int64  `json:"id"`
	FullName      string `json:"full_name"`
	Private       bool   `json:"private"`
	Stars         *int   `json:"stars_count"`
	UpdatedAt     string `json:"updated_at"`
	DefaultBranch string `json:"default_branch"`
}

func (r repository) common() forge.Repository {
	return forge.Repository{ID: strconv.FormatInt(r.ID, 10), FullName: r.FullName, Provider: forge.Forgejo, Public: !r.Private,
		Stars: r.Stars, PushedAt: r.UpdatedAt, MainBranch: r.DefaultBranch}
}

// Repositories implements forge.Host. Lists without a query are in the service's
// order; their pages are sorted.
func (h *host) Repositories(ctx context.Context, q forge.RepositoryQuery) (l forge.List[forge.Repository], err error) {
	if name := h.place.Name(q.Text); name != "" {
		return forge.Exactly(ctx, h, name)
	}
	var found struct {
		Data []repository `json:"data"`
	}
	switch {
	case q.Text != "":
		order := "desc"
		if q.Ascending {
			order = "asc"
		}
		_, text, owned := strings.Cut(q.Text, "/")
		if !owned {
			text = q.Text
		}
		params := url.Values{"q": {text}, "sort": {cmp.Or(q.Sort, "updated")}, "order": {order}}
		l.Next, err = h.paged(ctx, "/repos/search", params, q.Page, &found)
	case q.Installation != "":
		l.Next, err = h.paged(ctx, rest.Path("/orgs/%s/repos", q.Installation), url.Values{}, q.Page, &found.Data)
	default:
		l.Next, err = h.paged(ctx, "/user/repos", url.Values{}, q.Page, &found.Data)
	}
	for _, r := range found.Data {
		if owner, _, owned := strings.Cut(q.Text, "/"); !owned || strings.HasPrefix(strings.ToLower(r.FullName), strings.ToLower(owner)+"/") {
			l.Items = append(l.Items, r.common())
		}
	}
	if q.Text == "" && q.Sort != "" {
		forge.SortPage(l.Items, q)
	}
	return l, err
}

func repositoryPath(name string) (string, error) {
	parts, err := forge.SplitName(forge.Forgejo, name)
	if err != nil {
		return "", err
	}
	return rest.Path("/repos/%s/%s", parts[0], strings.Join(parts[1:], "/")), nil
}

// Repository implements forge.Host.
func (h *host) Repository(ctx context.Context, name string) (forge.Repository, error) {
	path, err := repositoryPath(name)
	if err != nil {
		return forge.Repository{}, err
	}
	var r repository
	_, err = h.rest.Get(ctx, path, nil, &r)
	return r.common(), err
}

// maxBranches bounds among how many branches is searched: the service cannot.
const maxBranches = 1000

// Branches implements forge.Host.
func (h *host) Branches(ctx context.Context, q forge.BranchQuery) (l forge.List[forge.Branch], err error) {
	path, err := repositoryPath(q.Repository)
	if err != nil {
		return l, err
	}
	read := func(ctx context.Context, p forge.Page) (l forge.List[forge.Branch], err error) {
		var found []struct {
			Name      string `json:"name"`
			Protected bool   `json:"protected"`
			Commit    struct {
				ID   string `json:"id"`
				Date string `json:"timestamp"`
			} `json:"commit"`
		}
		l.Next, err = h.paged(ctx, path+"/branches", url.Values{}, p, &found)
		for _, b := range found {
			l.Items = append(l.Items, forge.Branch{Name: b.Name, Commit: b.Commit.ID, Protected: b.Protected, PushedAt: b.Commit.Date})
		}
		return l, err
	}
	if q.Text == "" {
		return read(ctx, q.Page)
	}
	all, err := forge.All(ctx, maxBranches, read)
	var matching []forge.Branch
	for _, b := range all {
		if strings.Contains(strings.ToLower(b.Name), strings.ToLower(q.Text)) {
			matching = append(matching, b)
		}
	}
	return forge.Cut(matching, q.Page), err
}

// Tasks implements forge.Host: the user's pull requests, and issues assigned to them.
// Lists tell neither conflicts nor checks.
func (h *host) Tasks(ctx context.Context) ([]conversation.SuggestedTask, error) {
	var tasks []conversation.SuggestedTask
	for _, ask := range []struct{ kind, typ, mine string }{{conversation.TaskOpenPR, "pulls", "created"},
		{conversation.TaskOpenIssue, "issues", "assigned"}} {
		var found []struct {
			Number     int    `json:"number"`
			Title      string `json:"title"`
			Repository struct {
				FullName string `json:"full_name"`
			} `json:"repository"`
		}
		q := url.Values{"type": {ask.typ}, "state": {"open"}, ask.mine: {"true"}}
		if _, err := h.paged(ctx, "/repos/issues/search", q, forge.Page{Limit: forge.MaxTasks}, &found); err != nil {
			return nil, err
		}
		for _, i := range found {
			tasks = append(tasks, conversation.SuggestedTask{GitProvider: forge.Forgejo, TaskType: ask.kind, Repo: i.Repository.FullName,
				IssueNumber: i.Number, Title: i.Title})
		}
	}
	return tasks, nil
}
