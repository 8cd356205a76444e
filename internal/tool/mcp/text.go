package mcp

import (
	"fmt"
	"mime"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean drops what people do not see and models may obey: control characters but line
// breaks and tabs, and the format characters in which texts are hidden.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == utf8.RuneError, unicode.Is(unicode.Cc, r), r >= 0xe0000 && r <= 0xe007f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, text)
}

// oneLine is a text of a stranger for a message: one line, at most so many bytes.
func oneLine(text string, most int) string {
	text = strings.Join(strings.Fields(clean(text)), " ")
	short, cut := clip(text, most)
	if cut {
		short += "..."
	}
	return short
}

// clip cuts a text between two characters.
func clip(text string, most int) (short string, cut bool) {
	if len(text) <= most {
		return text, false
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], true
}

// count writes "1 line", "2 lines".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func mediaType(header string) string {
	t, _, err := mime.ParseMediaType(header)
	if err != nil {
		return ""
	}
	return t
}

func fileURI(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

// lastLines is the end of a text, on one line.
func lastLines(text string, most int) string {
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = "..." + text[len(text)-most:]
	}
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	return oneLine(strings.Join(lines, " / "), most+3)
}

// sentence makes one of an error's text.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	text = strings.ToUpper(text[:1]) + text[1:]
	return strings.TrimRight(text, ".") + "."
}
