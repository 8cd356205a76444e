package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirected is where a command's input comes from and its output goes to.
type redirected struct {
	in      data
	piped   bool // in is not the terminal
	targets []target
	socket  bool // something is connected to the network by /dev/tcp
}

// target is a file that output goes to.
type target struct {
	path    string
	appends bool
	other   bool // not the standard output goes there
}

func (s *shell) redirections(st *syntax.Stmt, in data) redirected {
	r := redirected{in: in, piped: in != data{}}
	for _, rd := range st.Redirs {
		s.redirect(rd, &r)
	}
	return r
}

func (s *shell) redirect(rd *syntax.Redirect, r *redirected) {
	switch rd.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		r.in, r.piped = s.hereDoc(rd), true
		return
	case syntax.WordHdoc:
		r.in, r.piped = s.value(rd.Word).then(known("\n")), true
		return
	}
	file := s.value(rd.Word)
	if isSocket(file.text) {
		r.socket = true
	}
	switch rd.Op {
	case syntax.RdrIn:
		r.in, r.piped = s.read(file.text), true
	case syntax.DplIn:
		r.in, r.piped = unknown(fromFile), true
	case syntax.DplOut:
		if !isDescriptor(file.text) {
			r.targets = append(r.targets, target{path: file.text, other: isOther(rd)})
		}
	default:
		appends := rd.Op == syntax.AppOut || rd.Op == syntax.AppAll || rd.Op == syntax.RdrInOut
		r.targets = append(r.targets, target{file.text, appends, isOther(rd)})
	}
}

// isOther reports whether a redirection is of another descriptor than the standard
// output's.
func isOther(rd *syntax.Redirect) bool { return rd.N != nil && rd.N.Value != "1" }

func isDescriptor(s string) bool {
	return s == hole || strings.Trim(s, "0123456789-") == ""
}

func isSocket(p string) bool {
	return strings.HasPrefix(p, "/dev/tcp/") || strings.HasPrefix(p, "/dev/udp/")
}

// hereDoc is the text of a here-document: as written, if its delimiter is quoted.
func (s *shell) hereDoc(rd *syntax.Redirect) data {
	if rd.Hdoc == nil {
		return data{}
	}
	b := &splitter{}
	raw := isQuoted(rd.Word)
	for _, p := range rd.Hdoc.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			text := l.Value
			if !raw {
				text = unescapeDouble(text)
			}
			b.add(s.literal(text))
			continue
		}
		s.double(b, &syntax.DblQuoted{Parts: []syntax.WordPart{p}}, false)
	}
	out := b.cur
	if rd.Op == syntax.DashHdoc {
		out.text = strings.TrimLeft(strings.ReplaceAll(out.text, "\n\t", "\n"), "\t")
	}
	out.text = clipData(out.text)
	return out
}

func isQuoted(w *syntax.Word) bool {
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted:
			return true
		case *syntax.Lit:
			if strings.Contains(p.Value, `\`) {
				return true
			}
		}
	}
	return false
}

// read is what is known of a file's content.
func (s *shell) read(name string) data {
	if isSocket(name) {
		return unknown(fromNet)
	}
	p := resolve(s.cwd(), name)
	if d, ok := s.files[p]; ok {
		return d
	}
	if isSecret(p) {
		s.medium("reads_secret")
		return unknown(fromFile | fromSecret)
	}
	if isEnvFile(p) {
		return unknown(fromFile | fromSecret)
	}
	return unknown(fromFile)
}

// write notes that a file is written, and judges it.
func (s *shell) write(name string, d data, appends bool) {
	p := resolve(s.cwd(), name)
	if stmts, ok := s.sinks[p]; ok {
		s.apart(func() data { return s.all(stmts, d) })
		return
	}
	if isSocket(p) {
		s.sends(d)
		return
	}
	if appends {
		d = s.files[p].then(d)
	}
	if len(s.files) < maxFields {
		s.files[p] = d
	}
	judgePath(s.scan, p)
	if !d.holed() && d.text != "" {
		s.content(p, d)
	}
}

// content judges what is written into a file that something runs later. That parts
// of it are not known does not matter yet.
func (s *shell) content(p string, d data) {
	if !runsLater(p) {
		return
	}
	s.aside(func() { s.child(d, nil, data{}) })
}
