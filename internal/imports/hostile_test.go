package imports_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/internal/imports"
)

// TestCachePagesAtTheEndOfAllNumbers: a page of the cache whose numbers do not fit is left
// out, and does not keep the import busy for ever.
func TestCachePagesAtTheEndOfAllNumbers(t *testing.T) {
	w := newWorld(t)
	dir := "sessions/" + one
	w.put(dir+"/metadata.json", `{"created_at":"2025-11-20T09:00:00","prompt_tokens":1e300,"completion_tokens":1e300}`)
	w.events(dir, act("user", "message", `{"content":"a"}`))
	said := act("user", "message", `{"content":"far"}`)
	w.put(dir+"/event_cache/9223372036854775806-9223372036854775807.json", "["+said+","+said+","+said+"]")
	item := w.run(true, false)[dir]
	if item.Status != imports.New || item.Events != 2 || // the second has the costs
		!strings.Contains(strings.Join(item.Problems, "\n"), "too many numbers before it are missing") {
		t.Errorf("%+v", item)
	}
	if strings.Contains(fmt.Sprint(w.get(one).Summary), "-9223372036854775808") {
		t.Error("tokens overflow")
	}
}

// TestSecretsAreMaskedHoweverTheyAreWritten: JSON writes a character in several ways, and
// the titles of conversations repeat what was said first.
func TestSecretsAreMaskedHoweverTheyAreWritten(t *testing.T) {
	w := newWorld(t)
	w.put("secrets.json", `{"custom_secrets":{"A":{"secret":"pa\"ss/w\u00f6rd"},"B":{"secret":"hush-hush"}}}`)
	dir := "sessions/" + one
	w.put(dir+"/metadata.json", `{"created_at":"2025-11-20T09:00:00","title":"say hush-hush"}`)
	w.events(dir, act("user", "message", `{"content":"a pa\"ss\/w\u00f6rd b"}`), act("agent", "run", `{"command":"echo h\u0075sh-hush"}`),
		obs("agent", "run", 1, `x`, `{"metadata":{"exit_code":0},"hush-hush":"pa\"ss/wörd"}`))
	w.put("conversations/"+agent+"/base_state.json", `{}`)
	w.put("conversations/"+agent+"/meta.json", `{"title":"h\u0075sh-hush","created_at":"2025-11-20T09:00:00Z","tags":{"k":"hush-hush"}}`)
	w.put("conversations/"+agent+"/events/event-00000-a.json", `{"kind":"MessageEvent","id":"a","timestamp":"2026-01-02T03:04:05","source":"user",
		"llm_message":{"role":"user","content":[{"type":"text","text":"h\u0075sh-hush"}]}}`)
	items := w.run(true, false)
	raw, err := w.store.Imports().Raw(t.Context(), one, 0, 9)
	check(t, err)
	shown := fmt.Sprint(items, w.get(one).Title, w.get(agent).Title, w.get(agent).Tags, w.trace(one), w.trace(agent))
	for _, e := range raw {
		shown += string(e)
	}
	for _, secret := range []string{"hush-hush", `ss/w`, `h\u0075sh`, `ss\/w`} {
		if strings.Contains(shown, secret) {
			t.Errorf("%q is shown: %s", secret, shown)
		}
	}
}
