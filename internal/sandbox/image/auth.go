package image

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"parley/internal/fault"
)

// credential opens a registry. Its texts are secrets.
type credential struct {
	user, password string
	identity       string // a refresh token, in place of a password
}

func (c credential) empty() bool { return c == credential{} }

// Bounds on the file of credentials.
const (
	maxCredentials = 1 << 20 // bytes
	maxChallenge   = 8 << 10 // bytes of a WWW-Authenticate header
)

// credentialFile is what of config.json and auth.json is used: what is in the file
// itself. Helpers are programs, and are not run.
type credentialFile struct {
	Auths map[string]struct {
		Auth          string `json:"auth"` // base64 of "user:password"
		Username      string `json:"username"`
		Password      string `json:"password"`
		IdentityToken string `json:"identitytoken"`
	} `json:"auths"`
}

// readCredential finds what opens a repository: the entry with the longest name
// that the repository or its registry has. A file that is not there is empty.
func readCredential(path, registry, repository string) (credential, error) {
	if path == "" {
		return credential{}, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return credential{}, nil
	}
	if err != nil {
		return credential{}, badCredentials(err, path)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxCredentials+1))
	if err != nil || len(data) > maxCredentials {
		return credential{}, badCredentials(err, path)
	}
	found, err := pickCredential(data, registry, repository)
	if err != nil {
		return credential{}, badCredentials(nil, path) // the cause may quote a secret
	}
	return found, nil
}

func badCredentials(err error, path string) error {
	return fault.Wrap(err, fault.Invalid, CodeCredentials, "The registry credentials in %s cannot be read.", quote(path)).
		WithHint("It must be JSON as `docker login` writes it, readable for the server's user.")
}

func pickCredential(data []byte, registry, repository string) (credential, error) {
	var file credentialFile
	if err := json.Unmarshal(data, &file); err != nil {
		return credential{}, err
	}
	best, wanted := "", registryName(registry)+"/"+repository
	var found credential
	for key, entry := range file.Auths {
		scope := credentialScope(key)
		if len(scope) <= len(best) || !within(wanted, scope) {
			continue
		}
		c := credential{user: entry.Username, password: entry.Password, identity: entry.IdentityToken}
		if entry.Auth != "" {
			plain, err := base64.StdEncoding.DecodeString(entry.Auth)
			if err != nil {
				return credential{}, err
			}
			c.user, c.password, _ = strings.Cut(strings.TrimRight(string(plain), "\x00"), ":")
		}
		if !c.empty() {
			best, found = scope, c
		}
	}
	return found, nil
}

// credentialScope is what an entry is for: a registry, or repositories of it.
// Docker writes old registries as URLs.
func credentialScope(key string) string {
	for _, prefix := range []string{"https://", "http://"} {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			host, _, _ := strings.Cut(rest, "/")
			return registryName(host)
		}
	}
	host, path, deeper := strings.Cut(strings.TrimRight(key, "/"), "/")
	if !deeper {
		return registryName(host)
	}
	return registryName(host) + "/" + path
}

// challenge is a WWW-Authenticate header (RFC 9110 11.6.1): what a registry wants.
type challenge struct {
	scheme string // lower case
	params map[string]string
}

// parseChallenge reads the first challenge of a header. What makes no sense ends
// it: what was read until then counts.
func parseChallenge(header string) challenge {
	if len(header) > maxChallenge {
		return challenge{}
	}
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	c := challenge{scheme: strings.ToLower(scheme), params: map[string]string{}}
	for {
		rest = strings.TrimLeft(rest, " \t,")
		key, after, ok := strings.Cut(rest, "=")
		if !ok {
			return c
		}
		value, next, ok := challengeValue(after)
		if !ok {
			return c
		}
		if key = strings.ToLower(strings.TrimSpace(key)); c.params[key] == "" {
			c.params[key] = value
		}
		rest = next
	}
}

// challengeValue reads a token or a quoted string.
func challengeValue(text string) (value, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, ", \t")
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:], end > 0
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			if i++; i == len(text) {
				return "", "", false
			}
		}
		b.WriteByte(text[i])
	}
	return "", "", false
}
