package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif" // the formats that models see
	_ "image/jpeg"
	_ "image/png"
	"net/http"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/internal/content"
)

// Bounds of one result.
const (
	maxText   = 1 << 20 // bytes of all texts
	maxParts  = 1000
	maxImages = 8
	maxImage  = 3 << 20 // bytes
	maxSide   = 8000    // pixels
)

// imageTypes are what models can look at.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// writer collects what a model reads of an answer, within the bounds.
type writer struct {
	mask   func(string) string
	parts  []content.Part
	left   int // bytes of text
	images int
	lost   int // parts that did not fit
}

func newWriter(mask func(string) string) *writer { return &writer{mask: mask, left: maxText} }

// render turns the result of a call into what a model reads.
func render(result *sdk.CallToolResult, mask func(string) string) reply {
	w := newWriter(mask)
	for _, c := range result.Content {
		w.content(c)
	}
	w.structured(result)
	return reply{parts: w.finish(), isError: result.IsError}
}

func (w *writer) content(c sdk.Content) {
	switch c := c.(type) {
	case *sdk.TextContent:
		w.text(c.Text)
	case *sdk.ImageContent:
		w.image(c.Data, "image")
	case *sdk.AudioContent:
		w.text(fmt.Sprintf("[Audio, %s, %d bytes: it cannot be shown.]", oneLine(c.MIMEType, 60), len(c.Data)))
	case *sdk.ResourceLink:
		w.text(linkText(c))
	case *sdk.EmbeddedResource:
		w.resource(c.Resource)
	}
}

func linkText(c *sdk.ResourceLink) string {
	text := "[Resource " + oneLine(c.URI, 1000)
	for _, more := range []string{c.Name, c.MIMEType, c.Description} {
		if more = oneLine(more, 300); more != "" {
			text += ", " + more
		}
	}
	return text + "]"
}

// resource shows a resource that an answer holds.
func (w *writer) resource(r *sdk.ResourceContents) {
	if r == nil {
		return
	}
	name := "resource " + oneLine(r.URI, 1000)
	switch {
	case r.Blob != nil && strings.HasPrefix(r.MIMEType, "image/"):
		w.image(r.Blob, name)
	case r.Blob != nil:
		w.text(fmt.Sprintf("[Resource %s, %s, %d bytes that are no text.]", oneLine(r.URI, 1000), orElse(oneLine(r.MIMEType, 60), "of no known type"), len(r.Blob)))
	default:
		w.text("[Resource " + oneLine(r.URI, 1000) + "]\n" + r.Text)
	}
}

// text adds a text. It is masked before it is cut.
func (w *writer) text(text string) {
	if len(w.parts) >= maxParts || w.left <= 0 {
		w.lost++
		return
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if w.mask != nil {
		text = w.mask(text)
	}
	short, cut := clip(text, w.left)
	if cut {
		short += fmt.Sprintf("\n[%d more bytes are left out: an answer has at most %d KiB of text.]", len(text)-len(short), maxText>>10)
	}
	w.left -= len(text)
	w.parts = append(w.parts, content.Text(short))
}

// image adds an image if it is one: APIs of models refuse all of a conversation for one
// image that they cannot read.
func (w *writer) image(data []byte, what string) {
	kind := http.DetectContentType(data)
	problem := ""
	size, _, err := image.DecodeConfig(bytes.NewReader(data))
	switch {
	case !slices.Contains(imageTypes, kind), err != nil && kind != "image/webp":
		problem = "it is none that can be shown"
	case size.Width > maxSide || size.Height > maxSide:
		problem = fmt.Sprintf("it is larger than %d x %d", maxSide, maxSide)
	case len(data) > maxImage:
		problem = fmt.Sprintf("it has more than %d MiB", maxImage>>20)
	case w.images >= maxImages:
		problem = fmt.Sprintf("there are more than %d", maxImages)
	}
	if problem != "" {
		w.text(fmt.Sprintf("[An %s of %d bytes is left out: %s.]", what, len(data), problem))
		return
	}
	w.images++
	w.parts = append(w.parts, content.Image("data:"+kind+";base64,"+base64.StdEncoding.EncodeToString(data)))
}

// structured adds the structured content, unless a text says the same.
func (w *writer) structured(result *sdk.CallToolResult) {
	if result.StructuredContent == nil {
		return
	}
	raw, err := content.Marshal(result.StructuredContent)
	if err != nil {
		return
	}
	for _, c := range result.Content {
		if t, ok := c.(*sdk.TextContent); ok && sameJSON(t.Text, raw) {
			return
		}
	}
	w.text(string(raw))
}

func sameJSON(text string, raw []byte) bool {
	var v any
	if len(text) > maxText || json.Unmarshal([]byte(text), &v) != nil {
		return false
	}
	again, err := content.Marshal(v)
	return err == nil && bytes.Equal(again, raw)
}

func (w *writer) finish() []content.Part {
	if w.lost > 0 {
		w.parts = append(w.parts, content.Text(fmt.Sprintf("[%s more left out: the answer is too long.]", count(w.lost, "part"))))
	}
	if len(w.parts) == 0 {
		return []content.Part{content.Text("The answer is empty.")}
	}
	return w.parts
}
