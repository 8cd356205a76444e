package responses

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"parley/internal/content"
	"parley/internal/lazyre"
	"parley/internal/llm/wire"
)

// Item types of the API.
const (
	typeMessage   = "message"
	typeCall      = "function_call"
	typeOutput    = "function_call_output"
	typeReasoning = "reasoning"
)

type inputMessage struct {
	Type    string      `json:"type"`
	Role    string      `json:"role"`
	Content []inputPart `json:"content"`
}

type inputPart struct {
	Type     string `json:"type"` // input_text, output_text, input_image
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

type inputCall struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type inputOutput struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output any    `json:"output"` // a string, or []inputPart
}

// Texts in place of what cannot be sent.
const (
	goOn        = "Continue."
	noOutput    = "(no output)"
	noResult    = "No result is known for this call."
	unreadable  = "[an image, not shown: it cannot be read]"
	imagesAbove = "Images from the tool results above:"
)

// input renders a history as input items. Every call is followed by exactly one
// output, and no item has an id twice: the API refuses anything else.
type input struct {
	m      *Model
	shape  shape
	items  []any
	open   []openCall
	taken  map[string]bool // call ids on the wire
	ids    map[string]bool // item ids
	images []inputPart     // of outputs, for a message behind them
	stale  int             // messages up to this index are sent without thoughts
	at     int             // the index of the message
}

// openCall is a call without an output so far.
type openCall struct{ id, wireID string }

// encodeInput returns the instructions and the items of a history.
func (m *Model) encodeInput(msgs []content.Message, s shape) (instructions string, items []any, err error) {
	first := 0
	var system []string
	for ; first < len(msgs) && msgs[first].Role == content.RoleSystem; first++ {
		if text := msgs[first].Text(); text != "" {
			system = append(system, text)
		}
	}
	in := &input{m: m, shape: s, taken: map[string]bool{}, ids: map[string]bool{}, stale: m.staleIndex(msgs, s.stale)}
	for i, msg := range msgs[first:] {
		in.at = first + i
		if err := in.add(msg); err != nil {
			return "", nil, err
		}
	}
	in.close()
	instructions = strings.Join(system, "\n\n")
	if len(in.items) == 0 { // the API wants input
		in.say("user", in.text("input_text", cmp.Or(instructions, goOn)))
		instructions = ""
	}
	return instructions, in.items, nil
}

func (in *input) add(msg content.Message) error {
	if msg.Role == content.RoleTool {
		in.addOutput(msg)
		return nil
	}
	in.close()
	if msg.Role == content.RoleAssistant {
		return in.addAssistant(msg)
	}
	in.say(msg.Role, in.parts(msg.Parts))
	return nil
}

// say adds a message, unless it says nothing.
func (in *input) say(role string, parts []inputPart) {
	if len(parts) > 0 {
		in.items = append(in.items, inputMessage{Type: typeMessage, Role: role, Content: parts})
	}
}

func (in *input) text(kind, s string) []inputPart {
	if s == "" {
		return nil
	}
	return []inputPart{{Type: kind, Text: s}}
}

func (in *input) parts(parts []content.Part) []inputPart {
	var out []inputPart
	for _, p := range parts {
		if p.Type == content.TypeImage {
			out = append(out, in.pictures(p)...)
		} else {
			out = append(out, in.text("input_text", p.Text)...)
		}
	}
	return out
}

// pictures renders the images of a part; what the API would refuse is a note.
func (in *input) pictures(p content.Part) []inputPart {
	if in.m.cfg.NoVision {
		return in.text("input_text", wire.NoImage)
	}
	var out []inputPart
	for _, u := range p.ImageURLs {
		if legal, ok := imageURL(u); ok {
			out = append(out, inputPart{Type: "input_image", ImageURL: legal, Detail: "auto"})
		} else {
			out = append(out, in.text("input_text", unreadable)...)
		}
	}
	return out
}

// imageURL returns an address that the API takes: of the web, or data of the
// kinds it knows.
func imageURL(u string) (string, bool) {
	if strings.HasPrefix(u, "https://") || strings.HasPrefix(u, "http://") {
		return u, true
	}
	kind, data, ok := wire.DataURL(u)
	if !ok || data == "" {
		return "", false
	}
	switch kind {
	case "image/jpg":
		kind = "image/jpeg"
		fallthrough
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return "data:" + kind + ";base64," + data, true
	}
	return "", false
}

// addCall notes a call as open and returns its id on the wire.
func (in *input) addCall(id string) string {
	legal := legalCallID(id)
	for n := 2; in.taken[legal]; n++ {
		legal = legalCallID(id + "_" + strconv.Itoa(n))
	}
	in.taken[legal] = true
	in.open = append(in.open, openCall{id: id, wireID: legal})
	return legal
}

var callID = lazyre.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// legalCallID keeps an id that the API takes, and makes one of any other: a
// history may come from another provider.
func legalCallID(id string) string {
	if callID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:12])
}

// addOutput adds the result of an open call; a result of none says nothing to
// the model and is left out.
func (in *input) addOutput(msg content.Message) {
	for i, c := range in.open {
		if c.id == msg.ToolCallID {
			in.open = append(in.open[:i:i], in.open[i+1:]...)
			in.items = append(in.items, inputOutput{Type: typeOutput, CallID: c.wireID, Output: in.output(msg.Parts)})
			return
		}
	}
}

// output renders a result: as text where there is nothing else, as a list with
// images where the endpoint takes them, and with the images behind it where not.
func (in *input) output(parts []content.Part) any {
	text, images := wire.SplitImages(parts)
	said := content.JoinText(text)
	var pictures []inputPart
	for _, p := range images {
		for _, shown := range in.pictures(p) {
			if shown.ImageURL != "" {
				pictures = append(pictures, shown)
			} else {
				said = strings.TrimPrefix(said+"\n"+shown.Text, "\n")
			}
		}
	}
	if in.shape.refused.has(refusedToolImages) {
		in.images = append(in.images, pictures...)
		pictures = nil
	}
	switch {
	case len(pictures) > 0:
		return append(in.text("input_text", said), pictures...)
	case said == "":
		return noOutput
	}
	return said
}

// close answers the calls that have no result, and shows the images that wait.
func (in *input) close() {
	for _, c := range in.open {
		in.items = append(in.items, inputOutput{Type: typeOutput, CallID: c.wireID, Output: noResult})
	}
	in.open = nil
	if len(in.images) > 0 {
		in.say("user", append(in.text("input_text", imagesAbove), in.images...))
		in.images = nil
	}
}
