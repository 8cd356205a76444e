package skill_test

import (
	"encoding/json"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/skill"
)

func TestAPlacedSkillNamesItsDirectory(t *testing.T) {
	s := skill.Skill{Name: "pdf", AgentSkill: true, Content: "Read it.", Source: "skills/pdf/SKILL.md", Resources: []string{"scripts/a.py"},
		Files: []skill.File{{Name: "scripts/a.py", Data: []byte("x"), Executable: true}, {Name: "SKILL.md"}}}
	if text := skill.Open(t.Context(), s, nil); strings.Contains(text, "directory is") || !strings.Contains(text, "from skills/pdf/SKILL.md.") {
		t.Errorf("before: %s", text)
	}
	placed := s.Placed("/tmp/x/pdf")
	text := skill.Open(t.Context(), placed, nil)
	if !strings.Contains(text, "from /tmp/x/pdf/SKILL.md.") || !strings.Contains(text, "directory is /tmp/x/pdf;") || !strings.Contains(text, "\n- scripts/a.py\n") {
		t.Errorf("after: %s", text)
	}
	if placed.Files != nil || s.Root != "" || len(s.Files) != 2 {
		t.Errorf("%+v of %+v", placed, s)
	}
}

var fileHash = regexp.MustCompile(`^[0-9a-f]{16}$`)

// TestFilesHashIsOfTheFiles: the same for the same files in any order, also after JSON,
// and another one as soon as a name, a byte or a mode is another one.
func TestFilesHashIsOfTheFiles(t *testing.T) {
	drawFile := rapid.Custom(func(t *rapid.T) skill.File {
		name := path.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "scripts"}), 1, 3).Draw(t, "name")...)
		return skill.File{Name: name, Data: []byte(rapid.StringN(0, 4, 8).Draw(t, "data")), Executable: rapid.Bool().Draw(t, "executable")}
	})
	rapid.Check(t, func(t *rapid.T) {
		files := rapid.SliceOfNDistinct(drawFile, 1, 5, func(f skill.File) string { return f.Name }).Draw(t, "files")
		s := skill.Skill{Files: files}
		hash := s.FilesHash()
		if !fileHash.MatchString(hash) {
			t.Fatalf("%q", hash)
		}
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var again skill.Skill
		if err := json.Unmarshal(raw, &again); err != nil {
			t.Fatal(err)
		}
		again.Files = rapid.Permutation(again.Files).Draw(t, "order")
		if again.FilesHash() != hash {
			t.Fatalf("%q and %q of %s", hash, again.FilesHash(), raw)
		}
		other := skill.Skill{Files: slices.Clone(files)}
		f := &other.Files[rapid.IntRange(0, len(files)-1).Draw(t, "changed")]
		switch rapid.SampledFrom([]string{"name", "data", "mode", "gone", "moved"}).Draw(t, "change") {
		case "name":
			f.Name += "x"
		case "data":
			f.Data = append(slices.Clone(f.Data), 'x')
		case "mode":
			f.Executable = !f.Executable
		case "gone":
			other.Files = other.Files[1:]
		case "moved": // from the end of the name to the data
			last := len(f.Name) - 1
			f.Data = append([]byte(f.Name[last:]), f.Data...)
			f.Name = f.Name[:last]
		}
		if other.FilesHash() == hash {
			t.Fatalf("%q of both %+v and %+v", hash, files, other.Files)
		}
	})
	if hash := (skill.Skill{Name: "x"}).FilesHash(); hash != "" {
		t.Errorf("without files: %q", hash)
	}
}

func TestFilesSurviveJSON(t *testing.T) {
	want := skill.Skill{Name: "x", Files: []skill.File{{Name: "a", Data: []byte{0, 0xff, '<'}, Executable: true}, {Name: "empty"}}}
	raw, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got skill.Skill
	if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}
