package wire

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/internal/content"
)

// Merge returns body, an encoded JSON object, with the members of extra, an
// object too, which win and are merged into objects that are there already. An
// extra that is no object changes nothing.
//
// What bounds the price of an answer can be lowered only: a member such as
// max_tokens or n never asks for more than the body does, because the body's
// figure is what was reserved.
func Merge(body []byte, extra json.RawMessage) ([]byte, error) {
	if !IsObject(extra) {
		return body, nil
	}
	var a, b map[string]any
	if err := decodeNumbers(body, &a); err != nil {
		return nil, err
	}
	if err := decodeNumbers(extra, &b); err != nil {
		return nil, err
	}
	mergeInto(a, b)
	return content.Marshal(a)
}

func decodeNumbers(raw []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber() // numbers stay as they were written
	return d.Decode(v)
}

func mergeInto(a, b map[string]any) {
	for k, v := range b {
		if !lowers(a, k, v) {
			continue
		}
		old, wasObject := a[k].(map[string]any)
		inner, isObject := v.(map[string]any)
		switch {
		case wasObject && isObject:
			mergeInto(old, inner)
		case wasObject && bounds(old): // it is not taken away as a whole either
		default:
			a[k] = v
		}
	}
}

// lengths are the names that the APIs have for the bound of an answer, and
// counts those for how many answers there are.
func lengths() []string {
	return []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens", "max_new_tokens", "max_gen_len"}
}

func counts() []string { return []string{"n", "best_of", "candidateCount", "candidate_count"} }

// bounds reports whether an object holds the bound of an answer.
func bounds(o map[string]any) bool {
	return slices.ContainsFunc(lengths(), func(name string) bool { return o[name] != nil })
}

// lowers reports whether a member may be set: it bounds nothing, or asks for no
// more than is asked for, whatever the name.
func lowers(a map[string]any, key string, value any) bool {
	n, ok := value.(json.Number)
	asked := json.RawMessage(n)
	switch {
	case slices.Contains(counts(), key):
		count, number := Number(asked)
		return ok && number && count <= 1
	case !slices.Contains(lengths(), key):
		return true
	}
	for _, name := range lengths() {
		old, has := a[name].(json.Number)
		if !has {
			continue
		}
		bound, known := Number(json.RawMessage(old))
		wish, number := Number(asked)
		return name == key && ok && known && number && wish > 0 && wish <= bound
	}
	return true
}
