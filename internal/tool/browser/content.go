package browser

import (
	"context"
	"fmt"
	"path"
	"strings"

	"parley/internal/tool"
)

const (
	contentPage = 30_000    // characters of one answer
	maxContent  = 2_000_000 // characters of a page that are read
)

// GetContentAction is the input of browser_get_content.
type GetContentAction struct {
	Links bool `json:"extract_links" default:"false" desc:"true: with the addresses of links and images."`
	Start int  `json:"start_from_char" default:"0" min:"0" desc:"Character to begin with, to read on in a long page."`
}

// pageContent is what page.js makes of a frame.
type pageContent struct {
	about
	Text    string `json:"text"`
	Partial bool   `json:"partial"`
}

func getContent(ctx context.Context, b *browser, in GetContentAction) (reply, error) {
	x, err := b.active(ctx)
	if err != nil {
		return reply{}, err
	}
	page, err := b.content(ctx, x, in.Links)
	if err != nil {
		return reply{}, err
	}
	if page.Text == "" {
		text := "The page has no text."
		if page.Type == "application/pdf" {
			text = "The page is a PDF, whose text the browser does not give. Download it with curl and use pdftotext in the terminal."
		}
		return reply{text: text}, nil
	}
	return b.cutContent(ctx, page, in.Start)
}

// content reads all frames of a tab.
func (b *browser) content(ctx context.Context, x tab, links bool) (pageContent, error) {
	frames, err := b.frames(ctx, x)
	if err != nil {
		return pageContent{}, err
	}
	var page pageContent
	for i, f := range frames {
		var part pageContent
		err := b.evalIn(ctx, x, f.ID, "content", map[string]any{"links": links, "max": maxContent - len(page.Text)}, &part)
		switch {
		case err != nil && (i == 0 || ctx.Err() != nil || lost(err)):
			return pageContent{}, err
		case err != nil || i > 0 && part.Text == "":
			continue
		case i == 0:
			page = part
		default:
			page.Text += "\n\n--- Frame " + clip(f.URL, 300) + "\n\n" + part.Text
		}
		if page.Partial = page.Partial || part.Partial; len(page.Text) >= maxContent {
			break
		}
	}
	page.Text = strings.TrimSpace(page.Text)
	return page, nil
}

// cutContent gives a part of a page, and stores the whole of a long one.
func (b *browser) cutContent(ctx context.Context, page pageContent, start int) (reply, error) {
	text := []rune(page.Text)
	if start >= len(text) {
		return reply{}, tool.Wrong("The page has %d characters; start_from_char is %d.", len(text), start)
	}
	end := min(len(text), start+contentPage)
	head := fmt.Sprintf("%s (%s)", clip(oneLine(page.Title), 200), clip(page.URL, 500))
	r := reply{}
	if len(text) > contentPage {
		head += fmt.Sprintf("\nCharacters %d to %d of %d.", start, end, len(text))
		if end < len(text) {
			head += fmt.Sprintf(" Go on with start_from_char %d.", end)
		}
		if page.Partial {
			head += " The page is longer than what is read of it."
		}
		dir := path.Join(b.dir(), "content")
		file := path.Join(dir, "page.md")
		if b.env.Hands.WriteFile(ctx, file, []byte(page.Text), tool.WriteOptions{Parents: true, Mode: 0o600}) == nil {
			head += " All of it is in " + file + " until the next long page."
			r.saveDir = dir
		}
	}
	r.text = head + "\n\n" + string(text[start:end])
	return r, nil
}
