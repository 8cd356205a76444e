package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"

	"parley/internal/content"
	"parley/internal/tool"
	"parley/internal/tool/browser/cdp"
)

// maxStorage is how many characters of the storage an answer shows.
const maxStorage = 30_000

// SetStorageAction is the input of browser_set_storage.
type SetStorageAction struct {
	State StorageState `json:"storage_state" desc:"Cookies and storage, as browser_get_storage returns them."`
}

// StorageState is what a browser remembers of sites.
type StorageState struct {
	Cookies []Cookie `json:"cookies,omitempty"`
	Origins []Origin `json:"origins,omitempty"`
}

// Cookie is a cookie.
type Cookie struct {
	Name     string   `json:"name"`
	Value    string   `json:"value"`
	Domain   string   `json:"domain,omitempty" desc:"Host, with a leading dot for its subdomains too. This or url is needed."`
	URL      string   `json:"url,omitempty" desc:"A page for which the cookie is, instead of domain and path."`
	Path     string   `json:"path,omitempty"`
	Expires  *float64 `json:"expires,omitempty" desc:"Seconds since 1970; absent or -1: until the browser ends."`
	HTTPOnly bool     `json:"httpOnly,omitempty"`
	Secure   bool     `json:"secure,omitempty"`
	SameSite string   `json:"sameSite,omitempty" enum:"Strict,Lax,None"`
}

// Origin is what pages of one origin have stored.
type Origin struct {
	Origin  string `json:"origin" desc:"Like https://example.com."`
	Local   []Pair `json:"localStorage,omitempty"`
	Session []Pair `json:"sessionStorage,omitempty" desc:"Of the open tab that shows this origin."`
}

// Pair is an entry of a storage.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func getStorage(ctx context.Context, b *browser, _ Empty) (reply, error) {
	var state StorageState
	if err := b.command(ctx, "Storage.getCookies", nil, &state); err != nil {
		return reply{}, err
	}
	origins, err := b.origins(ctx)
	if err != nil {
		return reply{}, err
	}
	state.Origins = origins
	text, err := content.Marshal(state)
	if err != nil {
		return reply{}, err
	}
	if len(text) <= maxStorage {
		return reply{text: string(text)}, nil
	}
	dir := path.Join(b.dir(), "storage")
	file := path.Join(dir, "state.json")
	if err := b.env.Hands.WriteFile(ctx, file, text, tool.WriteOptions{Parents: true, Mode: 0o600}); err != nil {
		return reply{}, err
	}
	return reply{text: fmt.Sprintf("%d cookies, and the storage of %d origins: %d bytes of JSON. All of it is in %s, which begins with\n\n%s",
		len(state.Cookies), len(state.Origins), len(text), file, clip(string(text), 2000)), saveDir: dir}, nil
}

// origins reads the storage of all open pages, each origin once.
func (b *browser) origins(ctx context.Context) ([]Origin, error) {
	var list []Origin
	seen := map[string]bool{}
	all, _ := b.tabs.snapshot()
	for _, x := range all {
		if x.crashed {
			continue
		}
		frames, err := b.frames(ctx, x)
		if err != nil {
			return nil, err
		}
		for i, f := range frames {
			var found *Origin
			err := b.evalIn(ctx, x, f.ID, "stored", nil, &found)
			if err != nil && (i == 0 || lost(err)) {
				return nil, err
			}
			if found == nil || err != nil || seen[found.Origin] || len(found.Local)+len(found.Session) == 0 {
				continue
			}
			seen[found.Origin] = true
			list = append(list, *found)
		}
	}
	return list, nil
}

func checkStorage(in *SetStorageAction) error {
	for _, c := range in.State.Cookies {
		if c.Name == "" || c.Domain == "" && c.URL == "" {
			return tool.Wrong("the cookie %q needs a name, and a domain or url", c.Name)
		}
	}
	for _, o := range in.State.Origins {
		if u, err := url.Parse(o.Origin); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return tool.Wrong("%q is no origin like https://example.com", o.Origin)
		}
	}
	return nil
}

func setStorage(ctx context.Context, b *browser, in SetStorageAction) (reply, error) {
	if len(in.State.Cookies) > 0 {
		if err := b.setCookies(ctx, in.State.Cookies); err != nil {
			return reply{}, err
		}
	}
	for _, o := range in.State.Origins {
		if err := b.setOrigin(ctx, o); err != nil {
			return reply{}, err
		}
	}
	return reply{text: fmt.Sprintf("Set %d cookies, and the storage of %d origins. Pages that are open may have to be loaded again.",
		len(in.State.Cookies), len(in.State.Origins))}, nil
}

// setCookies sets cookies and looks whether the browser took them: it drops what it
// does not like without a word.
func (b *browser) setCookies(ctx context.Context, cookies []Cookie) error {
	for i, c := range cookies {
		if c.Expires != nil && *c.Expires < 0 {
			cookies[i].Expires = nil
		}
		if c.Path == "" && c.URL == "" {
			cookies[i].Path = "/"
		}
	}
	if err := b.command(ctx, "Storage.setCookies", map[string]any{"cookies": cookies}, nil); err != nil {
		return err
	}
	var now StorageState
	if err := b.command(ctx, "Storage.getCookies", nil, &now); err != nil {
		return err
	}
	for _, c := range cookies {
		if !slices.ContainsFunc(now.Cookies, func(x Cookie) bool { return x.Name == c.Name && x.Value == c.Value }) {
			return tool.Wrong("The browser does not take the cookie %q. Check its domain, path and time, and that a cookie with SameSite None is Secure.", clip(c.Name, 100))
		}
	}
	return nil
}

// setOrigin stores what pages of an origin should find. Where no tab shows one, the
// origin is entered in a tab of its own through an empty page that we answer
// ourselves, so that nothing is fetched.
func (b *browser) setOrigin(ctx context.Context, o Origin) error {
	all, before := b.tabs.snapshot()
	for _, x := range all {
		if u, err := url.Parse(x.url); err == nil && !x.crashed && u.Scheme+"://"+u.Host == o.Origin {
			return b.eval(ctx, x, "store", o, nil)
		}
	}
	x, err := b.open(ctx)
	if err != nil {
		return err
	}
	err = b.enter(ctx, x, o)
	b.conn.Send("", "Target.closeTarget", map[string]any{"targetId": x.target})
	for _, other := range all {
		if other.target == before && err == nil {
			err = b.show(ctx, other)
		}
	}
	return err
}

func (b *browser) enter(ctx context.Context, x tab, o Origin) error {
	if err := b.call(ctx, x, "Fetch.enable", map[string]any{"patterns": []map[string]any{{"urlPattern": "*"}}}, nil); err != nil {
		return err
	}
	var done struct {
		Error string `json:"errorText"`
	}
	if err := b.call(ctx, x, "Page.navigate", map[string]any{"url": o.Origin}, &done); err != nil {
		return err
	}
	if done.Error != "" {
		return tool.Wrong("The storage of %s cannot be set: %s.", o.Origin, done.Error)
	}
	return b.eval(ctx, x, "store", o, nil)
}

// fulfil answers the requests of a tab that enter opened: with an empty page.
func (t *tabs) fulfil(conn sender, e cdp.Event) {
	var p struct {
		Request string `json:"requestId"`
	}
	if json.Unmarshal(e.Params, &p) != nil {
		return
	}
	conn.Send(e.Session, "Fetch.fulfillRequest", map[string]any{
		"requestId": p.Request, "responseCode": 200,
		"responseHeaders": []map[string]string{{"name": "Content-Type", "value": "text/html"}},
		"body":            base64.StdEncoding.EncodeToString([]byte("<!doctype html>")),
	})
}
