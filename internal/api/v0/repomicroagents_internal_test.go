package v0

import (
	"context"
	"testing"
)

// TestNobodyIsAskedWhenTheTimeIsUp: a page of conversations with slow git services ends;
// what they have not said by then counts as open.
func TestNobodyIsAskedWhenTheTimeIsUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := &handlers{git: struct{ Git }{}} // any call of it panics
	if h.isClosed(ctx, "u", "github", "o/r", 1) {
		t.Error("closed")
	}
}
