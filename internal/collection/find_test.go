package collection

import (
	"os"
	"path/filepath"
	"testing"

	"parley/internal/fault"
	"parley/internal/skill"
)

func TestReferencesNameCollections(t *testing.T) {
	commit := "0123456789abcdef0123456789abcdef01234567"
	for location, refs := range map[string]map[Reference]bool{
		"https://github.com/Acme/Skills.git": {
			{Source: "github:acme/skills"}:                                     true,
			{Source: "https://GitHub.com/acme/skills/"}:                        true,
			{Source: "https://github.com/acme/skills.git"}:                     true,
			{Source: "http://github.com/acme/skills"}:                          false,
			{Source: "https://github.com/acme/other"}:                          false,
			{Source: "https://u:p@github.com/acme/skills"}:                     false,
			{Source: "https://github.com/acme/skills", Ref: "main"}:            false, // the configured one is another, or may be
			{Source: "https://github.com/acme/skills", Path: "docs"}:           false,
			{Source: "acme/skills"}:                                            false,
			{Source: ""}:                                                       false,
			{Source: "::"}:                                                     false,
			{Source: "/github.com/acme/skills"}:                                false,
			{Source: "git@github.com:acme/skills.git"}:                         false,
			{Source: "https://github.com.evil.example/acme/skills"}:            false,
			{Source: "github:acme/skills?x"}:                                   false,
			{Source: "https://github.com/acme/skills#" + commit}:               false,
			{Source: "github:acme/skills", Ref: "", Path: "/"}:                 true,
			{Source: "https://github.com/acme/skills/../skills"}:               false,
			{Source: "https://github.com/acme%2Fskills"}:                       true, // the same to git's host
			{Source: "HTTPS://github.com/ACME/SKILLS", Ref: "", Path: "///"}:   true,
			{Source: "https://github.com:443/acme/skills"}:                     false,
			{Source: "github:acme/skills", Ref: "HEAD"}:                        false,
			{Source: "github:acme/skills", Ref: "--upload-pack=x", Path: ".."}: false,
		},
		"https://git.example/Team/x#main:docs/skills": {
			{Source: "https://git.example/Team/x"}:                                   true,
			{Source: "https://git.example/Team/x", Ref: "main", Path: "docs/skills"}: true,
			{Source: "https://git.example/Team/x", Ref: "main", Path: "docs"}:        false,
			{Source: "https://git.example/Team/x", Ref: "Main"}:                      false,
			{Source: "https://git.example/team/x"}:                                   false, // names may differ by case
		},
		"https://git.example/x#" + commit: {
			{Source: "https://git.example/x", Ref: commit}:                                     true,
			{Source: "https://git.example/x", Ref: "0123456789ABCDEF0123456789ABCDEF01234567"}: true,
			{Source: "https://git.example/x", Ref: commit[:7]}:                                 false,
		},
		"/srv/skills": {
			{Source: "/srv/skills"}:              true,
			{Source: "/srv/skills/"}:             true,
			{Source: "/srv/skills", Ref: "main"}: false,
			{Source: "srv/skills"}:               false,
			{Source: "/srv"}:                     false,
			{Source: "file:///srv/skills"}:       false,
		},
	} {
		at, err := org(location).place(false)
		if err != nil {
			t.Fatal(err)
		}
		for ref, want := range refs {
			if got := ref.names(at); got != want {
				t.Errorf("%+v names %s: %v", ref, location, got)
			}
		}
	}
}

func TestFindShowsWhatIsLoaded(t *testing.T) {
	dir, gone := t.TempDir(), filepath.Join(t.TempDir(), "gone")
	if err := os.MkdirAll(filepath.Join(dir, "skills", "deploy"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "skills", "deploy", "SKILL.md"), []byte("---\nname: deploy\ndescription: deploys\n---\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, t.TempDir(), org(dir), Source{Name: "gone", Level: skill.LevelPublic, Location: gone})
	found, err := s.Find(Reference{Source: dir})
	if err != nil || len(found) != 1 || len(found[0].Skills) != 1 || found[0].Skills[0].Name != "deploy" {
		t.Errorf("%+v %v", found, err)
	}
	if _, err := s.Find(Reference{Source: gone}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("a directory that is gone: %v", err)
	}
	if _, err := s.Find(Reference{Source: "/elsewhere"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("no collection: %v", err)
	}
}
