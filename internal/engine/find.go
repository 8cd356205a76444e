package engine

import (
	"context"
	"time"

	"parley/internal/conversation"
	"parley/internal/store"
	"parley/internal/textsearch"
)

// Found is a title or an event in which something was found.
type Found struct {
	Conversation *conversation.Conversation
	Event        *conversation.Event // nil: it is the title
	Snippet      string              // one line
	Marks        []textsearch.Mark   // what matches in it
}

// Find looks for words and "phrases" in the titles and events of an owner's
// conversations, the newest first.
func (e *Engine) Find(ctx context.Context, q store.TextQuery) (store.Page[Found], error) {
	hits, err := e.opt.Store.Search().Find(ctx, q)
	if err != nil {
		return store.Page[Found]{}, err
	}
	ids := make([]conversation.ID, len(hits.Items))
	for i, h := range hits.Items {
		ids[i] = h.Conversation
	}
	convs, err := e.opt.Store.Conversations().Batch(ctx, q.Owner, ids)
	if err != nil {
		return store.Page[Found]{}, err
	}
	out := store.Page[Found]{Next: hits.Next}
	for i, h := range hits.Items {
		if convs[i] == nil {
			continue // deleted meanwhile
		}
		f := Found{Conversation: convs[i], Event: h.Event}
		text := convs[i].Title
		if h.Event != nil {
			text = conversation.SearchText(*h.Event)
		}
		f.Snippet, f.Marks = textsearch.Snippet(text, q.Terms)
		out.Items = append(out.Items, f)
	}
	return out, nil
}

const (
	indexRest  = 2 * time.Millisecond // between two parts, so that others write, too
	indexRetry = 30 * time.Second     // after an error
)

// index adds to the full-text index what is missing there: what an older version
// stored, and the logs of forks. It works beside everything else until the engine
// leaves.
func (e *Engine) index() {
	for {
		more, err := e.opt.Store.Search().CatchUp(e.ctx)
		rest := indexRest
		switch {
		case e.ctx.Err() != nil:
			return
		case err != nil:
			e.opt.Logger.Warn("the full-text index is behind", "error", err)
			rest = indexRetry
		case !more:
			rest = -1
		}
		if !e.restIndexing(rest) {
			return
		}
	}
}

// restIndexing waits so long, or while it is negative until something may be missing
// in the index. False if the engine leaves.
func (e *Engine) restIndexing(d time.Duration) bool {
	var timer <-chan time.Time
	if d >= 0 {
		timer = time.After(d)
	}
	select {
	case <-timer:
	case <-e.unindexed:
	case <-e.ctx.Done():
		return false
	}
	return true
}

// toIndex tells that something is missing in the index.
func (e *Engine) toIndex() {
	select {
	case e.unindexed <- struct{}{}:
	default: // it is told already
	}
}
