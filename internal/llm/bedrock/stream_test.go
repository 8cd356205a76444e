package bedrock_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"parley/internal/llm"
	"parley/internal/llm/bedrock"
	"parley/internal/llm/llmtest"
	"parley/internal/llm/llmtest/bedrocktest"
)

// frames encodes events: pairs of a type and a payload.
func frames(events ...string) []byte {
	var out []byte
	enc := eventstream.NewEncoder()
	for i := 0; i < len(events); i += 2 {
		out = append(out, bedrocktest.Frame(enc, "event", ":event-type", events[i], []byte(events[i+1]))...)
	}
	return out
}

func exception(kind, payload string) []byte {
	return bedrocktest.Frame(eventstream.NewEncoder(), "exception", ":exception-type", kind, []byte(payload))
}

// streamOf streams the blocks of a whole answer.
func streamOf(blocks []map[string]any) []byte {
	events := []string{"messageStart", `{"role":"assistant"}`}
	add := func(kind string, payload map[string]any) {
		b, err := json.Marshal(payload)
		if err != nil {
			panic(err)
		}
		events = append(events, kind, string(b))
	}
	for i, b := range blocks {
		delta := func(d any) { add("contentBlockDelta", map[string]any{"contentBlockIndex": i, "delta": d}) }
		switch {
		case b["text"] != nil:
			delta(b)
		case b["toolUse"] != nil:
			use := b["toolUse"].(map[string]any)
			add("contentBlockStart", map[string]any{"contentBlockIndex": i, "start": map[string]any{
				"toolUse": map[string]any{"toolUseId": use["toolUseId"], "name": use["name"]}}})
			input, _ := json.Marshal(use["input"])
			delta(map[string]any{"toolUse": map[string]any{"input": string(input[:3])}})
			delta(map[string]any{"toolUse": map[string]any{"input": string(input[3:])}})
		default:
			r := b["reasoningContent"].(map[string]any)
			if whole, ok := r["reasoningText"].(map[string]any); ok {
				for k, v := range whole {
					delta(map[string]any{"reasoningContent": map[string]any{k: v}})
				}
			} else {
				delta(b)
			}
		}
		add("contentBlockStop", map[string]any{"contentBlockIndex": i})
	}
	add("messageStop", map[string]any{"stopReason": "tool_use"})
	return frames(events...)
}

// streamed asks a model whose server sends those bytes.
func streamed(t *testing.T, body []byte) (*llm.Response, string, error) {
	t.Helper()
	cfg := bedrock.Config{}
	m := connect(t, cfg, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		_, _ = w.Write(body)
	}))
	var said strings.Builder
	resp, err := m.Do(t.Context(), llmtest.Request(func(d llm.Delta) { said.WriteString(d.Text) }))
	return resp, said.String(), err
}

func TestStreamErrors(t *testing.T) {
	start := frames("messageStart", `{"role":"assistant"}`)
	text := frames("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Hello"}}`)
	badCRC := append([]byte{}, text...)
	badCRC[len(badCRC)-1] ^= 1
	badPrelude := append([]byte{}, text...)
	badPrelude[9] ^= 1
	flipped := append([]byte{}, text...)
	flipped[len(flipped)-8] ^= 1
	join := func(parts ...[]byte) []byte {
		var out []byte
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	tests := map[string]struct {
		body  []byte
		class llm.Class
		want  string
		shown bool
	}{
		"throttled":                {join(start, exception("throttlingException", `{"message":"Too many tokens, please wait before trying again."}`)), llm.ClassRateLimit, "Too many", false},
		"throttled in the middle":  {join(start, text, exception("throttlingException", `{"message":"slow"}`)), llm.ClassRateLimit, "slow", true},
		"model error":              {join(text, exception("modelStreamErrorException", `{"message":"boom","originalMessage":"inner","originalStatusCode":500}`)), llm.ClassOverloaded, "boom: inner", true},
		"internal":                 {exception("internalServerException", `{"message":"oops"}`), llm.ClassOverloaded, "oops", false},
		"unavailable":              {exception("serviceUnavailableException", ``), llm.ClassOverloaded, "serviceUnavailable", false},
		"timeout":                  {exception("modelTimeoutException", `{"message":"slow model"}`), llm.ClassTimeout, "slow", false},
		"validation":               {exception("validationException", `{"message":"bad parameter"}`), llm.ClassBadRequest, "bad", false},
		"validation of the size":   {exception("validationException", `{"message":"Input is too long for requested model."}`), llm.ClassContext, "too long", false},
		"validation, quoted":       {exception("validationException", `{"message":"The model returned the following errors: {\"error\":{\"message\":\"messages.3: tool_use ids\"}}"}`), llm.ClassMalformed, "errors: messages.3", false},
		"an error frame":           {bedrocktest.Frame(eventstream.NewEncoder(), "error", ":error-code", "InternalError", []byte(`{"message":"An internal server error occurred"}`)), llm.ClassOverloaded, "internal", false},
		"an exception without any": {bedrocktest.Frame(eventstream.NewEncoder(), "exception", ":x", "y", nil), llm.ClassOverloaded, "without a name", false},
		"checksum of the message":  {join(start, text, badCRC), llm.ClassNetwork, "checksum", true},
		"checksum of the prelude":  {join(start, text, badPrelude), llm.ClassNetwork, "", true},
		"a bit flipped":            {join(start, flipped), llm.ClassNetwork, "checksum", false},
		"cut in a frame":           {join(start, text, text[:len(text)-7]), llm.ClassNetwork, "broke", true},
		"cut in a prelude":         {join(start, text, text[:5]), llm.ClassNetwork, "broke", true},
		"no end":                   {join(start, text), llm.ClassNetwork, "broke", true},
		"a frame of 4 GB":          {[]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 1, 2, 3, 4}, llm.ClassNetwork, "", false},
		"headers behind the frame": {[]byte{0, 0, 0, 20, 0xff, 0xff, 0xff, 0xf0, 1, 2, 3, 4}, llm.ClassNetwork, "not an event stream", false},
		"not JSON":                 {frames("contentBlockDelta", `<html>`), llm.ClassNetwork, "cannot be read", false},
		"another type":             {frames("contentBlockDelta", `{"delta":"text"}`), llm.ClassNetwork, "cannot be read", false},
		"an HTML page":             {[]byte("<html><title>Proxy</title></html>"), llm.ClassNetwork, "not an answer", false},
		"an error as 200":          {[]byte(`{"message":"throttled: rate limit"}`), llm.ClassRateLimit, "throttled", false},
		"another document":         {[]byte(`{"Output":{"__type":"x"},"Version":"1.0"}`), llm.ClassNoResponse, "without a message", false},
		"nothing at all":           {nil, llm.ClassNoResponse, "empty", false},
		"nothing said":             {frames("messageStart", `{}`, "messageStop", `{"stopReason":"end_turn"}`), llm.ClassNoResponse, "without content", false},
		"malformed tool use":       {frames("messageStart", `{}`, "messageStop", `{"stopReason":"malformed_tool_use"}`), llm.ClassNoResponse, "malformed_tool_use", false},
		"window full":              {frames("messageStart", `{}`, "messageStop", `{"stopReason":"model_context_window_exceeded"}`), llm.ClassContext, "context window", false},
		"guardrail":                {frames("messageStart", `{}`, "messageStop", `{"stopReason":"guardrail_intervened"}`), llm.ClassContentPolicy, "filter", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, said, err := streamed(t, tt.body)
			e := failure(t, err)
			if e.Class != tt.class || !strings.Contains(e.Message, tt.want) || e.Streamed != tt.shown || (said != "") != tt.shown {
				t.Errorf("got %#v, said %q", e, said)
			}
		})
	}
}

// What comes in odd ways, and is an answer all the same.
func TestStreamAnswers(t *testing.T) {
	stop := []string{"messageStop", `{"stopReason":"end_turn"}`}
	tests := map[string]struct {
		body         []byte
		text, finish string
		calls        string
	}{
		"broken behind the end":  {append(frames(append([]string{"contentBlockDelta", `{"delta":{"text":"x"}}`}, stop...)...), 0, 0), "x", "stop", ""},
		"exception behind it":    {append(frames(append([]string{"contentBlockDelta", `{"delta":{"text":"x"}}`}, stop...)...), exception("internalServerException", "{}")...), "x", "stop", ""},
		"unknown events":         {frames(append([]string{"initial-response", "", "surprise", "?", "contentBlockDelta", `{"delta":{"text":"x","novelty":{}}}`}, stop...)...), "x", "stop", ""},
		"two texts":              {frames(append([]string{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"x"}}`, "contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"y"}}`}, stop...)...), "x\ny", "stop", ""},
		"a number for two calls": {frames(append([]string{"contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"a","name":"n"}}}`, "contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"b","name":"n"}}}`, "contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"}}}`}, stop...)...), "", "tool_calls", "n{} n{}"},
		"calls in turns": {frames(append([]string{"contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"a","name":"n"}}}`, "contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"b","name":"m"}}}`,
			"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"b\":"}}}`, "contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{\"a\":1}"}}}`,
			"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"2}"}}}`}, stop...)...), "", "tool_calls", `n{"a":1} m{"b":2}`},
		"input as an object": {frames(append([]string{"contentBlockStart", `{"start":{"toolUse":{"toolUseId":"a","name":"n","input":{"k":[1]}}}}`}, stop...)...), "", "tool_calls", `n{"k":[1]}`},
		"cut call":           {frames("contentBlockStart", `{"start":{"toolUse":{"toolUseId":"a","name":"n"}}}`, "contentBlockDelta", `{"delta":{"toolUse":{"input":"{\"b"}}}`, "messageStop", `{"stopReason":"max_tokens"}`), "", "length", `n{"b`},
		"a whole answer":     {[]byte(`{"output":{"message":{"role":"assistant","content":[{"citationsContent":{"content":[{"text":"c"}],"citations":[]}},{"text":"x"},{"video":{}}]}},"stopReason":"stop_sequence"}`), "c\nx", "stop", ""},
		"filtered with text": {frames("contentBlockDelta", `{"delta":{"text":"Sorry"}}`, "messageStop", `{"stopReason":"guardrail_intervened"}`), "Sorry", "content_filter", ""},
		"no stop reason":     {frames("contentBlockDelta", `{"delta":{"text":"x"}}`, "messageStop", `{}`), "x", "stop", ""},
		"usage first":        {frames("contentBlockDelta", `{"delta":{"text":"x"}}`, "metadata", `{"usage":{"inputTokens":1}}`, "messageStop", `{}`), "x", "stop", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			resp, said, err := streamed(t, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			var calls []string
			for _, c := range resp.Message.ToolCalls {
				calls = append(calls, c.Name+c.Arguments)
			}
			if resp.Message.Text() != tt.text || said != tt.text || resp.FinishReason != tt.finish || strings.Join(calls, " ") != tt.calls || resp.ID == "" {
				t.Errorf("%+v, said %q", resp, said)
			}
		})
	}
}
