package sqlstore

import (
	"encoding/base64"
	"encoding/json"

	"parley/internal/store"
)

// keyset is an order that pages follow: a column, then the id.
type keyset struct {
	name   store.Order
	column string
	text   bool // the column is text, not a number
	desc   bool
}

var (
	byCreation = keyset{store.CreatedAsc, "created_at", false, false}
	byNewest   = keyset{store.CreatedDesc, "created_at", false, true}
)

// keysetOf returns the keyset of an order, the newest first by default.
func keysetOf(o store.Order) keyset {
	switch o {
	case store.CreatedAsc:
		return byCreation
	case store.UpdatedAsc:
		return keyset{o, "updated_at", false, false}
	case store.UpdatedDesc:
		return keyset{o, "updated_at", false, true}
	case store.TitleAsc:
		return keyset{o, "title_key", true, false}
	case store.TitleDesc:
		return keyset{o, "title_key", true, true}
	}
	return byNewest
}

// orderBy returns the ORDER BY of the keyset.
func (k keyset) orderBy() string {
	if k.desc {
		return " ORDER BY " + k.column + " DESC, id DESC"
	}
	return " ORDER BY " + k.column + ", id"
}

// cursor is the position behind an item.
type cursor struct {
	Order store.Order `json:"o"`
	Num   int64       `json:"n,omitempty"`
	Text  string      `json:"t,omitempty"`
	ID    string      `json:"i"`
}

func (c cursor) key(k keyset) any {
	if k.text {
		return c.Text
	}
	return c.Num
}

// encode returns the opaque form.
func (c cursor) encode() string {
	b, err := json.Marshal(c)
	if err != nil { // strings and numbers always encode
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor reads an opaque cursor of this order. Whatever is none means the
// beginning.
func parseCursor(s string, k keyset) (cursor, bool) {
	if s == "" {
		return cursor{}, false
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return cursor{}, false
	}
	var c cursor
	if err := json.Unmarshal(b, &c); err != nil || c.Order != k.name || c.ID == "" {
		return cursor{}, false
	}
	return c, true
}

// page cuts the item beyond the limit off and makes the cursor of the last.
func page[T any](items []T, limit int, at func(T) cursor) store.Page[T] {
	if len(items) <= limit {
		return store.Page[T]{Items: items}
	}
	items = items[:limit]
	return store.Page[T]{Items: items, Next: at(items[limit-1]).encode()}
}

// clamp bounds a limit to 1..most; a missing one is most.
func clamp(limit, most int) int {
	if limit <= 0 || limit > most {
		return most
	}
	return limit
}

const maxPage = 100
