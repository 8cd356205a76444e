package image

import (
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"parley/internal/fault"
)

// dockerHub is the registry of names without one, as its API calls it and as
// people do.
const (
	dockerHub     = "index.docker.io"
	dockerHubName = "docker.io"
)

// maxRef bounds a reference, in bytes.
const maxRef = 1024

// reference is what an image is asked for by.
type reference struct {
	text   string         // canonical
	remote name.Reference // nil = a file
	path   string         // of the file or directory, clean and absolute
	chosen string         // which image in it; "" = there is one only
}

// filePrefixes begin references of local files. What a file holds is told from
// the file: both forms read both.
var filePrefixes = []string{"oci:", "docker-archive:"}

// parseRef reads a reference: names of registries as docker reads them ("debian",
// "ghcr.io/org/name:tag", "name@sha256:..."), and oci:PATH or docker-archive:PATH,
// each with :NAME if there are several images in it.
func parseRef(text string) (reference, error) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxRef {
		return reference{}, badRef(nil, text)
	}
	for _, prefix := range filePrefixes {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			return parseFileRef(prefix, rest)
		}
	}
	ref, err := name.ParseReference(text)
	if err != nil || strings.HasPrefix(ref.Context().RegistryStr(), ".") {
		return reference{}, badRef(err, text)
	}
	canonical := ref.Name()
	if rest, ok := strings.CutPrefix(canonical, dockerHub+"/"); ok {
		canonical = dockerHubName + "/" + rest
	}
	return reference{text: canonical, remote: ref}, nil
}

func badRef(err error, text string) error {
	return fault.Wrap(err, fault.Invalid, CodeRef, "%s is no reference of a container image.", quote(text)).
		WithHint("Write a name as in `docker pull` (debian:12, ghcr.io/org/name:tag, name@sha256:...), oci:/path or docker-archive:/path.")
}

func parseFileRef(prefix, rest string) (reference, error) {
	path, chosen := rest, ""
	if colon := strings.IndexByte(rest, ':'); colon >= 0 {
		path, chosen = rest[:colon], rest[colon+1:]
	}
	if !filepath.IsAbs(path) || strings.ContainsRune(rest, 0) {
		return reference{}, badRef(nil, prefix+rest)
	}
	ref := reference{path: filepath.Clean(path), chosen: chosen}
	ref.text = prefix + ref.path
	if chosen != "" {
		ref.text += ":" + chosen
	}
	return ref, nil
}

// Normalize returns the canonical form of a reference: "debian" is
// "docker.io/library/debian:latest". Errors are Invalid.
func Normalize(ref string) (string, error) {
	parsed, err := parseRef(ref)
	return parsed.text, err
}

// permitted holds Options.Registries and Options.Files.
func (o *Options) permitted(ref reference) error {
	if ref.remote == nil {
		if slices.ContainsFunc(o.Files, func(root string) bool { return within(ref.path, filepath.Clean(root)) }) {
			return nil
		}
		return fault.New(fault.Forbidden, CodeRefused, "The server may not read images from %s.", quote(ref.path)).
			WithHint("Add it once with `parley images load`, and use it by its name.")
	}
	registry := registryName(ref.remote.Context().RegistryStr())
	if len(o.Registries) == 0 || slices.ContainsFunc(o.Registries, func(p string) bool { return matchHost(p, registry) }) {
		return nil
	}
	return fault.New(fault.Forbidden, CodeRefused, "Images of the registry %s may not be used here.", quote(registry)).
		WithHint("The operator's list has: %s.", strings.Join(o.Registries, ", "))
}

// registryName spells a registry as people do.
func registryName(host string) string {
	switch host = strings.ToLower(host); host {
	case dockerHub, "registry-1.docker.io":
		return dockerHubName
	}
	return host
}

// matchHost compares a host[:port] with a pattern: itself, or "*." and a domain.
// A pattern without a port stands for all ports.
func matchHost(pattern, host string) bool {
	pattern = registryName(pattern)
	bare := host
	if name, _, err := net.SplitHostPort(host); err == nil {
		bare = name
	}
	if domain, ok := strings.CutPrefix(pattern, "*."); ok {
		return strings.HasSuffix(host, "."+domain) || strings.HasSuffix(bare, "."+domain)
	}
	return pattern == host || pattern == bare
}

// within reports whether a clean path is parent or lies below it.
func within(path, parent string) bool {
	return path == parent || parent == "/" || strings.HasPrefix(path, parent+"/")
}
