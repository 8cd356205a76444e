package openai

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"parley/internal/content"
	"parley/internal/llm/wire"
)

// What a model reads in place of an image that is no image, and before the
// images of tool results.
const (
	badImage    = "[an image, not shown: its data cannot be read]"
	imagesBelow = "Images from the tool results above:"
)

// What stands for what the API demands and the history does not have.
const (
	noResult = "No result is known for this call."
	goOn     = "Continue."
)

// history renders messages.
type history struct {
	m      *Model
	w      *wireRequest
	out    []wireMessage
	images []wirePart      // of tool results, that wait for the last of them
	open   []openCall      // in their order
	taken  map[string]bool // call ids on the wire
}

// openCall is a call without a result so far.
type openCall struct{ id, wireID string }

// encodeMessages renders the history: without messages that say nothing, which
// endpoints refuse, with one answer in a row, and with exactly one result behind
// each call. Images of tool results follow the results in a user message: the API
// takes text only in a tool message.
func (m *Model) encodeMessages(w *wireRequest, msgs []content.Message) []wireMessage {
	h := &history{m: m, w: w, taken: map[string]bool{}}
	for i, msg := range msgs {
		h.add(msg, i+1 == len(msgs))
	}
	h.close()
	if h.unfinished() {
		note := goOn
		h.push(wireMessage{Role: content.RoleUser, parts: []wirePart{{Type: "text", Text: &note}}})
	}
	h.mark()
	for i := range h.out {
		h.out[i].Content = h.render(&h.out[i])
	}
	return h.out
}

// unfinished reports whether the endpoint has nothing to answer to.
func (h *history) unfinished() bool {
	if len(h.out) == 0 {
		return true
	}
	role := h.out[len(h.out)-1].Role
	return role != content.RoleUser && role != content.RoleTool && !h.w.may(refusedEnd)
}

func (h *history) add(msg content.Message, last bool) {
	switch msg.Role {
	case content.RoleAssistant:
		h.addAnswer(msg)
	case content.RoleTool:
		h.addResult(msg)
	default:
		parts := h.parts(msg.Parts)
		if len(parts) == 0 && !last {
			return
		}
		h.close()
		role := msg.Role
		if role == content.RoleSystem && (!h.w.may(refusedSystem) || h.begun() && !h.w.may(refusedLate)) {
			role = content.RoleUser
		}
		h.push(wireMessage{Role: role, parts: parts})
	}
}

// begun reports whether there is more than instructions.
func (h *history) begun() bool {
	return len(h.out) > 0 && h.out[len(h.out)-1].Role != content.RoleSystem
}

// push adds a message, or adds to the last one where two of a kind are refused.
func (h *history) push(msg wireMessage) {
	if n := len(h.out); n > 0 && h.out[n-1].Role == msg.Role && h.joins(msg.Role) {
		last := &h.out[n-1]
		last.parts = append(last.parts, msg.parts...)
		last.ToolCalls = append(last.ToolCalls, msg.ToolCalls...)
		last.Reasoning += msg.Reasoning
		if last.extra == nil {
			last.extra = msg.extra
		}
		return
	}
	h.out = append(h.out, msg)
}

func (h *history) joins(role string) bool {
	return role == content.RoleAssistant || role == content.RoleUser && !h.w.may(refusedRuns)
}

// addResult adds the result of an open call. A second one, and one of no call,
// are left out: the API refuses them.
func (h *history) addResult(msg content.Message) {
	at := slices.IndexFunc(h.open, func(c openCall) bool { return c.id == msg.ToolCallID })
	if at < 0 {
		return
	}
	id := h.open[at].wireID
	h.open = slices.Delete(h.open, at, at+1)
	text, images := wire.SplitImages(msg.Parts)
	h.push(wireMessage{Role: msg.Role, ToolCallID: id, parts: h.parts(text)})
	h.images = append(h.images, h.parts(images)...)
}

// close answers the calls that have no result, and shows the images that wait.
func (h *history) close() {
	for _, c := range h.open {
		note := noResult
		h.push(wireMessage{Role: content.RoleTool, ToolCallID: c.wireID, parts: []wirePart{{Type: "text", Text: &note}}})
	}
	h.open = nil
	if len(h.images) > 0 {
		note := imagesBelow
		h.push(wireMessage{Role: content.RoleUser, parts: append([]wirePart{{Type: "text", Text: &note}}, h.images...)})
		h.images = nil
	}
}

// addAnswer leaves out an answer without text and calls: it says nothing.
func (h *history) addAnswer(msg content.Message) {
	text := msg.Text()
	if strings.TrimSpace(text) == "" {
		text = ""
	}
	if text == "" && len(msg.ToolCalls) == 0 {
		return
	}
	if n := len(h.out); n > 0 && h.out[n-1].Role != msg.Role { // else it joins the answer, with its calls
		h.close()
	}
	w := wireMessage{Role: msg.Role}
	if text != "" {
		w.parts = []wirePart{{Type: "text", Text: &text}}
	}
	if h.m.cfg.Dialect.ReplayReasoning {
		w.Reasoning = msg.Reasoning
	}
	var perCall map[string]map[string]json.RawMessage
	if own, _ := wire.Own(msg.Extra, h.m.source()); len(own) > 0 && h.w.may(refusedExtra) {
		w.extra, perCall = maps.Clone(own), callExtra(own)
		delete(w.extra, callExtraKey)
	}
	for _, c := range msg.ToolCalls {
		w.ToolCalls = append(w.ToolCalls, wireCall{ID: h.openCall(c.ID), Type: "function", extra: perCall[c.ID],
			Function: wireCallBody{Name: wire.LegalName(c.Name), Arguments: wire.LegalArguments(c.Arguments)}})
	}
	h.push(w)
}

// openCall notes a call as open and returns its id on the wire, which no other
// call of the request has.
func (h *history) openCall(id string) string {
	wireID := h.callID(id)
	for n := 2; h.taken[wireID]; n++ {
		wireID = h.callID(id + "_" + strconv.Itoa(n))
	}
	h.taken[wireID] = true
	h.open = append(h.open, openCall{id: id, wireID: wireID})
	return wireID
}

// callID returns an id that the endpoint takes. Most take any; what is not
// printable, or anything where ids must be short, gets a name of its own that
// is always the same.
func (h *history) callID(id string) string {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if id != "" && !strings.ContainsFunc(id, odd) && h.w.may(refusedIDs) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:9])
}

// parts renders the parts that say something.
func (h *history) parts(parts []content.Part) []wirePart {
	var out []wirePart
	text := func(s string) { out = append(out, wirePart{Type: "text", Text: &s}) }
	for _, p := range parts {
		switch {
		case p.Type != content.TypeImage && strings.TrimSpace(p.Text) != "":
			text(p.Text)
		case p.Type != content.TypeImage:
		case h.m.cfg.NoVision || !h.w.may(refusedImages):
			text(wire.NoImage)
		default:
			for _, u := range p.ImageURLs {
				if !isImage(u) {
					text(badImage)
					continue
				}
				out = append(out, wirePart{Type: "image_url", ImageURL: &wireImage{URL: u}})
			}
		}
	}
	return out
}

func isImage(u string) bool {
	_, _, isData := wire.DataURL(u)
	return isData || strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "http://")
}

// mark puts the cache markers (agent protocol 4.12): on the first block of the
// instructions and on the last message of the user or a tool.
func (h *history) mark() {
	if !h.m.cfg.Dialect.CacheMarkers || h.m.cfg.NoCache || !h.w.may(refusedMarkers) {
		return
	}
	marker := &cacheControl{Type: "ephemeral"}
	if h.m.cfg.CacheRetention == "1h" {
		marker.TTL = "1h"
	}
	if len(h.out) == 0 {
		return
	}
	if first := &h.out[0]; first.Role == content.RoleSystem && len(first.parts) > 0 {
		first.parts[0].CacheControl = marker
	}
	for i := len(h.out) - 1; i >= 0; i-- {
		switch msg := &h.out[i]; {
		case msg.Role == content.RoleTool:
			msg.CacheControl = marker
			return
		case msg.Role == content.RoleUser && len(msg.parts) > 0:
			msg.parts[len(msg.parts)-1].CacheControl = marker
			return
		}
	}
}

// render gives text alone as a string, which every endpoint takes.
func (h *history) render(msg *wireMessage) any {
	if msg.Role == content.RoleAssistant && len(msg.parts) == 0 {
		return nil
	}
	rich, marked := false, false
	for _, p := range msg.parts {
		rich = rich || p.Type != "text"
		marked = marked || p.CacheControl != nil
	}
	if rich || marked && !h.m.cfg.Dialect.PlainText {
		if h.w.may(refusedParts) {
			return msg.parts
		}
	}
	return joined(msg.parts)
}

// joined is the text of parts, as content.JoinText has it.
func joined(parts []wirePart) string {
	var texts []string
	for _, p := range parts {
		if p.Text != nil {
			texts = append(texts, *p.Text)
		} else {
			texts = append(texts, wire.NoImage)
		}
	}
	return strings.Join(texts, "\n")
}
