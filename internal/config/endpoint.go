package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"parley/internal/account"
)

// KeyFile is the name of the file in the data directory that holds the first
// user's API key.
const KeyFile = "session-key"

// maxKeyBytes bounds the key file.
const maxKeyBytes = 4 << 10

// Endpoint is a server as a client command reaches it.
type Endpoint struct {
	URL string // without a trailing slash
	Key account.Secret
	// KeyFrom says where the key is from, or why there is none.
	KeyFrom string
}

// Endpoint returns the server and key of the client commands. The key of this
// machine's server is only ever used for an address of this machine.
func (l *Loaded) Endpoint() Endpoint {
	e := Endpoint{URL: l.Config.Client.Server}
	local := e.URL == "" || onThisMachine(e.URL)
	if e.URL == "" {
		e.URL = localURL(l.Config.Listen)
	}
	switch {
	case l.Config.Client.APIKey.IsSet():
		e.Key, e.KeyFrom = l.Config.Client.APIKey, l.Origin("api_key")
	case !local:
		e.KeyFrom = "none was given for a server on another machine"
	case l.Config.SessionAPIKey.IsSet():
		e.Key, e.KeyFrom = l.Config.SessionAPIKey, l.Origin("session_api_key")
	default:
		e.Key, e.KeyFrom = readKeyFile(filepath.Join(l.Config.Data, KeyFile))
	}
	return e
}

// Origin returns where a key's value is from.
func (l *Loaded) Origin(key string) string {
	for _, s := range l.Settings {
		if s.Key == key {
			return s.Origin
		}
	}
	return ""
}

// localURL is how a process on this machine reaches a listen address: through
// loopback where the server listens on all addresses.
func localURL(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "http://" + listen
	}
	if ip, err := netip.ParseAddr(host); host == "" || (err == nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
		if ip.Is6() {
			host = "::1"
		}
	}
	return "http://" + net.JoinHostPort(host, port)
}

// onThisMachine reports whether a URL's host is loopback.
func onThisMachine(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback()
}

func readKeyFile(path string) (account.Secret, string) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return account.Secret{}, fmt.Sprintf("%s does not exist (no server has used this data directory yet)", path)
	case err != nil:
		return account.Secret{}, fmt.Sprintf("%s cannot be read: %v", path, errors.Unwrap(err))
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxKeyBytes))
	key := strings.TrimSpace(string(data))
	if err != nil || key == "" {
		return account.Secret{}, path + " holds no key"
	}
	return account.NewSecret(key), "file " + path
}
