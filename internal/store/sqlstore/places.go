package sqlstore

import (
	"context"

	"parley/internal/fault"
	"parley/internal/store"
)

type places struct{ s *Store }

// Save implements store.Places.
func (p places) Save(ctx context.Context, owner string, place store.SavedPlace, most int) error {
	const op = "store.places.save"
	if owner == "" || place.Kind == "" || place.Path == "" {
		return badRecord(op, "a place without owner, kind or path")
	}
	return p.s.writes.do(ctx, op, func(t *tx) error {
		n, err := t.affected(`UPDATE saved_places SET doc = $4 WHERE owner = $1 AND kind = $2 AND path = $3`,
			owner, place.Kind, place.Path, string(place.Doc))
		if err != nil || n > 0 {
			return err
		}
		var count, last int
		err = t.row(ctx, `SELECT count(*), COALESCE(max(place), 0) FROM saved_places WHERE owner = $1 AND kind = $2`,
			owner, place.Kind).Scan(&count, &last)
		if err != nil {
			return err
		}
		if count >= most {
			return fault.New(fault.TooLarge, "too_many_places", "There are %d of them, which is the limit.", most).WithHint("Remove some first.")
		}
		return t.exec(`INSERT INTO saved_places (owner, kind, path, place, doc) VALUES ($1, $2, $3, $4, $5)`,
			owner, place.Kind, place.Path, last+1, string(place.Doc))
	})
}

func scanPlace(rows row) (p store.SavedPlace, err error) {
	var doc string
	err = rows.Scan(&p.Kind, &p.Path, &doc)
	p.Doc = []byte(doc)
	return p, err
}

// List implements store.Places.
func (p places) List(ctx context.Context, owner string) ([]store.SavedPlace, error) {
	all, err := collect(ctx, p.s.reads, scanPlace, `SELECT kind, path, doc FROM saved_places WHERE owner = $1 ORDER BY kind, place`, owner)
	if err != nil {
		return nil, p.s.fail(ctx, "store.places.list", err)
	}
	return all, nil
}

// Delete implements store.Places.
func (p places) Delete(ctx context.Context, owner, kind, path string) error {
	return p.s.writes.do(ctx, "store.places.delete", func(t *tx) error {
		n, err := t.affected(`DELETE FROM saved_places WHERE owner = $1 AND kind = $2 AND path = $3`, owner, kind, path)
		if err == nil && n == 0 {
			err = fault.New(fault.NotFound, "place_not_found", "There is no such entry.")
		}
		return err
	})
}
