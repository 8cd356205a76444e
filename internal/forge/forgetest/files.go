package forgetest

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"

	"parley/internal/forge"
)

// Files are those of the main branch of acme/alpha; the other repositories have none.
func Files() map[string]string {
	return map[string]string{
		".cursorrules":                     "Be brief.\n",
		".openhands/microagents/repo.md":   "---\nname: repo\n---\nRun make test.\n",
		".openhands/microagents/a/db.md":   "---\ntriggers:\n- database\n- sql\n---\nUse migrations.\n",
		".openhands/microagents/bad.md":    "---\ntriggers: {\n---\nBroken.\n",
		".openhands/microagents/notes":     "no skill",
		".openhands/microagents/README.md": "Read me.",
		"README.md":                        "Alpha.",
		"large.bin":                        strings.Repeat("x", forge.MaxFile+1),
	}
}

// state is the state of a pull request of acme/alpha: 4 is open, 1 to 3 are not, and
// there are no others.
func state(number, open, closed string) (string, bool) {
	switch number {
	case "1", "2", "3":
		return closed, true
	case "4":
		return open, true
	}
	return "", false
}

// below are the paths of files below a directory.
func below(owner, name, dir string) []string {
	var found []string
	if owner+"/"+name == "acme/alpha" {
		for _, p := range slices.Sorted(maps.Keys(Files())) {
			if strings.HasPrefix(p, dir+"/") {
				found = append(found, p)
			}
		}
	}
	return found
}

func fileOf(owner, name, path string) (string, bool) {
	if owner+"/"+name != "acme/alpha" {
		return "", false
	}
	text, ok := Files()[path]
	return text, ok
}

// wrapped is base64 with line breaks, as services send it.
func wrapped(text string) string {
	var out strings.Builder
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString([]byte(text))), 60) {
		out.Write(line)
		out.WriteByte('\n')
	}
	return out.String()
}

// contents answers as the contents APIs of GitHub and Forgejo: a list for a directory,
// an object for a file.
func contents(owner, name, path string) any {
	if text, ok := fileOf(owner, name, path); ok {
		if len(text) > forge.MaxFile {
			return object{"type": "file", "path": path, "encoding": "none", "content": ""}
		}
		return object{"type": "file", "path": path, "encoding": "base64", "content": wrapped(text)}
	}
	var list []object
	dirs := map[string]bool{}
	for _, p := range below(owner, name, path) {
		child, _, deeper := strings.Cut(strings.TrimPrefix(p, path+"/"), "/")
		at := path + "/" + child
		switch {
		case !deeper:
			list = append(list, object{"type": "file", "path": at})
		case !dirs[at]:
			dirs[at] = true
			list = append(list, object{"type": "dir", "path": at})
		}
	}
	if list == nil {
		return http.StatusNotFound
	}
	return list
}

// plain is an answer that is no JSON.
type plain string

// addFiles adds what a service shows of files and of single pull requests.
func addFiles(provider string, to map[string]route) {
	for pattern, r := range map[string]func() map[string]route{forge.GitHub: githubFiles, forge.GitLab: gitlabFiles,
		forge.Bitbucket: bitbucketFiles, forge.BitbucketDataCenter: bitbucketDCFiles, forge.Forgejo: forgejoFiles,
		forge.AzureDevOps: azureFiles}[provider]() {
		to[pattern] = r
	}
}

// request answers with the state of a pull request.
func request(owner, name, open, closed string, r *http.Request, key string) any {
	if r.PathValue(owner)+"/"+r.PathValue(name) != "acme/alpha" {
		return http.StatusNotFound
	}
	s, ok := state(r.PathValue("n"), open, closed)
	if !ok {
		return http.StatusNotFound
	}
	return object{key: s}
}

func githubFiles() map[string]route {
	return map[string]route{
		"GET /v3/repos/{owner}/{repo}/contents/{path...}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			return contents(r.PathValue("owner"), r.PathValue("repo"), r.PathValue("path"))
		}},
		"GET /v3/repos/{owner}/{repo}/pulls/{n}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			return request("owner", "repo", "open", "closed", r, "state")
		}},
	}
}

func forgejoFiles() map[string]route {
	return map[string]route{
		"GET /api/v1/repos/{owner}/{repo}/contents/{path...}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			return contents(r.PathValue("owner"), r.PathValue("repo"), r.PathValue("path"))
		}},
		"GET /api/v1/repos/{owner}/{repo}/pulls/{n}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			return request("owner", "repo", "open", "closed", r, "state")
		}},
	}
}

func gitlabFiles() map[string]route {
	return map[string]route{
		"GET /api/v4/projects/{id}/repository/tree": {[]string{"page", "per_page", "path", "recursive"}, func(r *http.Request, _ http.ResponseWriter) any {
			owner, name, _ := strings.Cut(r.PathValue("id"), "/")
			paths := below(owner, name, r.FormValue("path"))
			if paths == nil || r.FormValue("recursive") != "true" {
				return http.StatusNotFound
			}
			return append(each(paths, func(p string) object { return object{"type": "blob", "path": p} }),
				object{"type": "tree", "path": r.FormValue("path") + "/a"})
		}},
		"GET /api/v4/projects/{id}/repository/files/{path}": {[]string{"ref"}, func(r *http.Request, _ http.ResponseWriter) any {
			owner, name, _ := strings.Cut(r.PathValue("id"), "/")
			text, ok := fileOf(owner, name, r.PathValue("path"))
			if !ok || r.FormValue("ref") != "HEAD" {
				return http.StatusNotFound
			}
			return object{"encoding": "base64", "content": base64.StdEncoding.EncodeToString([]byte(text))}
		}},
		"GET /api/v4/projects/{id}/merge_requests/{n}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			s, ok := state(r.PathValue("n"), "opened", "merged")
			if !ok || r.PathValue("id") != "acme/alpha" {
				return http.StatusNotFound
			}
			return object{"state": s}
		}},
	}
}

func bitbucketFiles() map[string]route {
	return map[string]route{
		"GET /repositories/{workspace}/{repo}/src/{ref}/{path...}": {[]string{"pagelen", "max_depth"}, func(r *http.Request, _ http.ResponseWriter) any {
			owner, name, path := r.PathValue("workspace"), r.PathValue("repo"), r.PathValue("path")
			if r.PathValue("ref") != "main" {
				return http.StatusNotFound
			}
			if dir, ok := strings.CutSuffix(path, "/"); ok {
				paths := below(owner, name, dir)
				if paths == nil {
					return http.StatusNotFound
				}
				return object{"values": append(each(paths, func(p string) object { return object{"type": "commit_file", "path": p} }),
					object{"type": "commit_directory", "path": dir + "/a"})}
			}
			text, ok := fileOf(owner, name, path)
			if !ok {
				return http.StatusNotFound
			}
			return plain(text)
		}},
		"GET /repositories/{workspace}/{repo}/pullrequests/{n}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			return request("workspace", "repo", "OPEN", "MERGED", r, "state")
		}},
	}
}

func bitbucketDCFiles() map[string]route {
	return map[string]route{
		"GET /projects/{key}/repos/{slug}/files/{path...}": {[]string{"start", "limit"}, func(r *http.Request, _ http.ResponseWriter) any {
			dir := r.PathValue("path")
			paths := below(r.PathValue("key"), r.PathValue("slug"), dir)
			if paths == nil {
				return http.StatusNotFound
			}
			return object{"values": each(paths, func(p string) string { return strings.TrimPrefix(p, dir+"/") }), "isLastPage": true}
		}},
		"GET /projects/{key}/repos/{slug}/raw/{path...}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			text, ok := fileOf(r.PathValue("key"), r.PathValue("slug"), r.PathValue("path"))
			if !ok {
				return http.StatusNotFound
			}
			return plain(text)
		}},
		"GET /projects/{key}/repos/{slug}/pull-requests/{n}": {nil, func(r *http.Request, _ http.ResponseWriter) any {
			return request("key", "slug", "OPEN", "DECLINED", r, "state")
		}},
	}
}

func azureFiles() map[string]route {
	return map[string]route{
		"GET /{project}/_apis/git/repositories/{repo}/items": {[]string{"api-version", "scopePath", "recursionLevel", "path", "includeContent", "$format"}, func(r *http.Request, _ http.ResponseWriter) any {
			owner, name := r.PathValue("project"), r.PathValue("repo")
			if dir, ok := strings.CutPrefix(r.FormValue("scopePath"), "/"); ok {
				paths := below(owner, name, dir)
				if paths == nil || r.FormValue("recursionLevel") != "full" {
					return http.StatusNotFound
				}
				return object{"value": append(each(paths, func(p string) object { return object{"gitObjectType": "blob", "path": "/" + p} }),
					object{"gitObjectType": "tree", "path": "/" + dir})}
			}
			text, ok := fileOf(owner, name, strings.TrimPrefix(r.FormValue("path"), "/"))
			if !ok || r.FormValue("includeContent") != "true" || r.FormValue("$format") != "json" {
				return http.StatusNotFound
			}
			return object{"content": text}
		}},
		"GET /{project}/_apis/git/repositories/{repo}/pullrequests/{n}": {[]string{"api-version"}, func(r *http.Request, _ http.ResponseWriter) any {
			return request("project", "repo", "active", "completed", r, "status")
		}},
	}
}
