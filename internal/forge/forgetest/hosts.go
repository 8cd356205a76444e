package forgetest

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

func github(s *Server) map[string]route {
	s.prefix, s.header = "/api", "Bearer "+Token
	repo := func(r Repo) object {
		typ := "User"
		if r.Group {
			typ = "Organization"
		}
		return object{"id": 1000 + r.Stars, "full_name": r.Owner + "/" + r.Name, "private": !r.Public, "stargazers_count": r.Stars,
			"pushed_at": r.Updated, "default_branch": r.Main, "owner": object{"login": r.Owner, "type": typ}}
	}
	checked := func(f func(*http.Request, http.ResponseWriter) any) func(*http.Request, http.ResponseWriter) any {
		return func(r *http.Request, w http.ResponseWriter) any {
			if r.Header.Get("Accept") != "application/vnd.github+json" || r.Header.Get("X-Github-Api-Version") != "2022-11-28" {
				s.t.Errorf("forgetest: the headers of GitHub's API are missing: %v", r.Header)
			}
			return f(r, w)
		}
	}
	list := []string{"page", "per_page"}
	return map[string]route{
		"GET /v3/user": {nil, checked(func(_ *http.Request, w http.ResponseWriter) any {
			if scopes := s.Scopes(); scopes != nil {
				w.Header().Set("X-OAuth-Scopes", strings.Join(scopes, ", "))
			}
			return object{"id": 7, "login": "ada", "avatar_url": "https://a.example.com/7", "company": nil, "name": "Ada", "email": "ada@example.com"}
		})},
		"GET /v3/user/orgs": {list, func(r *http.Request, w http.ResponseWriter) any {
			return pages(s, r, w, []object{{"login": "acme"}}, "per_page")
		}},
		"GET /v3/user/installations": {list, func(*http.Request, http.ResponseWriter) any { return http.StatusForbidden }},
		"GET /v3/user/installations/{id}/repositories": {list, func(r *http.Request, w http.ResponseWriter) any {
			found := repos(func(p Repo) bool { return p.Owner == r.PathValue("id") })
			return object{"repositories": pages(s, r, w, each(found, repo), "per_page")}
		}},
		"GET /v3/user/repos": {append(list, "sort", "direction"), func(r *http.Request, w http.ResponseWriter) any {
			if !slices.Contains([]string{"created", "updated", "pushed", "full_name"}, r.FormValue("sort")) {
				return http.StatusUnprocessableEntity
			}
			return pages(s, r, w, each(Repos(), repo), "per_page")
		}},
		"GET /v3/search/repositories": {append(list, "q", "sort", "order"), func(r *http.Request, w http.ResponseWriter) any {
			var owner string
			var words []string
			for _, word := range strings.Fields(r.FormValue("q")) {
				name, value, qualifier := strings.Cut(word, ":")
				switch {
				case qualifier && name == "user":
					owner = value
				case !qualifier:
					words = append(words, word)
				}
			}
			found := repos(func(r Repo) bool {
				return strings.Contains(r.Name, strings.Join(words, " ")) && (owner == "" || owner == r.Owner)
			})
			if r.FormValue("sort") == "stars" {
				slices.SortFunc(found, func(a, b Repo) int { return b.Stars - a.Stars })
				if r.FormValue("order") == "asc" {
					slices.Reverse(found)
				}
			}
			return object{"total_count": len(found), "items": pages(s, r, w, each(found, repo), "per_page")}
		}},
		"GET /v3/repos/{owner}/{repo}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			found, ok := find(r.PathValue("owner"), r.PathValue("repo"))
			if !ok {
				return http.StatusNotFound
			}
			return repo(found)
		}},
		"GET /v3/repos/{owner}/{repo}/branches": {list, func(r *http.Request, w http.ResponseWriter) any {
			all := branchesOf(r.PathValue("owner"), r.PathValue("repo"), "")
			if all == nil {
				return http.StatusNotFound
			}
			return pages(s, r, w, each(all, func(b Branch) object {
				return object{"name": b.Name, "commit": object{"sha": b.Commit}, "protected": b.Protected}
			}), "per_page")
		}},
		"POST /graphql": {nil, func(r *http.Request, _ http.ResponseWriter) any { return githubQuery(s, r) }},
	}
}

func githubQuery(s *Server, r *http.Request) any {
	query, vars := s.graphql(r)
	if strings.Contains(query, "refs(") {
		all := branchesOf(vars["owner"].(string), vars["name"].(string), vars["text"].(string))
		if all == nil {
			return object{"data": object{"repository": nil}, "errors": []object{{"type": "NOT_FOUND", "message": "no"}}}
		}
		from := 0
		if after, ok := vars["after"].(string); ok {
			text, found := strings.CutPrefix(after, "cursor:")
			n, err := strconv.Atoi(text)
			if !found || err != nil {
				return object{"errors": []object{{"type": "INVALID_CURSOR_ARGUMENTS", "message": "no"}}}
			}
			from = n
		}
		to := min(from+int(vars["first"].(float64)), len(all))
		return object{"data": object{"repository": object{"refs": object{
			"pageInfo": object{"hasNextPage": to < len(all), "endCursor": "cursor:" + strconv.Itoa(to)},
			"nodes": each(all[from:to], func(b Branch) object {
				var rule any
				if b.Protected {
					rule = object{"id": "R"}
				}
				return object{"name": b.Name, "branchProtectionRule": rule, "target": object{"oid": b.Commit, "committedDate": "2026-03-01T00:00:00Z"}}
			})}}}}
	}
	pr := func(n int, title, mergeable, checks string, resolved bool) object {
		return object{"number": n, "title": title, "repository": object{"nameWithOwner": "acme/alpha"}, "mergeable": mergeable,
			"reviewThreads": object{"nodes": []object{{"isResolved": resolved}}},
			"commits":       object{"nodes": []object{{"commit": object{"statusCheckRollup": object{"state": checks}}}}}}
	}
	return object{"data": object{
		"viewer": object{"pullRequests": object{"nodes": []object{pr(1, "conflict", "CONFLICTING", "FAILURE", false),
			pr(2, "red", "MERGEABLE", "FAILURE", false), pr(3, "talk", "MERGEABLE", "SUCCESS", false), pr(4, "open", "UNKNOWN", "PENDING", true)}}},
		"search": object{"nodes": []object{{"number": 5, "title": "issue", "repository": object{"nameWithOwner": "acme/beta"}}, {}}}}}
}

func gitlab(s *Server) map[string]route {
	s.prefix, s.header = "/git", "Bearer "+Token
	project := func(r Repo) object {
		kind, visibility := "user", "private"
		if r.Group {
			kind = "group"
		}
		if r.Public {
			visibility = "public"
		}
		return object{"id": 1000 + r.Stars, "path_with_namespace": r.Owner + "/" + r.Name, "visibility": visibility, "star_count": r.Stars,
			"last_activity_at": r.Updated, "default_branch": r.Main, "namespace": object{"kind": kind}}
	}
	list := []string{"page", "per_page"}
	projects := func(r *http.Request, w http.ResponseWriter, found []Repo) any {
		switch r.FormValue("order_by") {
		case "star_count":
			slices.SortFunc(found, func(a, b Repo) int { return b.Stars - a.Stars })
		case "last_activity_at":
		default:
			return http.StatusBadRequest
		}
		if r.FormValue("sort") == "asc" {
			slices.Reverse(found)
		}
		return pages(s, r, w, each(found, project), "per_page")
	}
	return map[string]route{
		"GET /api/v4/user": {nil, func(*http.Request, http.ResponseWriter) any {
			return object{"id": 7, "username": "ada", "avatar_url": "https://a.example.com/7", "organization": "", "name": "Ada", "email": "ada@example.com"}
		}},
		"GET /api/v4/personal_access_tokens/self": {nil, func(*http.Request, http.ResponseWriter) any {
			if scopes := s.Scopes(); scopes != nil {
				return object{"id": 3, "name": "parley", "revoked": false, "active": true, "user_id": 7, "scopes": scopes}
			}
			return http.StatusNotFound // a token of another kind
		}},
		"GET /api/v4/groups": {append(list, "min_access_level"), func(r *http.Request, w http.ResponseWriter) any {
			return pages(s, r, w, []object{{"full_path": "acme"}}, "per_page")
		}},
		"GET /api/v4/projects": {append(list, "membership", "order_by", "sort", "search", "search_namespaces"), func(r *http.Request, w http.ResponseWriter) any {
			return projects(r, w, repos(func(p Repo) bool {
				in := p.Name
				if r.FormValue("search_namespaces") == "true" {
					in = p.Owner + "/" + p.Name
				}
				return strings.Contains(in, r.FormValue("search"))
			}))
		}},
		"GET /api/v4/groups/{id}/projects": {append(list, "include_subgroups", "order_by", "sort", "search"), func(r *http.Request, w http.ResponseWriter) any {
			return projects(r, w, repos(func(p Repo) bool {
				return p.Group && p.Owner == r.PathValue("id") && strings.Contains(p.Name, r.FormValue("search"))
			}))
		}},
		"GET /api/v4/projects/{id}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			owner, name, _ := strings.Cut(r.PathValue("id"), "/")
			found, ok := find(owner, name)
			if !ok {
				return http.StatusNotFound
			}
			return project(found)
		}},
		"GET /api/v4/projects/{id}/repository/branches": {append(list, "search"), func(r *http.Request, w http.ResponseWriter) any {
			owner, name, _ := strings.Cut(r.PathValue("id"), "/")
			all := branchesOf(owner, name, r.FormValue("search"))
			if all == nil {
				return http.StatusNotFound
			}
			return pages(s, r, w, each(all, func(b Branch) object {
				return object{"name": b.Name, "protected": b.Protected, "commit": object{"id": b.Commit, "committed_date": "2026-03-01T00:00:00Z"}}
			}), "per_page")
		}},
		"GET /api/v4/issues": {append(list, "scope", "state"), func(r *http.Request, w http.ResponseWriter) any {
			return pages(s, r, w, []object{{"iid": 5, "title": "issue", "references": object{"full": "acme/beta#5"}}}, "per_page")
		}},
		"POST /api/graphql": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			s.graphql(r)
			mr := func(n int, title string, conflicts bool, open int, status string) object {
				return object{"iid": strconv.Itoa(n), "title": title, "project": object{"fullPath": "acme/alpha"}, "conflicts": conflicts,
					"resolvableDiscussionsCount": open, "resolvedDiscussionsCount": 0, "headPipeline": object{"status": status}}
			}
			return object{"data": object{"currentUser": object{"authoredMergeRequests": object{"nodes": []object{
				mr(1, "conflict", true, 1, "FAILED"), mr(2, "red", false, 1, "FAILED"), mr(3, "talk", false, 1, "SUCCESS"), mr(4, "open", false, 0, "RUNNING")}}}}}
		}},
	}
}

func basic(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }

func bitbucket(s *Server) map[string]route {
	s.prefix, s.header = "/2.0", basic(Basic)
	// cut makes a page with the address of the next one in its body.
	cut := func(r *http.Request, all []object) any {
		w := &head{http.Header{}}
		values := pages(s, r, w, all, "pagelen")
		out := object{"values": values, "pagelen": len(values)}
		if link := w.h.Get("Link"); link != "" {
			_, rest, _ := strings.Cut(link, ", <")
			out["next"], _, _ = strings.Cut(rest, ">")
		}
		return out
	}
	name := func(r *http.Request) (text string) {
		if q := r.FormValue("q"); q != "" {
			inner, ok := strings.CutPrefix(q, `name ~ "`)
			if !ok || !strings.HasSuffix(inner, `"`) {
				s.t.Errorf("forgetest: this is no filter: %s", q)
			}
			text = strings.TrimSuffix(inner, `"`)
		}
		return text
	}
	repo := func(r Repo) object {
		typ := "user"
		if r.Group {
			typ = "team"
		}
		return object{"uuid": "{" + r.Name + "}", "full_name": r.Owner + "/" + r.Name, "is_private": !r.Public, "updated_on": r.Updated,
			"owner": object{"type": typ}, "mainbranch": object{"name": r.Main}}
	}
	list := []string{"page", "pagelen"}
	return map[string]route{
		"GET /user": {nil, func(*http.Request, http.ResponseWriter) any {
			return object{"uuid": "{7}", "username": "ada", "display_name": "Ada", "links": object{"avatar": object{"href": "https://a.example.com/7"}}}
		}},
		"GET /user/workspaces": {list, func(r *http.Request, _ http.ResponseWriter) any {
			return cut(r, []object{{"workspace": object{"slug": "acme"}}, {"workspace": object{"slug": "empty"}}, {"workspace": object{"slug": "ada"}}})
		}},
		"GET /repositories/{workspace}": {append(list, "q", "sort"), func(r *http.Request, _ http.ResponseWriter) any {
			text := name(r)
			return cut(r, each(repos(func(p Repo) bool { return p.Owner == r.PathValue("workspace") && strings.Contains(p.Name, text) }), repo))
		}},
		"GET /repositories/{workspace}/{repo}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			found, ok := find(r.PathValue("workspace"), r.PathValue("repo"))
			if !ok {
				return http.StatusNotFound
			}
			return repo(found)
		}},
		"GET /repositories/{workspace}/{repo}/refs/branches": {append(list, "q"), func(r *http.Request, _ http.ResponseWriter) any {
			all := branchesOf(r.PathValue("workspace"), r.PathValue("repo"), name(r))
			if all == nil {
				return http.StatusNotFound
			}
			return cut(r, each(all, func(b Branch) object {
				return object{"name": b.Name, "target": object{"hash": b.Commit, "date": "2026-03-01T00:00:00Z"}}
			}))
		}},
		"GET /workspaces/{workspace}/pullrequests/{user}": {append(list, "state"), func(r *http.Request, _ http.ResponseWriter) any {
			if r.PathValue("workspace") != "acme" || r.PathValue("user") != "{7}" {
				return cut(r, nil)
			}
			return cut(r, []object{{"id": 4, "title": "open", "destination": object{"repository": object{"full_name": "acme/alpha"}}}})
		}},
	}
}

// head takes headers only.
type head struct{ h http.Header }

func (h *head) Header() http.Header         { return h.h }
func (h *head) Write(b []byte) (int, error) { return len(b), nil }
func (h *head) WriteHeader(int)             {}

func bitbucketDC(s *Server) map[string]route {
	s.prefix, s.header = "/bitbucket/rest/api/1.0", "Bearer "+Token
	cut := func(r *http.Request, all []object) any {
		q := r.URL.Query()
		from := min(s.number(q, "start", 0, 1<<20, 0), len(all))
		to := min(from+s.number(q, "limit", 1, 1000, 25), len(all))
		out := object{"values": all[from:to], "isLastPage": to == len(all), "start": from, "nextPageStart": nil}
		if to < len(all) {
			out["nextPageStart"] = to
		}
		return out
	}
	repo := func(r Repo) object {
		typ := "PERSONAL"
		if r.Group {
			typ = "NORMAL"
		}
		return object{"id": 1000 + r.Stars, "slug": r.Name, "public": r.Public, "project": object{"key": r.Owner, "type": typ}}
	}
	list := []string{"start", "limit"}
	return map[string]route{
		"GET /projects": {list, func(r *http.Request, w http.ResponseWriter) any {
			w.Header().Set("X-AUSERNAME", "ada")
			return cut(r, []object{{"key": "acme", "type": "NORMAL"}})
		}},
		"GET /users/{name}": {[]string{"avatarSize"}, func(r *http.Request, _ http.ResponseWriter) any {
			return object{"id": 7, "name": r.PathValue("name"), "displayName": "Ada", "emailAddress": "ada@example.com", "avatarUrl": "https://a.example.com/7"}
		}},
		"GET /repos": {append(list, "permission", "projectkey", "name"), func(r *http.Request, _ http.ResponseWriter) any {
			return cut(r, each(repos(func(p Repo) bool {
				key := r.FormValue("projectkey")
				return (key == "" || key == p.Owner) && strings.Contains(p.Name, r.FormValue("name"))
			}), repo))
		}},
		"GET /projects/{key}/repos/{slug}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			found, ok := find(r.PathValue("key"), r.PathValue("slug"))
			if !ok {
				return http.StatusNotFound
			}
			return repo(found)
		}},
		"GET /projects/{key}/repos/{slug}/branches": {append(list, "orderBy", "filterText"), func(r *http.Request, _ http.ResponseWriter) any {
			all := branchesOf(r.PathValue("key"), r.PathValue("slug"), r.FormValue("filterText"))
			if all == nil {
				return http.StatusNotFound
			}
			return cut(r, each(all, func(b Branch) object { return object{"displayId": b.Name, "latestCommit": b.Commit} }))
		}},
		"GET /dashboard/pull-requests": {append(list, "state", "role"), func(r *http.Request, _ http.ResponseWriter) any {
			pr := func(n int, title, outcome string, tasks int) object {
				return object{"id": n, "title": title, "toRef": object{"repository": object{"slug": "alpha", "project": object{"key": "acme"}}},
					"properties": object{"mergeResult": object{"outcome": outcome}, "openTaskCount": tasks}}
			}
			return cut(r, []object{pr(1, "conflict", "CONFLICTED", 1), pr(3, "talk", "CLEAN", 1), pr(4, "open", "CLEAN", 0)})
		}},
	}
}

func forgejo(s *Server) map[string]route {
	s.prefix, s.header, s.most = "/forge", "token "+Token, 50
	repo := func(r Repo) object {
		return object{"id": 1000 + r.Stars, "full_name": r.Owner + "/" + r.Name, "private": !r.Public, "stars_count": r.Stars,
			"updated_at": r.Updated, "default_branch": r.Main}
	}
	list := []string{"page", "limit"}
	return map[string]route{
		"GET /api/v1/user": {nil, func(*http.Request, http.ResponseWriter) any {
			return object{"id": 7, "login": "ada", "avatar_url": "https://a.example.com/7", "full_name": "Ada", "email": "ada@example.com"}
		}},
		"GET /api/v1/user/orgs": {list, func(r *http.Request, w http.ResponseWriter) any {
			return pages(s, r, w, []object{{"name": "acme"}}, "limit")
		}},
		"GET /api/v1/user/repos": {list, func(r *http.Request, w http.ResponseWriter) any {
			return pages(s, r, w, each(Repos(), repo), "limit")
		}},
		"GET /api/v1/orgs/{org}/repos": {list, func(r *http.Request, w http.ResponseWriter) any {
			return pages(s, r, w, each(repos(func(p Repo) bool { return p.Owner == r.PathValue("org") }), repo), "limit")
		}},
		"GET /api/v1/repos/search": {append(list, "q", "sort", "order"), func(r *http.Request, w http.ResponseWriter) any {
			found := repos(func(p Repo) bool { return strings.Contains(p.Name, r.FormValue("q")) })
			switch r.FormValue("sort") {
			case "stars":
				slices.SortFunc(found, func(a, b Repo) int { return b.Stars - a.Stars })
			case "updated", "forks":
			default:
				return http.StatusUnprocessableEntity
			}
			if r.FormValue("order") == "asc" {
				slices.Reverse(found)
			}
			return object{"ok": true, "data": pages(s, r, w, each(found, repo), "limit")}
		}},
		"GET /api/v1/repos/{owner}/{repo}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			found, ok := find(r.PathValue("owner"), r.PathValue("repo"))
			if !ok {
				return http.StatusNotFound
			}
			return repo(found)
		}},
		"GET /api/v1/repos/{owner}/{repo}/branches": {list, func(r *http.Request, w http.ResponseWriter) any {
			all := branchesOf(r.PathValue("owner"), r.PathValue("repo"), "")
			if all == nil {
				return http.StatusNotFound
			}
			return pages(s, r, w, each(all, func(b Branch) object {
				return object{"name": b.Name, "protected": b.Protected, "commit": object{"id": b.Commit, "timestamp": "2026-03-01T00:00:00Z"}}
			}), "limit")
		}},
		"GET /api/v1/repos/issues/search": {append(list, "type", "state", "created", "assigned"), func(r *http.Request, w http.ResponseWriter) any {
			item := object{"number": 4, "title": "open", "repository": object{"full_name": "acme/alpha"}}
			if r.FormValue("type") == "issues" {
				item = object{"number": 5, "title": "issue", "repository": object{"full_name": "acme/beta"}}
			}
			return pages(s, r, w, []object{item}, "limit")
		}},
	}
}

func azure(s *Server) map[string]route {
	s.prefix, s.header = "/"+Org, basic(":"+Token)
	repo := func(r Repo) object {
		visibility := "private"
		if r.Public {
			visibility = "public"
		}
		return object{"id": r.Name, "name": r.Name, "defaultBranch": "refs/heads/" + r.Main, "isDisabled": false,
			"project": object{"name": r.Owner, "visibility": visibility, "lastUpdateTime": r.Updated}}
	}
	more := func(q url.Values, w http.ResponseWriter, all []object) any {
		from := min(s.number(q, "continuationToken", 0, 1<<20, 0), len(all))
		to := min(from+s.number(q, "$top", 1, 1000, 100), len(all))
		if to < len(all) {
			w.Header().Set("X-Ms-Continuationtoken", strconv.Itoa(to))
		}
		return object{"count": to - from, "value": all[from:to]}
	}
	list := []string{"api-version", "$top", "continuationToken"}
	return map[string]route{
		"GET /_apis/connectionData": {list, func(*http.Request, http.ResponseWriter) any {
			return object{"authenticatedUser": object{"id": "7", "providerDisplayName": "Ada",
				"properties": object{"Account": object{"$type": "System.String", "$value": "ada@example.com"}}}}
		}},
		"GET /_apis/projects": {list, func(r *http.Request, w http.ResponseWriter) any {
			return more(r.URL.Query(), w, []object{{"name": "acme"}, {"name": "ada"}})
		}},
		"GET /_apis/git/repositories": {list, func(*http.Request, http.ResponseWriter) any {
			return object{"value": each(Repos(), repo)}
		}},
		"GET /{project}/_apis/git/repositories": {list, func(r *http.Request, _ http.ResponseWriter) any {
			return object{"value": each(repos(func(p Repo) bool { return p.Owner == r.PathValue("project") }), repo)}
		}},
		"GET /{project}/_apis/git/repositories/{repo}": {list, func(r *http.Request, _ http.ResponseWriter) any {
			found, ok := find(r.PathValue("project"), r.PathValue("repo"))
			if !ok {
				return http.StatusNotFound
			}
			return repo(found)
		}},
		"GET /{project}/_apis/git/repositories/{repo}/refs": {append(list, "filter", "filterContains"), func(r *http.Request, w http.ResponseWriter) any {
			all := branchesOf(r.PathValue("project"), r.PathValue("repo"), r.FormValue("filterContains"))
			if all == nil {
				return http.StatusNotFound
			}
			return more(r.URL.Query(), w, each(all, func(b Branch) object {
				return object{"name": "refs/heads/" + b.Name, "objectId": b.Commit}
			}))
		}},
		"GET /_apis/git/pullrequests": {append(list, "searchCriteria.creatorId", "searchCriteria.status"), func(r *http.Request, w http.ResponseWriter) any {
			pr := func(n int, title, status string) object {
				return object{"pullRequestId": n, "title": title, "mergeStatus": status, "repository": object{"name": "alpha", "project": object{"name": "acme"}}}
			}
			return more(r.URL.Query(), w, []object{pr(1, "conflict", "conflicts"), pr(4, "open", "succeeded")})
		}},
	}
}
