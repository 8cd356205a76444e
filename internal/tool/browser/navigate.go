package browser

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"parley/internal/tool"
)

// NavigateAction is the input of browser_navigate.
type NavigateAction struct {
	URL    string `json:"url" desc:"Address: https://..., http://localhost:3000, or the absolute path of a file in the sandbox."`
	NewTab bool   `json:"new_tab" default:"false" desc:"true: open it in a new tab, which becomes the active one."`
}

// Empty is the input of tools without arguments.
type Empty struct{}

func navigate(ctx context.Context, b *browser, in NavigateAction) (reply, error) {
	target, err := address(in.URL)
	if err != nil {
		return reply{}, err
	}
	x, err := b.target(ctx, in.NewTab)
	if err != nil {
		return reply{}, err
	}
	return b.load(ctx, x, target)
}

// target is the tab to navigate. One that crashed is replaced, because its session
// does not come back.
func (b *browser) target(ctx context.Context, fresh bool) (tab, error) {
	now, ok := b.tabs.current()
	if fresh || !ok {
		if all, _ := b.tabs.snapshot(); len(all) >= maxTabs {
			return tab{}, tool.Wrong("%d tabs are open, which is the limit. Close one with browser_close_tab.", maxTabs)
		}
		return b.open(ctx)
	}
	if !now.crashed {
		return now, nil
	}
	x, err := b.open(ctx)
	if err == nil {
		b.conn.Send("", "Target.closeTarget", map[string]any{"targetId": now.target})
	}
	return x, err
}

// load navigates a tab and says what became of it.
func (b *browser) load(ctx context.Context, x tab, target string) (reply, error) {
	b.unblock(ctx, x)
	local := false
	if u, err := url.Parse(target); err == nil {
		local = isLoopback(u.Hostname())
	}
	// Servers under development have certificates of their own.
	if err := b.call(ctx, x, "Security.setIgnoreCertificateErrors", map[string]any{"ignore": local}, nil); err != nil {
		return reply{}, err
	}
	var done struct {
		Loader     string `json:"loaderId"`
		Error      string `json:"errorText"`
		IsDownload bool   `json:"isDownload"`
	}
	limited, cancel := within(ctx, b.times.Commit, "The server did not answer")
	err := b.conn.Call(limited, x.session, "Page.navigate", map[string]any{"url": target}, &done)
	cancel()
	var late errSlow
	switch {
	case errors.As(err, &late) && ctx.Err() == nil:
		b.conn.Send(x.session, "Runtime.terminateExecution", nil) // maybe it was the page before
		b.conn.Send(x.session, "Page.stopLoading", nil)
		return reply{}, tool.Wrong("%s did not answer within %v. Is the server running, and the address right?", clip(target, 200), b.times.Commit)
	case err != nil:
		return reply{}, err
	case done.IsDownload || done.Error == "net::ERR_ABORTED" && b.downloading():
		return b.finishDownload(ctx, target)
	case done.Error != "":
		return reply{}, refusal(target, done.Error)
	}
	if err := b.settle(ctx); err != nil {
		return reply{}, err
	}
	return b.arrived(ctx)
}

// unblock stops the script of a page that is to be left and does not respond: the new
// page may need its process.
func (b *browser) unblock(ctx context.Context, x tab) {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := b.eval(limited, x, "about", nil, nil); err != nil && ctx.Err() == nil && limited.Err() != nil {
		b.conn.Send(x.session, "Runtime.terminateExecution", nil)
	}
}

// arrived reports the page that a navigation led to.
func (b *browser) arrived(ctx context.Context) (reply, error) {
	x, err := b.active(ctx)
	if err != nil {
		return reply{}, err
	}
	var page about
	if err := b.eval(ctx, x, "about", nil, &page); err != nil {
		return reply{}, err
	}
	text := fmt.Sprintf("%s (%s)", page.Title, page.URL)
	if page.Title == "" {
		text = page.URL
	}
	text = "The page is open: " + clip(oneLine(text), 700) + "."
	if page.Status >= 400 {
		text += fmt.Sprintf(" The server answered with status %d.", page.Status)
	}
	if strings.HasPrefix(page.URL, "chrome-error:") {
		return reply{}, tool.Wrong("The page could not be loaded. %s", b.where(ctx))
	}
	if page.Type == "application/pdf" {
		text += " It is a PDF, of which only a screenshot can be taken. To read it, download it with curl and use pdftotext in the terminal."
	}
	return reply{text: text}, nil
}

// refusal explains why a page did not load.
func refusal(target, code string) error {
	hints := map[string]string{
		"net::ERR_CONNECTION_REFUSED":       "Nothing listens there. Start the server first, and check its port.",
		"net::ERR_NAME_NOT_RESOLVED":        "The name of the host is not known. Check its spelling, and whether the sandbox has a network.",
		"net::ERR_INTERNET_DISCONNECTED":    "The sandbox has no network.",
		"net::ERR_ADDRESS_UNREACHABLE":      "The host cannot be reached from the sandbox.",
		"net::ERR_FILE_NOT_FOUND":           "There is no such file in the sandbox.",
		"net::ERR_ACCESS_DENIED":            "The file may not be read.",
		"net::ERR_EMPTY_RESPONSE":           "The server closed the connection without an answer.",
		"net::ERR_SSL_PROTOCOL_ERROR":       "The server does not speak TLS. Is it http:// instead of https://?",
		"net::ERR_CERT_AUTHORITY_INVALID":   "The server's certificate is not trusted.",
		"net::ERR_UNSAFE_PORT":              "The browser does not open this port. Let the server listen on another one.",
		"net::ERR_INVALID_AUTH_CREDENTIALS": "The server wants a name and a password. If you have them, put them into the address: https://name:password@host/.",
		"net::ERR_ABORTED":                  "The server had nothing to show, or the navigation was stopped.",
		"net::ERR_TOO_MANY_REDIRECTS":       "The server redirects in a circle.",
	}
	return tool.Wrong("%s could not be loaded: %s. %s", clip(target, 200), code, hints[code])
}

// back goes to the page before.
func back(ctx context.Context, b *browser, _ Empty) (reply, error) {
	x, err := b.active(ctx)
	if err != nil {
		return reply{}, err
	}
	var history struct {
		Current int `json:"currentIndex"`
		Entries []struct {
			ID  int    `json:"id"`
			URL string `json:"url"`
		} `json:"entries"`
	}
	if err := b.call(ctx, x, "Page.getNavigationHistory", nil, &history); err != nil {
		return reply{}, err
	}
	if at := history.Current; at < 1 || at > len(history.Entries) || at == 1 && history.Entries[0].URL == "about:blank" {
		return reply{}, tool.Wrong("This tab has no page before the current one.")
	}
	entry := history.Entries[history.Current-1].ID
	if err := b.call(ctx, x, "Page.navigateToHistoryEntry", map[string]any{"entryId": entry}, nil); err != nil {
		return reply{}, err
	}
	if err := b.turned(ctx, x, history.Current-1); err != nil {
		return reply{}, err
	}
	if err := b.settle(ctx); err != nil {
		return reply{}, err
	}
	return b.arrived(ctx)
}

// turned waits until the history of a tab has moved: going back is answered before
// it has happened. A page that is held up is reported as it is.
func (b *browser) turned(ctx context.Context, x tab, index int) error {
	for deadline := time.Now().Add(b.times.Load); time.Now().Before(deadline); {
		var history struct {
			Current int `json:"currentIndex"`
		}
		if err := b.call(ctx, x, "Page.getNavigationHistory", nil, &history); err != nil {
			return err
		}
		if history.Current == index {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	b.tabs.update(func() { b.tabs.noteLocked("The page before did not load yet.") })
	return nil
}
