// Package github is GitHub's API, REST version 2022-11-28 and GraphQL where REST
// cannot search; of github.com, of GitHub Enterprise Server, and of tenants at ghe.com.
package github

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

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
	h := http.Header{"Authorization": {"Bearer " + c.Token.Reveal()}, "Accept": {"application/vnd.github+json"},
		"X-Github-Api-Version": {"2022-11-28"}, "User-Agent": {"parley"}}
	cfg := rest.Config{Name: c.Place.Title(), Base: c.Place.API(), Header: h, HTTP: c.HTTP}
	out := &host{place: c.Place, rest: rest.New(cfg)}
	graph := *cfg.Base
	graph.Path = strings.TrimSuffix(graph.Path, "/v3") // of an Enterprise Server; /api/graphql
	cfg.Base = &graph
	out.graphql = rest.New(cfg)
	return out, nil
}

// User implements forge.Host.
func (h *host) User(ctx context.Context) (forge.User, error) {
	var u struct {
		ID        int64  `json:"id"`
		Login     string `json:"login"`
		AvatarURL string `json:"avatar_url"`
		Company   string `json:"company"`
		Name      string `json:"name"`
		Email     string `json:"email"`
	}
	_, err := h.rest.Get(ctx, "/user", nil, &u)
	return forge.User{ID: strconv.FormatInt(u.ID, 10), Login: u.Login, AvatarURL: u.AvatarURL, Company: u.Company,
		Name: u.Name, Email: u.Email}, err
}

// Scopes implements forge.Scoped. Only classic tokens have scopes.
func (h *host) Scopes(ctx context.Context) ([]string, error) {
	header, err := h.rest.Get(ctx, "/user", nil, nil)
	told := header.Values("X-OAuth-Scopes")
	if err != nil || len(told) == 0 {
		return nil, err
	}
	scopes := []string{}
	for scope := range strings.SplitSeq(strings.Join(told, ","), ",") {
		if scope = strings.TrimSpace(scope); scope != "" {
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// paged asks for one page of a list.
func (h *host) paged(ctx context.Context, path string, q url.Values, p forge.Page, v any) (next string, err error) {
	if q == nil {
		q = url.Values{}
	}
	q.Set("per_page", strconv.Itoa(p.Limit))
	q.Set("page", strconv.Itoa(rest.PageNumber(p.ID, 1)))
	header, err := h.rest.Get(ctx, path, q, v)
	return rest.NextPage(header, "page"), err
}

// Organizations implements forge.Host.
func (h *host) Organizations(ctx context.Context) ([]string, error) {
	return forge.All(ctx, forge.MaxOrganizations, func(ctx context.Context, p forge.Page) (l forge.List[string], err error) {
		var orgs []struct {
			Login string `json:"login"`
		}
		l.Next, err = h.paged(ctx, "/user/orgs", nil, p, &orgs)
		for _, o := range orgs {
			l.Items = append(l.Items, o.Login)
		}
		return l, err
	})
}

// Installations implements forge.Host. Only tokens that an app got for the user see
// installations; for others there are none.
func (h *host) Installations(ctx context.Context, p forge.Page) (l forge.List[string], err error) {
	var found struct {
		Installations []struct {
			ID int64 `json:"id"`
		} `json:"installations"`
	}
	l.Next, err = h.paged(ctx, "/user/installations", nil, p, &found)
	if fault.Is(err, fault.Forbidden) || fault.Is(err, fault.NotFound) {
		return l, nil
	}
	for _, i := range found.Installations {
		l.Items = append(l.Items, strconv.FormatInt(i.ID, 10))
	}
	return l, err
}

type repository struct {
	ID            int64  `json:"id"`
	FullName      string `json:"full_name"`
	Private       bool   `json:"private"`
	Stars         *int   `json:"stargazers_count"`
	PushedAt      string `json:"pushed_at"`
	DefaultBranch string `json:"default_branch"`
	Owner         struct {
		Type string `json:"type"`
	} `json:"owner"`
}

func (r repository) common() forge.Repository {
	owner := forge.OwnerUser
	if r.Owner.Type == "Organization" {
		owner = forge.OwnerOrganization
	}
	return forge.Repository{ID: strconv.FormatInt(r.ID, 10), FullName: r.FullName, Provider: forge.GitHub, Public: !r.Private,
		Stars: r.Stars, PushedAt: r.PushedAt, OwnerType: owner, MainBranch: r.DefaultBranch}
}

// Repositories implements forge.Host. Lists without a query cannot be sorted by stars
// or forks at GitHub: their pages are sorted by stars.
func (h *host) Repositories(ctx context.Context, q forge.RepositoryQuery) (l forge.List[forge.Repository], err error) {
	if name := h.place.Name(q.Text); name != "" {
		return forge.Exactly(ctx, h, name)
	}
	direction := "desc"
	if q.Ascending {
		direction = "asc"
	}
	var found struct {
		Items        []repository `json:"items"`
		Repositories []repository `json:"repositories"`
	}
	switch {
	case q.Text != "":
		params := url.Values{"q": {h.search(q.Text)}}
		if q.Sort != "" {
			params.Set("sort", q.Sort)
			params.Set("order", direction)
		}
		l.Next, err = h.paged(ctx, "/search/repositories", params, q.Page, &found)
	case q.Installation != "":
		l.Next, err = h.paged(ctx, rest.Path("/user/installations/%s/repositories", q.Installation), nil, q.Page, &found)
	default:
		sort := map[string]string{"updated": "updated"}[q.Sort]
		l.Next, err = h.paged(ctx, "/user/repos", url.Values{"sort": {cmp.Or(sort, "pushed")}, "direction": {direction}}, q.Page, &found.Items)
	}
	for _, r := range append(found.Items, found.Repositories...) {
		l.Items = append(l.Items, r.common())
	}
	if q.Text == "" && q.Sort == "stars" {
		forge.SortPage(l.Items, q)
	}
	return l, err
}

// search is what GitHub searches for: names, or those of one owner for "owner/part".
func (h *host) search(text string) string {
	if owner, name, ok := strings.Cut(text, "/"); ok && owner != "" && !strings.ContainsAny(owner, " :\"") {
		return strings.TrimSpace(name + " in:name fork:true user:" + owner)
	}
	return text + " in:name fork:true"
}

// Repository implements forge.Host.
func (h *host) Repository(ctx context.Context, name string) (forge.Repository, error) {
	parts, err := forge.SplitName(forge.GitHub, name)
	if err != nil {
		return forge.Repository{}, err
	}
	var r repository
	_, err = h.rest.Get(ctx, rest.Path("/repos/%s/%s", parts[0], parts[1]), nil, &r)
	return r.common(), err
}

// Branches implements forge.Host. Only GraphQL searches them; its cursors are the
// page ids then.
func (h *host) Branches(ctx context.Context, q forge.BranchQuery) (l forge.List[forge.Branch], err error) {
	parts, err := forge.SplitName(forge.GitHub, q.Repository)
	if err != nil {
		return l, err
	}
	if q.Text != "" {
		return h.searchBranches(ctx, parts[0], parts[1], q)
	}
	var found []struct {
		Name   string `json:"name"`
		Commit struct {
			SHA string `json:"sha"`
		} `json:"commit"`
		Protected bool `json:"protected"`
	}
	l.Next, err = h.paged(ctx, rest.Path("/repos/%s/%s/branches", parts[0], parts[1]), nil, q.Page, &found)
	for _, b := range found {
		l.Items = append(l.Items, forge.Branch{Name: b.Name, Commit: b.Commit.SHA, Protected: b.Protected})
	}
	return l, err
}

const branchesQuery = `query($owner:String!,$name:String!,$text:String!,$first:Int!,$after:String){
repository(owner:$owner,name:$name){refs(refPrefix:"refs/heads/",query:$text,first:$first,after:$after){
pageInfo{hasNextPage endCursor}
nodes{name branchProtectionRule{id} target{oid ... on Commit{committedDate}}}}}}`

func (h *host) searchBranches(ctx context.Context, owner, name string, q forge.BranchQuery) (l forge.List[forge.Branch], err error) {
	var data struct {
		Repository *struct {
			Refs struct {
				PageInfo struct {
					HasNextPage bool   `json:"hasNextPage"`
					EndCursor   string `json:"endCursor"`
				} `json:"pageInfo"`
				Nodes []struct {
					Name   string           `json:"name"`
					Rule   *json.RawMessage `json:"branchProtectionRule"`
					Target struct {
						OID  string `json:"oid"`
						Date string `json:"committedDate"`
					} `json:"target"`
				} `json:"nodes"`
			} `json:"refs"`
		} `json:"repository"`
	}
	vars := map[string]any{"owner": owner, "name": name, "text": q.Text, "first": q.Limit, "after": nil}
	if rest.PageNumber(q.ID, -1) < 0 && q.ID != "" { // a number is of the other list
		vars["after"] = q.ID
	}
	err = h.query(ctx, branchesQuery, vars, &data)
	if fault.CodeOf(err) == codeBadCursor { // a list begins again then
		vars["after"] = nil
		err = h.query(ctx, branchesQuery, vars, &data)
	}
	if err != nil {
		return l, err
	}
	if data.Repository == nil {
		return l, fault.New(fault.NotFound, rest.CodeNotFound, "GitHub has no repository %s/%s, or the token must not see it.", owner, name)
	}
	for _, n := range data.Repository.Refs.Nodes {
		l.Items = append(l.Items, forge.Branch{Name: n.Name, Commit: n.Target.OID, Protected: n.Rule != nil, PushedAt: n.Target.Date})
	}
	if data.Repository.Refs.PageInfo.HasNextPage {
		l.Next = data.Repository.Refs.PageInfo.EndCursor
	}
	return l, nil
}

// codeBadCursor is the code of a cursor that GitHub did not give.
const codeBadCursor = "git_bad_cursor"

// query asks GraphQL. It answers 200 with errors, too.
func (h *host) query(ctx context.Context, text string, vars map[string]any, data any) error {
	var answer struct {
		Data   json.RawMessage `json:"data"`
		Errors []struct {
			Type string `json:"type"`
		} `json:"errors"`
	}
	if _, err := h.graphql.Post(ctx, "/graphql", map[string]any{"query": text, "variables": vars}, &answer); err != nil {
		return err
	}
	for _, e := range answer.Errors {
		switch e.Type {
		case "NOT_FOUND":
			return fault.New(fault.NotFound, rest.CodeNotFound, "GitHub has no such repository, or the token must not see it.")
		case "INVALID_CURSOR_ARGUMENTS":
			return fault.New(fault.Invalid, codeBadCursor, "GitHub does not know the page.")
		case "RATE_LIMITED":
			return fault.New(fault.RateLimited, rest.CodeRateLimited, "GitHub takes no more requests for now.").WithHint("Try again later.")
		}
	}
	if len(answer.Data) == 0 || json.Unmarshal(answer.Data, data) != nil {
		return fault.New(fault.Unavailable, rest.CodeFailed, "GitHub did not answer the query.").WithHint("Try again in a moment.")
	}
	return nil
}
