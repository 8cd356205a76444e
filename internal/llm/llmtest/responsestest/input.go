package responsestest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"parley/internal/lazyre"
)

// history is the input of a request while it is checked.
type history struct {
	items    []object
	stored   bool
	at       int
	calls    map[string]bool // answered or not
	open     []string
	ids      map[string]bool
	thoughts map[string]bool
}

func checkInput(o object) *Refusal {
	if text, ok := str(o["input"]); ok {
		if text == "" {
			return missing("input")
		}
		return nil
	}
	items, ok := list(o["input"])
	switch {
	case !has(o, "input"):
		return missing("input")
	case !ok:
		return wrongType("input", "one of an array of objects or string")
	case len(items) == 0:
		return invalid("input", "Invalid 'input': empty array. Expected an array with minimum length 1.")
	}
	h := &history{items: items, stored: string(o["store"]) != "false", calls: map[string]bool{}, ids: map[string]bool{}, thoughts: map[string]bool{}}
	for i, it := range items {
		h.at = i
		if refusal := h.check(it); refusal != nil {
			return refusal
		}
	}
	return h.unanswered()
}

func (h *history) param(name string) string {
	if name == "" {
		return fmt.Sprintf("input[%d]", h.at)
	}
	return fmt.Sprintf("input[%d].%s", h.at, name)
}

func kindOf(it object) string {
	kind, ok := str(it["type"])
	if !ok && has(it, "role") {
		return "message"
	}
	return kind
}

func (h *history) check(it object) *Refusal {
	if refusal := h.checkID(it); refusal != nil {
		return refusal
	}
	switch kind := kindOf(it); kind {
	case "message":
		return h.checkMessage(it)
	case "function_call":
		return h.checkCall(it)
	case "function_call_output":
		return h.checkOutput(it)
	case "reasoning":
		return h.checkThought(it)
	case "item_reference":
		id, _ := str(it["id"])
		return h.notStored(id)
	default:
		return invalid(h.param(""), "Invalid value: '%s'. Supported values are: 'message', 'function_call', 'function_call_output', 'reasoning'.", kind)
	}
}

func (h *history) notStored(id string) *Refusal {
	return &Refusal{Status: http.StatusNotFound, Param: "input", Message: "Item with id '" + id +
		"' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."}
}

var itemID = lazyre.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (h *history) checkID(it object) *Refusal {
	if !has(it, "id") {
		return nil
	}
	id, _ := str(it["id"])
	prefix := map[string]string{"message": "msg", "function_call": "fc", "reasoning": "rs"}[kindOf(it)]
	switch {
	case !itemID.MatchString(id):
		return invalid(h.param("id"), "Invalid '%s': '%s'. Expected an ID that contains letters, numbers, underscores, or dashes, and at most 64 of them.", h.param("id"), id)
	case !strings.HasPrefix(id, prefix):
		return invalid(h.param("id"), "Invalid '%s': '%s'. Expected an ID that begins with '%s'.", h.param("id"), id, prefix)
	case h.ids[id]:
		return invalid("input", "Duplicate item found with id %s. Remove duplicate items from your input and try again.", id)
	}
	h.ids[id] = true
	if _, _, thought := ties(id); thought != "" && !h.thoughts[thought] {
		return invalid("input", "Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", id, kindOf(it), thought)
	}
	return nil
}

func (h *history) checkMessage(it object) *Refusal {
	if refusal := onlyKnown(it, h.param("")+".", "type", "role", "content", "id", "status", "phase"); refusal != nil {
		return refusal
	}
	role, _ := str(it["role"])
	parts := []string{"input_text", "input_image", "input_file"}
	switch role {
	case "assistant":
		parts = []string{"output_text", "refusal"}
	case "user", "system", "developer":
		if refusal := h.unanswered(); refusal != nil {
			return refusal
		}
		if has(it, "phase") {
			return unknown(h.param("phase"))
		}
	default:
		return invalid(h.param("role"), "Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", role)
	}
	if phase, _ := str(it["phase"]); has(it, "phase") && phase != "commentary" && phase != "final_answer" {
		return invalid(h.param("phase"), "Invalid value: '%s'. Supported values are: 'commentary' and 'final_answer'.", phase)
	}
	return h.checkContent(it["content"], "content", parts)
}

// checkContent checks a text or a list of parts of the given types.
func (h *history) checkContent(raw json.RawMessage, name string, types []string) *Refusal {
	if text, ok := str(raw); ok {
		if text == "" {
			return invalid(h.param(name), "Invalid '%s': empty string.", h.param(name))
		}
		return nil
	}
	parts, ok := list(raw)
	if !ok {
		return wrongType(h.param(name), "one of an array of objects or string")
	}
	if len(parts) == 0 {
		return invalid(h.param(name), "Invalid '%s': empty array.", h.param(name))
	}
	for i, p := range parts {
		if refusal := checkPart(p, fmt.Sprintf("%s[%d].", h.param(name), i), types); refusal != nil {
			return refusal
		}
	}
	return nil
}

func checkPart(p object, where string, types []string) *Refusal {
	kind, _ := str(p["type"])
	if !slices.Contains(types, kind) {
		return invalid(where+"type", "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(types, "', '"))
	}
	switch kind {
	case "input_image":
		return checkImage(p, where)
	case "refusal":
		return nil
	}
	if refusal := onlyKnown(p, where, "type", "text", "annotations", "logprobs"); refusal != nil {
		return refusal
	}
	if text, ok := str(p["text"]); !ok || text == "" {
		return missing(where + "text")
	}
	return nil
}

func checkImage(p object, where string) *Refusal {
	if refusal := onlyKnown(p, where, "type", "image_url", "detail", "file_id"); refusal != nil {
		return refusal
	}
	if u, _ := str(p["image_url"]); !imageAddress(u) {
		return invalid(where+"image_url", "Invalid '%simage_url'. Expected a valid URL, but got a value with an invalid format.", where)
	}
	if detail, _ := str(p["detail"]); !slices.Contains([]string{"low", "high", "auto", "original"}, detail) {
		return invalid(where+"detail", "Invalid value: '%s'. Supported values are: 'low', 'high', and 'auto'.", detail)
	}
	return nil
}

func (h *history) checkCall(it object) *Refusal {
	if refusal := onlyKnown(it, h.param("")+".", "type", "id", "call_id", "name", "arguments", "status", "namespace", "caller"); refusal != nil {
		return refusal
	}
	id, _ := str(it["call_id"])
	if !itemID.MatchString(id) {
		return invalid(h.param("call_id"), "Invalid '%s': string too long or empty. Expected a string with maximum length 64.", h.param("call_id"))
	}
	if _, there := h.calls[id]; there {
		return invalid("input", "Duplicate function call found with call_id %s.", id)
	}
	if name, _ := str(it["name"]); !toolName.MatchString(name) {
		return invalid(h.param("name"), "Invalid '%s': string does not match pattern.", h.param("name"))
	}
	args, ok := str(it["arguments"])
	var parsed object
	if !ok || json.Unmarshal([]byte(args), &parsed) != nil {
		return invalid(h.param("arguments"), "Invalid '%s': expected a JSON object.", h.param("arguments"))
	}
	h.calls[id] = false
	h.open = append(h.open, id)
	return nil
}

func (h *history) checkOutput(it object) *Refusal {
	if refusal := onlyKnown(it, h.param("")+".", "type", "id", "call_id", "output", "status"); refusal != nil {
		return refusal
	}
	id, _ := str(it["call_id"])
	answered, there := h.calls[id]
	switch {
	case !there:
		return invalid("input", "No tool call found for function call output with call_id %s.", id)
	case answered:
		return invalid("input", "Duplicate output found for function call with call_id %s.", id)
	}
	h.calls[id] = true
	h.open = slices.DeleteFunc(h.open, func(open string) bool { return open == id })
	return h.checkContent(it["output"], "output", []string{"input_text", "input_image", "input_file"})
}

func (h *history) unanswered() *Refusal {
	if len(h.open) > 0 {
		return invalid("input", "No tool output found for function call %s.", h.open[0])
	}
	return nil
}

func (h *history) checkThought(it object) *Refusal {
	if refusal := onlyKnown(it, h.param("")+".", "type", "id", "summary", "content", "encrypted_content"); refusal != nil {
		return refusal
	}
	if _, ok := list(it["summary"]); !ok {
		return missing(h.param("summary"))
	}
	id, _ := str(it["id"])
	sealed, _ := str(it["encrypted_content"])
	if sealed == "" && !h.stored {
		return h.notStored(id)
	}
	if of, ok := opened(sealed); !ok || id != "" && of != id {
		r := invalid("", "The encrypted content for item %s could not be verified. Reason: Encrypted content could not be decrypted or parsed.", id)
		r.Code = "invalid_encrypted_content"
		return r
	}
	h.thoughts[id] = true
	return h.checkNext(id)
}

// checkNext wants the very item behind a thought that the model put there.
func (h *history) checkNext(id string) *Refusal {
	alone := invalid("input", "Item '%s' of type 'reasoning' was provided without its required following item.", id)
	if h.at+1 >= len(h.items) {
		return alone
	}
	next := h.items[h.at+1]
	role, _ := str(next["role"])
	switch kind := kindOf(next); {
	case kind == "message" && role != "assistant", kind != "message" && kind != "function_call" && kind != "reasoning":
		return alone
	case id == "":
		return nil // without ids nothing is tied
	}
	nextID, _ := str(next["id"])
	tag, at, _ := ties(id)
	if nextTag, nextAt, _ := ties(nextID); nextTag != tag || nextAt != at+1 {
		return alone
	}
	return nil
}
