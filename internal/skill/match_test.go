package skill_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"parley/internal/skill"
)

func keyword(name string, triggers ...string) skill.Skill {
	return skill.Skill{Name: name, Triggers: triggers}
}

func TestATriggerIsAWholeWord(t *testing.T) {
	for _, c := range []struct {
		trigger, text string
		want          bool
	}{
		{"git", "use git", true}, {"git", "GIT!", true}, {"Git", "(git)", true}, {"git", "git's", true}, {"git", "git-flow", true},
		{"git", "digit", false}, {"git", "github", false}, {"git", "git_x", false}, {"git", "git2", false}, {"git", "github git", true},
		{"git", "\u4f7f\u7528git\u63d0\u4ea4", true}, {"git", "git\u3092", true}, {"git", "git\ub97c", true}, {"git", "git\u2014x", true},
		{"git", "\u00e4git", false}, {"git", "git\u00e9", false}, {"git", "git\u0301", false}, {"git", "\u0433git", false},
		{"\u63d0\u4ea4", "\u8bf7\u63d0\u4ea4\u4ee3\u7801", true}, {"\u00fcber", "\u00dcBER alles", true}, {"\u03c3\u03bf\u03c6\u03cc\u03c2", "\u03a3\u039f\u03a6\u038c\u03a3", true},
		{"pull request", "Pull\n\t request.", true}, {"pull request", "pullrequest", false}, {" a  b ", "a b", true},
		{"/review", "/review", true}, {"/review", "please (/review this)", true}, {"/review", "run /review.", true}, {"/review", "\u8bf7/review", true},
		{"/review", "src/review", false}, {"/review", "./review", false}, {"/review", "//review", false}, {"/review", "/reviewer", false},
		{"/review", "/review-all", false}, {"/review", "/review/all", false}, {"/review", `"/review"`, true},
		{"c++", "C++", true}, {"c++", "c++, java", true}, {"c++", "c/c++/rust", true}, {"c++", "c++17", false}, {"c++", "c+++", false}, {"c++", "objc++", false},
		{"@bot", "hi @bot", true}, {"@bot", "me@bot", false}, {".net", "asp.net", false}, {".net", "use .NET", true},
		{"", "anything", false}, {" ", "a b", false}, {strings.Repeat("x", 201), strings.Repeat("x", 201), false},
	} {
		if got := len(skill.Match([]skill.Skill{keyword("s", c.trigger)}, c.text, nil)) == 1; got != c.want {
			t.Errorf("%q in %q: %v", c.trigger, c.text, got)
		}
	}
}

func TestMatchSaysWhatAndOnce(t *testing.T) {
	skills := []skill.Skill{keyword("b", "she", "he", "hers"), keyword("none"), keyword("a", "x", "HE", "he"), keyword("used", "he"), keyword("b", "he"),
		{Name: "task", Triggers: []string{"/task"}, Inputs: []skill.Input{{Name: "A"}}}, {Name: "pdf", AgentSkill: true, Hidden: true, Triggers: []string{"hers"}}}
	got := skill.Match(skills, "/task he said hers, he", func(name string) bool { return name == "used" })
	want := []string{"b he", "a HE", "task /task", "pdf hers"}
	var have []string
	for _, a := range got {
		have = append(have, a.Skill.Name+" "+a.Trigger)
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%q", have)
	}
}

func TestTriggersThatOverlapAreAllFound(t *testing.T) {
	got := skill.Match([]skill.Skill{keyword("long", "a b c x"), keyword("across", "b c d"), keyword("end", "d"), keyword("within", "b"), keyword("none", "c d e")},
		"a b c d", nil)
	var names []string
	for _, a := range got {
		names = append(names, a.Skill.Name)
	}
	if want := []string{"across", "end", "within"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

func TestMatchesAreBounded(t *testing.T) {
	var skills []skill.Skill
	for i := range 100 {
		skills = append(skills, skill.Skill{Name: fmt.Sprint(i), Triggers: []string{"a"}, Paths: []string{"a"}})
	}
	if n := len(skill.Match(skills, "a", nil)); n != 20 {
		t.Errorf("%d skills by a text", n)
	}
	if n := len(skill.MatchPath(skills, "a", nil)); n != 20 {
		t.Errorf("%d skills by a path", n)
	}
}

func TestMatchPath(t *testing.T) {
	for _, c := range []struct {
		pattern, file string
		want          bool
	}{
		{"*.go", "a/b.go", true}, {"/*.go", "a/b.go", false}, {"src/**", "src/a/b", true}, {"src/**", "src/a/.env", true}, {"src/**", "src/.git/x/.y", true},
		{"src/**", "srcs/a", false}, {"src/", "src/a/b", true}, {"**/*.{ts,tsx}", "a/b/c.tsx", true}, {".github/**", ".github/.x/y", true},
		{".github/**", "github/x", false}, {"./src/*", "./src/a", true}, {"src/**", "src/../x", false}, {"src/**", "/src/a", false}, {"**", "../a", false},
		{"**", "a/..", false}, {"**", "", false}, {"**", "..", false}, {"src/**", "x/../src/a", true}, {"[", "a", false}, {`app/\[id\]/**`, "app/[id]/x", true}, {"env", ".env", false},
	} {
		s := []skill.Skill{{Name: "s", Paths: []string{"nothing", c.pattern}}, keyword("other", "a")}
		got := skill.MatchPath(s, c.file, nil)
		if (len(got) == 1) != c.want || c.want && (got[0].Trigger != c.pattern || got[0].Skill.Name != "s") {
			t.Errorf("%s, %s: %+v", c.pattern, c.file, got)
		}
		if again := skill.MatchPath(s, c.file, func(string) bool { return true }); again != nil {
			t.Errorf("%s: again %+v", c.pattern, again)
		}
	}
}

// naive is what Match does, in the simplest way, for the alphabet of the property.
func naive(skills []skill.Skill, text string) []string {
	word := func(r rune) bool { return unicode.IsLetter(r) && r < 0x3000 || r == '_' }
	at := func(rs []rune, i int) rune {
		if i < 0 || i >= len(rs) {
			return ' '
		}
		return rs[i]
	}
	fold := func(s string) []rune { return []rune(strings.Join(strings.Fields(strings.ToLower(s)), " ")) }
	stands := func(rs []rune, i, n int) bool {
		first, last, before, after := rs[i], rs[i+n-1], at(rs, i-1), at(rs, i+n)
		switch {
		case word(first) && word(before):
			return false
		case strings.ContainsRune("/+", first) && !strings.ContainsRune(" ,\u4e2d", before):
			return false
		case first == '/' && strings.ContainsRune("/-", after):
			return false
		case last == '\u4e2d':
			return true
		}
		return !word(after) && (word(last) || last != after)
	}
	var out []string
	for _, s := range skills {
		if i := slices.IndexFunc(s.Triggers, func(trigger string) bool {
			rs, want := fold(text), fold(trigger)
			for i := 0; len(want) > 0 && i+len(want) <= len(rs); i++ {
				if slices.Equal(rs[i:i+len(want)], want) && stands(rs, i, len(want)) {
					return true
				}
			}
			return false
		}); i >= 0 {
			out = append(out, s.Name+" "+s.Triggers[i])
		}
	}
	return out
}

func TestMatchIsWhatANaiveOneFinds(t *testing.T) {
	// Triggers from few short pieces, and texts from the same ones, so that most of
	// them share beginnings and ends and many occur.
	piece := rapid.SampledFrom([]string{"a", "b", " a", " b", "a ", "b ", " + ", "+", " /", "-", "\u4e2d", "A", "_", "\u00e4"})
	join := func(g *rapid.Generator[[]string]) *rapid.Generator[string] {
		return rapid.Map(g, func(p []string) string { return strings.Join(p, "") })
	}
	trigger := join(rapid.SliceOfN(piece, 1, 4)).Filter(func(s string) bool { return !strings.HasPrefix(strings.TrimSpace(s), "-") })
	text := join(rapid.SliceOfN(rapid.OneOf(piece, rapid.SampledFrom([]string{"\n", ",", "\u00c4"})), 20, 60))
	rapid.Check(t, func(t *rapid.T) {
		var skills []skill.Skill
		for i, triggers := range rapid.SliceOfN(rapid.SliceOfN(trigger, 1, 3), 5, 15).Draw(t, "triggers") {
			skills = append(skills, keyword(fmt.Sprint(i), triggers...))
		}
		in := text.Draw(t, "text")
		var got []string
		for _, a := range skill.Match(skills, in, nil) {
			got = append(got, a.Skill.Name+" "+a.Trigger)
		}
		if want := naive(skills, in); !slices.Equal(got, want) {
			t.Fatalf("%q in %+v: %q, not %q", in, skills, got, want)
		}
	})
}

func FuzzMatch(f *testing.F) {
	f.Add("git\nc++\n/review", "use git and C++ \u4e2dgit")
	f.Add("a\naa\naaa", "aaaa aa")
	f.Add("\xff\n\x00", "\xff \x00")
	f.Fuzz(func(t *testing.T, triggers, text string) {
		all := strings.Split(triggers, "\n")
		s := []skill.Skill{keyword("s", all...)}
		for _, a := range skill.Match(s, text, nil) {
			if !slices.Contains(all, a.Trigger) {
				t.Errorf("%q", a.Trigger)
			}
			for _, more := range []string{" " + text, text + "\n", strings.ReplaceAll(text, " ", "\t")} {
				if len(skill.Match(s, more, nil)) != 1 {
					t.Errorf("%q matches %q but not %q", triggers, text, more)
				}
			}
		}
		skill.MatchPath([]skill.Skill{{Name: "s", Paths: all}}, text, nil)
	})
}

func TestMergeTakesTheLaterOne(t *testing.T) {
	at := func(level skill.Level, name, content string) skill.Skill {
		return skill.Skill{Level: level, Name: name, Content: content}
	}
	got := skill.Merge([]string{"off", "missing"},
		[]skill.Skill{at(skill.LevelProject, "a", "project"), at(skill.LevelUser, "c", "user"), at("other", "d", "other")}, nil,
		[]skill.Skill{at(skill.LevelExplicit, "a", "explicit"), at(skill.LevelPublic, "d", "public"), at(skill.LevelUser, "off", "x"),
			at(skill.LevelUser, "c", "user 2"), at(skill.LevelOrg, "b", "org"), at(skill.LevelPlugin, "off", "y")})
	want := []skill.Skill{at(skill.LevelProject, "a", "project"), at(skill.LevelOrg, "b", "org"), at(skill.LevelUser, "c", "user 2"), at(skill.LevelPublic, "d", "public")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestMerge(t *testing.T) {
	one := rapid.Custom(func(t *rapid.T) skill.Skill {
		return skill.Skill{Name: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"), Level: rapid.SampledFrom(skill.Levels).Draw(t, "level"),
			Content: rapid.StringN(0, 3, -1).Draw(t, "content")}
	})
	rapid.Check(t, func(t *rapid.T) {
		layers := rapid.SliceOfN(rapid.SliceOfN(one, 0, 6), 0, 4).Draw(t, "layers")
		disabled := rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "z"})).Draw(t, "disabled")
		before := fmt.Sprint(layers)
		got := skill.Merge(disabled, layers...)
		if fmt.Sprint(layers) != before {
			t.Fatal("the input was changed")
		}
		best := map[string]skill.Skill{}
		for _, s := range slices.Concat(layers...) {
			if b, ok := best[s.Name]; !slices.Contains(disabled, s.Name) &&
				(!ok || slices.Index(skill.Levels, s.Level) >= slices.Index(skill.Levels, b.Level)) {
				best[s.Name] = s
			}
		}
		if len(got) != len(best) || !slices.IsSortedFunc(got, func(a, b skill.Skill) int { return strings.Compare(a.Name, b.Name) }) {
			t.Fatalf("%+v of %+v", got, best)
		}
		for _, s := range got {
			if !reflect.DeepEqual(best[s.Name], s) {
				t.Fatalf("%+v, not %+v", s, best[s.Name])
			}
		}
		if again := skill.Merge(disabled, got); !reflect.DeepEqual(again, got) {
			t.Fatalf("merging again changes %+v", got)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	r := rand.New(rand.NewSource(1))
	word := func() string { return fmt.Sprintf("w%x", r.Intn(1<<16)) }
	var skills []skill.Skill
	for i := range 1000 {
		skills = append(skills, keyword(fmt.Sprint(i), word()+"z", word()+"z "+word(), "/"+word()+"z"))
	}
	var text strings.Builder
	for text.Len() < 1<<20 {
		text.WriteString(word() + " ")
	}
	var hostile skill.Skill
	for i := range 200 {
		hostile.Triggers = append(hostile.Triggers, strings.Repeat("+-", i/2)+"+")
	}
	signs := "x" + strings.Repeat("+-", 1<<19)
	b.Run("many skills", func(b *testing.B) {
		for b.Loop() {
			skill.Match(skills, text.String(), nil)
		}
	})
	b.Run("hostile", func(b *testing.B) {
		for b.Loop() {
			skill.Match([]skill.Skill{hostile}, signs, nil)
		}
	})
}
