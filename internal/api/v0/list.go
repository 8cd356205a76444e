package v0

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/store"
)

// maxOffset bounds how far into a list a page of an old client may begin.
const maxOffset = 10_000

// pageID is a place in the list of conversations (V0 section 7.5): base64 of this as
// JSON. Ours has the store's cursor in V1; those of old servers have an offset in V0, or
// are nothing but that offset.
type pageID struct {
	V0 *string `json:"v0"` // base64 of a decimal offset
	V1 *string `json:"v1"`
}

// formatPage makes the id of the page behind a cursor, nil if there is none.
func formatPage(cursor string) *string {
	if cursor == "" {
		return nil
	}
	raw, err := json.Marshal(pageID{V1: &cursor})
	if err != nil { // texts always encode
		return nil
	}
	return ref(base64.RawURLEncoding.EncodeToString(raw))
}

// parsePage reads a page id: a cursor of the store, or how many conversations come
// before the page.
func parsePage(text string) (cursor string, offset int, err error) {
	if text == "" {
		return "", 0, nil
	}
	bad := fault.New(fault.Invalid, "invalid_page_id", "The page_id is not valid.").WithHint("Send the next_page_id of the page before.")
	raw, ok := fromBase64(text)
	if !ok {
		return "", 0, bad
	}
	if offset, ok := offsetOf(raw); ok {
		return "", offset, nil
	}
	var id pageID
	dec := json.NewDecoder(strings.NewReader(raw))
	dec.DisallowUnknownFields()
	if dec.Decode(&id) != nil || dec.More() {
		return "", 0, bad
	}
	switch {
	case id.V0 != nil:
		raw, ok := fromBase64(*id.V0)
		if ok {
			offset, ok = offsetOf(raw)
		}
		if !ok {
			return "", 0, bad
		}
		return "", offset, nil
	case id.V1 != nil && isCursor(*id.V1):
		return *id.V1, 0, nil
	}
	return "", 0, bad
}

// isCursor reports whether a text can be a cursor of the store. One that it does not
// know begins at the beginning.
func isCursor(text string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return err == nil && len(raw) > 0 && json.Valid(raw)
}

// fromBase64 reads both alphabets, with and without padding.
func fromBase64(text string) (string, bool) {
	text = strings.NewReplacer("+", "-", "/", "_", " ", "-").Replace(strings.TrimRight(text, "="))
	raw, err := base64.RawURLEncoding.DecodeString(text)
	return string(raw), err == nil
}

func offsetOf(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n <= maxOffset
}

// searchFrom returns a page, beginning after as many conversations as the offset says.
func (h *handlers) searchFrom(ctx context.Context, q store.ConversationQuery, offset int) (store.Page[*engine.View], error) {
	limit := q.Limit
	for offset > 0 {
		q.Limit = min(offset, maxPage)
		page, err := h.engine.Search(ctx, q)
		if err != nil || page.Next == "" {
			return store.Page[*engine.View]{}, err
		}
		offset -= len(page.Items)
		q.Cursor = page.Next
	}
	q.Limit = limit
	return h.engine.Search(ctx, q)
}

// since is the creation of the oldest conversation that lists show.
func (h *handlers) since() time.Time {
	if h.listAge <= 0 {
		return time.Time{}
	}
	return time.Now().Add(-h.listAge)
}
