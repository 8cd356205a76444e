// Package gitlab is GitLab's API, REST version 4 and GraphQL for open work; of
// gitlab.com and of installations of one's own, also below a path.
package gitlab

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/forge"
	"parley/internal/forge/rest"
)

type host struct {
	place   forge.Place
	rest    *rest.Client
	graphql *rest.Client
}

// Open implements forge.Opener.
func Open(c forge.Conn) (forge.Host, error) {
	h := http.Header{"Authorization": {"Bearer " + c.Token.Reveal()}, "Accept": {"application/json"}, "User-Agent": {"parley"}}
	cfg := rest.Config{Name: c.Place.Title(), Base: c.Place.API(), Header: h, HTTP: c.HTTP}
	out := &host{place: c.Place, rest: rest.New(cfg)}
	graph := *cfg.Base
	graph.Path = strings.TrimSuffix(graph.Path, "/v4")
	cfg.Base = &graph
	out.graphql = rest.New(cfg)
	return out, nil
}

// User implements forge.Host.
func (h *host) User(ctx context.Context) (forge.User, error) {
	var u struct {
		ID           int64  `json:"id"`
		Username     string `json:"username"`
		AvatarURL    string `json:"avatar_url"`
		Organization string `json:"organization"`
		Name         string `json:"name"`
		Email        string `json:"email"`
	}
	_, err := h.rest.Get(ctx, "/user", nil, &u)
	return forge.User{ID: strconv.FormatInt(u.ID, 10), Login: u.Username, AvatarURL: u.AvatarURL, Company: u.Organization,
		Name: u.Name, Email: u.Email}, err
}

// Scopes implements forge.Scoped. Tokens of logins with OAuth do not tell.
func (h *host) Scopes(ctx context.Context) ([]string, error) {
	var token struct {
		Scopes []string `json:"scopes"`
	}
	_, err := h.rest.Get(ctx, "/personal_access_tokens/self", nil, &token)
	return token.Scopes, err
}

func (h *host) paged(ctx context.Context, path string, q url.Values, p forge.Page, v any) (next string, err error) {
	q.Set("per_page", strconv.Itoa(p.Limit))
	q.Set("page", strconv.Itoa(rest.PageNumber(p.ID, 1)))
	header, err := h.rest.Get(ctx, path, q, v)
	return rest.NextPage(header, "page"), err
}

// Organizations implements forge.Host: the groups that the user is a member of.
func (h *host) Organizations(ctx context.Context) ([]string, error) {
	return forge.All(ctx, forge.MaxOrganizations, h.Installations)
}

// Installations implements forge.Host.
func (h *host) Installations(ctx context.Context, p forge.Page) (l forge.List[string], err error) {
	var groups []struct {
		Path string `json:"full_path"`
	}
	l.Next, err = h.paged(ctx, "/groups", url.Values{"min_access_level": {"10"}}, p, &groups)
	for _, g := range groups {
		l.Items = append(l.Items, g.Path)
	}
	return l, err
}

type project struct {
	ID           int64  `json:"id"`
	Path         string `json:"path_with_namespace"`
	Visibility   string `json:"visibility"`
	Stars        *int   `json:"star_count"`
	LastActivity string `json:"last_activity_at"`
	Branch       string `json:"default_branch"`
	Namespace    struct {
		Kind string `json:"kind"`
	} `json:"namespace"`
}

func (p project) common() forge.Repository {
	owner := forge.OwnerUser
	if p.Namespace.Kind == "group" {
		owner = forge.OwnerOrganization
	}
	return forge.Repository{ID: strconv.FormatInt(p.ID, 10), FullName: p.Path, Provider: forge.GitLab, Public: p.Visibility == "public",
		Stars: p.Stars, PushedAt: p.LastActivity, OwnerType: owner, MainBranch: p.Branch}
}

// Repositories implements forge.Host. GitLab does not sort by forks: by stars then.
func (h *host) Repositories(ctx context.Context, q forge.RepositoryQuery) (l forge.List[forge.Repository], err error) {
	if name := h.place.Name(q.Text); name != "" {
		return forge.Exactly(ctx, h, name)
	}
	by := map[string]string{"stars": "star_count", "forks": "star_count"}[q.Sort]
	params := url.Values{"order_by": {cmp.Or(by, "last_activity_at")}, "sort": {"desc"}}
	if q.Ascending {
		params.Set("sort", "asc")
	}
	path := "/projects"
	switch {
	case q.Installation != "":
		path = rest.Path("/groups/%s/projects", q.Installation)
		params.Set("include_subgroups", "true")
	case q.Text == "":
		params.Set("membership", "true")
	}
	if q.Text != "" {
		params.Set("search", q.Text)
		if strings.Contains(q.Text, "/") {
			params.Set("search_namespaces", "true")
		}
	}
	var found []project
	l.Next, err = h.paged(ctx, path, params, q.Page, &found)
	for _, p := range found {
		l.Items = append(l.Items, p.common())
	}
	return l, err
}

// projectPath is the path of a project's resource.
func projectPath(name string) (string, error) {
	parts, err := forge.SplitName(forge.GitLab, name)
	return rest.Path("/projects/%s", strings.Join(parts, "/")), err
}

// Repository implements forge.Host.
func (h *host) Repository(ctx context.Context, name string) (forge.Repository, error) {
	path, err := projectPath(name)
	if err != nil {
		return forge.Repository{}, err
	}
	var p project
	_, err = h.rest.Get(ctx, path, nil, &p)
	return p.common(), err
}

// Branches implements forge.Host.
func (h *host) Branches(ctx context.Context, q forge.BranchQuery) (l forge.List[forge.Branch], err error) {
	path, err := projectPath(q.Repository)
	if err != nil {
		return l, err
	}
	params := url.Values{}
	if q.Text != "" {
		params.Set("search", q.Text)
	}
	var found []struct {
		Name      string `json:"name"`
		Protected bool   `json:"protected"`
		Commit    struct {
			ID   string `json:"id"`
			Date string `json:"committed_date"`
		} `json:"commit"`
	}
	l.Next, err = h.paged(ctx, path+"/repository/branches", params, q.Page, &found)
	for _, b := range found {
		l.Items = append(l.Items, forge.Branch{Name: b.Name, Commit: b.Commit.ID, Protected: b.Protected, PushedAt: b.Commit.Date})
	}
	return l, err
}

const mergeRequestsQuery = `query($first:Int!){currentUser{authoredMergeRequests(state:opened,sort:UPDATED_DESC,first:$first){nodes{
iid title project{fullPath} conflicts resolvableDiscussionsCount resolvedDiscussionsCount headPipeline{status}}}}}`

type mergeRequest struct {
	IID     string `json:"iid"`
	Title   string `json:"title"`
	Project struct {
		Path string `json:"fullPath"`
	} `json:"project"`
	Conflicts  bool `json:"conflicts"`
	Resolvable int  `json:"resolvableDiscussionsCount"`
	Resolved   int  `json:"resolvedDiscussionsCount"`
	Pipeline   *struct {
		Status string `json:"status"`
	} `json:"headPipeline"`
}

func (m *mergeRequest) kind() string {
	switch {
	case m.Conflicts:
		return conversation.TaskMergeConflicts
	case m.Pipeline != nil && m.Pipeline.Status == "FAILED":
		return conversation.TaskFailingChecks
	case m.Resolvable > m.Resolved:
		return conversation.TaskUnresolvedComments
	}
	return conversation.TaskOpenPR
}

// Tasks implements forge.Host: the user's merge requests, and issues assigned to them.
func (h *host) Tasks(ctx context.Context) ([]conversation.SuggestedTask, error) {
	var answer struct {
		Data struct {
			User *struct {
				Requests struct {
					Nodes []mergeRequest `json:"nodes"`
				} `json:"authoredMergeRequests"`
			} `json:"currentUser"`
		} `json:"data"`
		Errors []json.RawMessage `json:"errors"`
	}
	body := map[string]any{"query": mergeRequestsQuery, "variables": map[string]any{"first": forge.MaxTasks}}
	if _, err := h.graphql.Post(ctx, "/graphql", body, &answer); err != nil {
		return nil, err
	}
	if answer.Data.User == nil || len(answer.Errors) > 0 {
		return nil, fault.New(fault.Unavailable, rest.CodeFailed, "GitLab did not answer the query.").
			WithHint("The token needs the right read_api.")
	}
	var tasks []conversation.SuggestedTask
	for i := range answer.Data.User.Requests.Nodes {
		m := &answer.Data.User.Requests.Nodes[i]
		if n, err := strconv.Atoi(m.IID); err == nil {
			tasks = append(tasks, conversation.SuggestedTask{GitProvider: forge.GitLab, TaskType: m.kind(), Repo: m.Project.Path,
				IssueNumber: n, Title: m.Title})
		}
	}
	issues, err := h.issues(ctx)
	return append(tasks, issues...), err
}

func (h *host) issues(ctx context.Context) ([]conversation.SuggestedTask, error) {
	var issues []struct {
		IID        int    `json:"iid"`
		Title      string `json:"title"`
		References struct {
			Full string `json:"full"`
		} `json:"references"`
	}
	q := url.Values{"scope": {"assigned_to_me"}, "state": {"opened"}}
	_, err := h.paged(ctx, "/issues", q, forge.Page{Limit: forge.MaxTasks}, &issues)
	var tasks []conversation.SuggestedTask
	for _, i := range issues {
		repo, _, _ := strings.Cut(i.References.Full, "#")
		tasks = append(tasks, conversation.SuggestedTask{GitProvider: forge.GitLab, TaskType: conversation.TaskOpenIssue, Repo: repo,
			IssueNumber: i.IID, Title: i.Title})
	}
	return tasks, err
}
