package gemini

import (
	"net/url"
	"path"
	"strings"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

// imageTypes are the kinds of images that the API reads, by the ending of a file.
func imageTypes() map[string]string {
	return map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp",
		".heic": "image/heic", ".heif": "image/heif"}
}

func isImageType(kind string) bool {
	for _, k := range imageTypes() {
		if k == kind {
			return true
		}
	}
	return false
}

// inResults reports whether a function response may hold an image of the type.
func inResults(kind string) bool {
	return kind == "image/png" || kind == "image/jpeg" || kind == "image/webp"
}

// images renders an image part; a text says what cannot be shown.
func (h *history) images(p content.Part) []wirePart {
	if h.model.cfg.NoVision {
		return []wirePart{text(wire.NoImage)}
	}
	var out []wirePart
	for _, u := range p.ImageURLs {
		out = append(out, h.image(u))
	}
	return out
}

func (h *history) image(u string) wirePart {
	if kind, data, ok := wire.DataURL(u); ok {
		kind = strings.ToLower(kind)
		if kind == "image/jpg" {
			kind = "image/jpeg"
		}
		switch {
		case data == "":
			return text("[an image, not shown: it is empty]")
		case !isImageType(kind):
			return text("[an image of type " + bound(kind) + ", not shown: this model takes PNG, JPEG, WebP, HEIC and HEIF]")
		}
		return wirePart{Inline: &wireBlob{MimeType: kind, Data: data}}
	}
	if strings.HasPrefix(u, "data:") {
		return text("[an image, not shown: its data cannot be read]")
	}
	if at, ok := h.fetched(u); ok {
		return wirePart{File: at}
	}
	return text("[an image at " + bound(u) + ", not shown: this model cannot fetch it]")
}

// fetched renders an image that Google fetches itself.
func (h *history) fetched(address string) (*wireFile, bool) {
	u, err := url.Parse(address)
	fetches := err == nil && u.Host != "" && (u.Scheme == "https" || (u.Scheme == "gs" && h.model.vertex))
	if !fetches || !h.model.gen.fetches() || h.refused.has(refusedFetch) {
		return nil, false
	}
	kind := imageTypes()[strings.ToLower(path.Ext(u.Path))]
	if kind == "" {
		kind = "image/jpeg" // a type is demanded, and Google looks at the data anyway
	}
	return &wireFile{MimeType: kind, URI: address}, true
}

// bound cuts what goes into a remark.
func bound(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.ToValidUTF8(s, "")
}
