package bedrock

import (
	"encoding/base64"
	"net/http"
	"strings"

	"parley/internal/llm/failure"
	"parley/internal/llm/wire"
)

// imageBlock renders an image. The API takes bytes only: an address is told to
// the model as what it is, for Parley does not fetch what a conversation names.
func imageBlock(u string) block {
	kind, data, ok := wire.DataURL(u)
	if !ok {
		if strings.HasPrefix(u, "http://") || strings.HasPrefix(u, "https://") {
			return block{Text: failure.Bound("[an image, not shown: it is at " + u + "]")}
		}
		return block{Text: "[an image, not shown: it cannot be read]"}
	}
	format := imageFormat(kind, data)
	if format == "" {
		return block{Text: "[an image, not shown: models take png, jpeg, gif and webp]"}
	}
	return block{Image: &image{Format: format, Source: imageSource{Bytes: data}}}
}

// imageFormat is what the first bytes say, for models refuse an image under a
// wrong name; where they say nothing, what the media type says. "" = none that
// the API knows.
func imageFormat(kind, data string) string {
	if data == "" {
		return ""
	}
	head, err := base64.StdEncoding.DecodeString(data[:min(len(data), 64)&^3])
	if err != nil {
		return ""
	}
	for _, k := range []string{http.DetectContentType(head), strings.ToLower(strings.TrimSpace(kind))} {
		switch k {
		case "image/png", "image/jpeg", "image/gif", "image/webp":
			return strings.TrimPrefix(k, "image/")
		case "image/jpg":
			return "jpeg"
		}
	}
	return ""
}
