package httpkit

import (
	"context"
	"net/http"
)

// note is what the layers inside tell the outer guard about a request, for the
// log and the metrics.
type note struct {
	id        string
	route     string // path pattern, "" = none matched
	principal Principal
	problem   *Problem
	gone      bool         // the client left
	encode    ErrorEncoder // of the operation; nil = none is known yet
}

type noteKey struct{}

func noteOf(ctx context.Context) *note {
	if n, ok := ctx.Value(noteKey{}).(*note); ok {
		return n
	}
	return &note{}
}

// SetRoute names the route of a request for the log and the metrics. It must be
// a pattern: clients must not be able to make new names.
func SetRoute(r *http.Request, pattern string) { noteOf(r.Context()).route = pattern }
