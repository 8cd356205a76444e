package collection

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"parley/internal/extension"
	"parley/internal/fault"
)

// codeUnknown is of a place that is no configured collection.
const codeUnknown = "collection_unknown"

// Unknown is the error of a place that is none of the server's collections.
func Unknown() error {
	return fault.New(fault.NotFound, codeUnknown, "It is none of the server's collections; its administrator can make it one (skill_collections).")
}

// Reference names a collection as clients register one (V1 9.5): "github:owner/repo",
// a URL of a git repository, or the absolute path of a directory.
type Reference struct {
	Source string
	Ref    string // branch, tag or commit; "" = any
	Path   string // directory in the repository; "" = any
}

// listed is what is loaded of a source, for those who look for it.
type listed struct {
	at      place
	bundles []extension.Bundle // nil before the first success
	problem string
}

// Find returns what is loaded now of the collection that a reference names: its own
// bundle, then those of its plugins. What is returned is shared. NotFound if no
// collection of the configuration is meant: the server fetches nothing because a client
// names it. Unavailable if nothing could be loaded of it yet.
func (s *Set) Find(r Reference) ([]extension.Bundle, error) {
	all := *s.listed.Load()
	at := slices.IndexFunc(all, func(l listed) bool { return r.names(l.at) })
	switch {
	case at < 0:
		return nil, Unknown()
	case len(all[at].bundles) == 0:
		return nil, fault.New(fault.Unavailable, codeRead, "Nothing could be loaded of it yet. %s", all[at].problem)
	}
	return slices.Clone(all[at].bundles), nil
}

func (r Reference) names(p place) bool {
	if p.dir != "" {
		return filepath.IsAbs(r.Source) && filepath.Clean(r.Source) == p.dir && r.Ref == ""
	}
	ref := p.ref
	if p.commit != "" {
		ref = p.commit
	}
	return (r.Ref == "" || strings.EqualFold(r.Ref, ref) && p.commit != "" || r.Ref == ref) &&
		(r.Path == "" || strings.Trim(r.Path, "/") == p.subdir) && sameRepository(r.Source, p.url)
}

// sameRepository compares a repository as clients write it with a configured URL.
func sameRepository(source, configured string) bool {
	if short, ok := strings.CutPrefix(source, "github:"); ok {
		source = "https://github.com/" + short
	}
	return plainURL(source) != "" && plainURL(source) == plainURL(configured)
}

// plainURL drops what does not tell repositories apart; "" if there is no host.
func plainURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	name := strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	host := strings.ToLower(u.Host)
	if host == "github.com" {
		name = strings.ToLower(name)
	}
	return strings.ToLower(u.Scheme) + "://" + host + "/" + name
}
