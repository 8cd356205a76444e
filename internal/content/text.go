package content

import "unicode/utf8"

// Head is the longest head of a text that has at most so many bytes and ends between
// characters.
func Head(s string, most int) string {
	most = min(max(most, 0), len(s))
	for most > 0 && most < len(s) && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// Tail is the longest tail of a text that has at most so many bytes and begins
// between characters.
func Tail(s string, most int) string {
	i := len(s) - min(max(most, 0), len(s))
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// Short is a text as a sentence can quote it: the first so many characters, and three
// dots where there are more.
func Short(s string, most int) string {
	count := 0
	for i := range s {
		if count == most {
			return s[:i] + "..."
		}
		count++
	}
	return s
}
