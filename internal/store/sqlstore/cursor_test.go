package sqlstore_test

import (
	"encoding/base64"
	"testing"

	"parley/internal/store"
)

// FuzzCursor: whatever a client sends as a cursor yields a page, not an error.
func FuzzCursor(f *testing.F) {
	s, err := openDir(f.Context(), f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	fill(f, s, "a", 0)
	fill(f, s, "b", 0)
	f.Add("", "CREATED_AT")
	f.Add("100", "TITLE")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"o":"CREATED_AT","n":5,"i":"a"}`)), "CREATED_AT")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"o":"TITLE","t":"\u0000","i":"\ud800"}`)), "TITLE")
	f.Fuzz(func(t *testing.T, cursor, order string) {
		p, err := s.Conversations().Search(t.Context(), store.ConversationQuery{Cursor: cursor, Order: store.Order(order), WithSubs: true})
		if err != nil || len(p.Items) > 2 {
			t.Errorf("%d items, %v", len(p.Items), err)
		}
	})
}
