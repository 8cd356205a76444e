package policy

import (
	"strings"
)

// options are the arguments of a command, taken apart.
type options struct {
	set      map[string][]data // by name with its dashes; the values, empty for flags
	operands []data
}

// parseOptions takes arguments apart. takes names the options that have a value,
// with their dashes and blanks between. Flags may be written together.
func parseOptions(args []data, takes string) options {
	o := options{set: map[string][]data{}}
	valued := fieldsOf(takes)
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a.text == "--":
			o.operands = append(o.operands, args[i+1:]...)
			return o
		case strings.HasPrefix(a.text, "--"):
			i += o.long(a, args[i+1:], valued)
		case len(a.text) > 1 && a.text[0] == '-':
			i += o.short(a, args[i+1:], valued)
		default:
			o.operands = append(o.operands, a)
		}
	}
	return o
}

// leading takes apart the options before the first operand; the rest is left as
// it is. assigns skips NAME=value as well.
func leading(args []data, takes string, assigns bool) (options, []data) {
	valued := fieldsOf(takes)
	o := options{set: map[string][]data{}}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a.text == "--":
			return o, args[i+1:]
		case strings.HasPrefix(a.text, "--"):
			i += o.long(a, args[i+1:], valued)
		case len(a.text) > 1 && a.text[0] == '-':
			i += o.short(a, args[i+1:], valued)
		case assigns && isAssignment(a.text):
			o.set["="] = append(o.set["="], a)
		default:
			return o, args[i:]
		}
	}
	return o, nil
}

func fieldsOf(s string) map[string]bool {
	out := map[string]bool{}
	for f := range strings.FieldsSeq(s) {
		out[f] = true
	}
	return out
}

func isAssignment(s string) bool {
	name, _, ok := strings.Cut(s, "=")
	return ok && name != "" && !strings.ContainsAny(name, "/ \t-") && name[0] != '-'
}

// long reads --name, --name=value or --name value and returns how many further
// arguments it took.
func (o *options) long(a data, rest []data, valued map[string]bool) int {
	name, value, ok := strings.Cut(a.text, "=")
	switch {
	case ok:
		o.set[name] = append(o.set[name], data{value, a.from})
	case valued[name] && len(rest) > 0:
		o.set[name] = append(o.set[name], rest[0])
		return 1
	default:
		o.set[name] = append(o.set[name], data{})
	}
	return 0
}

// short reads -abc, where one of the letters may have a value.
func (o *options) short(a data, rest []data, valued map[string]bool) int {
	for i, r := range a.text[1:] {
		name := "-" + string(r)
		if !valued[name] {
			o.set[name] = append(o.set[name], data{})
			continue
		}
		if tail := a.text[1+i+len(string(r)):]; tail != "" {
			o.set[name] = append(o.set[name], data{strings.TrimPrefix(tail, "="), a.from})
			return 0
		}
		if len(rest) > 0 {
			o.set[name] = append(o.set[name], rest[0])
			return 1
		}
	}
	return 0
}

// has reports whether one of the options is there.
func (o options) has(names ...string) bool {
	for _, n := range names {
		if _, ok := o.set[n]; ok {
			return true
		}
	}
	return false
}

// values are the values of options, in no order between different names.
func (o options) values(names ...string) []data {
	var out []data
	for _, n := range names {
		out = append(out, o.set[n]...)
	}
	return out
}
