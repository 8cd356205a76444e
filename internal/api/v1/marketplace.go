package v1

import (
	"fmt"
	"net/http"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/collection"
	"parley/internal/extension"
	"parley/internal/fault"
)

// marketplacePreview is what is in marketplaces (V1 9.5).
type marketplacePreview struct {
	Skills  []marketplaceSkill  `json:"skills"`
	Plugins []marketplacePlugin `json:"plugins"`
	Names   map[string][]string `json:"marketplace_skills"`
	Errors  []string            `json:"errors"`
}

type marketplaceSkill struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Triggers    []string `json:"triggers"` // null without
	Description *string  `json:"description"`
}

type marketplacePlugin struct {
	Name        string  `json:"name"`
	Description *string `json:"description"`
	Source      string  `json:"source"`
	Marketplace string  `json:"marketplace"`
}

// previewMarketplaces shows what is loaded of the marketplaces that are collections of
// this server. It fetches nothing: a request must not make the server talk to any host,
// and what is no collection could not be used anyway.
func (h *handlers) previewMarketplaces(w http.ResponseWriter, r *httpkit.Request) error {
	var in []struct {
		Name   string  `json:"name"`
		Source string  `json:"source"`
		Ref    *string `json:"ref"`
		Path   *string `json:"repo_path"`
	}
	if err := r.Body(&in); err != nil {
		return err
	}
	out := marketplacePreview{[]marketplaceSkill{}, []marketplacePlugin{}, map[string][]string{}, []string{}}
	for _, m := range in {
		bundles, err := h.collection(collection.Reference{Source: m.Source, Ref: orEmpty(m.Ref), Path: orEmpty(m.Path)})
		if err != nil {
			out.Errors = append(out.Errors, fmt.Sprintf("Marketplace %q: %s", m.Name, fault.PublicText(err)))
			continue
		}
		out.add(m.Name, m.Source, bundles)
	}
	return httpkit.JSON(w, http.StatusOK, out)
}

func (h *handlers) collection(ref collection.Reference) ([]extension.Bundle, error) {
	if h.Collection == nil {
		return nil, collection.Unknown()
	}
	return h.Collection(ref)
}

// add shows a marketplace: its own skills, and its plugins by name. A second
// registration under the same name adds to the first one's list.
func (p *marketplacePreview) add(name, source string, bundles []extension.Bundle) {
	own := bundles[0]
	names := p.Names[name]
	if names == nil {
		names = []string{}
	}
	for i := range own.Skills {
		s := &own.Skills[i]
		p.Skills = append(p.Skills, marketplaceSkill{s.Name, s.Type(), name, s.Triggers, orNull(s.Description)})
		names = append(names, s.Name)
	}
	p.Names[name] = names
	for _, b := range bundles[1:] {
		p.Plugins = append(p.Plugins, marketplacePlugin{Name: strings.TrimPrefix(b.Name, "plugin "), Source: source, Marketplace: name})
	}
	for _, problem := range own.Problems {
		p.Errors = append(p.Errors, fmt.Sprintf("Marketplace %q: %s: %s", name, problem.File, problem.Text))
	}
}
