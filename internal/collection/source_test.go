package collection

import (
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/fault"
	"parley/internal/skill"
)

const someCommit = "0123456789abcdefABCDEF0123456789abcdef01"

func TestParseSource(t *testing.T) {
	for text, want := range map[string]struct {
		source Source
		at     place
	}{
		"acme=/srv/acme/":        {Source{"acme", skill.LevelOrg, "/srv/acme/"}, place{dir: "/srv/acme"}},
		"org:acme=/srv/a=b:c#d":  {Source{"acme", skill.LevelOrg, "/srv/a=b:c#d"}, place{dir: "/srv/a=b:c#d"}},
		"public:A.b_c-1=/x":      {Source{"A.b_c-1", skill.LevelPublic, "/x"}, place{dir: "/x"}},
		" a=https://h/o/r.git\n": {Source{"a", skill.LevelOrg, "https://h/o/r.git"}, place{url: "https://h/o/r.git"}},
		"a=https://h:8443/r#v1.0/x+y": {Source{"a", skill.LevelOrg, "https://h:8443/r#v1.0/x+y"},
			place{url: "https://h:8443/r", ref: "v1.0/x+y"}},
		"a=https://h/r#main:docs/s": {Source{"a", skill.LevelOrg, "https://h/r#main:docs/s"}, place{url: "https://h/r", ref: "main", subdir: "docs/s"}},
		"a=https://h/r#:docs":       {Source{"a", skill.LevelOrg, "https://h/r#:docs"}, place{url: "https://h/r", subdir: "docs"}},
		"a=https://h/r#" + someCommit + ":d": {Source{"a", skill.LevelOrg, "https://h/r#" + someCommit + ":d"},
			place{url: "https://h/r", commit: strings.ToLower(someCommit), subdir: "d"}},
	} {
		got, err := ParseSource(text)
		if err != nil || got != want.source {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want.source)
			continue
		}
		if at, err := got.place(false); err != nil || at != want.at {
			t.Errorf("%q: %+v, %v, want %+v", text, at, err, want.at)
		}
	}
}

func TestParseSourceRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "no location": "acme", "no name": "=/x", "an option as name": "-x=/x", "a path as name": "a/b=/x",
		"a long name": strings.Repeat("a", 65) + "=/x", "another level": "project:a=/x", "no level": ":a=/x", "two levels": "org:public:a=/x",
		"a relative directory": "a=skills", "home": "a=~/skills", "an empty location": "a=",
		"ssh": "a=ssh://git@h/r", "scp": "a=git@h:o/r", "git": "a=git://h/r", "http": "a=http://h/r", "http to this machine": "a=http://127.0.0.1/r",
		"file": "a=file:///r", "a helper": "a=ext::sh -c x", "a helper over https": "a=ext::https://h/r", "an option": "a=--upload-pack=x",
		"a password": "a=https://u:very-secret@h/r", "a token": "a=https://very-secret@h/r", "a query": "a=https://h/r?token=very-secret",
		"no host": "a=https:///r", "no repository": "a=https://h/", "a line": "a=https://h/r\nx", "a space": "a=https://h/r x", "a backslash": `a=https://h\r`,
		"an option as ref": "a=https://h/r#--upload-pack=x", "a range": "a=https://h/r#a..b", "a refspec": "a=https://h/r#+refs/*", "a lock": "a=https://h/r#x.lock",
		"a reflog": "a=https://h/r#a@{1}", "at": "a=https://h/r#@", "a long ref": "a=https://h/r#" + strings.Repeat("a", 300), "an ancestor": "a=https://h/r#a^",
		"a hidden ref": "a=https://h/r#a/.b", "a dot": "a=https://h/r#a.", "a slash": "a=https://h/r#a/", "a ref with a fragment": "a=https://h/r#a#b",
		"up": "a=https://h/r#:../x", "an absolute subdirectory": "a=https://h/r#:/etc", "up and down": "a=https://h/r#:a/../b", "a dot as subdirectory": "a=https://h/r#:.//a",
		"an escape": "a=https://h/r#:a\x1b[0m", "bytes": "a=https://h/r#:\xff",
	} {
		s, err := ParseSource(text)
		if !fault.Is(err, fault.Invalid) || fault.CodeOf(err) != CodeSource {
			t.Errorf("%s: %+v, %v", name, s, err)
			continue
		}
		if strings.Contains(err.Error(), "very-secret") || strings.Contains(fault.PublicText(err), "very-secret") {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
}

func FuzzParseSource(f *testing.F) {
	for _, text := range []string{"a=/x", "public:a=https://h/r#main:docs", "a=https://h/r#" + someCommit, "a=https://u:p@h/r", "a=https://h/r#--x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSource(text)
		if err != nil {
			return
		}
		at, err := s.place(false)
		switch {
		case err != nil:
			t.Fatalf("%q was parsed and is refused: %v", text, err)
		case at.dir != "" && (!filepath.IsAbs(at.dir) || at.url != ""):
			t.Fatalf("%q: %+v", text, at)
		case at.dir == "" && !strings.HasPrefix(strings.ToLower(at.url), "https://"):
			t.Fatalf("%q leaves the machine by %q", text, at.url)
		case strings.HasPrefix(at.ref, "-") || strings.ContainsAny(at.ref, " \n*?[^~:\\") || strings.Contains(at.ref, ".."):
			t.Fatalf("%q has the ref %q", text, at.ref)
		case at.subdir != "" && !filepath.IsLocal(at.subdir):
			t.Fatalf("%q has the subdirectory %q", text, at.subdir)
		}
	})
}
