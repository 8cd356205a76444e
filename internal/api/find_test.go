package api_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"parley/internal/conversation"
)

func (w *world) find(key, query, more string) *answer {
	w.Helper()
	return w.as(key, "GET", "/api/v1/search?query="+url.QueryEscape(query)+more, nil).is(200)
}

func TestSearchFindsWhatWasSaidAndDone(t *testing.T) {
	w := newWorld(t, callTool("sh", `{"command":"echo output-of-$((6*7))"}`))
	first := message("Please mend the Parser of expressions")
	first["title"] = "The first"
	id, _ := w.begin(first)
	w.waitFor(id, conversation.Finished)
	other, _ := w.begin(map[string]any{"title": "Parser club"})
	for query, want := range map[string]string{
		"parser": "title MessageEvent", "mend parser": "MessageEvent", `"the parser of"`: "MessageEvent", `"parser the"`: "",
		`"output of 42"`: "ObservationEvent", "echo": "ActionEvent", "club": "title", "nowhere": "", "()*": "",
	} {
		a := w.find(userKey, query, "")
		var got []string
		for _, item := range a.list("items") {
			kind, _ := walk(t, item, "kind").(string)
			if kind == "" {
				kind = "title"
			}
			got = append(got, kind)
			snippet, marked := []rune(walk(t, item, "snippet").(string)), ""
			for _, m := range walk(t, item, "marks").([]any) {
				marked += string(snippet[int(walk(t, m, "start").(float64)):int(walk(t, m, "end").(float64))]) + " "
			}
			for _, word := range strings.Fields(strings.Trim(query, `"`)) {
				if !strings.Contains(strings.ToLower(marked), word) {
					t.Errorf("%s: %q is marked in %s", query, marked, string(snippet))
				}
			}
		}
		if joined := strings.Join(got, " "); joined != want {
			t.Errorf("%s: found %q, want %q: %s", query, joined, want, a.body)
		}
		if n := len(w.find(otherKey, query, "").list("items")); n != 0 {
			t.Errorf("%s: another user finds %d", query, n)
		}
	}
	if a := w.find(userKey, "parser", "&conversation_id__eq="+other); len(a.list("items")) != 1 || a.text("items", 0, "conversation_id") != other {
		t.Errorf("in one conversation: %s", a.body)
	}
	if a := w.find(userKey, "parser", "&conversation_id__eq=../x"); len(a.list("items")) != 0 {
		t.Errorf("in none: %s", a.body)
	}
	w.call(200, "PATCH", "/api/v1/app-conversations/"+other, map[string]any{"title": "Lexer club"})
	if a := w.find(userKey, "lexer", ""); a.text("items", 0, "title") != "Lexer club" {
		t.Errorf("renamed: %s", a.body)
	}
	w.call(200, "DELETE", "/api/v1/app-conversations/"+other, nil)
	if a := w.find(userKey, "club", ""); len(a.list("items")) != 0 {
		t.Errorf("deleted: %s", a.body)
	}
	w.as("", "GET", "/api/v1/search?query=x", nil).is(401)
	w.call(422, "GET", "/api/v1/search", nil)
	w.call(422, "GET", "/api/v1/search?query="+strings.Repeat("x", 501), nil)
}

func TestSearchPages(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.begin(map[string]any{"title": fmt.Sprint("number ", i)})
	}
	var got []string
	for next := ""; ; {
		a := w.find(userKey, "number", "&limit=2&page_id="+next)
		for _, item := range a.list("items") {
			got = append(got, walk(t, item, "title").(string))
		}
		if next, _ = a.at("next_page_id").(string); next == "" {
			break
		}
	}
	if fmt.Sprint(got) != "[number 4 number 3 number 2 number 1 number 0]" {
		t.Errorf("%v", got)
	}
}
