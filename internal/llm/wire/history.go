package wire

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"parley/internal/content"
	"parley/internal/lazyre"
)

var illegalInName = lazyre.MustCompile(`[^a-zA-Z0-9_-]+`)

// OriginCompletion marks the tool calls of all APIs but Responses (agent protocol
// 4.3).
const OriginCompletion = "completion"

// maxName is the longest tool name that all known endpoints accept.
const maxName = 64

// LegalName makes a tool name that a model invented acceptable as history.
func LegalName(name string) string {
	name = illegalInName.ReplaceAllString(name, "_")
	if len(name) > maxName {
		name = name[:maxName]
	}
	if name == "" {
		return "unknown"
	}
	return name
}

// LegalArguments makes arguments that are no JSON object acceptable as history:
// many endpoints parse them. The model still sees the beginning of what it wrote.
func LegalArguments(args string) string {
	trimmed := strings.TrimSpace(args)
	if trimmed == "" {
		return "{}"
	}
	if IsObject([]byte(trimmed)) {
		return args
	}
	const shown = 500
	if len(trimmed) > shown {
		trimmed = trimmed[:shown]
	}
	marker, err := json.Marshal(map[string]string{"_invalid_arguments": strings.ToValidUTF8(trimmed, "")})
	if err != nil {
		return "{}"
	}
	return string(marker)
}

// SplitImages divides the parts of a message.
func SplitImages(parts []content.Part) (text, images []content.Part) {
	for _, p := range parts {
		if p.Type == content.TypeImage {
			images = append(images, p)
		} else {
			text = append(text, p)
		}
	}
	return text, images
}

// NoImage is what a model without vision reads in place of an image.
const NoImage = "[an image, not shown: this model takes no images]"

// DataURL takes a data URL apart; ok is false for any other URL and for data
// that is not base64. The data is canonical base64.
func DataURL(u string) (mediaType, data string, ok bool) {
	rest, found := strings.CutPrefix(u, "data:")
	head, body, comma := strings.Cut(rest, ",")
	if !found || !comma {
		return "", "", false
	}
	mediaType, isBase64 := strings.CutSuffix(head, ";base64")
	mediaType, _, _ = strings.Cut(mediaType, ";")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(body))
	if !isBase64 || err != nil {
		return "", "", false
	}
	if mediaType == "" {
		mediaType = "image/png"
	}
	return mediaType, base64.StdEncoding.EncodeToString(raw), true
}
