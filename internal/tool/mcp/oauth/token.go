package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	maxToken       = 32 << 10  // bytes of a token, an id or a secret
	maxTokenAnswer = 256 << 10 // bytes of an answer of the token endpoint
)

// tokens is an answer of a token endpoint.
type tokens struct {
	access  string
	refresh string
	seconds int64 // of the access token; 0 = not said
	scope   string
}

// tokenRefusal is an error of a token endpoint (RFC 6749, 5.2).
type tokenRefusal struct{ code string }

// passing reports whether another try may help.
func (r *tokenRefusal) passing() bool {
	switch r.code {
	case "server_error", "temporarily_unavailable", "slow_down", unknownError:
		return true
	}
	return false
}

func (r *tokenRefusal) Error() string { return "the token endpoint says " + r.code }

// unknownError is what stands for a code that is none.
const unknownError = "an error"

// errorCode returns an error code of an authorization server if it looks like one.
func errorCode(code string) string {
	bad := strings.ContainsFunc(code, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
	if code == "" || len(code) > 40 || bad {
		return unknownError
	}
	return code
}

// ask sends a form to a token endpoint as a client. Errors are *tokenRefusal or
// trouble on the way; none has anything secret.
func (s *Service) ask(ctx context.Context, endpoint string, c client, form url.Values) (tokens, error) {
	if c.Auth != authBasic {
		form.Set("client_id", c.ID)
	}
	if c.Auth == authPost {
		form.Set("client_secret", c.Secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return tokens{}, errors.New("the token endpoint has no address")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if c.Auth == authBasic {
		req.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret))
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return tokens{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer+1))
	switch {
	case err != nil:
		return tokens{}, err
	case len(raw) > maxTokenAnswer:
		return tokens{}, errors.New("the answer of the token endpoint is too long")
	}
	return decodeTokens(resp.StatusCode, raw)
}

// decodeTokens reads an answer of a token endpoint.
func decodeTokens(status int, raw []byte) (tokens, error) {
	var a struct {
		Access  string          `json:"access_token"`
		Type    string          `json:"token_type"`
		Expires json.RawMessage `json:"expires_in"`
		Refresh string          `json:"refresh_token"`
		Scope   json.RawMessage `json:"scope"`
		Error   string          `json:"error"`
	}
	err := json.Unmarshal(raw, &a)
	switch {
	case err == nil && a.Error != "" && (status == http.StatusOK || status >= 400 && status < 500):
		return tokens{}, &tokenRefusal{errorCode(a.Error)}
	case status != http.StatusOK:
		return tokens{}, errors.New("the token endpoint answers with status " + strconv.Itoa(status))
	case err != nil:
		return tokens{}, errors.New("the token endpoint does not answer in JSON")
	case !strings.EqualFold(a.Type, "bearer"):
		return tokens{}, errors.New("the token is no bearer token")
	case a.Access == "" || len(a.Access) > maxToken || len(a.Refresh) > maxToken || !httpguts.ValidHeaderFieldValue(a.Access) || strings.ContainsAny(a.Access, " \t"):
		return tokens{}, errors.New("the token cannot be sent")
	}
	t := tokens{access: a.Access, refresh: a.Refresh, seconds: seconds(a.Expires)}
	_ = json.Unmarshal(a.Scope, &t.scope) // anything else says nothing
	if len(t.scope) > maxToken {
		t.scope = ""
	}
	return t, nil
}

// seconds reads a number, which some servers send as a text; 0 = not said.
func seconds(raw json.RawMessage) int64 {
	const year = 366 * 24 * 3600
	f, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return int64(max(1, min(f, 10*year)))
}
