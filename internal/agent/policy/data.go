package policy

import (
	"strings"
)

// hole stands in a text for a part that is not known before the command runs. It
// is of a private use area; a text that really has it is judged as less known
// than it is.
const hole = "\uE000"

// maxData bounds the text that is kept of one value, in bytes. What is cut off
// becomes a hole.
const maxData = 64 << 10

// origin says where a text comes from, as far as it matters for what is done with
// it.
type origin uint8

const (
	fromNet     origin = 1 << iota // somebody else wrote it
	fromCode                       // decoded, so that nobody reads what it says
	fromFile                       // a file of the sandbox
	fromSecret                     // a credential
	fromGuess                      // the value may be another one
	fromLocal                      // the output of a program whose text is made for a shell
	fromNowhere                    // nothing is known of it
)

// data is what is known of a piece of text.
type data struct {
	text string
	from origin
}

func known(text string) data { return data{text: text} }

func unknown(from origin) data {
	if from&(fromNet|fromCode|fromFile|fromLocal) == 0 {
		from |= fromNowhere
	}
	return data{hole, from}
}

func (d data) has(o origin) bool { return d.from&o != 0 }

// holed reports whether a part is not known.
func (d data) holed() bool { return strings.Contains(d.text, hole) }

// with adds what the text is derived from.
func (d data) with(o origin) data { d.from |= o; return d }

// then is d followed by e.
func (d data) then(e data) data {
	switch {
	case e.text == "":
		return d.with(e.from)
	case d.text == "":
		return e.with(d.from)
	case len(d.text)+len(e.text) <= maxData:
		return data{d.text + e.text, d.from | e.from}
	case strings.HasSuffix(d.text, hole):
		return d.with(e.from)
	}
	return data{d.text + hole, d.from | e.from}
}

// lost is a text that was made of d in a way that is not followed.
func (d data) lost() data {
	if d.text == "" && d.from == 0 {
		return d
	}
	return unknown(d.from)
}

// texts are the words' texts.
func texts(words []data) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.text
	}
	return out
}

// origins is where the words come from, together.
func origins(words []data) origin {
	var o origin
	for _, w := range words {
		o |= w.from
	}
	return o
}

// joined are the words with blanks between them.
func joined(words []data) data {
	var out data
	for i, w := range words {
		if i > 0 {
			out = out.then(known(" "))
		}
		out = out.then(w)
	}
	return out
}

func clipData(s string) string {
	if len(s) <= maxData {
		return s
	}
	return strings.ToValidUTF8(s[:maxData], "") + hole
}
