// Package textsearch is what people type to find words in texts: plain words and
// "phrases". Nothing else in a query means anything, so that no query is wrong. It
// also shows where a text matches. Pure; it knows no index.
package textsearch

import (
	"strings"
	"unicode"
)

// Bounds of a query; what is beyond is left out.
const (
	maxTerms  = 16
	maxPhrase = 16 // words
)

// Term is a word, or several that follow each other; lower-case, letters and digits
// only.
type Term []string

// Parse reads a query. All terms have to match. None if it has no word.
func Parse(query string) []Term {
	var terms []Term
	for i, part := range strings.Split(query, `"`) {
		var words []string
		for _, t := range tokens(part) {
			words = append(words, t.word)
		}
		switch phrase := i%2 == 1; {
		case len(words) == 0:
		case phrase:
			terms = append(terms, Term(words[:min(len(words), maxPhrase)]))
		default:
			for _, w := range words {
				terms = append(terms, Term{w})
			}
		}
	}
	return terms[:min(len(terms), maxTerms)]
}

// token is a word of a text and where it is, in bytes.
type token struct {
	word     string
	from, to int
}

// tokens cuts a text into words: letters and digits with their accents.
func tokens(text string) []token {
	var out []token
	from := -1
	end := func(to int) {
		if from >= 0 {
			out = append(out, token{strings.ToLower(text[from:to]), from, to})
		}
		from = -1
	}
	for i, r := range text {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), unicode.Is(unicode.Co, r):
			if from < 0 {
				from = i
			}
		case from >= 0 && unicode.Is(unicode.Mn, r):
		default:
			end(i)
		}
	}
	end(len(text))
	return out
}

// Mark is a part of a snippet that matches, in characters (code points).
type Mark struct {
	Start int `json:"start"`
	End   int `json:"end"` // exclusive
}

const (
	before = 60  // characters of a snippet before its first match
	width  = 240 // in all
	dots   = "..."
)

// Snippet is a piece of a text around its first match, one line, with what matches in
// it; the beginning of the text if nothing does.
func Snippet(text string, terms []Term) (string, []Mark) {
	matches := find(text, terms)
	start := 0
	if len(matches) > 0 {
		start = back(text, matches[0].from, before)
	}
	stop := ahead(text, start, width)
	var b strings.Builder
	if start > 0 {
		b.WriteString(dots)
	}
	var marks []Mark
	n := b.Len() // of characters: dots are ASCII
	for i, r := range text[start:stop] {
		for len(matches) > 0 && matches[0].to <= start+i {
			matches = matches[1:]
		}
		if len(matches) > 0 && matches[0].from <= start+i {
			if matches[0].from == start+i {
				marks = append(marks, Mark{n, n})
			}
			if len(marks) > 0 {
				marks[len(marks)-1].End = n + 1
			}
		}
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			r = ' '
		}
		b.WriteRune(r)
		n++
	}
	if stop < len(text) {
		b.WriteString(dots)
	}
	return b.String(), marks
}

// find returns the matches of all terms in the order of the text, none in another.
func find(text string, terms []Term) []token {
	words := tokens(text)
	var out []token
	for i := 0; i < len(words); i++ {
		longest := 0
		for _, term := range terms {
			if len(term) > longest && follows(words[i:], term) {
				longest = len(term)
			}
		}
		if longest > 0 {
			out = append(out, token{"", words[i].from, words[i+longest-1].to})
			i += longest - 1
		}
	}
	return out
}

func follows(words []token, term Term) bool {
	if len(words) < len(term) {
		return false
	}
	for i, w := range term {
		if words[i].word != w {
			return false
		}
	}
	return true
}

// back is the place n characters before at.
func back(text string, at, n int) int {
	places := make([]int, 0, n+1) // of the last characters before at
	for i := range text[:at] {
		if len(places) == n {
			copy(places, places[1:])
			places = places[:n-1]
		}
		places = append(places, i)
	}
	if len(places) == 0 {
		return at
	}
	return places[0]
}

// ahead is the place n characters after at.
func ahead(text string, at, n int) int {
	for i := range text[at:] {
		if n == 0 {
			return at + i
		}
		n--
	}
	return len(text)
}
