package gemini

import (
	"encoding/json"
	"strings"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

// Roles of the API.
const (
	roleUser  = "user"
	roleModel = "model"
)

// What stands in for what the API demands and the history lacks: it must begin
// with the user, end with the user or a result, and answer every call.
const (
	missingBegin  = "[The beginning of the conversation is not shown.]"
	missingEnd    = "Continue."
	missingResult = "The outcome of this call is not known."
)

// anySignature is the documented value for a call that the model did not sign
// itself, because another model made it or its signature is lost.
const anySignature = "skip_thought_signature_validator"

// history renders messages as the API wants them: roles alternate, neighbours
// are one, every turn with calls is followed by one with exactly its results.
type history struct {
	model    *Model
	names    *nameMap
	refused  refusals
	system   []wirePart
	contents []wireContent
}

func (h *history) render(msgs []content.Message) []wireContent {
	used := make([]bool, len(msgs)) // tool messages that answer a call
	for i, msg := range msgs {
		switch {
		case msg.Role == content.RoleSystem && len(h.contents) == 0 && !h.refused.has(refusedSystem):
			h.system = append(h.system, textParts(msg.Parts)...)
		case msg.Role == content.RoleAssistant:
			h.add(roleModel, h.answer(msg))
			h.add(roleUser, h.results(msg.ToolCalls, msgs, i+1, used))
		case msg.Role == content.RoleTool:
			if !used[i] {
				h.add(roleUser, h.stray(msg))
			}
		default:
			h.add(roleUser, h.parts(msg.Parts))
		}
	}
	h.close()
	return h.contents
}

// add appends parts to the turn of role, which may be a new one.
func (h *history) add(role string, parts []wirePart) {
	if len(parts) == 0 {
		return
	}
	if n := len(h.contents); n > 0 && h.contents[n-1].Role == role {
		h.contents[n-1].Parts = append(h.contents[n-1].Parts, parts...)
		return
	}
	h.contents = append(h.contents, wireContent{Role: role, Parts: parts})
}

// close completes the begin, the end and the signatures.
func (h *history) close() {
	if len(h.contents) > 0 && h.contents[0].Role == roleModel {
		h.contents = append([]wireContent{{Role: roleUser, Parts: []wirePart{text(missingBegin)}}}, h.contents...)
	}
	if n := len(h.contents); n == 0 || h.contents[n-1].Role == roleModel {
		h.add(roleUser, []wirePart{text(missingEnd)})
	}
	if h.model.gen.signs() {
		for _, c := range h.contents {
			signFirstCall(c.Parts)
		}
	}
}

// signFirstCall gives the first call of a step the signature that the API
// demands. It demands it of the current turn alone; all get it, so that the
// bytes of a history stay the same when the next turn begins.
func signFirstCall(parts []wirePart) {
	for i := range parts {
		if parts[i].Call != nil {
			if parts[i].Signature == "" {
				parts[i].Signature = anySignature
			}
			return
		}
	}
}

func text(s string) wirePart { return wirePart{Text: &s} }

// textParts are the parts with a text; the API refuses empty ones.
func textParts(parts []content.Part) []wirePart {
	var out []wirePart
	for _, p := range parts {
		if p.Type != content.TypeImage && strings.TrimSpace(p.Text) != "" {
			out = append(out, text(p.Text))
		}
	}
	return out
}

// parts renders what a user says and shows.
func (h *history) parts(parts []content.Part) []wirePart {
	var out []wirePart
	for _, p := range parts {
		if p.Type == content.TypeImage {
			out = append(out, h.images(p)...)
		} else {
			out = append(out, textParts([]content.Part{p})...)
		}
	}
	return out
}

// answer renders an answer of the model, or of another one.
func (h *history) answer(msg content.Message) []wirePart {
	calls := h.calls(msg.ToolCalls)
	if l := h.layout(msg); l != nil {
		return l.parts(msg, calls)
	}
	var out []wirePart
	if said := msg.Text(); strings.TrimSpace(said) != "" {
		out = append(out, text(said))
	}
	return append(out, calls...)
}

func (h *history) calls(calls []content.ToolCall) []wirePart {
	out := make([]wirePart, 0, len(calls))
	for _, c := range calls {
		out = append(out, wirePart{Call: &wireCall{ID: h.id(c.ID), Name: h.names.toAPI(c.Name),
			Args: json.RawMessage(strings.ToValidUTF8(wire.LegalArguments(c.Arguments), "\uFFFD"))}})
	}
	return out
}

// id is the id of a call on the wire. Vertex AI does not know ids before
// generation 3, the newest models insist on them.
func (h *history) id(id string) string {
	if h.model.vertex && h.model.gen.number > 0 && h.model.gen.number < 3 {
		return ""
	}
	return id
}

// results renders the results of calls, in their order, and marks the messages
// they are taken from. They are searched to the next answer.
func (h *history) results(calls []content.ToolCall, msgs []content.Message, from int, used []bool) []wirePart {
	var out, shown []wirePart
	for _, c := range calls {
		r := wireResponse{ID: h.id(c.ID), Name: h.names.toAPI(c.Name), Response: map[string]string{"error": missingResult}}
		if i := findResult(c.ID, msgs, from, used); i >= 0 {
			used[i] = true
			shown = append(shown, h.fill(&r, msgs[i].Parts)...)
		}
		out = append(out, wirePart{Response: &r})
	}
	if len(shown) > 0 {
		out = append(append(out, text("Images from the tool results above:")), shown...)
	}
	return out
}

func findResult(id string, msgs []content.Message, from int, used []bool) int {
	for i := from; i < len(msgs) && msgs[i].Role != content.RoleAssistant; i++ {
		if msgs[i].Role == content.RoleTool && msgs[i].ToolCallID == id && !used[i] {
			return i
		}
	}
	return -1
}

// fill puts a result into r and returns the images that must stand beside it.
func (h *history) fill(r *wireResponse, parts []content.Part) (beside []wirePart) {
	said, pictures := wire.SplitImages(parts)
	texts := []string{content.JoinText(said)}
	for _, p := range pictures {
		for _, image := range h.images(p) {
			switch {
			case image.Text != nil:
				texts = append(texts, *image.Text)
			case image.Inline != nil && h.model.gen.showsImagesInResults() && inResults(image.Inline.MimeType):
				r.Parts = append(r.Parts, image)
			default:
				beside = append(beside, image)
			}
		}
	}
	r.Response = map[string]string{"result": strings.TrimPrefix(strings.Join(texts, "\n"), "\n")}
	return beside
}

// stray renders a result whose call is not there: the API has no place for it,
// what it says may still matter.
func (h *history) stray(msg content.Message) []wirePart {
	parts := h.parts(msg.Parts)
	if len(parts) == 0 {
		return nil
	}
	return append([]wirePart{text("[The result of an earlier call of " + legalName(msg.ToolName) + ":]")}, parts...)
}
