package collection

import (
	"net"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"parley/internal/fault"
	"parley/internal/lazyre"
	"parley/internal/skill"
)

// CodeSource is the fault code of a source that cannot be used (Invalid).
const CodeSource = "collection_source"

// Source is one collection of skills and agents.
type Source struct {
	Name  string      // for people; unique: letters, digits, ".", "_" and "-", at most 64
	Level skill.Level // LevelOrg or LevelPublic
	// Location is the absolute path of a directory, or the https URL of a git
	// repository, with "#ref", "#ref:subdir" or "#:subdir" behind it. A ref is a
	// branch, a tag or the 40 hexadecimal digits of a commit; without one it is what
	// the repository's HEAD names.
	Location string
}

const sourceHint = "Write name=/absolute/directory or name=https://host/repository#ref:subdirectory, with org: or public: before the name."

var sourceName = lazyre.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// ParseSource reads "[org:|public:]name=location"; without a level it is org. It
// looks at the text only: whether something is there, the first refresh finds out.
// Errors are Invalid (CodeSource) and never repeat the location, which may hold a
// password.
func ParseSource(text string) (Source, error) {
	name, location, ok := strings.Cut(strings.TrimSpace(text), "=")
	if !ok {
		return Source{}, badSource("A collection has no location.").WithHint(sourceHint)
	}
	s := Source{Name: name, Level: skill.LevelOrg, Location: location}
	if level, rest, ok := strings.Cut(name, ":"); ok {
		s.Name, s.Level = rest, skill.Level(level)
	}
	_, err := s.place(false)
	return s, err
}

// place is a checked location: a directory, or a repository with the rest.
type place struct {
	dir    string // absolute; "" = a repository
	url    string // without the fragment
	ref    string // branch or tag; "" = HEAD, or commit says
	commit string // pinned, lower case; "" = none
	subdir string // "" = the root
}

// place checks a source. With loopback, plain http to this machine is allowed.
func (s Source) place(loopback bool) (place, error) {
	if !sourceName.MatchString(s.Name) {
		return place{}, badSource("%q is no name of a collection.", clip(s.Name)).
			WithHint("Use letters, digits, dots, hyphens and underscores, at most 64. " + sourceHint)
	}
	if s.Level != skill.LevelOrg && s.Level != skill.LevelPublic {
		return place{}, badSource("Collection %s has the level %q; there are org and public.", s.Name, clip(string(s.Level))).WithHint(sourceHint)
	}
	if filepath.IsAbs(s.Location) {
		return place{dir: filepath.Clean(s.Location)}, nil
	}
	address, fragment, _ := strings.Cut(s.Location, "#")
	if err := s.checkURL(address, loopback); err != nil {
		return place{}, err
	}
	p := place{url: address}
	p.ref, p.subdir, _ = strings.Cut(fragment, ":")
	if commitID.MatchString(p.ref) {
		p.ref, p.commit = "", strings.ToLower(p.ref)
	}
	if p.ref != "" && !isRef(p.ref) {
		return place{}, badSource("%q, the ref of collection %s, cannot be one.", clip(p.ref), s.Name).
			WithHint("Name a branch, a tag, or the 40 hexadecimal digits of a commit.")
	}
	if p.subdir != "" && (path.Clean(p.subdir) != p.subdir || !filepath.IsLocal(p.subdir) || hasControl(p.subdir)) {
		return place{}, badSource("%q, the directory of collection %s, is not below its repository.", clip(p.subdir), s.Name).
			WithHint("Write it as docs/skills: relative, with slashes, without dots.")
	}
	return p, nil
}

func (s Source) checkURL(address string, loopback bool) error {
	u, err := url.Parse(address)
	if err != nil || hasControl(address) || strings.ContainsAny(address, " \\") {
		return badSource("The location of collection %s is neither a directory nor a URL.", s.Name).WithHint(sourceHint)
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery {
		return badSource("The URL of collection %s has a user, a password or a query in it.", s.Name).
			WithHint("A URL is shown and logged, so it must not hold credentials. Keep a checkout of a private repository in a directory and name that.")
	}
	plain := loopback && u.Scheme == "http" && net.ParseIP(u.Hostname()).IsLoopback()
	if u.Scheme != "https" && !plain || u.Hostname() == "" || strings.Trim(u.Path, "/") == "" {
		return badSource("The location of collection %s is neither an absolute directory nor an https URL of a repository.", s.Name).
			WithHint("SSH, plain HTTP and relative paths are not supported. " + sourceHint)
	}
	return nil
}

var (
	commitID = lazyre.MustCompile(`^[0-9a-fA-F]{40}$`)
	refName  = lazyre.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,199}$`)
)

// isRef holds the rules of git for names of branches and tags, and more.
func isRef(name string) bool {
	for _, bad := range []string{"..", "//", "/.", "@{", ".lock/"} {
		if strings.Contains(name+"/", bad) {
			return false
		}
	}
	return refName.MatchString(name) && !strings.HasSuffix(name, ".") && name != "@"
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' })
}

// clip keeps a text that somebody else wrote short.
func clip(text string) string {
	const most = 80
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

func badSource(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, CodeSource, format, args...)
}
