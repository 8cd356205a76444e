package texttools

import (
	"encoding/json"
	"strings"
	"unicode"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// The marks of a call.
const (
	callOpen   = "<function="
	callClose  = "</function"
	paramOpen  = "<parameter="
	paramClose = "</parameter>"
	wrapOpen   = "<tool_call>" // what some models were trained to put around a call
)

// maxTries bounds how many marks that may begin a call are looked at.
const maxTries = 100

// maxHeader bounds the name in an opening mark, in bytes.
const maxHeader = 200

// call is a call as it goes into a message.
type call struct{ name, arguments string }

// parse divides what a model wrote into what it said and the call it made; nil
// if it made none. cut says that the answer was ended by its bound: a call that
// is not closed then is not run, since half a command may do harm.
//
// A call that cannot be read is a call still, with arguments that are no JSON
// and say what is wrong: the agent answers it with an error, the model sees what
// it wrote and tries again. As a text it would be shown to the user and end the
// turn. Only what has no readable name, or names no tool and looks like prose, is text.
func parse(text string, tools []llm.Tool, cut bool) (said string, c *call) {
	for from, tries := 0, 0; ; tries++ {
		i := strings.Index(text[from:], callOpen)
		if i < 0 || tries == maxTries {
			return text, nil
		}
		at := from + i
		from = at + len(callOpen)
		name, body, ok := header(text[from:])
		if !ok {
			continue
		}
		parameters, known := parametersOf(tools, name)
		if !known && looksLikeProse(body) {
			continue
		}
		r := read(body)
		return before(text[:at]), &call{name: name, arguments: r.arguments(parameters, cut)}
	}
}

// before is what was said before a call.
func before(text string) string {
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	return strings.TrimRightFunc(strings.TrimSuffix(text, wrapOpen), unicode.IsSpace)
}

// header reads a name up to its ">".
func header(s string) (name, rest string, ok bool) {
	end := strings.IndexAny(s[:min(len(s), maxHeader)], "><\n")
	if end < 0 || s[end] != '>' {
		return "", "", false
	}
	name = strings.Trim(s[:end], " \t\r\"'`")
	return name, s[end+1:], name != ""
}

func parametersOf(tools []llm.Tool, name string) (json.RawMessage, bool) {
	for _, t := range tools {
		if t.Name == name {
			return t.Parameters, true
		}
	}
	return nil, false
}

// reading is the inside of a call.
type reading struct {
	params []param
	stray  string // what is in no parameter
	closed bool   // the call has its end mark
	open   bool   // the last parameter lacks its own
	body   string
}

type param struct{ name, value string }

// read takes the inside of a call apart.
func read(body string) reading {
	r := reading{body: body}
	for rest := body; ; {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		switch {
		case rest == "":
			return r
		case strings.HasPrefix(rest, callClose):
			r.closed = true
			r.body = body[:len(body)-len(rest)]
			return r
		case strings.HasPrefix(rest, paramOpen):
			name, after, ok := header(rest[len(paramOpen):])
			if ok {
				var value string
				value, rest, r.open = valueOf(after)
				r.params = append(r.params, param{name, layout(value)})
				continue
			}
		}
		stray := rest[:1+nextMark(rest[1:])]
		r.stray += stray
		rest = rest[len(stray):]
	}
}

// nextMark is where the next mark begins, or the length of s.
func nextMark(s string) int {
	for _, mark := range []string{paramOpen, callClose} {
		if i := strings.Index(s, mark); i >= 0 {
			s = s[:i]
		}
	}
	return len(s)
}

// valueOf reads a value up to its end mark. A value may hold such a mark itself:
// the one that counts has another parameter, the end of the call or nothing
// behind it. A model that forgot the mark ended the value with the call.
func valueOf(s string) (value, rest string, open bool) {
	last := -1
	for from := 0; ; {
		i := strings.Index(s[from:], paramClose)
		if i < 0 {
			break
		}
		last = from + i
		from = last + len(paramClose)
		behind := strings.TrimLeftFunc(s[from:], unicode.IsSpace)
		if behind == "" || strings.HasPrefix(behind, paramOpen) || strings.HasPrefix(behind, callClose) {
			return s[:last], s[from:], false
		}
	}
	if last >= 0 {
		return s[:last], s[last+len(paramClose):], false
	}
	if i := strings.Index(s, callClose); i >= 0 {
		return s[:i], s[i:], false
	}
	return s[:len(s)-partial(s, paramClose, callClose)], "", true
}

// partial is the length of the longest end of s that begins one of the marks.
func partial(s string, marks ...string) int {
	longest := 0
	for _, mark := range marks {
		for n := min(len(mark)-1, len(s)); n > longest; n-- {
			if strings.HasSuffix(s, mark[:n]) {
				longest = n
			}
		}
	}
	return longest
}

// layout takes the line breaks off a value that stands on lines of its own.
func layout(value string) string {
	for _, eol := range []string{"\r\n", "\n"} {
		if inner, ok := strings.CutPrefix(value, eol); ok {
			return strings.TrimSuffix(inner, eol)
		}
	}
	return value
}

// looksLikeProse reports whether what stands behind a name that no tool has is
// no call: it has no marks of one, up to the next name.
func looksLikeProse(body string) bool {
	head, _, _ := strings.Cut(body, callOpen)
	r := read(head)
	return len(r.params) == 0 && !r.closed && !wire.IsObject([]byte(r.stray))
}

// arguments renders the arguments of the call.
func (r *reading) arguments(parameters json.RawMessage, cut bool) string {
	stray := strings.TrimSpace(r.stray)
	switch {
	case cut && !r.closed:
		return malformed("the answer reached its longest length inside the call", r.body)
	case len(r.params) == 0 && wire.IsObject([]byte(stray)):
		return stray // the arguments as JSON, as other protocols have them
	case len(r.params) == 0 && stray != "":
		return malformed("its text is in no "+paramOpen+"name> mark", r.body)
	}
	s := readSchema(parameters)
	var object []byte
	for _, m := range r.unique() {
		name, err := content.Marshal(m.name)
		if err != nil {
			continue
		}
		object = append(append(append(append(object, ','), name...), ':'), s.value(m.name, m.value)...)
	}
	if len(object) == 0 {
		return "{}"
	}
	object[0] = '{'
	return string(append(object, '}'))
}

// unique are the parameters; of two with one name the last counts.
func (r *reading) unique() []param {
	var out []param
	for i, p := range r.params {
		again := false
		for _, q := range r.params[i+1:] {
			again = again || q.name == p.name
		}
		if !again {
			out = append(out, p)
		}
	}
	return out
}

// malformed are arguments that no tool runs with: they are not JSON.
func malformed(reason, body string) string {
	return "malformed call, " + reason + ": " + body
}

// render writes a call as a model shall write it.
func render(c content.ToolCall) string {
	var b strings.Builder
	b.WriteString(callOpen + wire.LegalName(c.Name) + ">\n")
	for _, m := range members(json.RawMessage(wire.LegalArguments(c.Arguments))) {
		value := wire.Text(m.value)
		if kindOf(m.value) != "string" {
			value = string(m.value)
		}
		if strings.ContainsAny(value, "\r\n") {
			value = "\n" + value + "\n"
		}
		b.WriteString(paramOpen + legalParameter(m.name) + ">" + value + paramClose + "\n")
	}
	b.WriteString(callClose + ">")
	return b.String()
}

// legalParameter makes a name readable for header.
func legalParameter(name string) string {
	if got, _, ok := header(name + ">"); ok && got == name {
		return name
	}
	return wire.LegalName(name)
}
