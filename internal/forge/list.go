package forge

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"parley/internal/fault"
	"parley/internal/forge/rest"
)

// SortPage sorts a page where its service cannot sort the list: by stars, or by the
// time of the last change.
func SortPage(items []Repository, q RepositoryQuery) {
	stars := func(r Repository) int {
		if r.Stars == nil {
			return 0
		}
		return *r.Stars
	}
	slices.SortStableFunc(items, func(a, b Repository) int {
		order := 0
		switch q.Sort {
		case "stars":
			order = cmp.Compare(stars(a), stars(b))
		case "updated":
			order = cmp.Compare(a.PushedAt, b.PushedAt)
		}
		if !q.Ascending {
			return -order
		}
		return order
	})
}

// Cut returns the page of a list that is all there; the id of the next one is its
// offset.
func Cut[T any](all []T, p Page) List[T] {
	from := min(rest.PageNumber(p.ID, 0), len(all))
	to := min(from+p.Limit, len(all))
	out := List[T]{Items: all[from:to]}
	if to < len(all) {
		out.Next = strconv.Itoa(to)
	}
	return out
}

// maxPages bounds how many pages All reads.
const maxPages = 20

// All reads the pages of a list, at most maxPages and most items.
func All[T any](ctx context.Context, most int, read func(ctx context.Context, p Page) (List[T], error)) ([]T, error) {
	var all []T
	p := Page{Limit: 100}
	for range maxPages {
		l, err := read(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, l.Items...)
		if l.Next == "" || l.Next == p.ID || len(all) >= most {
			break
		}
		p.ID = l.Next
	}
	return all[:min(len(all), most)], nil
}

// Exactly is the answer to a query that is an address or a full name: the repository,
// nothing if it is not there.
func Exactly(ctx context.Context, h Host, name string) (List[Repository], error) {
	r, err := h.Repository(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return List[Repository]{}, nil
	}
	if err != nil {
		return List[Repository]{}, err
	}
	return List[Repository]{Items: []Repository{r}}, nil
}
