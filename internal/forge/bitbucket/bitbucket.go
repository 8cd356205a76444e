// Package bitbucket is the API of Bitbucket Cloud, version 2.0. It has no lists across
// workspaces any more: those are put together from the user's workspaces.
package bitbucket

import (
	"cmp"
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

// Open implements forge.Opener. A token "user:password" is an app password or an API
// token with its account, any other an access token.
func Open(c forge.Conn) (forge.Host, error) {
	token := "Bearer " + c.Token.Reveal()
	if strings.Contains(c.Token.Reveal(), ":") {
		token = "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Token.Reveal()))
	}
	h := http.Header{"Authorization": {token}, "Accept": {"application/json"}, "User-Agent": {"parley"}}
	return &host{place: c.Place, rest: rest.New(rest.Config{Name: c.Place.Title(), Base: c.Place.API(), Header: h, HTTP: c.HTTP})}, nil
}

type user struct {
	UUID        string `json:"uuid"`
	Username    string `json:"username"`
	Nickname    string `json:"nickname"`
	DisplayName string `json:"display_name"`
	Links       struct {
		Avatar struct {
			Href string `json:"href"`
		} `json:"avatar"`
	} `json:"links"`
}

func (h *host) user(ctx context.Context) (u user, err error) {
	_, err = h.rest.Get(ctx, "/user", nil, &u)
	return u, err
}

// User implements forge.Host.
func (h *host) User(ctx context.Context) (forge.User, error) {
	u, err := h.user(ctx)
	return forge.User{ID: u.UUID, Login: cmp.Or(u.Username, u.Nickname), AvatarURL: u.Links.Avatar.Href, Name: u.DisplayName}, err
}

// page is a page of any list.
type page[T any] struct {
	Values []T    `json:"values"`
	Next   string `json:"next"` // an address
}

// nextOf takes the number out of the address of the next page.
func (p *page[T]) nextOf() string {
	u, err := url.Parse(p.Next)
	if err != nil {
		return ""
	}
	return u.Query().Get("page")
}

func get[T any](ctx context.Context, h *host, path string, q url.Values, p forge.Page) (items []T, next string, err error) {
	var found page[T]
	q.Set("pagelen", strconv.Itoa(p.Limit))
	q.Set("page", strconv.Itoa(rest.PageNumber(p.ID, 1)))
	_, err = h.rest.Get(ctx, path, q, &found)
	return found.Values, found.nextOf(), err
}

// Organizations implements forge.Host: the user's workspaces.
func (h *host) Organizations(ctx context.Context) ([]string, error) {
	return forge.All(ctx, forge.MaxOrganizations, h.Installations)
}

// Installations implements forge.Host.
func (h *host) Installations(ctx context.Context, p forge.Page) (l forge.List[string], err error) {
	type access struct {
		Workspace struct {
			Slug string `json:"slug"`
		} `json:"workspace"`
	}
	found, next, err := get[access](ctx, h, "/user/workspaces", url.Values{}, p)
	for _, a := range found {
		l.Items = append(l.Items, a.Workspace.Slug)
	}
	l.Next = next
	return l, err
}

type repository struct {
	UUID      string `json:"uuid"`
	FullName  string `json:"full_name"`
	Private   bool   `json:"is_private"`
	UpdatedOn string `json:"updated_on"`
	Owner     struct {
		Type string `json:"type"`
	} `json:"owner"`
	Main *struct {
		Name string `json:"name"`
	} `json:"mainbranch"`
}

func (r repository) common() forge.Repository {
	out := forge.Repository{ID: r.UUID, FullName: r.FullName, Provider: forge.Bitbucket, Public: !r.Private, PushedAt: r.UpdatedOn,
		OwnerType: forge.OwnerOrganization}
	if r.Owner.Type == "user" {
		out.OwnerType = forge.OwnerUser
	}
	if r.Main != nil {
		out.MainBranch = r.Main.Name
	}
	return out
}

// contains is a filter of Bitbucket's query language.
func contains(text string) string {
	return `name ~ "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// Repositories implements forge.Host. Those of all workspaces come one workspace after
// the other: a page id is the workspace's place and the page in it. Bitbucket knows
// neither stars nor forks: by time then.
func (h *host) Repositories(ctx context.Context, q forge.RepositoryQuery) (l forge.List[forge.Repository], err error) {
	if name := h.place.Name(q.Text); name != "" {
		return forge.Exactly(ctx, h, name)
	}
	workspace, text, ok := strings.Cut(q.Text, "/")
	switch {
	case ok && workspace != "" && workspace != "." && workspace != "..":
		return h.below(ctx, workspace, text, q)
	case q.Installation != "":
		return h.below(ctx, q.Installation, q.Text, q)
	}
	all, err := h.Organizations(ctx)
	if err != nil {
		return l, err
	}
	at, id, _ := strings.Cut(q.ID, "-")
	for i := rest.PageNumber(at, 0); i < len(all); i, id = i+1, "" {
		q.Page = forge.Page{ID: id, Limit: q.Limit}
		more, err := h.below(ctx, all[i], q.Text, q)
		if err != nil {
			return l, err
		}
		l.Items = append(l.Items, more.Items...)
		switch {
		case more.Next != "":
			l.Next = strconv.Itoa(i) + "-" + more.Next
		case i+1 < len(all):
			l.Next = strconv.Itoa(i + 1)
		default:
			l.Next = ""
		}
		if len(l.Items) > 0 || more.Next != "" { // a page is of one workspace
			break
		}
	}
	return l, nil
}

// below lists a workspace.
func (h *host) below(ctx context.Context, workspace, text string, q forge.RepositoryQuery) (l forge.List[forge.Repository], err error) {
	params := url.Values{"sort": {"-updated_on"}}
	if q.Ascending {
		params.Set("sort", "updated_on")
	}
	if text != "" {
		params.Set("q", contains(text))
	}
	found, next, err := get[repository](ctx, h, rest.Path("/repositories/%s", workspace), params, q.Page)
	for _, r := range found {
		l.Items = append(l.Items, r.common())
	}
	l.Next = next
	return l, err
}

// repositoryPath is the path of a repository's resource.
func repositoryPath(name string) (string, error) {
	parts, err := forge.SplitName(forge.Bitbucket, name)
	if err != nil {
		return "", err
	}
	return rest.Path("/repositories/%s/%s", parts[0], strings.Join(parts[1:], "/")), nil
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

// Branches implements forge.Host. Bitbucket does not say here which are protected.
func (h *host) Branches(ctx context.Context, q forge.BranchQuery) (l forge.List[forge.Branch], err error) {
	path, err := repositoryPath(q.Repository)
	if err != nil {
		return l, err
	}
	params := url.Values{}
	if q.Text != "" {
		params.Set("q", contains(q.Text))
	}
	type branch struct {
		Name   string `json:"name"`
		Target struct {
			Hash string `json:"hash"`
			Date string `json:"date"`
		} `json:"target"`
	}
	found, next, err := get[branch](ctx, h, path+"/refs/branches", params, q.Page)
	for _, b := range found {
		l.Items = append(l.Items, forge.Branch{Name: b.Name, Commit: b.Target.Hash, PushedAt: b.Target.Date})
	}
	l.Next = next
	return l, err
}

// maxWorkspaces bounds in how many workspaces open work is looked for.
const maxWorkspaces = 20

// Tasks implements forge.Host: the user's pull requests. Bitbucket tells neither their
// conflicts nor their checks in a list.
func (h *host) Tasks(ctx context.Context) ([]conversation.SuggestedTask, error) {
	me, err := h.user(ctx)
	if err != nil {
		return nil, err
	}
	all, err := h.Organizations(ctx)
	if err != nil {
		return nil, err
	}
	type pullRequest struct {
		ID          int    `json:"id"`
		Title       string `json:"title"`
		Destination struct {
			Repository struct {
				FullName string `json:"full_name"`
			} `json:"repository"`
		} `json:"destination"`
	}
	var tasks []conversation.SuggestedTask
	for _, workspace := range all[:min(len(all), maxWorkspaces)] {
		found, _, err := get[pullRequest](ctx, h, rest.Path("/workspaces/%s/pullrequests/%s", workspace, me.UUID),
			url.Values{"state": {"OPEN"}}, forge.Page{Limit: 50})
		if fault.Is(err, fault.Forbidden) || fault.Is(err, fault.NotFound) { // one without rights hides nothing of the others
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			tasks = append(tasks, conversation.SuggestedTask{GitProvider: forge.Bitbucket, TaskType: conversation.TaskOpenPR,
				Repo: p.Destination.Repository.FullName, IssueNumber: p.ID, Title: p.Title})
		}
	}
	return tasks[:min(len(tasks), forge.MaxTasks)], nil
}
