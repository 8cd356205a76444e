package anthropic

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

type imageSource struct {
	Type      string `json:"type"` // "base64" or "url"
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

// noteBadImage is what the model reads in place of an image the API would refuse.
const noteBadImage = "[an image, not shown: it cannot be read]"

// parts renders the parts of a user message or a tool result.
func (m *Model) parts(parts []content.Part) []*block {
	var out []*block
	for _, p := range parts {
		switch {
		case p.Type != content.TypeImage:
			if !isBlank(p.Text) {
				out = append(out, textBlock(p.Text))
			}
		case m.cfg.NoVision:
			out = append(out, textBlock(wire.NoImage))
		default:
			for _, u := range p.ImageURLs {
				out = append(out, imageBlock(u))
			}
		}
	}
	return out
}

func imageBlock(address string) *block {
	if kind, data, ok := wire.DataURL(address); ok {
		if kind = imageKind(kind, data); kind == "" {
			return textBlock(noteBadImage)
		}
		return &block{Type: typeImage, Source: &imageSource{Type: "base64", MediaType: kind, Data: data}}
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return textBlock(noteBadImage)
	}
	return &block{Type: typeImage, Source: &imageSource{Type: "url", URL: address}}
}

// imageKind returns the media type of an image, from its first bytes where they
// tell, because the API refuses a wrong one; "" = none that it takes.
func imageKind(declared, data string) string {
	head, err := base64.StdEncoding.DecodeString(data[:min(len(data), 64)&^3])
	if err != nil || data == "" {
		return ""
	}
	kind := strings.ToLower(declared)
	if kind == "image/jpg" {
		kind = "image/jpeg"
	}
	if sniffed := http.DetectContentType(head); strings.HasPrefix(sniffed, "image/") {
		kind = sniffed
	}
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return kind
	}
	return ""
}
