package geminitest

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"parley/internal/content"
	"parley/internal/llm"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/wire"
)

type object = map[string]any

// reply answers an acceptable request.
func (h *handler) reply(w http.ResponseWriter, r *http.Request, c call, reply llmtest.Reply) {
	if reply.Hang {
		<-r.Context().Done()
		return
	}
	out := &writer{w: w, r: r, c: c, slow: reply.Fault == llmtest.SlowBytes}
	if reply.Fail != "" {
		h.fail(out, reply)
		return
	}
	a := h.answerOf(c, reply)
	if c.streamed {
		out.stream(a, reply)
		return
	}
	out.whole(a, reply)
}

// fail shows a failure as Google does.
func (h *handler) fail(out *writer, reply llmtest.Reply) {
	switch reply.Fail {
	case llm.ClassContentPolicy:
		out.document(object{"promptFeedback": object{"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": object{"promptTokenCount": 7, "totalTokenCount": 7}})
	case llm.ClassNoResponse:
		out.document(object{"candidates": []any{object{"content": object{}, "finishReason": "STOP", "index": 0}}, "responseId": "r-empty"})
	case llm.ClassNetwork:
		panic(http.ErrAbortHandler)
	default:
		writeError(out.w, out.c, errorOf(reply))
	}
}

func errorOf(reply llmtest.Reply) apiError {
	switch reply.Fail {
	case llm.ClassAuth:
		return apiError{400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.",
			[]any{object{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}}}
	case llm.ClassQuota:
		return exhausted("GenerateRequestsPerDayPerProjectPerModel-FreeTier", 20*time.Second)
	case llm.ClassRateLimit:
		return exhausted("GenerateRequestsPerMinutePerProjectPerModel", reply.RetryAfter)
	case llm.ClassTimeout:
		return apiError{504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.", nil}
	case llm.ClassContext:
		return *invalid("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")
	case llm.ClassMalformed:
		return *invalid("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
	case llm.ClassBadRequest:
		return apiError{404, "NOT_FOUND", "models/x is not found for API version v1beta, or is not supported for generateContent.", nil}
	}
	return overloaded()
}

func overloaded() apiError {
	return apiError{503, "UNAVAILABLE", "The model is overloaded. Please try again later.", nil}
}

func exhausted(quota string, wait time.Duration) apiError {
	e := apiError{429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details.",
		[]any{object{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": []any{object{"quotaId": quota}}}}}
	if wait > 0 {
		e.details = append(e.details, object{"@type": "type.googleapis.com/google.rpc.RetryInfo",
			"retryDelay": strconv.FormatFloat(wait.Seconds(), 'f', -1, 64) + "s"})
	}
	return e
}

// answer is a reply on the wire.
type answer struct {
	id     string
	groups [][]any // the parts of each chunk
	texts  int     // how many of the groups are behind the first text, from the begin
	finish string
	usage  any
}

func (h *handler) answerOf(c call, reply llmtest.Reply) answer {
	a := answer{id: fmt.Sprintf("resp-%08x", time.Now().UnixNano()), finish: "STOP", usage: usageOf(c, reply)}
	switch {
	case reply.Fault == llmtest.OddFinish:
		a.finish = "FINISH_REASON_OF_TOMORROW"
	case reply.Finish == "length":
		a.finish = "MAX_TOKENS"
	}
	for _, piece := range pieces(reply.Reasoning) {
		a.groups = append(a.groups, []any{object{"text": piece, "thought": true}})
	}
	for i, piece := range pieces(reply.Text) {
		a.groups = append(a.groups, []any{object{"text": piece}})
		if i == 0 {
			a.texts = len(a.groups)
		}
	}
	a.groups = append(a.groups, h.callGroups(c, reply)...)
	last := object{"text": ""}
	if reply.Signature != "" && len(reply.Calls) == 0 {
		last["thoughtSignature"] = reply.Signature
	}
	if len(reply.Calls) == 0 && reply.Text != "" {
		a.groups = append(a.groups, []any{last})
	}
	return a
}

// callGroups renders the calls: two in the first chunk, then one in each. The
// first is signed, where the model signs at all.
func (h *handler) callGroups(c call, reply llmtest.Reply) [][]any {
	var out [][]any
	for i, tc := range reply.Calls {
		id := tc.ID
		if reply.Fault == llmtest.DuplicateIDs {
			id = cmp.Or(reply.Calls[0].ID, "same") // one per answer: signatures are known by it
		}
		part := object{"functionCall": object{"id": id, "name": tc.Name, "args": json.RawMessage(wire.LegalArguments(tc.Arguments))}}
		signature := ""
		if i == 0 {
			signature = h.signatureOf(c, reply, id)
		}
		if signature != "" {
			part["thoughtSignature"] = signature
		}
		h.sign(id, signature)
		if i == 1 {
			out[0] = append(out[0], part)
			continue
		}
		out = append(out, []any{part})
	}
	return out
}

func (h *handler) signatureOf(c call, reply llmtest.Reply, id string) string {
	if reply.Signature != "" || generationOf(c.model).number < 3 {
		return reply.Signature
	}
	return base64.StdEncoding.EncodeToString([]byte("thoughts behind " + id))
}

func usageOf(c call, reply llmtest.Reply) any {
	if reply.Fault == llmtest.WrongUsage {
		return object{"promptTokenCount": -5, "candidatesTokenCount": "many", "thoughtsTokenCount": 1e300,
			"cachedContentTokenCount": []int{1}, "totalTokenCount": nil}
	}
	u := reply.Usage
	if u.PromptTokens == 0 && u.CompletionTokens == 0 {
		u.PromptTokens = int64(len(c.body)/4 + 1)
		u.CompletionTokens = int64(len(reply.Text)/4 + 8*len(reply.Calls) + 1)
	}
	out := object{"promptTokenCount": u.PromptTokens, "candidatesTokenCount": u.CompletionTokens - u.ReasoningTokens,
		"totalTokenCount": u.PromptTokens + u.CompletionTokens}
	if u.CacheReadTokens > 0 {
		out["cachedContentTokenCount"] = u.CacheReadTokens
	}
	if u.ReasoningTokens > 0 {
		out["thoughtsTokenCount"] = u.ReasoningTokens
	}
	return out
}

// pieces cuts a text as a stream does, between characters.
func pieces(s string) []string {
	const size = 12
	var out []string
	runes := []rune(s)
	for len(runes) > 0 {
		n := min(size, max(len(runes)/3, 1), len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// chunk renders one chunk of a stream, or a whole answer.
func (a *answer) chunk(parts []any, last bool) object {
	candidate := object{"content": object{"parts": parts, "role": "model"}, "index": 0}
	if last {
		candidate["finishReason"] = a.finish
	}
	return object{"candidates": []any{candidate}, "usageMetadata": a.usage, "modelVersion": "gemini-test", "responseId": a.id}
}

// joined are the parts of a whole answer: texts in one.
func (a *answer) joined() []any {
	var out []any
	for _, group := range a.groups {
		for _, p := range group {
			part := p.(object)
			if n := len(out); n > 0 && joins(out[n-1].(object), part) {
				before := out[n-1].(object)
				said := before["text"].(string) + part["text"].(string)
				whole := object{"text": said}
				for _, key := range []string{"thought", "thoughtSignature"} {
					if v, ok := part[key]; ok {
						whole[key] = v
					}
				}
				out[n-1] = whole
				continue
			}
			out = append(out, part)
		}
	}
	return out
}

func joins(a, b object) bool {
	_, textA := a["text"]
	_, textB := b["text"]
	return textA && textB && a["thought"] == b["thought"] && a["thoughtSignature"] == nil
}

// encode writes JSON that is spread over lines, as Google's whole answers are.
func encode(v any, indent bool) []byte {
	raw, err := content.Marshal(v)
	if err != nil {
		panic(err) // what we make is always encoded
	}
	if !indent {
		return raw
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		panic(err)
	}
	return []byte(strings.TrimSpace(b.String()))
}
