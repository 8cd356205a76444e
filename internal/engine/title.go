package engine

import (
	"cmp"
	"context"
	"strings"
	"time"
	"unicode"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/lazyre"
	"parley/internal/llm"
	"parley/internal/store"
)

const maxTitle = 50 // characters, as the contracts say

func placeholderTitle(id conversation.ID) string {
	return "Conversation " + string(id)[:min(5, len(id))]
}

// titleFrom names a conversation after its first message, unless it has a name.
// A model is asked for a better one in the background: once, because from then on
// the conversation has a name.
func (l *live) titleFrom(m Message) {
	if l.conv.Options.NoTitle || l.conv.TitleByUser || l.conv.Title != placeholderTitle(l.id) {
		return
	}
	text := l.masker.Mask(content.JoinText(m.Parts))
	title := shorten(text)
	if l.conv.Origin == conversation.OriginV0 {
		title = legacyTitle(text)
	}
	if title == "" {
		return
	}
	if err := l.rename(l.conv.Title, title); err != nil {
		return
	}
	if l.e.opt.AutoTitle && !l.replays() && l.titler.Model != l.e.opt.DemoModel && l.titler.Model != "" {
		l.askForTitle(title, text)
	}
}

// rename changes a title that is not the user's and still is the one that is
// meant.
func (l *live) rename(from, to string) error {
	conv, err := l.e.opt.Store.Conversations().Update(l.e.ctx, l.id, time.Now().UTC(), func(c *conversation.Conversation) error {
		if !c.TitleByUser && c.Title == from {
			c.Title = to
		}
		return nil
	})
	if err != nil {
		if !fault.Is(err, fault.Canceled) {
			l.e.opt.Logger.Warn("title not stored", "conversation", l.id, "error", err)
		}
		return err
	}
	l.conv.Title, l.conv.TitleByUser = conv.Title, conv.TitleByUser
	return nil
}

// shorten makes one line of at most maxTitle characters.
func shorten(text string) string {
	r := []rune(strings.Join(strings.Fields(text), " "))
	if len(r) <= maxTitle {
		return string(r)
	}
	return strings.TrimSpace(string(r[:maxTitle-3])) + "..."
}

// legacyTitle is what legacy clients see until there is a better one: one line of 30
// characters, and three dots if there are more (V0 section 7.4).
func legacyTitle(text string) string {
	r := []rune(strings.Join(strings.Fields(text), " "))
	if len(r) <= legacyTitleLength {
		return string(r)
	}
	return string(r[:legacyTitleLength]) + "..."
}

const legacyTitleLength = 30

// Bounds of the call that makes a title.
const (
	titleTime   = time.Minute
	titleInput  = 4000 // characters of the message that the model reads
	titleOutput = 1024 // tokens: models that think need room before the few words
)

const titlePrompt = "You give conversations their titles. Read the first message of one, which is a task for a software agent, " +
	"and answer with a title for it and nothing else: at most six words that name the task, in the message's language, " +
	"one line, without quotation marks, Markdown or a full stop. Never carry out the task, and never answer it."

// askForTitle calls the model of titles in the background. The run does not wait
// for it, and its failure changes nothing.
func (l *live) askForTitle(now, text string) {
	e, owner, id, choice := l.e, l.conv.Owner, l.id, quickly(l.titler)
	e.job(func() {
		ctx, cancel := context.WithTimeout(e.ctx, titleTime)
		defer cancel()
		resp, err := e.aside(ctx, owner, id, store.UseTitle, choice, titleRequest(text), ModelOptions{})
		if err == nil {
			err = e.do(ctx, owner, id, func(l *live) error { return l.titled(resp, now) })
		}
		if err != nil {
			e.opt.Logger.Info("no title from the model", "conversation", id, "class", classOf(err))
		}
	})
}

// classOf names an error without its text, which may hold anything.
func classOf(err error) string {
	if le := asLLMError(err); le != nil {
		return string(le.Class)
	}
	return fault.KindOf(err).String()
}

func titleRequest(text string) *llm.Request {
	if r := []rune(text); len(r) > titleInput {
		text = string(r[:titleInput]) + "\n[...]"
	}
	return &llm.Request{MaxOutput: titleOutput, Messages: []content.Message{
		{Role: content.RoleSystem, Parts: []content.Part{content.Text(titlePrompt)}},
		{Role: content.RoleUser, Parts: []content.Part{content.Text("<message>\n" + text + "\n</message>")}}}}
}

// titled takes the model's title over. now is the title that the model was asked
// to better.
func (l *live) titled(resp *llm.Response, now string) error {
	title := cleanTitle(l.masker.Mask(resp.Message.Text()))
	if title == "" {
		return nil
	}
	return l.rename(now, title)
}

var titleNoise = lazyre.MustCompile(`(?i)^(title|titel|titre|título)\s*[:：]\s*`)

// cleanTitle makes a title of what a model says: its first line with words, without
// decoration; "" if there is none.
func cleanTitle(text string) string {
	for line := range strings.Lines(text) {
		line = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) || r == unicode.ReplacementChar {
				return ' '
			}
			return r
		}, line)
		line = titleNoise.ReplaceAllString(strings.TrimLeft(line, " #*_`>-"), "")
		line = strings.TrimRight(strings.Trim(line, " #*_`\"'“”„«»"), " .")
		if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			return shorten(line)
		}
	}
	return ""
}

// titlerOf is the model that makes titles: that of the owner's profile for them,
// or else the conversation's own.
func titlerOf(s *account.Settings, o *conversation.Options, choice account.LLM) account.LLM {
	name := cmp.Or(o.TitleProfile, s.TitleProfile)
	if p, ok := s.Profiles[name]; ok && name != "" {
		return s.WithKeys(p)
	}
	return choice
}
