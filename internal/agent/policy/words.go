package policy

import (
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxFields bounds the words that one word or statement becomes.
const maxFields = 512

// splitter builds the fields that a word becomes.
type splitter struct {
	fields []data
	cur    data
	open   bool // cur is a field, even if it is empty
}

// add puts a text into the current field.
func (b *splitter) add(d data) {
	b.cur = b.cur.then(d)
	b.open = true
}

// split puts in the value of an expansion outside of quotes, which the shell
// splits at blanks.
func (b *splitter) split(d data) {
	for i, part := range splitBlanks(d.text) {
		if i > 0 {
			b.flush()
		}
		if part != "" {
			b.add(data{part, d.from})
		}
	}
	b.cur.from |= d.from
}

// splitBlanks cuts at runs of blanks; an empty first or last part is a blank at
// that end.
func splitBlanks(s string) []string {
	parts := strings.Fields(s)
	if len(parts) == 0 {
		if s != "" {
			return []string{"", ""}
		}
		return nil
	}
	if strings.ContainsAny(s[:1], " \t\n") {
		parts = append([]string{""}, parts...)
	}
	if strings.ContainsAny(s[len(s)-1:], " \t\n") {
		parts = append(parts, "")
	}
	return parts
}

func (b *splitter) flush() {
	if b.open && len(b.fields) < maxFields {
		b.fields = append(b.fields, b.cur)
	}
	b.cur, b.open = data{}, false
}

// words expands words to fields, as the shell does for a command.
func (s *shell) words(ws []*syntax.Word) []data {
	var out []data
	for _, w := range ws {
		for _, parts := range s.braces(w) {
			out = append(out, s.fields(parts)...)
		}
		if len(out) > maxFields {
			s.unclear("too many words")
			return out[:maxFields]
		}
	}
	return out
}

func (s *shell) fields(parts []syntax.WordPart) []data {
	b := &splitter{}
	for i, p := range parts {
		s.part(b, p, i == 0)
	}
	b.flush()
	return b.fields
}

// value expands a word to one text, as in an assignment.
func (s *shell) value(w *syntax.Word) data {
	if w == nil {
		return data{}
	}
	var out data
	for i, f := range s.fields(w.Parts) {
		if i > 0 {
			out = out.then(known(" "))
		}
		out = out.then(f)
	}
	return out
}

func (s *shell) part(b *splitter, p syntax.WordPart, first bool) {
	if !s.spend() {
		b.add(unknown(0))
		return
	}
	switch p := p.(type) {
	case *syntax.Lit:
		b.add(s.literal(unescape(p.Value)))
	case *syntax.SglQuoted:
		b.add(s.literal(quotedHome(single(p), first)))
	case *syntax.DblQuoted:
		s.double(b, p, first)
	case *syntax.ParamExp:
		s.unquoted(b, p)
	case *syntax.CmdSubst:
		b.split(s.substitute(p))
	case *syntax.ArithmExp:
		s.arithmetic(p.X)
		b.add(unknown(0))
	case *syntax.ProcSubst:
		b.add(s.process(p))
	case *syntax.ExtGlob:
		b.add(s.literal("*"))
	default:
		b.add(unknown(0))
	}
}

// literal is written text. Holes in it were put there by whoever made the text,
// and come from where that comes from.
func (s *shell) literal(text string) data {
	d := known(text)
	s.charge(d)
	if d.holed() {
		d.from = s.holes
	}
	return d
}

// quotedHome keeps a quoted ~ from being read as the home directory.
func quotedHome(text string, first bool) string {
	if first && strings.HasPrefix(text, "~") {
		return "./" + text
	}
	return text
}

func (s *shell) double(b *splitter, q *syntax.DblQuoted, first bool) {
	b.add(data{})
	for i, p := range q.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.add(s.literal(quotedHome(unescapeDouble(p.Value), first && i == 0)))
		case *syntax.ParamExp:
			s.quoted(b, p)
		case *syntax.CmdSubst:
			b.add(s.substitute(p))
		default:
			s.part(b, p, false)
		}
	}
}

// quoted expands a parameter inside of double quotes; "$@" becomes several fields.
func (s *shell) quoted(b *splitter, p *syntax.ParamExp) {
	if p.Param != nil && p.Param.Value == "@" && s.params != nil && p.Exp == nil && p.Slice == nil {
		s.eachParam(b)
		return
	}
	if p.Index != nil && s.array(p) {
		b.split(s.param(p))
		return
	}
	b.add(s.param(p))
}

func (s *shell) unquoted(b *splitter, p *syntax.ParamExp) {
	if p.Param != nil && (p.Param.Value == "@" || p.Param.Value == "*") && s.params != nil && p.Exp == nil && p.Slice == nil {
		s.eachParam(b)
		return
	}
	b.split(s.blanks(s.param(p)))
}

// blanks makes blanks of what separates words here, where the text has changed it.
func (s *shell) blanks(d data) data {
	if sep := s.vars["IFS"]; len(sep) > 0 && sep[0].text != "" {
		d.text = strings.Map(func(r rune) rune {
			if strings.ContainsRune(sep[0].text, r) && string(r) != hole {
				return ' '
			}
			return r
		}, d.text)
	}
	return d
}

func (s *shell) eachParam(b *splitter) {
	for i, v := range s.params {
		if i > 0 {
			b.flush()
		}
		b.add(v)
	}
}

// braces expands {a,b} and {1..3} to the words that they stand for.
func (s *shell) braces(w *syntax.Word) [][]syntax.WordPart {
	if !hasBrace(w.Parts) {
		return [][]syntax.WordPart{w.Parts}
	}
	copied := &syntax.Word{Parts: append([]syntax.WordPart(nil), w.Parts...)}
	syntax.SplitBraces(copied)
	out := s.brace(copied.Parts, 0)
	if len(out) > maxFields {
		s.unclear("too many words")
		out = out[:maxFields]
	}
	return out
}

func hasBrace(parts []syntax.WordPart) bool {
	for _, p := range parts {
		if l, ok := p.(*syntax.Lit); ok && strings.Contains(l.Value, "{") {
			return true
		}
	}
	return false
}

func (s *shell) brace(parts []syntax.WordPart, depth int) [][]syntax.WordPart {
	out := [][]syntax.WordPart{nil}
	for _, p := range parts {
		exp, ok := p.(*syntax.BraceExp)
		choices := [][]syntax.WordPart{{p}}
		if ok {
			choices = s.choices(exp, depth+1)
		}
		var next [][]syntax.WordPart
		for _, head := range out {
			for _, tail := range choices {
				if len(next) > maxFields || !s.spend() {
					break
				}
				next = append(next, append(head[:len(head):len(head)], tail...))
			}
		}
		out = next
	}
	return out
}

// maxBraces bounds how deep braces are nested.
const maxBraces = 20

func (s *shell) choices(exp *syntax.BraceExp, depth int) [][]syntax.WordPart {
	if exp.Sequence || depth > maxBraces {
		return [][]syntax.WordPart{{&syntax.Lit{Value: hole}}}
	}
	var out [][]syntax.WordPart
	for _, e := range exp.Elems {
		out = append(out, s.brace(e.Parts, depth)...)
	}
	return out
}

// param expands a parameter.
func (s *shell) param(p *syntax.ParamExp) data {
	if p.Param == nil || p.Length || p.Width || p.Names != 0 || p.Index != nil && !s.array(p) {
		return unknown(0)
	}
	name := p.Param.Value
	if p.Excl {
		name = s.variable(name).text
	}
	v, set := s.lookup(name)
	s.charge(v)
	switch {
	case p.Exp != nil:
		out := s.operator(v, set, p.Exp)
		if p.Exp.Op == syntax.AssignUnset || p.Exp.Op == syntax.AssignUnsetOrNull {
			s.assign(name, out)
		}
		return out
	case p.Slice != nil:
		return s.slice(v, p.Slice)
	case p.Repl != nil:
		return s.replace(v, p.Repl)
	}
	return v
}

// array reports whether the whole array is meant, of which a variable keeps the
// elements with blanks between them.
func (s *shell) array(p *syntax.ParamExp) bool {
	w, ok := p.Index.(*syntax.Word)
	return ok && (w.Lit() == "@" || w.Lit() == "*")
}

func (s *shell) operator(v data, set bool, e *syntax.Expansion) data {
	switch e.Op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if set {
			return v
		}
		return s.value(e.Word).with(fromGuess)
	case syntax.ErrorUnset, syntax.ErrorUnsetOrNull:
		return v
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		return s.value(e.Word).with(fromGuess)
	case syntax.UpperAll:
		return data{strings.ToUpper(v.text), v.from}
	case syntax.LowerAll:
		return data{strings.ToLower(v.text), v.from}
	case syntax.RemSmallPrefix, syntax.RemLargePrefix:
		return s.trim(v, e.Word, strings.CutPrefix)
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		return s.trim(v, e.Word, strings.CutSuffix)
	}
	if v.text == "" {
		return v
	}
	return v.lost()
}

// trim cuts off a fixed text; what a pattern matches is not followed.
func (s *shell) trim(v data, w *syntax.Word, cut func(s, fix string) (string, bool)) data {
	fix := s.value(w)
	if v.holed() || fix.holed() || strings.ContainsAny(fix.text, "*?[") {
		return v.lost()
	}
	rest, _ := cut(v.text, fix.text)
	return data{rest, v.from}
}

func (s *shell) replace(v data, r *syntax.Replace) data {
	old, new := s.value(r.Orig), s.value(r.With)
	if v.holed() || old.holed() || old.text == "" || strings.ContainsAny(old.text, "*?[") {
		return v.lost()
	}
	n := 1
	if r.All {
		n = -1
	}
	if strings.Count(v.text, old.text)*len(new.text) > maxData {
		return v.lost()
	}
	return data{clipData(strings.Replace(v.text, old.text, new.text, n)), v.from | new.from}
}

func (s *shell) slice(v data, sl *syntax.Slice) data {
	start, ok := number(sl.Offset)
	if v.holed() || !ok {
		return v.lost()
	}
	if start < 0 {
		start = max(len(v.text)+start, 0)
	}
	start = min(start, len(v.text))
	end := len(v.text)
	if sl.Length != nil {
		n, ok := number(sl.Length)
		if !ok {
			return v.lost()
		}
		if n < 0 {
			end += n
		} else if n < end-start {
			end = start + n
		}
	}
	return data{v.text[start:max(start, end)], v.from}
}

// number reads a number that is written in an arithmetic expression.
func number(x syntax.ArithmExpr) (int, bool) {
	switch x := x.(type) {
	case nil:
		return 0, true
	case *syntax.Word:
		n, err := strconv.Atoi(x.Lit())
		return n, err == nil
	case *syntax.ParenArithm:
		return number(x.X)
	case *syntax.UnaryArithm:
		n, ok := number(x.X)
		return -n, ok && x.Op == syntax.Minus
	}
	return 0, false
}

// unescape removes the backslashes of text outside of quotes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// unescapeDouble removes those of text in double quotes.
func unescapeDouble(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func single(q *syntax.SglQuoted) string {
	if !q.Dollar {
		return q.Value
	}
	return unescapeC(q.Value)
}

// unescapeC reads the escapes of $'...', printf and echo -e.
func unescapeC(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		i += escape(&b, s[i:]) - 1
	}
	return strings.ToValidUTF8(b.String(), "?")
}

// escape writes what the escape at the start of s, after its backslash, means and
// returns how many bytes of s it is long.
func escape(b *strings.Builder, s string) int {
	const letters, meanings = `abefnrtv\'"?E`, "\a\b\x1b\f\n\r\t\v\\'\"?\x1b"
	if i := strings.IndexByte(letters, s[0]); i >= 0 {
		b.WriteByte(meanings[i])
		return 1
	}
	switch s[0] {
	case 'x':
		return 1 + digits(b, s[1:], 2, 16, false)
	case 'u':
		return 1 + digits(b, s[1:], 4, 16, true)
	case 'U':
		return 1 + digits(b, s[1:], 8, 16, true)
	case '0', '1', '2', '3', '4', '5', '6', '7':
		most := 3
		if s[0] == '0' {
			most = 4 // echo -e has \0nnn
		}
		return digits(b, s, most, 8, false)
	}
	b.WriteByte('\\')
	b.WriteByte(s[0])
	return 1
}

// digits writes the character that up to most digits name and returns how many
// there are.
func digits(b *strings.Builder, s string, most, base int, isRune bool) int {
	n := 0
	for n < len(s) && n < most && strings.IndexByte("0123456789abcdef"[:base], lower(s[n])) >= 0 {
		n++
	}
	v, err := strconv.ParseUint(s[:n], base, 32)
	switch {
	case err != nil:
	case isRune:
		b.WriteRune(rune(v))
	default:
		b.WriteByte(byte(v))
	}
	return n
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// base is the last part of a path; of a text with a hole it is what follows the
// last slash.
func base(p string) string {
	if p == "" {
		return ""
	}
	return path.Base(p)
}
