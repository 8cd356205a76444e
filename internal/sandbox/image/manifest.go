package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"parley/internal/fault"
)

// Bounds of an image's documents.
const (
	maxConfig  = 8 << 20 // bytes
	maxLayers  = 256
	maxIndex   = 1024 // images in one index
	maxNesting = 3    // indexes in each other
	maxBlob    = 64 << 30
)

// blobs are where an image is read from.
type blobs interface {
	// manifest returns a document by tag or digest.
	manifest(ctx context.Context, identifier string) ([]byte, error)
	// blob returns a blob. Its digest is checked by the reader's user.
	blob(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error)
}

// plan is an image of which everything is known but its files.
type plan struct {
	name   string  // canonical; "" = not known
	digest v1.Hash // of its manifest; zero = it has none
	id     v1.Hash // of its configuration: names it in the store
	config v1.ConfigFile
	layers []layerPlan
}

// layerPlan is a layer to be had.
type layerPlan struct {
	diffID v1.Hash
	digest v1.Hash // of what is sent; zero = not known
	size   int64   // of what is sent, in bytes
	open   func(ctx context.Context) (io.ReadCloser, error)
}

// resolve reads the documents of an image.
func resolve(ctx context.Context, from blobs, identifier string, o *Options) (*plan, error) {
	for range maxNesting {
		body, err := from.manifest(ctx, identifier)
		if err != nil {
			return nil, err
		}
		digest, err := checkDocument(body, identifier)
		if err != nil {
			return nil, err
		}
		doc, err := parseManifest(body)
		if err != nil {
			return nil, err
		}
		if doc.index == nil {
			return complete(ctx, from, digest, doc.image, o)
		}
		chosen, err := choosePlatform(doc.index.Manifests, o.Platform)
		if err != nil {
			return nil, err
		}
		identifier = chosen.Digest.String()
	}
	return nil, corrupt(nil, "The image is an index of indexes, deeper than any real one.")
}

// checkDocument returns the digest of a document, which must be the one that it
// was asked for by.
func checkDocument(body []byte, identifier string) (v1.Hash, error) {
	if len(body) > maxManifest {
		return v1.Hash{}, tooLarge("The image's manifest is larger than %d bytes.", maxManifest)
	}
	digest, _, err := v1.SHA256(bytes.NewReader(body))
	if err != nil {
		return digest, err
	}
	if strings.Contains(identifier, ":") && digest.String() != identifier {
		return digest, corrupt(nil, "The image's manifest is not what its digest says: %s was expected, %s came.", quote(identifier), digest)
	}
	return digest, nil
}

// document is a manifest or an index; one of them is nil.
type document struct {
	image *v1.Manifest
	index *v1.IndexManifest
}

// parseManifest tells images from indexes by what they have. A document that could
// be read as both is refused: registries and clients would see different images in
// it.
func parseManifest(body []byte) (document, error) {
	var head struct {
		SchemaVersion int             `json:"schemaVersion"`
		Signatures    json.RawMessage `json:"signatures"`
		FSLayers      json.RawMessage `json:"fsLayers"`
		Manifests     json.RawMessage `json:"manifests"`
		Config        json.RawMessage `json:"config"`
		Layers        json.RawMessage `json:"layers"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return document{}, corrupt(err, "The image's manifest is no JSON of one.")
	}
	isIndex, isImage := head.Manifests != nil, head.Config != nil || head.Layers != nil
	switch {
	case head.SchemaVersion == 1 || head.FSLayers != nil || head.Signatures != nil:
		return document{}, fault.New(fault.Unsupported, CodeKind, "The image is in Docker's old format (schema 1), which is not read.").
			WithHint("Pull and push it once with a current Docker or with skopeo.")
	case isIndex == isImage:
		return document{}, corrupt(nil, "The image's manifest is neither clearly an image nor clearly an index.")
	case isIndex:
		return parseIndex(body)
	}
	m := &v1.Manifest{}
	if err := json.Unmarshal(body, m); err != nil {
		return document{}, corrupt(err, "The image's manifest cannot be read.")
	}
	return document{image: m}, checkManifest(m)
}

func parseIndex(body []byte) (document, error) {
	ix := &v1.IndexManifest{}
	if err := json.Unmarshal(body, ix); err != nil {
		return document{}, corrupt(err, "The image's index cannot be read.")
	}
	if len(ix.Manifests) > maxIndex {
		return document{}, tooLarge("The image's index lists more than %d images.", maxIndex)
	}
	if slices.ContainsFunc(ix.Manifests, func(d v1.Descriptor) bool { return !usable(d.Digest) }) {
		return document{}, corrupt(nil, "The image's index lists an image without a sha256 digest.")
	}
	return document{index: ix}, nil
}

// usable reports a digest that is one: only sha256 names files of a store.
func usable(h v1.Hash) bool { return h.Algorithm == "sha256" && len(h.Hex) == 64 }

// configTypes are the configurations of images; anything else is an artifact that
// lies in a registry.
var configTypes = []string{"", "application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"}

func checkManifest(m *v1.Manifest) error {
	if !slices.Contains(configTypes, string(m.Config.MediaType)) {
		return fault.New(fault.Unsupported, CodeKind, "This is no container image but an artifact of type %s.", quote(string(m.Config.MediaType)))
	}
	if len(m.Layers) > maxLayers {
		return tooLarge("The image has %d layers, more than %d.", len(m.Layers), maxLayers)
	}
	if !usable(m.Config.Digest) || m.Config.Size < 0 || m.Config.Size > maxConfig {
		return corrupt(nil, "The image's manifest names no usable configuration.")
	}
	for _, l := range m.Layers {
		kind := string(l.MediaType)
		switch {
		case !usable(l.Digest) || l.Size < 0 || l.Size > maxBlob:
			return corrupt(nil, "The image's manifest lists a layer without a usable digest or size.")
		case strings.Contains(kind, "foreign"), strings.Contains(kind, "nondistributable"):
			return fault.New(fault.Unsupported, CodeKind, "The image has layers that its registry does not hold (of Windows, most likely).")
		case strings.HasSuffix(kind, "+encrypted"):
			return fault.New(fault.Unsupported, CodeKind, "The image's layers are encrypted.")
		}
	}
	return nil
}

// choosePlatform picks the image for a platform. Without a variant in it the first
// one that fits is taken; descriptors without a platform count only if nothing has
// one.
func choosePlatform(list []v1.Descriptor, want v1.Platform) (v1.Descriptor, error) {
	var others []string
	anonymous := -1
	for i, d := range list {
		switch {
		case d.Annotations["vnd.docker.reference.type"] != "":
			continue // an attestation, not an image
		case d.Platform == nil:
			anonymous = i
		case d.Platform.OS == want.OS && d.Platform.Architecture == want.Architecture && (want.Variant == "" || d.Platform.Variant == want.Variant):
			return d, nil
		default:
			others = append(others, fmt.Sprintf("%.40s", d.Platform.String()))
		}
	}
	if len(others) == 0 && anonymous >= 0 {
		return list[anonymous], nil
	}
	return v1.Descriptor{}, wrongPlatform(want, others)
}

func wrongPlatform(want v1.Platform, have []string) error {
	slices.Sort(have)
	have = slices.Compact(have)
	text := "nothing"
	if len(have) > 0 {
		text = quoteList(have)
	}
	return fault.New(fault.Unsupported, CodePlatform, "The image is not made for %s; it has: %s.", want.String(), text).
		WithHint("Choose an image for %s.", want.String())
}

// quoteList shows foreign words, a few of them.
func quoteList(words []string) string {
	const most = 20
	var shown []string
	for _, w := range words[:min(len(words), most)] {
		shown = append(shown, strings.Trim(quote(w), `"`))
	}
	if len(words) > most {
		shown = append(shown, "...")
	}
	return strings.Join(shown, ", ")
}

// complete reads an image's configuration and puts the plan together.
func complete(ctx context.Context, from blobs, digest v1.Hash, m *v1.Manifest, o *Options) (*plan, error) {
	r, err := from.blob(ctx, m.Config)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	_ = r.Close()
	if err != nil {
		return nil, err
	}
	id, _, err := v1.SHA256(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if id != m.Config.Digest {
		return nil, corrupt(nil, "The image's configuration is not what its digest says.")
	}
	p := &plan{digest: digest, id: id}
	if err := p.configure(data, o); err != nil {
		return nil, err
	}
	if len(m.Layers) != len(p.config.RootFS.DiffIDs) {
		return nil, corrupt(nil, "The image has %d layers and the digests of %d.", len(m.Layers), len(p.config.RootFS.DiffIDs))
	}
	for i, l := range m.Layers {
		p.layers = append(p.layers, layerPlan{diffID: p.config.RootFS.DiffIDs[i], digest: l.Digest, size: l.Size,
			open: func(ctx context.Context) (io.ReadCloser, error) { return from.blob(ctx, l) }})
	}
	return p, nil
}

// configure reads the configuration and checks what it is for.
func (p *plan) configure(data []byte, o *Options) error {
	if len(data) > maxConfig {
		return tooLarge("The image's configuration is larger than %d bytes.", maxConfig)
	}
	if err := json.Unmarshal(data, &p.config); err != nil {
		return corrupt(err, "The image's configuration cannot be read.")
	}
	c := &p.config
	if c.OS != o.Platform.OS || c.Architecture != o.Platform.Architecture {
		return wrongPlatform(o.Platform, []string{fmt.Sprintf("%.20s/%.20s", c.OS, c.Architecture)})
	}
	if len(c.RootFS.DiffIDs) > maxLayers {
		return tooLarge("The image has more than %d layers.", maxLayers)
	}
	if slices.ContainsFunc(c.RootFS.DiffIDs, func(h v1.Hash) bool { return !usable(h) }) {
		return corrupt(nil, "The image's configuration lists a layer without a sha256 digest.")
	}
	return nil
}
