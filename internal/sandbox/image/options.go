package image

import (
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Options configure a store. Dir alone is enough.
type Options struct {
	// Dir holds everything. Nobody but the server's user gets into it: images bring
	// programs with the setuid bit.
	Dir string
	// Platform is the one to choose of an image; zero = Linux on this processor.
	Platform v1.Platform
	// Registries are those that may be used: "ghcr.io", "registry.example.com:5000",
	// "*.example.com" for all names below a domain. Empty = every one.
	Registries []string
	// AllowHosts may have private and loopback addresses: a host for all its ports,
	// or host:port. All others are reached at public addresses only.
	AllowHosts []string
	// Insecure are registries (host:port) that speak HTTP without TLS. They may have
	// private and loopback addresses, too.
	Insecure []string
	// Files are the files and directories that references oci: and docker-archive:
	// may name, with all that is below them. Empty = none. Load is not bound to it.
	Files []string
	// Credentials is a file as `docker login` and `podman login` write it
	// (config.json, auth.json); it is read at every pull. "" = no credentials.
	Credentials string
	// Proxy chooses a proxy for a request; nil = none. Behind a proxy it is the proxy
	// that decides which addresses can be reached.
	Proxy func(*http.Request) (*url.URL, error)
	// MaxBytes bounds an unpacked image, MaxFiles its entries; 0 = 32 GiB, 2,000,000.
	MaxBytes int64
	MaxFiles int64
	// PullTimeout bounds a pull as a whole; 0 = 30 minutes.
	PullTimeout time.Duration
	// Logger gets what does not fail an operation; nil discards.
	Logger *slog.Logger

	asUser bool          // behaves as for an ordinary user although it is root
	pause  time.Duration // before the first retry; 0 = 500 ms
	idle   time.Duration // that a download may stand still; 0 = 60 s
}

func (o Options) withDefaults() (Options, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, storeFault(err)
	}
	o.Dir = dir
	if o.Platform.OS == "" {
		o.Platform = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 32 << 30
	}
	if o.MaxFiles <= 0 {
		o.MaxFiles = 2_000_000
	}
	if o.PullTimeout <= 0 {
		o.PullTimeout = 30 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.pause <= 0 {
		o.pause = 500 * time.Millisecond
	}
	if o.idle <= 0 {
		o.idle = time.Minute
	}
	o.asUser = o.asUser || os.Geteuid() != 0
	return o, nil
}
