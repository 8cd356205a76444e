// Package device is the device authorization grant (RFC 8628): how a client without a
// browser gets an API key of a user who is asked in one. The client shows a short code;
// the user enters it on a page of this server, with a key of theirs; the client, which
// polls meanwhile, is given a key of its own, which the user can see and take back with
// the others. Requests live in memory: a restart asks clients to begin again.
package device

import (
	"context"
	"crypto/sha256"
	_ "embed" // the document and the page
	"encoding/base64"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/fault"
)

//go:embed openapi.yaml
var document []byte

//go:embed page.html
var page []byte

// maxForm bounds what a client sends: it names itself or a code.
const maxForm = 16 << 10

// Keys keeps the API keys of users.
type Keys interface {
	CreateKey(ctx context.Context, k account.APIKey, h account.KeyHash) (account.APIKey, error)
}

// Config makes the API.
type Config struct {
	Keys Keys
	URLs *httpkit.URLs    // nil = URLs are built from requests
	Now  func() time.Time // nil = time.Now
}

type handlers struct {
	Config
	desk desk
}

// New makes the API.
func New(cfg Config) (*httpkit.API, error) {
	if cfg.URLs == nil {
		cfg.URLs = &httpkit.URLs{}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	h := &handlers{Config: cfg}
	return httpkit.NewAPI(httpkit.APIConfig{Name: "device", Document: document, Handlers: httpkit.Handlers{
		"authorize_device": h.authorize, "issue_device_token": h.token, "decide_device": h.decide, "device_page": h.page,
	}})
}

// authorize opens a request of a client that nobody knows yet.
func (h *handlers) authorize(w http.ResponseWriter, r *httpkit.Request) error {
	form, err := readForm(r.Request)
	if err != nil {
		return err
	}
	g, device, err := h.desk.open(h.URLs.Client(r.Request), form.Get("client_id"), h.Now())
	if err != nil {
		return err
	}
	at := strings.TrimRight(h.URLs.Base(r.Request), "/") + "/oauth/device"
	w.Header().Set("Cache-Control", "no-store")
	return httpkit.JSON(w, http.StatusOK, map[string]any{"device_code": device, "user_code": g.user,
		"verification_uri": at, "verification_uri_complete": at + "?user_code=" + url.QueryEscape(g.user),
		"expires_in": int(lifetime.Seconds()), "interval": int(pollInterval.Seconds())})
}

// token answers a poll: the key if the user agreed, otherwise why there is none (RFC
// 8628 3.5).
func (h *handlers) token(w http.ResponseWriter, r *httpkit.Request) error {
	form, err := readForm(r.Request)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	g, refusal := h.desk.poll(form.Get("device_code"), h.Now())
	if refusal != nil {
		return httpkit.JSON(w, http.StatusBadRequest, refusal)
	}
	value := account.NewKey("pk-")
	_, err = h.Keys.CreateKey(r.Context(), account.APIKey{UserID: g.owner, Label: account.MadeKeyLabel, Name: g.keyName(),
		CreatedAt: h.Now().UTC().Truncate(time.Microsecond)}, account.HashKey(value))
	if err != nil {
		h.desk.again(g) // the next poll may succeed
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]any{"access_token": value, "token_type": "bearer"})
}

// decide is what the user says to a code.
func (h *handlers) decide(w http.ResponseWriter, r *httpkit.Request) error {
	var q struct {
		Code    string `json:"user_code"`
		Approve bool   `json:"approve"`
	}
	if err := r.Body(&q); err != nil {
		return err
	}
	if err := h.desk.decide(q.Code, r.Principal.UserID, q.Approve, h.Now()); err != nil {
		return err
	}
	return httpkit.JSON(w, http.StatusOK, map[string]bool{"success": true})
}

// pagePolicy lets the page run its own script and style only, and talk to its own
// server.
const pagePolicy = "default-src 'none'; script-src 'sha256-%HASH%'; style-src 'unsafe-inline'; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

func (h *handlers) page(w http.ResponseWriter, _ *httpkit.Request) error {
	_, rest, _ := strings.Cut(string(page), "<script>")
	script, _, _ := strings.Cut(rest, "</script>")
	sum := sha256.Sum256([]byte(script))
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", strings.Replace(pagePolicy, "%HASH%", base64.StdEncoding.EncodeToString(sum[:]), 1))
	_, err := w.Write(page)
	return err
}

// readForm reads a form, or an object of texts for clients that send JSON. An empty
// body is an empty form.
func readForm(r *http.Request) (url.Values, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForm+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxForm {
		return nil, fault.New(fault.TooLarge, "too_large", "The request has more than %d bytes.", maxForm)
	}
	bad := fault.New(fault.Invalid, "bad_form", "The body is no form.").WithHint("Send application/x-www-form-urlencoded, or a JSON object of texts.")
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/json" && len(body) > 0 {
		var object map[string]any
		if json.Unmarshal(body, &object) != nil {
			return nil, bad
		}
		form := url.Values{}
		for name, value := range object {
			if text, ok := value.(string); ok {
				form.Set(name, text)
			}
		}
		return form, nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, bad
	}
	return form, nil
}
