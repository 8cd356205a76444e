package mcp

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"parley/internal/account"
	"parley/internal/fault"
)

// codeConfig is the code of faults of a server's configuration.
const codeConfig = "mcp_configuration"

// conversationHeader tells a server the conversation (v0 API 4).
const conversationHeader = "X-OpenHands-ServerConversation-ID"

// target is where a server on the network is, and what every request to it carries.
type target struct {
	url    *url.URL
	header http.Header
	bad    error // a header that cannot be sent
}

// resolve expands the names of secrets in a configuration.
func resolve(s *account.MCPHTTPServer, secret lookup, conversation string) (*target, error) {
	raw, err := secret.expand(s.URL)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Hostname() == "" {
		return nil, fault.New(fault.Invalid, codeConfig, "Its URL cannot be read.") // err would show the URL
	}
	if u.Scheme = strings.ToLower(u.Scheme); u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.New(fault.Unsupported, codeConfig, "Its URL begins with %s://, which is no transport of MCP.", u.Scheme).
			WithHint("Use the server's http:// or https:// address.")
	}
	t := &target{url: u, header: http.Header{}}
	if err := t.credentials(s, secret); err != nil {
		return nil, err
	}
	if id := printable(conversation); id != "" {
		t.header.Set(conversationHeader, id)
	}
	return t, nil
}

func (t *target) credentials(s *account.MCPHTTPServer, secret lookup) error {
	if s.APIKey.IsSet() {
		key, err := secret.expand(s.APIKey.Reveal())
		if err != nil {
			return err
		}
		t.set("Authorization", "Bearer "+key)
		t.set("s", key)
		t.set("X-Session-API-Key", key)
	}
	if err := t.auth(s.Auth, secret); err != nil {
		return err
	}
	if err := t.setAll(s.Headers, secret); err != nil {
		return err
	}
	return t.bad
}

func (t *target) setAll(headers map[string]account.Secret, secret lookup) error {
	for name, value := range headers {
		text, err := secret.expand(value.Reveal())
		if err != nil {
			return err
		}
		t.set(name, text)
	}
	return nil
}

// set adds a header. A value that no header can hold is remembered, not shown.
func (t *target) set(name, value string) {
	value = strings.TrimSpace(value)
	if strings.ContainsFunc(value, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }) || strings.ContainsAny(name, " \t\r\n:") || name == "" {
		t.bad = fault.New(fault.Invalid, codeConfig, "The header %q cannot be sent: its name or value has characters that no header can have.", oneLine(name, 60))
		return
	}
	t.header.Set(name, value)
}

func (t *target) auth(a *account.MCPAuth, secret lookup) error {
	if a == nil {
		return nil
	}
	value, err := secret.expand(a.Value.Reveal())
	if err != nil {
		return err
	}
	user, err := secret.expand(a.Username)
	if err != nil {
		return err
	}
	switch a.Strategy {
	case account.MCPAuthAPIKey:
		t.set(orElse(a.Header, "X-API-Key"), value)
	case account.MCPAuthBasic:
		t.set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+value)))
	case account.MCPAuthHeader:
		return t.setAll(a.Headers, secret)
	case account.MCPAuthOAuth: // see guard
	default:
		return fault.New(fault.Unsupported, codeConfig, "Its way of authentication (%s) is not known.", oneLine(a.Strategy, 40))
	}
	return nil
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// owns reports whether requests to u may carry the target's credentials: the same
// host, and never less protection than was asked for.
func (t *target) owns(u *url.URL) bool {
	if u.Host == t.url.Host && u.Scheme == t.url.Scheme {
		return true
	}
	return t.url.Scheme == "http" && u.Scheme == "https" && u.Hostname() == t.url.Hostname() && t.url.Port() == "" && u.Port() == ""
}

// printable drops what no header can hold.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return -1
		}
		return r
	}, text)
}

// statusText names an HTTP status for people.
func statusText(code int) string {
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s", code, http.StatusText(code)))
}
