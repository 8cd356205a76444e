package v0_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// odd are bodies that old clients send, or that nobody should.
func odd() []string {
	deep := strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000)
	return []string{``, ` `, `null`, `true`, `0`, `-1`, `1e400`, `"text"`, `[]`, `[{}]`, `[[[]]]`, `{`, `}`, `{"a"}`, `{"a":}`, `{'a':1}`, `{"a":1,}`, `NaN`,
		`{"max_iterations":NaN}`, `{"max_budget_per_task":Infinity}`, `{"x":"\ud800"}`, "{\"x\":\"\xff\"}", "\xef\xbb\xbf{}", "{\"x\":\"\x00\"}", `{"\u0000":"\u0000"}`, deep,
		`{}{}`, `{"":""}`}
}

// values are what members get in place of what they should have.
func values() []string {
	return []string{`null`, `true`, `false`, `0`, `-1`, `1.5`, `1e400`, `99999999999999999999999`, `9223372036854775807`, `-9223372036854775808`, `""`, `" "`, `"12"`,
		`"1.0"`, `"nan"`, `"Infinity"`, `"yes"`, `"\u0000"`, `"\ud83d"`, `"` + strings.Repeat("x", 70000) + `"`, `[]`, `[null]`, `[[]]`, `["a"]`, `{}`, `{"a":null}`, `{"":{}}`}
}

// route is a route of this part of the API with the members that its body may have.
type oddRoute struct {
	method, path string
	members      []string
	rest         string // members that must be there
}

func oddRoutes() []oddRoute {
	return []oddRoute{
		{"POST", "/api/settings", []string{"language", "agent", "max_iterations", "security_analyzer", "confirmation_mode", "llm_model", "llm_api_key", "llm_base_url",
			"remote_runtime_resource_factor", "secrets_store", "enable_default_condenser", "enable_sound_notifications", "user_consents_to_analytics",
			"sandbox_base_container_image", "sandbox_runtime_container_image", "mcp_config", "search_api_key", "sandbox_api_key", "max_budget_per_task",
			"condenser_max_size", "email", "email_verified", "git_user_name", "git_user_email", "v1_enabled", "provider_tokens_set"}, ""},
		{"POST", "/api/reset-settings", nil, ""},
		{"POST", "/api/add-git-providers", []string{"provider_tokens", "mcp_config"}, ""},
		{"POST", "/api/unset-provider-tokens", nil, ""},
		{"POST", "/api/secrets", []string{"name", "value", "description"}, `"name":"N","value":"V"`},
		{"PUT", "/api/secrets/odd", []string{"name", "value", "description"}, `"name":"N"`},
		{"POST", "/api/conversations", []string{"repository", "git_provider", "selected_branch", "initial_user_msg", "image_urls", "suggested_task",
			"create_microagent", "conversation_instructions", "mcp_config", "conversation_id", "replay_json"}, ""},
	}
}

// send sends a body with a content type and checks the form of the answer: JSON in one
// of the documented shapes, and never a 500.
func (r *rig) sendOdd(route oddRoute, contentType, body string) (int, string) {
	r.Helper()
	req := httptest.NewRequestWithContext(context.Background(), route.method, route.path, strings.NewReader(body))
	req.Header.Set("X-Session-API-Key", key)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	w := httptest.NewRecorder()
	r.server.ServeHTTP(w, req)
	answer := w.Body.String()
	if w.Code >= 500 && w.Code != 501 || !json.Valid(w.Body.Bytes()) {
		r.Errorf("%s %s %q %.200q: %d %.300s", route.method, route.path, contentType, body, w.Code, answer)
	}
	if err := r.answers.Check(route.method, req.URL.EscapedPath(), w.Code, w.Header(), w.Body.Bytes()); err != nil {
		r.Errorf("%.200q: %v", body, err)
	}
	return w.Code, answer
}

// Old Python clients send odd things: they get the documented answer, never a 500.
func TestOddBodies(t *testing.T) {
	for _, route := range oddRoutes() {
		t.Run(route.path, func(t *testing.T) {
			r := newRig(t)
			r.withGit()
			for _, body := range odd() {
				code, _ := r.sendOdd(route, "application/json", body)
				if takes := strings.HasSuffix(route.path, "-tokens") || strings.HasPrefix(route.path, "/api/reset"); !takes && code < 400 &&
					json.Unmarshal([]byte(strings.TrimPrefix(body, "\xef\xbb\xbf")), &map[string]any{}) != nil {
					t.Errorf("%.60q is taken: %d", body, code)
				}
			}
			for _, kind := range []string{"", "text/plain", "text/plain; charset=utf-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
				"application/json; charset=utf-8", "application/problem+json", "APPLICATION/JSON", "nonsense", ";"} {
				r.sendOdd(route, kind, `{`+route.rest+`}`)
				r.sendOdd(route, kind, `a=b&c=d`)
			}
			for _, member := range route.members {
				for _, value := range values() {
					rest := ""
					for _, m := range strings.Split(route.rest, ",") {
						if m != "" && !strings.HasPrefix(m, `"`+member+`"`) {
							rest += "," + m
						}
					}
					r.sendOdd(route, "application/json", fmt.Sprintf(`{%q:%s%s}`, member, value, rest))
				}
				r.sendOdd(route, "application/json", fmt.Sprintf(`{%q:1,%q:null,%q:[]}`, member, member, member))
			}
		})
	}
}

// Section 4 and 5: what stands inside of members.
func TestOddMembers(t *testing.T) {
	r := newRig(t)
	r.withGit()
	settings, providers, create := oddRoutes()[0], oddRoutes()[2], oddRoutes()[6]
	for _, value := range values() {
		for _, list := range []string{"sse_servers", "shttp_servers", "stdio_servers", "other"} {
			for _, body := range []string{fmt.Sprintf(`{"mcp_config":{%q:%s}}`, list, value), fmt.Sprintf(`{"mcp_config":{%q:[%s]}}`, list, value)} {
				r.sendOdd(settings, "application/json", body)
				r.sendOdd(create, "application/json", body)
			}
			for _, member := range []string{"url", "api_key", "timeout", "name", "command", "args", "env"} {
				r.sendOdd(settings, "application/json", fmt.Sprintf(`{"mcp_config":{%q:[{"url":"http://a","name":"n","command":"c",%q:%s}]}}`, list, member, value))
			}
		}
		for _, member := range []string{"provider_tokens", "custom_secrets", "other"} {
			for _, form := range []string{`{"secrets_store":{%q:%s}}`, `{"secrets_store":{%q:{"github":%s}}}`, `{"secrets_store":{%q:{"github":{"token":%[2]s,"secret":%[2]s,"host":%[2]s}}}}`} {
				r.sendOdd(settings, "application/json", fmt.Sprintf(form, member, value))
			}
		}
		for _, form := range []string{`{"provider_tokens":{"enterprise_sso":%s}}`, `{"provider_tokens":{"enterprise_sso":{"user_id":%[1]s}}}`,
			`{"provider_tokens":{"enterprise_sso":{"token":%s}}}`, `{"provider_tokens":{"enterprise_sso":{"host":%s}}}`, `{"provider_tokens":{"":%s}}`} {
			r.sendOdd(providers, "application/json", fmt.Sprintf(form, value))
		}
		for _, member := range []string{"git_provider", "task_type", "repo", "issue_number", "title"} {
			whole := map[string]string{"git_provider": `"github"`, "task_type": `"OPEN_ISSUE"`, "repo": `"a/b"`, "issue_number": "1", "title": `"t"`}
			whole[member] = value
			var parts []string
			for k, v := range whole {
				parts = append(parts, fmt.Sprintf("%q:%s", k, v))
			}
			r.sendOdd(create, "application/json", `{"suggested_task":{`+strings.Join(parts, ",")+`}}`)
			if member == "repo" || member == "title" || member == "git_provider" {
				r.sendOdd(create, "application/json", fmt.Sprintf(`{"create_microagent":{"repo":"x","%s":%s}}`, member, value))
			}
		}
		r.sendOdd(create, "application/json", fmt.Sprintf(`{"image_urls":[%s]}`, value))
	}
}

// TestLegacyErrorShapes has the seven shapes of section 1.3, as far as they are here.
func TestErrorShapesOfThisPart(t *testing.T) {
	r := newRig(t)
	r.withGit()
	for _, c := range []struct {
		method, path, body string
		code               int
		answer             string
	}{
		{"POST", "/api/settings", `null`, 422, `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":null}]}`},
		{"POST", "/api/settings", `{"secrets_store":null}`, 422,
			`{"detail":[{"type":"value_error","loc":["body","secrets_store"],"msg":"Value error, Secrets must be initialized with a dictionary","input":null,"ctx":{"error":{}}}]}`},
		{"POST", "/api/settings", `{"condenser_max_size":19}`, 422,
			`{"detail":[{"type":"greater_than_equal","loc":["body","condenser_max_size"],"msg":"Input should be greater than or equal to 20","input":19,"ctx":{"ge":20}}]}`},
		{"GET", "/api/settings", ``, 404, `{"error":"Settings not found"}`},
		{"DELETE", "/api/settings", ``, 405, `{"detail":"Method Not Allowed"}`},
		{"GET", "/api/user", ``, 404, `{"detail":"Not Found"}`},
		{"PUT", "/api/secrets", `{}`, 405, `{"detail":"Method Not Allowed"}`},
		{"GET", "/api/user/suggested-tasks", ``, 401, `"No providers set."`},
		{"POST", "/api/conversations", `{"conversation_id":"` + strings.Repeat("x", 101) + `"}`, 400, `{"detail":"Conversation ID is too long"}`},
	} {
		r.want(c.method, c.path, c.body, c.code, c.answer)
	}
}
