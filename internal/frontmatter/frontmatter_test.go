package frontmatter_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"parley/internal/frontmatter"
)

const most = 1000 // bytes

func lower(key string) string { return strings.ToLower(key) }

// values reads front matter as JSON values.
func values(t *testing.T, text string) (members map[string]any, body string) {
	t.Helper()
	found, body, err := frontmatter.Read(text, most, lower)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	members = map[string]any{}
	for name, m := range found {
		members[name] = frontmatter.JSON(m.Value)
	}
	return members, body
}

func TestWhatIsFrontMatter(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[string]any
		body       string
	}{
		{"none", "Text\n---\na: 1\n---\n", map[string]any{}, "Text\n---\na: 1\n---\n"},
		{"an empty file", "", map[string]any{}, ""},
		{"dashes that are indented", " ---\na: 1\n---\n", map[string]any{}, " ---\na: 1\n---\n"},
		{"nothing in it", "---\n---\nText", map[string]any{}, "Text"},
		{"a remark", "---  \n# nothing\n---\t\nText", map[string]any{}, "Text"},
		{"null", "---\n~\n---\nText", map[string]any{}, "Text"},
		{"no body", "---\na: 1\n---", map[string]any{"a": 1}, ""},
		{"the body as it is", "---\na: 1\n---\n\n  Text\n---\n\n", map[string]any{"a": 1}, "\n  Text\n---\n\n"},
		{"keys in any spelling", "---\nA: 1\n---\n", map[string]any{"a": 1}, ""},
		{"values of every kind", "---\na: [1, 0x1F, 1.5, x, true, ~, 2001-01-01]\nb: {c: {d: '5'}}\ne:\n---\n",
			map[string]any{"a": []any{1, 31, 1.5, "x", true, nil, "2001-01-01"}, "b": map[string]any{"c": map[string]any{"d": "5"}}, "e": nil}, ""},
		{"what JSON has no number for", "---\na: [.inf, -.inf, .nan, 1e999]\n---\n", map[string]any{"a": []any{".inf", "-.inf", ".nan", "1e999"}}, ""},
	} {
		if got, body := values(t, c.text); !reflect.DeepEqual(got, c.want) || body != c.body {
			t.Errorf("%s: %#v and %q", c.name, got, body)
		}
	}
}

func TestValuesThatAreNoYAMLAreText(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"a: Use it when: it's #1.", "Use it when: it's #1."},
		{"a: b: c  ", "b: c"},
		{"a:\tUse it: <example>user: \"x\"</example>", `Use it: <example>user: "x"</example>`},
	} {
		got, body := values(t, "---\n"+c.line+"\nb: [c]\n---\nText")
		if want := map[string]any{"a": c.want, "b": []any{"c"}}; !reflect.DeepEqual(got, want) || body != "Text" {
			t.Errorf("%s: %v", c.line, got)
		}
	}
	// What is YAML stays what it is.
	if got, _ := values(t, "---\na: b #1\nc: http://x\n---\n"); !reflect.DeepEqual(got, map[string]any{"a": "b", "c": "http://x"}) {
		t.Error(got)
	}
}

func TestLinesAreThoseOfTheFile(t *testing.T) {
	for _, text := range []string{"---\n\na: 1\nb:\n  - c\n  - d\n---\n", "---\n\na: x: y\nb:\n  - c\n  - d\n---\n"} {
		found, _, err := frontmatter.Read(text, most, lower)
		if err != nil || found["a"].Line != 3 || found["b"].Line != 4 || found["b"].Value.Content[1].Line != 6 {
			t.Errorf("%q: %+v %v", text, found, err)
		}
	}
}

func TestErrorsNameTheirLine(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		name, text string
		line       int
		part       string
	}{
		{"no end", "---\na: 1\ntext", 1, "no end"},
		{"too long", "---\na: " + strings.Repeat("x", most) + "\n---\n", 1, "1004 bytes, more than the 1000"},
		{"no YAML", "---\na: 1\nb: @c\n---\n", 3, "not valid YAML"},
		{"an indented key", "---\na: 1\nb: 2\n c: 3\n---\n", 4, "mapping values"},
		{"an open list", "---\na: 1\nb: [c\nd: 2\n---\n", 3, "not valid YAML"},
		{"more than texts that are no YAML", "---\na: x: y\nb: [c\n---\n", 2, "mapping values"},
		{"two documents", "---\na: 1\n...\nb: 1\n---\n", 4, "document"},
		{"a list", "---\n- a\n---\n", 2, "key: value"},
		{"a text", "---\n\ntext\n---\n", 3, "key: value"},
		{"a key twice", "---\na: ~\nb: 1\nA: 2\n---\n", 4, "A is given twice"},
		{"an alias", "---\na: &x [1]\nb: {c: *x}\n---\n", 3, "alias (*x)"},
		{"an alias as a key", "---\na: &x 1\n*x : 2\n---\n", 3, "alias (*x)"},
		{"too deep", "---\na: 1\nb: " + nested(22) + "\n---\n", 3, "more than 20 levels"},
		{"a long key", "---\na: 1\n" + strings.Repeat("k", 200) + ": 1\n" + strings.Repeat("k", 200) + ": 1\n---\n", 4, strings.Repeat("k", 100) + "... is given"},
	} {
		found, body, err := frontmatter.Read(c.text, most, lower)
		var wrong *frontmatter.Error
		if !errors.As(err, &wrong) || wrong.Line != c.line || !strings.Contains(wrong.Text, c.part) || found != nil || body != "" {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, _, err := frontmatter.Read("---\na: "+nested(21)+"\n---\n", most, lower); err != nil {
		t.Error(err)
	}
	if got := (&frontmatter.Error{Line: 3, Text: "a"}).Error(); got != "line 3: a" {
		t.Error(got)
	}
}

// Whatever is in a value, one line of text stays one text.
func TestAnyTextInALineIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[A-Za-z][ -~]{0,60}[!-~]`).Draw(t, "text")
		found, body, err := frontmatter.Read("---\ndescription: x: y "+text+"\n---\nBody", most, lower)
		if err != nil || len(found) != 1 || body != "Body" || found["description"].Value.Value != "x: y "+text {
			t.Fatalf("%v %v %q", found, err, body)
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{"Text", "---\na: 1\n---\nText", "---\na: b: c\n---\n", "---\na: &x [*x]\n---\n", "---\n? [a]\n: b\n<<: {c: !!binary d, e: .inf}\n---\n",
		"---\na: [.nan, 1e999, ~, !!int x, 2001-01-01]\n---\r\n", "---\na: |\n  x: y\n b\n---\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, body, err := frontmatter.Read(text, most, lower)
		if lines := strings.Count(text, "\n") + 1; err != nil {
			var wrong *frontmatter.Error
			if !errors.As(err, &wrong) || wrong.Line < 1 || wrong.Line > lines || utf8.RuneCountInString(wrong.Text) > 250 {
				t.Fatalf("of %d lines: %v", lines, err)
			}
			return
		}
		if !strings.HasSuffix(text, body) {
			t.Fatalf("the body %q is not the end of %q", body, text)
		}
		for name, m := range found {
			if _, err := json.Marshal(frontmatter.JSON(m.Value)); err != nil || m.Line < 1 || name != lower(name) {
				t.Fatalf("%q in line %d: %v", name, m.Line, err)
			}
		}
	})
}
