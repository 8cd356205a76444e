// Package azuredevops is the API of Azure DevOps, version 7.1. A personal access token
// is good for one organization: the host that users store names it
// ("dev.azure.com/organization", or the collection of a server of one's own).
package azuredevops

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/forge"
	"parley/internal/forge/rest"
)

type host struct {
	place forge.Place
	org   string
	rest  *rest.Client
}

// Open implements forge.Opener.
func Open(c forge.Conn) (forge.Host, error) {
	if c.Place.Web.Path == "" {
		return nil, fault.New(fault.Invalid, forge.CodeBadHost, "The host of Azure DevOps needs the organization.").
			WithHint(`Store it as "dev.azure.com/organization".`)
	}
	h := http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(":"+c.Token.Reveal()))},
		"Accept": {"application/json"}, "User-Agent": {"parley"}}
	return &host{place: c.Place, org: path.Base(c.Place.Web.Path), rest: rest.New(rest.Config{Name: c.Place.Title(), Base: c.Place.API(),
		Header: h, HTTP: c.HTTP, Rejects: rejects})}, nil
}

// rejects knows the pages to log in that a wrong token leads to.
func rejects(r *http.Response) bool {
	return r.StatusCode == http.StatusNonAuthoritativeInfo ||
		r.StatusCode == http.StatusFound && strings.Contains(r.Header.Get("Location"), "_signin")
}

func (h *host) get(ctx context.Context, path string, q url.Values, v any) (http.Header, error) {
	if q == nil {
		q = url.Values{}
	}
	if !q.Has("api-version") {
		q.Set("api-version", "7.1")
	}
	return h.rest.Get(ctx, path, q, v)
}

// User implements forge.Host.
func (h *host) User(ctx context.Context) (forge.User, error) {
	var data struct {
		User struct {
			ID         string `json:"id"`
			Name       string `json:"providerDisplayName"`
			Properties struct {
				Account struct {
					Value string `json:"$value"`
				} `json:"Account"`
			} `json:"properties"`
		} `json:"authenticatedUser"`
	}
	if _, err := h.get(ctx, "/_apis/connectionData", url.Values{"api-version": {"7.1-preview.1"}}, &data); err != nil {
		return forge.User{}, err
	}
	u := forge.User{ID: data.User.ID, Login: data.User.Name, Name: data.User.Name}
	if account := data.User.Properties.Account.Value; account != "" {
		u.Login = account
		if strings.Contains(account, "@") {
			u.Email = account
		}
	}
	if anonymous := data.User.ID == "" || strings.HasPrefix(data.User.ID, "aaaaaaaa-aaaa-"); anonymous {
		return forge.User{}, rest.Rejected(h.place.Title() + " (" + h.place.Web.Host + ")")
	}
	return u, nil
}

// Organizations implements forge.Host: the one that the token is for.
func (h *host) Organizations(context.Context) ([]string, error) { return []string{h.org}, nil }

// headerMore is where a list goes on.
const headerMore = "X-Ms-Continuationtoken"

// Installations implements forge.Host: the projects.
func (h *host) Installations(ctx context.Context, p forge.Page) (l forge.List[string], err error) {
	var found struct {
		Value []struct {
			Name string `json:"name"`
		} `json:"value"`
	}
	q := url.Values{"$top": {strconv.Itoa(p.Limit)}}
	if from := rest.PageNumber(p.ID, 0); from > 0 {
		q.Set("continuationToken", strconv.Itoa(from))
	}
	header, err := h.get(ctx, "/_apis/projects", q, &found)
	for _, v := range found.Value {
		l.Items = append(l.Items, v.Name)
	}
	l.Next = header.Get(headerMore)
	return l, err
}

type repository struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	DefaultBranch string `json:"defaultBranch"`
	Disabled      bool   `json:"isDisabled"`
	Project       struct {
		Name       string `json:"name"`
		Visibility string `json:"visibility"`
		Updated    string `json:"lastUpdateTime"`
	} `json:"project"`
}

const heads = "refs/heads/"

func (h *host) common(r *repository) forge.Repository {
	return forge.Repository{ID: r.ID, FullName: h.org + "/" + r.Project.Name + "/" + r.Name, Provider: forge.AzureDevOps,
		Public: r.Project.Visibility == "public", PushedAt: r.Project.Updated, OwnerType: forge.OwnerOrganization,
		MainBranch: strings.TrimPrefix(r.DefaultBranch, heads)}
}

// Repositories implements forge.Host. The service gives all at once; they are searched
// and cut here.
func (h *host) Repositories(ctx context.Context, q forge.RepositoryQuery) (l forge.List[forge.Repository], err error) {
	if name := h.place.Name(q.Text); name != "" {
		return forge.Exactly(ctx, h, name)
	}
	at := "/_apis/git/repositories"
	if q.Installation != "" {
		at = rest.Path("/%s/_apis/git/repositories", q.Installation)
	}
	var found struct {
		Value []repository `json:"value"`
	}
	if _, err := h.get(ctx, at, nil, &found); err != nil {
		return l, err
	}
	var all []forge.Repository
	for i := range found.Value {
		r := h.common(&found.Value[i])
		if !found.Value[i].Disabled && strings.Contains(strings.ToLower(r.FullName), strings.ToLower(q.Text)) {
			all = append(all, r)
		}
	}
	if q.Sort == "updated" {
		forge.SortPage(all, q)
	}
	return forge.Cut(all, q.Page), nil
}

// path is the path of a repository's resource. The name may leave the organization out.
func (h *host) path(name string) (string, error) {
	parts, err := forge.SplitName(forge.AzureDevOps, name)
	if err != nil {
		return "", err
	}
	if len(parts) == 3 && strings.EqualFold(parts[0], h.org) {
		parts = parts[1:]
	}
	if len(parts) != 2 {
		return "", fault.New(fault.Invalid, forge.CodeBadRepository, "A repository of Azure DevOps is named organization/project/repository.")
	}
	return rest.Path("/%s/_apis/git/repositories/%s", parts[0], parts[1]), nil
}

// Repository implements forge.Host.
func (h *host) Repository(ctx context.Context, name string) (forge.Repository, error) {
	path, err := h.path(name)
	if err != nil {
		return forge.Repository{}, err
	}
	var r repository
	if _, err = h.get(ctx, path, nil, &r); err != nil {
		return forge.Repository{}, err
	}
	return h.common(&r), nil
}

// Branches implements forge.Host.
func (h *host) Branches(ctx context.Context, q forge.BranchQuery) (l forge.List[forge.Branch], err error) {
	path, err := h.path(q.Repository)
	if err != nil {
		return l, err
	}
	var found struct {
		Value []struct {
			Name   string `json:"name"`
			Commit string `json:"objectId"`
		} `json:"value"`
	}
	params := url.Values{"filter": {"heads/"}, "$top": {strconv.Itoa(q.Limit)}}
	if q.Text != "" {
		params.Set("filterContains", q.Text)
	}
	if q.ID != "" {
		params.Set("continuationToken", q.ID)
	}
	header, err := h.get(ctx, path+"/refs", params, &found)
	for _, b := range found.Value {
		l.Items = append(l.Items, forge.Branch{Name: strings.TrimPrefix(b.Name, heads), Commit: b.Commit})
	}
	l.Next = header.Get(headerMore)
	return l, err
}

// Tasks implements forge.Host: the user's pull requests.
func (h *host) Tasks(ctx context.Context) ([]conversation.SuggestedTask, error) {
	me, err := h.User(ctx)
	if err != nil {
		return nil, err
	}
	var found struct {
		Value []struct {
			ID          int        `json:"pullRequestId"`
			Title       string     `json:"title"`
			MergeStatus string     `json:"mergeStatus"`
			Repository  repository `json:"repository"`
		} `json:"value"`
	}
	q := url.Values{"searchCriteria.creatorId": {me.ID}, "searchCriteria.status": {"active"}, "$top": {strconv.Itoa(forge.MaxTasks)}}
	_, err = h.get(ctx, "/_apis/git/pullrequests", q, &found)
	var tasks []conversation.SuggestedTask
	for i := range found.Value {
		p := &found.Value[i]
		kind := conversation.TaskOpenPR
		if p.MergeStatus == "conflicts" {
			kind = conversation.TaskMergeConflicts
		}
		tasks = append(tasks, conversation.SuggestedTask{GitProvider: forge.AzureDevOps, TaskType: kind, Repo: h.common(&p.Repository).FullName,
			IssueNumber: p.ID, Title: p.Title})
	}
	return tasks, err
}
