package api_test

import "testing"

func TestProcessorsOfAStart(t *testing.T) {
	w := newWorld(t)
	for kind, want := range map[string]int{"SetTitleCallbackProcessor": 200, "LoggingCallbackProcessor": 200, "GithubV1CallbackProcessor": 501,
		"JiraDcV1CallbackProcessor": 501, "UnknownCallbackProcessor": 422, "": 422} {
		a := w.as(userKey, "POST", "/api/v1/app-conversations", map[string]any{"processors": []any{map[string]any{"kind": kind}}}).is(want)
		if want == 200 && a.text("request", "processors", 0, "kind") != kind {
			t.Errorf("%s: %s", kind, a.body)
		}
	}
}
