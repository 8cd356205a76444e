package agentserver

import (
	"context"
	"errors"
	"html/template"
	"net"
	"net/http"
	"strings"

	"parley/internal/api/httpkit"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/sandboxd"
)

// previewStatus are statuses that a preview's errors have other than elsewhere: the
// server is a gateway here.
var previewStatus = map[string]int{
	sandboxd.CodePortClosed: http.StatusBadGateway,
	sandboxd.CodePortLimit:  http.StatusServiceUnavailable,
	"preview_broken":        http.StatusBadGateway,
}

// previewPage has nothing of the program's in it. Its style is the browser's: the
// guard's policy allows no other.
var previewPage = template.Must(template.New("preview").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title></head>
<body><h1>{{.Title}}</h1><p>{{.Text}}</p><p><small>{{.Code}}</small></p></body></html>
`))

var previewTitles = map[string]string{
	sandboxd.CodePortClosed: "Nothing listens here yet",
	fleet.CodePaused:        "The sandbox is paused",
	"sandbox_missing":       "The sandbox is gone",
	"unauthorized":          "This preview is not open to you",
	"ticket_invalid":        "This link is over",
}

// previewErrors is AgentErrors with a gateway's statuses.
func previewErrors(r *http.Request, p *httpkit.Problem) (int, any) {
	if status, ok := previewStatus[p.Code]; ok {
		p.Status = status
	}
	return httpkit.AgentErrors(r, p)
}

// writePreviewFault answers in words: a page to who wants one, else JSON.
func writePreviewFault(w http.ResponseWriter, r *http.Request, err error) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		httpkit.WriteError(w, r, previewErrors, err)
		return
	}
	p := httpkit.Describe(err)
	status, _ := previewErrors(r, p)
	title := previewTitles[p.Code]
	if title == "" {
		title = "The preview cannot be shown"
	}
	if p.Code == "unauthorized" {
		p.Text = "A preview is opened from where the sandbox is shown: browsers get a link that works once."
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_ = previewPage.Execute(w, map[string]string{"Title": title, "Text": p.Text, "Code": p.Code}) // a client that left reads nothing
	}
}

// previewFault says what went wrong with a program's answer.
func previewFault(ctx context.Context, err error) error {
	var known *fault.Error
	var timeout net.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(context.Cause(ctx), httpkit.ErrDraining):
		return fault.Wrap(err, fault.Unavailable, "draining", "The server is stopping.")
	case errors.As(err, &timeout) && timeout.Timeout():
		return fault.Wrap(err, fault.Timeout, "preview_timeout", "The program does not begin to answer.").
			WithHint("It listens, and may be busy. Try again.")
	}
	return fault.Wrap(err, fault.Unavailable, "preview_broken", "The program's answer is not HTTP, or broke off before it began.").
		WithHint("Look at the program's own output.")
}
