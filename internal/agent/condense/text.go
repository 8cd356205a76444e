package condense

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/tool"
)

// fence is the line around quoted text. No quoted text has such a line: see quote.
const fence = "~~~~~~~~~"

// Clip shortens a text to so many bytes, marker included: the head and the tail
// stay, cut between characters. A text that fits is returned as it is.
func Clip(s string, most int) string { return clip(s, most, "\n") }

// clipInline is Clip without line ends around the marker.
func clipInline(s string, most int) string { return clip(s, most, " ") }

func clip(s string, most int, around string) string {
	if len(s) <= most {
		return s
	}
	marker := func(clipped int) string { return fmt.Sprintf("%s[... %d bytes clipped ...]%[1]s", around, clipped) }
	longest := len(marker(len(s)))
	room := most - longest
	if room < longest { // the marker would be most of it
		return content.Head(s, most-len(ellipsis)) + ellipsis[:min(len(ellipsis), max(most, 0))]
	}
	head, tail := content.Head(s, room-room/2), content.Tail(s, room/2)
	return head + marker(len(s)-len(head)-len(tail)) + tail
}

const ellipsis = "..."

// quote makes a text safe to stand between fences: valid, with plain line ends, and
// without anything that could be taken for a fence. It never makes it longer than
// three times the number of its bytes, and no longer if it is valid.
func quote(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "").Replace(s)
	if !strings.Contains(s, fence) {
		return s
	}
	var b strings.Builder
	run := 0
	for _, r := range s {
		if r != '~' {
			run = 0
		} else if run++; run == len(fence) {
			run--
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// summaryTitle is the header of an earlier summary; the prompt names it.
const summaryTitle = "summary so far"

// entry is what a summary's reader reads of an event.
type entry struct {
	title string
	text  string
	user  bool // the user's own words
}

// entryOf renders an event, not shortened yet.
func entryOf(p conversation.Payload) entry {
	switch e := p.(type) {
	case *conversation.MessageEvent:
		return messageEntry(e)
	case *conversation.ActionEvent:
		return entry{title: "tool call " + oneLine(e.ToolName), text: callText(e)}
	case *conversation.ObservationEvent:
		return entry{title: "result of " + oneLine(e.ToolName), text: resultText(e)}
	case *conversation.UserRejectObservation:
		return entry{title: "the user rejected the call of " + oneLine(e.ToolName), text: e.RejectionReason}
	case *conversation.AgentErrorEvent:
		return entry{title: "the call of " + oneLine(e.ToolName) + " failed", text: e.Error}
	case *conversation.CondensationSummaryEvent:
		return entry{title: summaryTitle, text: e.Summary}
	}
	return entry{title: "event"}
}

func messageEntry(e *conversation.MessageEvent) entry {
	out := entry{title: "message of the system", text: partsText(e.LLMMessage.Content)}
	switch e.Source {
	case conversation.SourceUser:
		out.title, out.user = "user message", true
	case conversation.SourceAgent:
		out.title = "message of the agent"
	}
	if more := partsText(e.ExtendedContent); more != "" {
		out.text = joinLines(out.text, "(added by the system:)", more)
	}
	return out
}

func callText(e *conversation.ActionEvent) string {
	args := e.ToolCall.Arguments
	if args == "" {
		args = string(e.Action)
	}
	return joinLines(partsText(e.Thought), e.Summary, args)
}

func resultText(e *conversation.ObservationEvent) string {
	var o struct {
		IsError bool `json:"is_error"`
	}
	text := partsText(append(tool.ModelParts(e.Observation), e.ExtendedContent...))
	if json.Unmarshal(e.Observation, &o) == nil && o.IsError {
		return joinLines("(an error)", text)
	}
	return text
}

// partsText renders parts in words, images too.
func partsText(parts []content.Part) string {
	var out []string
	for _, p := range parts {
		switch {
		case p.Type != content.TypeImage:
			out = append(out, p.Text)
		default:
			for _, u := range p.ImageURLs {
				out = append(out, imageText(u))
			}
		}
	}
	return joinLines(out...)
}

// imageText says in words that an image was there.
func imageText(url string) string {
	const shown = 200 // of an address
	head, _, data := strings.Cut(url, ",")
	if mediaType, found := strings.CutPrefix(head, "data:"); found && data {
		mediaType, _, _ = strings.Cut(mediaType, ";")
		return fmt.Sprintf("[an image was here: %s, about %d KB]", oneLine(content.Head(mediaType, shown)), len(url)*3/4/1024+1)
	}
	return "[an image was here: " + oneLine(content.Head(url, shown)) + "]"
}

// joinLines joins the texts that are not blank.
func joinLines(texts ...string) string {
	var out []string
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			out = append(out, t)
		}
	}
	return strings.Join(out, "\n")
}

// oneLine makes a text of others fit for a header: short, without line ends and
// brackets.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == '[' || r == ']' || r == '~' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return content.Head(strings.Join(strings.Fields(s), " "), 80)
}
