// Package bitbucketdc is the API of Bitbucket Data Center, REST version 1.0.
package bitbucketdc

import (
	"context"
	"encoding/base64"
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
	place forge.Place
	rest  *rest.Client
}

// Open implements forge.Opener.
func Open(c forge.Conn) (forge.Host, error) {
	token := "Bearer " + c.Token.Reveal()
	if strings.Contains(c.Token.Reveal(), ":") { // user:password
		token = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Token.Reveal()))
	}
	h := http.Header{"Authorization": {token}, "Accept": {"application/json"}, "User-Agent": {"parley"}}
	return &host{place: c.Place, rest: rest.New(rest.Config{Name: c.Place.Title(), Base: c.Place.API(), Header: h, HTTP: c.HTTP})}, nil
}

// headerUser names whom the server took a request for. There is no resource for that.
const headerUser = "X-Ausername"

// User implements forge.Host.
func (h *host) User(ctx context.Context) (forge.User, error) {
	var projects page[project]
	header, err := h.rest.Get(ctx, "/projects", url.Values{"limit": {"1"}}, &projects)
	if err != nil {
		return forge.User{}, err
	}
	name, err := url.QueryUnescape(header.Get(headerUser))
	if err != nil || name == "" { // anonymous access
		return forge.User{}, rest.Rejected(h.place.Title() + " (" + h.place.Web.Host + ")")
	}
	var u struct {
		ID          int64  `json:"id"`
		Name        string `json:"name"`
		DisplayName string `json:"displayName"`
		Email       string `json:"emailAddress"`
		AvatarURL   string `json:"avatarUrl"`
	}
	_, err = h.rest.Get(ctx, rest.Path("/users/%s", name), url.Values{"avatarSize": {"64"}}, &u)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Forbidden) { // the user of a repository's or project's token
		return forge.User{ID: name, Login: name}, nil
	}
	return forge.User{ID: strconv.FormatInt(u.ID, 10), Login: u.Name, AvatarURL: u.AvatarURL, Name: u.DisplayName, Email: u.Email}, err
}

type page[T any] struct {
	Values []T  `json:"values"`
	Last   bool `json:"isLastPage"`
	Next   *int `json:"nextPageStart"`
}

func get[T any](ctx context.Context, h *host, path string, q url.Values, p forge.Page) (items []T, next string, err error) {
	var found page[T]
	q.Set("limit", strconv.Itoa(p.Limit))
	q.Set("start", strconv.Itoa(rest.PageNumber(p.ID, 0)))
	_, err = h.rest.Get(ctx, path, q, &found)
	if !found.Last && found.Next != nil {
		next = strconv.Itoa(*found.Next)
	}
	return found.Values, next, err
}

// Organizations implements forge.Host: the keys of the projects.
func (h *host) Organizations(ctx context.Context) ([]string, error) {
	return forge.All(ctx, forge.MaxOrganizations, h.Installations)
}

type project struct {
	Key  string `json:"key"`
	Type string `json:"type"`
}

// Installations implements forge.Host.
func (h *host) Installations(ctx context.Context, p forge.Page) (l forge.List[string], err error) {
	found, next, err := get[project](ctx, h, "/projects", url.Values{}, p)
	for _, p := range found {
		l.Items = append(l.Items, p.Key)
	}
	l.Next = next
	return l, err
}

type repository struct {
	ID      int64   `json:"id"`
	Slug    string  `json:"slug"`
	Public  bool    `json:"public"`
	Project project `json:"project"`
}

func (r repository) name() string { return r.Project.Key + "/" + r.Slug }

func (r repository) common() forge.Repository {
	owner := forge.OwnerOrganization
	if r.Project.Type == "PERSONAL" {
		owner = forge.OwnerUser
	}
	return forge.Repository{ID: strconv.FormatInt(r.ID, 10), FullName: r.name(), Provider: forge.BitbucketDataCenter,
		Public: r.Public, OwnerType: owner}
}

// Repositories implements forge.Host. Data Center sorts lists its own way.
func (h *host) Repositories(ctx context.Context, q forge.RepositoryQuery) (l forge.List[forge.Repository], err error) {
	if name := h.place.Name(q.Text); name != "" {
		return forge.Exactly(ctx, h, name)
	}
	params := url.Values{"permission": {"REPO_READ"}}
	key, name, ok := strings.Cut(q.Text, "/")
	if !ok {
		key, name = q.Installation, q.Text
	}
	if key != "" {
		params.Set("projectkey", key)
	}
	if name != "" {
		params.Set("name", name)
	}
	found, next, err := get[repository](ctx, h, "/repos", params, q.Page)
	for _, r := range found {
		l.Items = append(l.Items, r.common())
	}
	l.Next = next
	return l, err
}

func repositoryPath(name string) (string, error) {
	parts, err := forge.SplitName(forge.BitbucketDataCenter, name)
	if err != nil {
		return "", err
	}
	return rest.Path("/projects/%s/repos/%s", parts[0], strings.Join(parts[1:], "/")), nil
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

// Branches implements forge.Host.
func (h *host) Branches(ctx context.Context, q forge.BranchQuery) (l forge.List[forge.Branch], err error) {
	path, err := repositoryPath(q.Repository)
	if err != nil {
		return l, err
	}
	params := url.Values{"orderBy": {"MODIFICATION"}}
	if q.Text != "" {
		params.Set("filterText", q.Text)
	}
	type branch struct {
		Name   string `json:"displayId"`
		Commit string `json:"latestCommit"`
	}
	found, next, err := get[branch](ctx, h, path+"/branches", params, q.Page)
	for _, b := range found {
		l.Items = append(l.Items, forge.Branch{Name: b.Name, Commit: b.Commit})
	}
	l.Next = next
	return l, err
}

type pullRequest struct {
	ID    int    `json:"id"`
	Title string `json:"title"`
	To    struct {
		Repository repository `json:"repository"`
	} `json:"toRef"`
	Properties struct {
		Merge struct {
			Outcome string `json:"outcome"`
		} `json:"mergeResult"`
		OpenTasks int `json:"openTaskCount"`
	} `json:"properties"`
}

// Tasks implements forge.Host: the user's pull requests. There are no issues.
func (h *host) Tasks(ctx context.Context) ([]conversation.SuggestedTask, error) {
	found, _, err := get[pullRequest](ctx, h, "/dashboard/pull-requests", url.Values{"state": {"OPEN"}, "role": {"AUTHOR"}},
		forge.Page{Limit: forge.MaxTasks})
	var tasks []conversation.SuggestedTask
	for i := range found {
		p := &found[i]
		kind := conversation.TaskOpenPR
		switch {
		case p.Properties.Merge.Outcome == "CONFLICTED":
			kind = conversation.TaskMergeConflicts
		case p.Properties.OpenTasks > 0:
			kind = conversation.TaskUnresolvedComments
		}
		tasks = append(tasks, conversation.SuggestedTask{GitProvider: forge.BitbucketDataCenter, TaskType: kind,
			Repo: p.To.Repository.name(), IssueNumber: p.ID, Title: p.Title})
	}
	return tasks, err
}
