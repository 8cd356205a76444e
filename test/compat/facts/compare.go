package facts

import (
	"maps"
	"slices"
	"strings"
)

// Difference is something that a client of the reference may rely on and that a
// server does not say.
type Difference struct {
	Operation string // "METHOD /path"
	What      string
}

// Missing is the difference of an operation that is not there.
const Missing = "missing"

// Compare holds a server's document against a reference. What the server has or
// takes besides is no difference: a request that the reference allows must be taken,
// and an answer must be one that the reference allows. place maps a path of the
// reference to the server's.
func Compare(reference, server Document, place func(path string) string) []Difference {
	var out []Difference
	ours := map[string]*Operation{}
	for name, op := range server {
		ours[shape(name)] = op
	}
	for _, name := range slices.Sorted(maps.Keys(reference)) {
		method, path, _ := strings.Cut(name, " ")
		op := ours[shape(method+" "+place(path))]
		if op == nil {
			out = append(out, Difference{name, Missing})
			continue
		}
		for _, what := range differences(reference[name], op) {
			out = append(out, Difference{name, what})
		}
	}
	return out
}

// shape is an operation's name without the names of the path's parameters, and
// without the slash that may end it.
func shape(name string) string {
	var b strings.Builder
	depth := 0
	for _, c := range strings.TrimSuffix(name, "/") {
		switch {
		case c == '{':
			depth++
			b.WriteString("{}")
		case c == '}':
			depth--
		case depth == 0:
			b.WriteRune(c)
		}
	}
	return b.String()
}

func differences(reference, server *Operation) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(reference.Params)) {
		ours, known := server.Params[name]
		out = append(out, request(name, reference.Params[name], ours, known)...)
	}
	for _, name := range slices.Sorted(maps.Keys(server.Params)) {
		if _, known := reference.Params[name]; !known && parse(server.Params[name]).must {
			out = append(out, name+": required")
		}
	}
	out = append(out, prefix("body ", members(reference.Body, server.Body, request))...)
	for _, status := range slices.Sorted(maps.Keys(reference.Responses)) {
		own, ok := server.Responses[status]
		if !ok {
			out = append(out, status+": missing")
			continue
		}
		out = append(out, prefix(status+" ", members(reference.Responses[status], own, answer))...)
	}
	return out
}

// members compares the members of a body, from the whole to the parts. One difference
// is enough to say of what is below it.
func members(reference, server map[string]Fact, compare func(name string, theirs, ours Fact, known bool) []string) []string {
	var out []string
	var settled []string // nothing is said below these
	for _, name := range slices.Sorted(maps.Keys(reference)) {
		if slices.ContainsFunc(settled, func(above string) bool { return inside(name, above) }) {
			continue
		}
		ours, known := server[name]
		out = append(out, compare(title(name), reference[name], ours, known)...)
		switch {
		case !known || strings.HasPrefix(string(ours), "any"):
			settled = append(settled, name)
		case named(reference, name) && !named(server, name):
			if types := parse(ours).types; slices.Contains(types, "object") || slices.Contains(types, "array") {
				out = append(out, title(name)+": members not documented")
			}
			settled = append(settled, name)
		}
	}
	return out
}

// inside reports whether a member is below another.
func inside(name, above string) bool {
	rest, ok := strings.CutPrefix(name, above)
	return ok && rest != "" && (above == "" || strings.ContainsAny(rest[:1], ".[{"))
}

// named reports whether there are members below one.
func named(all map[string]Fact, above string) bool {
	for name := range all {
		if inside(name, above) {
			return true
		}
	}
	return false
}

// title names the whole of a body.
func title(name string) string {
	if name == "" {
		return "body"
	}
	return name
}

func prefix(with string, list []string) []string {
	for i := range list {
		list[i] = with + list[i]
	}
	return list
}

// request says what of a value that the reference takes a server does not.
func request(name string, reference, server Fact, known bool) []string {
	if !known {
		return []string{name + ": not read"}
	}
	theirs, ours := parse(reference), parse(server)
	var out []string
	if ours.must && !theirs.must {
		out = append(out, name+": required")
	}
	if lost := theirs.beyond(ours); lost != "" {
		out = append(out, name+": does not take "+lost)
	}
	return out
}

// answer says what of a value a server's answer may have that the reference's has
// not.
func answer(name string, reference, server Fact, known bool) []string {
	if !known {
		return []string{name + ": missing"}
	}
	theirs, ours := parse(reference), parse(server)
	var out []string
	if theirs.must && !ours.must {
		out = append(out, name+": may be missing")
	}
	if more := ours.beyond(theirs); more != "" && !slices.Contains(ours.types, "any") {
		out = append(out, name+": may be "+more)
	}
	return out
}

// parsed is a fact, taken apart.
type parsed struct {
	types, values []string
	must          bool
}

func parse(f Fact) parsed {
	text, must := strings.CutSuffix(string(f), required)
	p := parsed{must: must}
	types, values, some := strings.Cut(text, "(")
	p.types = strings.Split(types, "|")
	if some {
		p.values = strings.Split(strings.TrimSuffix(values, ")"), ",")
	}
	return p
}

// beyond says which types and values p has that other has not, "" if none.
func (p parsed) beyond(other parsed) string {
	if slices.Contains(other.types, "any") {
		return ""
	}
	var out []string
	for _, t := range p.types {
		if !slices.Contains(other.types, t) && (t != "integer" || !slices.Contains(other.types, "number")) {
			out = append(out, t)
		}
	}
	if len(other.values) > 0 && slices.Contains(p.types, "string") {
		if len(p.values) == 0 {
			out = append(out, "any string")
		}
		for _, v := range p.values {
			if !slices.Contains(other.values, v) {
				out = append(out, v)
			}
		}
	}
	return strings.Join(out, ", ")
}
