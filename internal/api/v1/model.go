package v1

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/llm"
)

// modelInfo is a model that can be chosen (V1 9). None is hidden: what is no
// longer there is not listed.
type modelInfo struct {
	Provider  string  `json:"provider"`
	Name      string  `json:"name"`
	Verified  bool    `json:"verified"`
	Hidden    bool    `json:"hidden"`
	Canonical *string `json:"canonical"`
}

type providerInfo struct {
	Name     string `json:"name"`
	Verified bool   `json:"verified"`
}

type modelQuery struct {
	pageQuery
	Query    *string `json:"query"`
	Verified *bool   `json:"verified__eq"`
	Provider *string `json:"provider__eq"`
}

// wants reports whether a name and whether it is verified pass the filters.
func (q *modelQuery) wants(name string, verified bool) bool {
	return (q.Verified == nil || *q.Verified == verified) &&
		strings.Contains(strings.ToLower(name), strings.ToLower(orEmpty(q.Query)))
}

func (h *handlers) offers() []llm.Offer {
	if h.Models == nil {
		return nil
	}
	return h.Models()
}

func (h *handlers) searchModels(w http.ResponseWriter, r *httpkit.Request) error {
	var q modelQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	var found []modelInfo
	for _, o := range h.offers() {
		if q.wants(o.ID(), o.Verified) && (q.Provider == nil || *q.Provider == o.Provider) {
			found = append(found, modelInfo{Provider: o.Provider, Name: o.Name, Verified: o.Verified})
		}
	}
	items, next := cutPage(found, q.pageQuery)
	return writePage(w, items, next)
}

// searchProviders lists the providers of the models; one with a verified model is
// verified.
func (h *handlers) searchProviders(w http.ResponseWriter, r *httpkit.Request) error {
	var q modelQuery
	if err := r.Params(&q); err != nil {
		return err
	}
	verified := map[string]bool{}
	for _, o := range h.offers() {
		verified[o.Provider] = verified[o.Provider] || o.Verified
	}
	var found []providerInfo
	for name, v := range verified {
		if q.wants(name, v) {
			found = append(found, providerInfo{name, v})
		}
	}
	slices.SortFunc(found, func(a, b providerInfo) int { return strings.Compare(a.Name, b.Name) })
	items, next := cutPage(found, q.pageQuery)
	return writePage(w, items, next)
}

// cutPage returns a page of a list that is all there, and the id of the next one:
// its offset, as clients of such lists know it. An unknown id is the beginning.
func cutPage[T any](all []T, q pageQuery) (items []T, next string) {
	from, err := strconv.Atoi(orEmpty(q.PageID))
	if err != nil || from < 0 {
		from = 0
	}
	from = min(from, len(all))
	to := min(from+q.Limit, len(all))
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return all[from:to], next
}
