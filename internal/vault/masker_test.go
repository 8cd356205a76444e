package vault_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/internal/vault"
)

func TestMask(t *testing.T) {
	const s = "s3cr3t-Value/+ä"
	b64 := base64.StdEncoding.EncodeToString
	cases := []struct{ name, in, want string }{
		{"nothing", "no secret here", "no secret here"},
		{"empty text", "", ""},
		{"shorter than a window", "s3c", "s3c"},
		{"alone", s, vault.Hidden},
		{"in text", "key=" + s + "!", "key=" + vault.Hidden + "!"},
		{"twice", s + s, vault.Hidden + vault.Hidden},
		{"base64", b64([]byte(s)), vault.Hidden},
		{"base64 without padding", base64.RawStdEncoding.EncodeToString([]byte(s)), vault.Hidden},
		{"base64 url", base64.URLEncoding.EncodeToString([]byte(s)), vault.Hidden},
		{"base64 raw url", base64.RawURLEncoding.EncodeToString([]byte(s)), vault.Hidden},
		{"query", "?t=" + url.QueryEscape(s) + "&x=1", "?t=" + vault.Hidden + "&x=1"},
		{"path", "/" + url.PathEscape(s) + "/x", "/" + vault.Hidden + "/x"},
		{"lower case hex", strings.ToLower("%2f") + "?q=" + lower(url.QueryEscape(s)), "%2f?q=" + vault.Hidden},
		{"json", quote(t, s), `"` + vault.Hidden + `"`},
		{"json ascii", `{"k":"s3cr3t-Value/+\u00e4"}`, `{"k":"` + vault.Hidden + `"}`},
		{"json with slash", `{"k":"s3cr3t-Value\/+ä"}`, `{"k":"` + vault.Hidden + `"}`},
		{"wrapped", "s3cr3t-\r\nValue/+ä", vault.Hidden},
		{"wrapped early", "s3\ncr3t-Value/+ä", vault.Hidden},
		{"already masked", vault.Hidden, vault.Hidden},
	}
	m := vault.NewMasker("", "abc", s)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := m.Mask(c.in); got != c.want {
				t.Errorf("Mask(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func lower(s string) string {
	return strings.NewReplacer("%2F", "%2f", "%2B", "%2b", "%C3", "%c3", "%A4", "%a4").Replace(s)
}

func quote(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestMaskNothingToHide(t *testing.T) {
	var none *vault.Masker
	for _, m := range []*vault.Masker{none, vault.NewMasker(), vault.NewMasker("", "abc", "a\nb\n\n\n")} {
		if got := m.Mask("abc and a\nb"); got != "abc and a\nb" {
			t.Errorf("Mask changed the text to %q", got)
		}
	}
}

func TestMaskOverlapping(t *testing.T) {
	m := vault.NewMasker("abcdef", "defghi", "abcd")
	if got := m.Mask("-abcdefghi-"); got != "-"+vault.Hidden+"-" {
		t.Errorf("overlapping values: %q", got)
	}
	if got := m.Mask("-abcdx"); got != "-"+vault.Hidden+"x" {
		t.Errorf("the shorter value: %q", got)
	}
}

func TestMaskIsStableForValuesOfTheMask(t *testing.T) {
	m := vault.NewMasker("secret", "hidden>x")
	once := m.Mask("a secret hidden>x")
	if twice := m.Mask(once); twice != once || once != "a "+vault.Hidden+" "+vault.Hidden {
		t.Errorf("once %q, twice %q", once, twice)
	}
}

func TestMaskMultiLineValue(t *testing.T) {
	pem := "-----BEGIN KEY-----\nAAAAB3NzaC1yc2EAAAADAQABAAABgQ\nC7vbqajDhAA\n-----END KEY-----\n"
	m := vault.NewMasker(pem)
	for name, in := range map[string]string{
		"as is":      pem,
		"terminal":   strings.ReplaceAll(pem, "\n", "\r\n"),
		"no end":     strings.TrimSpace(pem),
		"json":       strings.Trim(quote(t, pem), `"`),
		"json twice": strings.Trim(quote(t, quote(t, pem)), `"\`),
		"wrapped 76": wrap(base64.StdEncoding.EncodeToString([]byte(pem)), 76),
	} {
		got := m.Mask(in)
		for _, part := range []string{"NzaC1yc2E", "C7vbqaj", "BEGIN", base64.StdEncoding.EncodeToString([]byte("-----B"))} {
			if strings.Contains(got, part) {
				t.Errorf("%s: %q still shows %q", name, got, part)
			}
		}
	}
}

func wrap(s string, n int) string {
	var b strings.Builder
	for ; len(s) > n; s = s[n:] {
		b.WriteString(s[:n] + "\n")
	}
	return b.String() + s
}

// safeValue draws values that no mask and no filler text can form.
func safeValue() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("ABQZ0189+/=&%\"\\ ä€😀")), 4, 40, -1)
}

// TestMaskHidesEveryForm puts encoded values into random text at every
// alignment, wrapped at every width, and looks for what is left.
func TestMaskHidesEveryForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := safeValue().Draw(t, "value")
		before := rapid.StringMatching(`[xyz]{0,9}`).Draw(t, "before")
		after := rapid.StringMatching(`[xyz]{0,9}`).Draw(t, "after")
		m := vault.NewMasker(value, safeValue().Draw(t, "other"))
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			if len(value) < 6 && len(before)%3 != 0 {
				continue // documented: too short to be found there
			}
			text := enc.EncodeToString([]byte(before + value + after))
			width := len(text)
			if len(value) >= 8 { // documented: shorter ones are found in one piece
				width = rapid.IntRange(8, 100).Draw(t, "width")
			}
			rest := strings.NewReplacer("\n", "", "\r", "").Replace(m.Mask(wrap(text, width)))
			if len(rest)-len(vault.Hidden) > len(text)-len(value)*8/6+1 || !strings.Contains(rest, vault.Hidden) {
				t.Fatalf("%q in %q: %q is left", value, text, rest)
			}
		}
		for _, form := range []string{value, url.QueryEscape(value), url.PathEscape(value), jsonOf(value)} {
			if got := m.Mask(before + form + after); got != before+vault.Hidden+after {
				t.Fatalf("form %q: %q is left", form, got)
			}
		}
	})
}

func jsonOf(s string) string {
	b, _ := json.Marshal(s) // a string always encodes
	return string(b[1 : len(b)-1])
}

func FuzzMask(f *testing.F) {
	f.Add("secret-value", "text with secret-value inside")
	f.Add("aaaa", "aaaaaaaa\naaa")
	f.Add("\xff\xfe\xfd\xfc", "\xff\xfe\xfd\xfc\xfb")
	f.Fuzz(func(t *testing.T, value, text string) {
		m := vault.NewMasker(value)
		once := m.Mask(text)
		if twice := m.Mask(once); twice != once && !strings.ContainsAny(value, "<>") {
			t.Errorf("value %q: masking %q again gives %q", value, once, twice)
		}
		flat := strings.NewReplacer("\n", "", "\r", "").Replace(value)
		if len(flat) >= 4 && !strings.Contains(vault.Hidden, value) && !strings.ContainsAny(value, "<>") && strings.Contains(once, value) {
			t.Errorf("value %q is left in %q", value, once)
		}
	})
}

func BenchmarkMask(b *testing.B) {
	values := make([]string, 20)
	for i := range values {
		values[i] = strings.Repeat(string(rune('a'+i)), 8) + "-secret-value-of-usual-length"
	}
	m := vault.NewMasker(values...)
	text := strings.Repeat("drwxr-xr-x 2 user user 4096 Jan  1 00:00 some-file-name.txt\n", 20_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if m.Mask(text) != text {
			b.Fatal("changed")
		}
	}
}

func BenchmarkNewMasker(b *testing.B) {
	for b.Loop() {
		vault.NewMasker("sk-0123456789012345678901234567890123456789", "ghp_0123456789012345678901234567890123456789")
	}
}
