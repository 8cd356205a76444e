package extension_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/extension"
	"parley/internal/skill"
)

var asShelf = extension.Options{Name: "collection acme", Level: skill.LevelOrg, Contents: true}

func collection(t testing.TB, dir string, opt extension.Options) []extension.Bundle {
	t.Helper()
	bundles, err := extension.LoadCollection(t.Context(), open(t, dir), opt)
	if err != nil {
		t.Fatal(err)
	}
	return bundles
}

func named(name string) string { return strings.Replace(agentSkill, "pdf", name, 1) }

// sparse makes a file of so many bytes, which needs no room on the disk.
func sparse(t testing.TB, dir, name string, size int64) {
	t.Helper()
	write(t, dir, name, "")
	if err := os.Truncate(filepath.Join(dir, name), size); err != nil {
		t.Fatal(err)
	}
}

func fileNames(s skill.Skill) []string {
	names := []string{}
	for _, f := range s.Files {
		name := f.Name
		if f.Executable {
			name += "*"
		}
		names = append(names, name)
	}
	return names
}

func problems(b extension.Bundle) string {
	text := ""
	for _, p := range b.Problems {
		text += p.File + ": " + p.Text + "\n"
	}
	return text
}

func TestTheFilesOfASkillComeAlong(t *testing.T) {
	dir := tree(t, map[string]string{"skills/pdf/SKILL.md": agentSkill, "skills/pdf/forms.md": "Forms.", "skills/pdf/scripts/run": "\x00\xff",
		"skills/pdf/scripts/lib/x.py": "", "skills/pdf/inner/SKILL.md": "Of the same skill.", "skills/pdf/.env": "A=1", "skills/pdf/.git/config": "x",
		"skills/pdf/extra/deep/er/a": "a", "skills/word.md": "No AgentSkill.", "skills/pdf-2/SKILL.md": named("pdf-2"), "shared/font": "F"})
	if err := os.Chmod(filepath.Join(dir, "skills/pdf/scripts/run"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"assets": "../../shared", "out": "/etc/passwd", "outside": "/etc", "run": "scripts/run"} {
		if err := os.Symlink(target, filepath.Join(dir, "skills/pdf", name)); err != nil {
			t.Fatal(err)
		}
	}
	b := collection(t, dir, asShelf)[0]
	if len(b.Problems) > 0 {
		t.Errorf("problems %s", problems(b))
	}
	s := find(t, b, "pdf")
	want := []string{".env", "assets/font", "extra/deep/er/a", "forms.md", "inner/SKILL.md", "run*", "scripts/lib/x.py", "scripts/run*", "SKILL.md"}
	if got := fileNames(s); !slices.Equal(got, want) {
		t.Errorf("files %v\n want %v", got, want)
	}
	if !slices.Equal(s.Resources, []string{"assets/font", "scripts/lib/x.py", "scripts/run"}) || s.Source != "skills/pdf/SKILL.md" {
		t.Errorf("%+v", s)
	}
	for _, f := range s.Files {
		if data, err := os.ReadFile(filepath.Join(dir, "skills/pdf", f.Name)); err != nil || string(data) != string(f.Data) {
			t.Errorf("%s is %q (%v)", f.Name, f.Data, err)
		}
	}
	if got := fileNames(find(t, b, "pdf-2")); !slices.Equal(got, []string{"SKILL.md"}) {
		t.Errorf("a skill alone: %v", got)
	}
	if got := fileNames(find(t, b, "word")); len(got) > 0 {
		t.Errorf("no AgentSkill: %v", got)
	}
	opt := asShelf
	opt.Contents = false
	if s := find(t, collection(t, dir, opt)[0], "pdf"); s.Files != nil || len(s.Resources) != 3 {
		t.Errorf("nobody asked: %+v", s)
	}
}

// TestNoModesNoPrograms: of a tree that does not know modes no file is a program.
func TestNoModesNoPrograms(t *testing.T) {
	dir := tree(t, map[string]string{"pdf/SKILL.md": agentSkill, "pdf/run": "x"})
	if err := os.Chmod(filepath.Join(dir, "pdf/run"), 0o755); err != nil {
		t.Fatal(err)
	}
	bundles, err := extension.LoadCollection(t.Context(), extension.RemoteTree(dir, remote()), asShelf)
	if err != nil {
		t.Fatal(err)
	}
	if got := fileNames(find(t, bundles[0], "pdf")); !slices.Equal(got, []string{"run", "SKILL.md"}) {
		t.Errorf("%v", got)
	}
}

func TestTheFilesOfSkillsAreBounded(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name    string
		make    func(t *testing.T, dir string)
		files   int
		bytes   int64
		problem string // "" = none
	}{
		{"a file of 1 MiB", func(t *testing.T, dir string) { sparse(t, dir, "pdf/a", mib) }, 2, mib, ""},
		{"a larger one", func(t *testing.T, dir string) { sparse(t, dir, "pdf/a", mib+1); sparse(t, dir, "pdf/b", 9) }, 2, 9,
			"pdf/a: This file of a skill is left out: one may have 1 MiB"},
		{"more than 4 MiB", func(t *testing.T, dir string) {
			for i := range 5 {
				sparse(t, dir, fmt.Sprint("pdf/a", i), mib)
			}
			sparse(t, dir, "pdf/z", 1000)
		}, 5, 3*mib + 1000, "pdf/a4: This file of a skill is left out"},
		{"200 files", func(t *testing.T, dir string) {
			for i := range 199 {
				write(t, dir, fmt.Sprint("pdf/A", i), "")
			}
		}, 200, 0, ""},
		{"201 files", func(t *testing.T, dir string) {
			for i := range 200 {
				write(t, dir, fmt.Sprintf("pdf/A%03d", i), "")
			}
		}, 200, 0, "pdf/A199: This file of a skill and what comes after it is left out"},
		{"far more", func(t *testing.T, dir string) {
			for i := range 2500 {
				write(t, dir, fmt.Sprintf("pdf/A%04d", i), "")
			}
		}, 200, 0, "pdf/A0199: This file of a skill and what"},
		{"a name that cannot be shown", func(t *testing.T, dir string) { write(t, dir, "pdf/a\nb", "x") }, 1, 0, "cannot be shown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := tree(t, map[string]string{"pdf/SKILL.md": agentSkill})
			c.make(t, dir)
			b := collection(t, dir, asShelf)[0]
			s := find(t, b, "pdf")
			size := -int64(len(agentSkill))
			for _, f := range s.Files {
				size += int64(len(f.Data))
			}
			if len(s.Files) != c.files || size != c.bytes || s.Files[len(s.Files)-1].Name != "SKILL.md" {
				t.Errorf("%d files with %d bytes, want %d with %d", len(s.Files), size, c.files, c.bytes)
			}
			if text := problems(b); !strings.Contains(text, c.problem) || (c.problem == "") != (text == "") {
				t.Errorf("problems %s", text)
			}
		})
	}
}

// TestACollectionSharesItsRoom: with its plugins, and what another skill took the place
// of needs none.
func TestACollectionSharesItsRoom(t *testing.T) {
	size := func(b extension.Bundle) (files int, bytes int64) {
		for _, s := range b.Skills {
			files += len(s.Files)
			for _, f := range s.Files {
				bytes += int64(len(f.Data))
			}
		}
		return files, bytes
	}
	dir := tree(t, map[string]string{"plugins/p/plugin.json": `{"name":"p"}`, "plugins/p/skills/last/SKILL.md": named("last")})
	for i := range 5 {
		name := fmt.Sprint("s", i)
		for _, top := range []string{"skills", ".agents/skills"} { // the same names
			write(t, dir, path.Join(top, name, "SKILL.md"), named(name))
			for j := range 3 {
				sparse(t, dir, path.Join(top, name, fmt.Sprint("f", j)), 1<<20)
			}
		}
	}
	for j := range 4 {
		sparse(t, dir, fmt.Sprint("plugins/p/skills/last/f", j), 1<<20)
	}
	bundles := collection(t, dir, asShelf)
	if n, _ := size(bundles[0]); n != 20 || len(bundles[0].Problems) > 0 {
		t.Errorf("%d files, problems %s", n, problems(bundles[0]))
	}
	if n, _ := size(bundles[1]); n != 1 || !strings.Contains(problems(bundles[1]), "all of a collection 16 MiB") {
		t.Errorf("the plugin has %d files, problems %s", n, problems(bundles[1]))
	}

	dir = t.TempDir()
	for i := range 12 {
		name := fmt.Sprintf("s%02d", i)
		write(t, dir, path.Join(name, "SKILL.md"), named(name))
		for j := range 199 {
			write(t, dir, path.Join(name, fmt.Sprint("f", j)), "")
		}
	}
	b := collection(t, dir, asShelf)[0]
	if n, _ := size(b); n != 2000 || len(b.Skills) != 12 || !strings.Contains(problems(b), "all of a collection 2000") {
		t.Errorf("%d files of %d skills, problems %s", n, len(b.Skills), problems(b))
	}
}

// TestSkillsAtTheTop: what people point at is often the directory of skills itself, or
// one skill.
func TestSkillsAtTheTop(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   map[string]string
		skills  []string
		problem string // "" = none
	}{
		{"a directory of skills", map[string]string{"pdf/SKILL.md": agentSkill, "word/skill.md": named("word"), "README.md": "x", "notes.md": "No skill.",
			"docs/a.md": "No skill.", "LICENSE": "x"}, []string{"pdf", "word"}, ""},
		{"one skill", map[string]string{"SKILL.md": agentSkill, "scripts/a.py": ""}, []string{"pdf"}, ""},
		{"one skill without a name", map[string]string{"SKILL.md": "Text."}, nil, "SKILL.md: the front matter has no name"},
		{"a name that is not the directory's", map[string]string{"word/SKILL.md": agentSkill}, nil, `word/SKILL.md: the name "pdf" is not that of the directory`},
		{"what lies deeper", map[string]string{"group/pdf/SKILL.md": agentSkill, ".hidden/SKILL.md": named("hidden")}, nil, ""},
		{"beside the usual directories", map[string]string{"pdf/SKILL.md": agentSkill, "skills/word/SKILL.md": named("word"), "microagents/a.md": "A."},
			[]string{"a", "pdf", "word"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := collection(t, tree(t, c.files), asShelf)[0]
			if got := skillNames(b); !slices.Equal(got, c.skills) {
				t.Errorf("skills %v, want %v", got, c.skills)
			}
			if text := problems(b); !strings.Contains(text, c.problem) || (c.problem == "") != (text == "") {
				t.Errorf("problems %s", text)
			}
		})
	}
	b := collection(t, tree(t, map[string]string{"pdf/SKILL.md": agentSkill + " Top.", "skills/pdf/SKILL.md": agentSkill, "pdf/a": "", "skills/pdf/scripts/b": ""}), asShelf)[0]
	if s := find(t, b, "pdf"); s.Content != "Read it." || !slices.Equal(fileNames(s), []string{"scripts/b", "SKILL.md"}) {
		t.Errorf("the usual directory does not count: %+v", s)
	}
	b = collection(t, tree(t, map[string]string{"SKILL.md": agentSkill, "scripts/a.py": "", "b/c": "", ".git/HEAD": "x"}), asShelf)[0]
	if s := find(t, b, "pdf"); !slices.Equal(fileNames(s), []string{"b/c", "scripts/a.py", "SKILL.md"}) || !slices.Equal(s.Resources, []string{"scripts/a.py"}) {
		t.Errorf("one skill: %+v", s)
	}
}

// TestFilesAreThoseOfTheDisk: whatever lies in a skill's directory.
func TestFilesAreThoseOfTheDisk(t *testing.T) {
	parent, n := t.TempDir(), 0
	drawName := rapid.Custom(func(t *rapid.T) string {
		return path.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b.md", ".h", ".git", "scripts", "assets", "SKILL.md", "pdf"}), 1, 4).Draw(t, "parts")...)
	})
	top, err := extension.DirTree(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = top.Close() }()
	rapid.Check(t, func(rt *rapid.T) {
		n++
		dir := filepath.Join(parent, fmt.Sprint(n))
		write(t, dir, "pdf/SKILL.md", agentSkill)
		for _, name := range rapid.SliceOfN(drawName, 0, 8).Draw(rt, "names") {
			full := filepath.Join(dir, "pdf", name)
			if os.MkdirAll(filepath.Dir(full), 0o755) == nil && name != "SKILL.md" { // else it is a file already
				_ = os.WriteFile(full, []byte(name), 0o644)
			}
		}
		opt := asShelf
		opt.Dir = fmt.Sprint(n)
		bundles, err := extension.LoadCollection(context.Background(), top, opt)
		if err != nil || len(bundles[0].Skills) == 0 {
			rt.Fatalf("%+v %v", bundles, err)
		}
		s := bundles[0].Skills[0]
		want := []string{}
		_ = filepath.WalkDir(filepath.Join(dir, "pdf"), func(p string, e fs.DirEntry, _ error) error {
			name, _ := filepath.Rel(filepath.Join(dir, "pdf"), p)
			if e.Type().IsRegular() && name != "SKILL.md" && !strings.Contains("/"+name, "/.git/") {
				want = append(want, name)
			}
			return nil
		})
		slices.Sort(want)
		if got := fileNames(s); !slices.Equal(got, append(want, "SKILL.md")) {
			rt.Fatalf("files %v, want %v", got, want)
		}
		for _, r := range s.Resources {
			if !slices.Contains(want, r) || !strings.HasPrefix(r, "scripts/") && !strings.HasPrefix(r, "assets/") {
				rt.Fatalf("resources %v", s.Resources)
			}
		}
	})
}
