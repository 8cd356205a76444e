package gemini

import (
	"strconv"

	"parley/internal/llm"
	"parley/internal/llm/wire"
)

// nameMap translates the names of tools into ones that the API takes, and back.
// A declared name that is legal stays as it is.
type nameMap struct {
	declared []string          // in the order of the request's tools
	out      map[string]string // ours -> the API's
	in       map[string]string // the API's -> ours
}

func newNameMap(tools []llm.Tool) *nameMap {
	n := &nameMap{out: map[string]string{}, in: map[string]string{}}
	for _, t := range tools {
		legal := legalName(t.Name)
		for i := 2; n.taken(legal); i++ { // the API refuses a name that is declared twice
			suffix := "_" + strconv.Itoa(i)
			base := legalName(t.Name)
			legal = base[:min(len(base), maxName-len(suffix))] + suffix
		}
		n.declared = append(n.declared, legal)
		n.in[legal] = t.Name
		if _, ok := n.out[t.Name]; !ok {
			n.out[t.Name] = legal
		}
	}
	return n
}

const maxName = 64

func (n *nameMap) taken(legal string) bool {
	_, ok := n.in[legal]
	return ok
}

// toAPI returns the name under which the API knows, or would take, a tool.
func (n *nameMap) toAPI(name string) string {
	if legal, ok := n.out[name]; ok {
		return legal
	}
	return legalName(name)
}

// fromAPI returns the tool that the model means.
func (n *nameMap) fromAPI(name string) string {
	if ours, ok := n.in[name]; ok {
		return ours
	}
	return name
}

// legalName is wire.LegalName; the API also wants a letter or an underscore first.
func legalName(name string) string {
	name = wire.LegalName(name)
	if c := name[0]; c == '-' || (c >= '0' && c <= '9') {
		name = "_" + name[:min(len(name), maxName-1)]
	}
	return name
}
