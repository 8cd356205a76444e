package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/collection"
	"parley/internal/skill"
)

func TestMarketplacesThatAreCollections(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"skills/deploy/SKILL.md":                 "---\nname: deploy\ndescription: deploys\n---\nSecret steps.\n",
		"skills/go.md":                           "---\ntriggers: [golang]\n---\nUse gofmt.\n",
		"plugins/review/.plugin/plugin.json":     `{"name":"review"}`,
		"plugins/review/skills/inspect/SKILL.md": "---\nname: inspect\ndescription: inspects\n---\nx\n",
	} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	set, err := collection.New(t.Context(), collection.Config{Dir: t.TempDir(),
		Sources: []collection.Source{{Name: "acme", Level: skill.LevelOrg, Location: dir}}})
	check(t, err)
	w := newWorldWith(t, func(c *config) { c.v1.Collection = set.Find })
	preview := func(body any) *answer { return w.call(200, "POST", "/api/v1/skills/marketplace-skills", body) }

	a := preview([]any{map[string]any{"name": "ours", "source": dir, "auto_load": true, "scope": nil, "repo_path": nil},
		map[string]any{"name": "theirs", "source": "github:someone/else", "ref": "main"}})
	found := map[string]string{}
	for _, s := range a.list("skills") {
		if walk(t, s, "source") != "ours" {
			t.Errorf("of another marketplace: %v", s)
		}
		found[walk(t, s, "name").(string)] = walk(t, s, "type").(string)
	}
	if len(found) != 2 || found["deploy"] != "agentskills" || found["go"] != "knowledge" {
		t.Errorf("skills %v in %s", found, a.body)
	}
	if p := a.list("plugins"); len(p) != 1 || walk(t, p[0], "name") != "review" || walk(t, p[0], "marketplace") != "ours" || walk(t, p[0], "source") != dir {
		t.Errorf("plugins %v", p)
	}
	if n := a.list("marketplace_skills", "ours"); len(n) != 2 {
		t.Errorf("names %v", n)
	}
	if e := a.list("errors"); len(e) != 1 || !strings.Contains(e[0].(string), "theirs") {
		t.Errorf("errors %v", e)
	}
	if strings.Contains(string(a.body), "Secret steps") {
		t.Error("a preview shows the text of a skill")
	}
	if a := preview([]any{}); len(a.list("skills")) != 0 || len(a.list("errors")) != 0 {
		t.Errorf("nothing asked for: %s", a.body)
	}
	for what, body := range map[string]any{"no list": map[string]any{}, "no source": []any{map[string]any{"name": "x"}},
		"unknown scope": []any{map[string]any{"name": "x", "source": "y", "scope": "all"}}} {
		if a := w.as(userKey, "POST", "/api/v1/skills/marketplace-skills", body); a.status != 422 {
			t.Errorf("%s: %d", what, a.status)
		}
	}
	w.as("", "POST", "/api/v1/skills/marketplace-skills", []any{}).is(401)
}

func TestMarketplacesWithoutCollections(t *testing.T) {
	w := newWorld(t)
	a := w.call(200, "POST", "/api/v1/skills/marketplace-skills", []any{map[string]any{"name": "x", "source": "/etc"}})
	if len(a.list("errors")) != 1 || len(a.list("skills")) != 0 {
		t.Errorf("%s", a.body)
	}
}
