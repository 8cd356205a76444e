package factory_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"parley/internal/account"
	"parley/internal/llm"
	"parley/internal/llm/factory"
	"parley/internal/llm/llmtest"
)

// echoes are the ways in which endpoints give back what they were sent.
func echoes() map[string]func(w http.ResponseWriter, said string, status int) {
	object := func(said string) string {
		raw, err := json.Marshal(map[string]any{"error": map[string]any{"message": said, "type": "invalid_request_error"}, "message": said})
		if err != nil {
			panic(err)
		}
		return string(raw)
	}
	body := func(kind, text string) func(http.ResponseWriter, string, int) {
		return func(w http.ResponseWriter, said string, status int) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, fmt.Sprintf(text, said))
		}
	}
	return map[string]func(http.ResponseWriter, string, int){
		"json": func(w http.ResponseWriter, said string, status int) {
			body("application/json", "%s")(w, object(said), status)
		},
		"nested": func(w http.ResponseWriter, said string, status int) {
			body("application/json", "%s")(w, object("upstream: "+object(said)), status)
		},
		"text":      body("text/plain", "refused: %s"),
		"html":      body("text/html", "<html><title>%s</title></html>"),
		"stream":    body("text/event-stream", "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":%q}}\n\n"),
		"garbage":   body("text/event-stream", "data: %s\n\n"),
		"half":      body("text/event-stream", "data: {\"a\":%q"),
		"no answer": body("application/json", "[%q]"),
		"frames":    body("application/vnd.amazon.eventstream", "%s"),
		"error name": func(w http.ResponseWriter, said string, status int) {
			w.Header().Set("X-Amzn-Errortype", said)
			w.WriteHeader(status)
		},
		"redirect": func(w http.ResponseWriter, said string, _ int) {
			w.Header().Set("Location", "http://"+url.PathEscape(said)+".example/"+url.PathEscape(said))
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"wish": func(w http.ResponseWriter, said string, _ int) {
			w.Header().Set("Retry-After", said)
			body("application/json", "%s")(w, object(said), http.StatusTooManyRequests)
		},
	}
}

// spellings are how a value may look in an echo.
func spellings() map[string]func(string) string {
	return map[string]func(string) string{
		"plain":  func(s string) string { return s },
		"query":  url.QueryEscape,
		"path":   url.PathEscape,
		"base64": func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"basic":  func(s string) string { return base64.URLEncoding.EncodeToString([]byte("user:" + s)) },
		"json": func(s string) string {
			raw, err := json.Marshal(s)
			if err != nil {
				panic(err)
			}
			return string(raw)
		},
		"at the end": func(s string) string {
			return strings.Repeat("a", 2048-len(" [cut]")-len(s)/2) + s + strings.Repeat("b", 100)
		},
		"later": func(s string) string { return strings.Repeat("a", 64<<10-20-len(s)/2) + s + strings.Repeat("b", 100) },
	}
}

// secretsOf a configuration that the wires below are made with.
const (
	plainKey   = "sk-plain-0123456789abcdef"
	oddKey     = `sk-odd"\/+=&<>%41-0123456789`
	headerKey  = "header-key-0123456789-abcdef"
	userKey    = "userinfo-pass-0123456789"
	queryKey   = "query-key-0123456789-xyz"
	awsSecret  = "aws/secret+key/0123456789abcdef"
	awsSession = "aws-session-token/0123456789=="
)

// wiresOf are configurations of all adapters that call an endpoint.
func wiresOf(host, key string) map[string]account.LLM {
	off := false
	base := "http://user:" + userKey + "@" + host
	out := map[string]account.LLM{
		"chat":      {Model: "openai/m", BaseURL: base + "/v1?key=" + queryKey},
		"text":      {Model: "ollama/m", BaseURL: base + "/v1?key=" + queryKey, NativeToolCalling: &off},
		"responses": {Model: "openai/gpt-5", BaseURL: base + "/v1?key=" + queryKey, APIMode: "responses"},
		"azure":     {Model: "azure/d", BaseURL: base + "?key=" + queryKey, APIVersion: "2024-10-21"},
		"anthropic": {Model: "anthropic/claude-x", BaseURL: base + "/v1?key=" + queryKey},
		"gemini":    {Model: "gemini/gemini-3-pro", BaseURL: base + "/v1beta?key=" + queryKey},
		"bedrock":   {Model: "bedrock/anthropic.claude-x", BaseURL: "http://" + host, AWSRegion: "us-east-1"},
		"bedrock signed": {Model: "bedrock/anthropic.claude-x", BaseURL: "http://" + host, AWSRegion: "us-east-1", AWSAccessKeyID: account.NewSecret("AKIA0123456789ABCDEF"),
			AWSSecretAccessKey: account.NewSecret(awsSecret), AWSSessionToken: account.NewSecret(awsSession)},
	}
	for name, l := range out {
		if name != "bedrock signed" {
			l.APIKey = account.NewSecret(key)
		}
		l.ExtraHeaders = map[string]account.Secret{"X-Gateway-Auth": account.NewSecret("Bearer " + headerKey)}
		out[name] = l
	}
	return out
}

// shows reports the first piece of a secret in a text that is long enough to matter.
func shows(text, secret string) string {
	const piece = 10
	for i := 0; i+piece <= len(secret); i++ {
		if strings.Contains(text, secret[i:i+piece]) {
			return secret[i : i+piece]
		}
	}
	return ""
}

// TestNoEchoShowsASecret: whatever an endpoint gives back, and in whatever form,
// no error holds a key, nor a piece of one.
func TestNoEchoShowsASecret(t *testing.T) {
	var echo func(w http.ResponseWriter, r *http.Request)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		echo(w, r)
	}))
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for _, key := range []string{plainKey, oddKey} {
		for wireName, l := range wiresOf(s.Listener.Addr().String(), key) {
			m, err := factory.New(l, factory.Options{HTTPClient: client, Timeout: 5 * time.Second, AWS: factory.AWS{NoEnvironment: true}, Retry: factory.Retry{MaxAttempts: 1}})
			if err != nil {
				if shown := shows(err.Error(), userKey) + shows(err.Error(), queryKey); shown != "" {
					t.Errorf("%s: made with %v", wireName, err)
				}
				t.Logf("%s is not made: %v", wireName, err)
				continue
			}
			secrets := []string{key, headerKey, userKey, queryKey}
			switch wireName {
			case "bedrock":
				secrets = secrets[:2]
			case "bedrock signed":
				secrets = []string{headerKey, awsSecret, awsSession}
			}
			for name, write := range echoes() {
				for spelling, spell := range spellings() {
					if name == "redirect" && spelling == "json" {
						continue // three encodings in each other are not undone
					}
					for i, secret := range secrets {
						if wireName != "chat" && i > 0 && spelling != "at the end" {
							continue // one wire does it for all
						}
						for status, onDelta := range map[int]func(llm.Delta){200: func(llm.Delta) {}, 400: nil} {
							echo = func(w http.ResponseWriter, _ *http.Request) { write(w, spell(secret), status) }
							_, err := m.Do(t.Context(), llmtest.Request(onDelta))
							checkError(t, fmt.Sprint(wireName, ", ", name, " ", status, ", ", spelling), err, secret, spell(secret))
						}
					}
				}
			}
		}
	}
}

// checkError looks at all that an error says, and its causes.
func checkError(t *testing.T, where string, err error, forms ...string) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		text := fmt.Sprintf("%v %+v", err, err)
		var e *llm.Error
		if errors.As(err, &e) {
			text += e.Message
		}
		for _, form := range forms {
			if piece := shows(text, strings.Trim(form, "ab")); piece != "" {
				t.Errorf("%s: %q is shown in %.200q", where, piece, text)
				return
			}
		}
	}
}

// TestNoUnreachableEndpointShowsASecret: errors of the connection hold addresses.
func TestNoUnreachableEndpointShowsASecret(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	host := s.Listener.Addr().String()
	s.Close()
	for _, host := range []string{host, "no-such-host.invalid", "[::1]:0"} {
		for name, l := range wiresOf(host, plainKey) {
			m, err := factory.New(l, factory.Options{Timeout: 5 * time.Second, AWS: factory.AWS{NoEnvironment: true}, Retry: factory.Retry{MaxAttempts: 1}})
			if err == nil {
				_, err = m.Do(t.Context(), llmtest.Request(nil))
			}
			if err == nil {
				t.Fatal("answered")
			}
			for _, secret := range []string{plainKey, headerKey, userKey, queryKey, awsSecret, awsSession} {
				checkError(t, name+" at "+host, err, secret)
			}
		}
	}
}
