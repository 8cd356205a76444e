package e2e_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"parley/test/testkit/gittest"
	"parley/test/testkit/mcpserver"
	"parley/test/testkit/openaitest"
	"parley/test/testkit/parleytest"
)

// Values that are not their own spelling in a URL.
const (
	alphaValue = "alpha/first+secret=value"
	betaValue  = "beta/first+secret=value"
	gammaValue = "gamma/first+secret=value"
)

// spellings are what must not show of a value.
func spellings(value string) []string {
	return []string{value, url.QueryEscape(value), url.PathEscape(value), strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(value)), "=")}
}

// keep stores a custom secret of the user's, or changes it.
func (x *extended) keep(name, value string) {
	x.t.Helper()
	stored := map[string]any{"custom_secrets": map[string]any{name: map[string]any{"secret": value}}}
	if code := x.Call("POST", "/api/settings", map[string]any{"secrets_store": stored}, nil); code != http.StatusOK {
		x.t.Fatalf("POST settings: %d", code)
	}
}

// secretive is a repository whose parts name a secret each.
func secretive(t *testing.T, traces string) map[string]gittest.File {
	t.Helper()
	hook := func(command string) []any {
		return []any{map[string]any{"hooks": []any{map[string]any{"command": command}}}}
	}
	files := gittest.Text(map[string]string{
		".openhands/hooks.json": jsonText(map[string]any{"hooks": map[string]any{
			"PreToolUse": append(hook("env > "+traces+"/named.env; printf '%s' \"$ALPHA_KEY\" > "+traces+"/alpha; printf '%s' \"$ALPHA_KEY\" | base64; echo \"plain $ALPHA_KEY\" >&2"),
				hook("env > "+traces+"/other.env")...),
			"UserPromptSubmit": hook(`printf '{"additionalContext": "The key is %s."}' "$ALPHA_KEY"`)}}),
		".openhands/microagents/vault.md": "---\nmcp_tools:\n  stdio_servers:\n  - name: vault\n    command: ./bin/vault\n    args: [\"-log\", \"" + traces +
			"/vault.log\", \"-tools\", \"info\", \"-show\", \"KEY,ALPHA_KEY,GAMMA_KEY,BETA_KEY\"]\n    env:\n      KEY: ${BETA_KEY}\n---\nThere is a vault.",
	})
	files["bin/vault"] = gittest.File{Data: string(mcpserver.Program(t)), Program: true}
	return files
}

// A secret reaches what names it and nothing else, its value is the one of now, and no
// spelling of it shows anywhere.
func TestSecretsReachWhatNamesThem(t *testing.T) {
	t.Parallel()
	x := newExtended(t, parleytest.Options{Env: []string{"PARLEY_REPOSITORY_TRUST=always"}})
	x.git = gittest.New(t)
	x.git.Commit("secretive", secretive(t, x.traces))
	x.keep("ALPHA_KEY", alphaValue)
	x.keep("BETA_KEY", betaValue)
	x.keep("GAMMA_KEY", gammaValue)

	spell := `echo "$GAMMA_KEY"; printf '%s' "$GAMMA_KEY" | base64 -w0; echo; printf '%s' "$GAMMA_KEY" | sed 's#/#%2F#g; s#+#%2B#g; s#=#%3D#g'; echo; ` +
		`printf '%.9s' "$GAMMA_KEY"; sleep 0.3; printf '%s\n' "${GAMMA_KEY#?????????}"`
	x.model.Reply(run(spell), openaitest.Tool("info", map[string]any{}), run("env | grep -c -e first+secret || true"), openaitest.Text("looked"))
	id := x.on("secretive", nil)
	x.Send(id, "look at the keys")
	x.WaitStatus(id, "finished")
	x.checkReach("ALPHA_KEY", alphaValue)
	const hidden = `\u003csecret-hidden\u003e`
	text := texts(x.Events(id))
	for _, want := range []string{`"text":"` + strings.Join([]string{hidden, hidden, hidden, hidden}, `\n`) + `"`, // each spelling
		`"text":"{\"KEY\":\"` + hidden + `\"}"`, // the MCP server has no others
		`"text":"1"`,                            // the terminal has only the one that was named
		`The key is ` + hidden, `"stderr":"plain ` + hidden} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
	if log := x.trace("vault.log"); strings.Count(log, "\n") != 1 || !strings.Contains(log, "map[KEY:"+betaValue+"]") {
		t.Errorf("the MCP server was started with %s", log)
	}

	const alphaNext, betaNext = "alpha/second+secret=value", "beta/second+secret=value"
	x.keep("ALPHA_KEY", alphaNext)
	x.keep("BETA_KEY", betaNext)
	x.model.Reply(run("true"), openaitest.Text("looked again"))
	x.Send(id, "look again")
	x.Eventually("the second look", func() bool { return strings.Contains(texts(x.Events(id)), "looked again") })
	x.WaitStatus(id, "finished")
	x.checkReach("ALPHA_KEY", alphaNext)
	x.Eventually("the MCP server to be started with the new value", func() bool {
		return strings.Count(x.trace("vault.log"), "\n") == 2 && strings.Contains(x.trace("vault.log"), "map[KEY:"+betaNext+"]")
	})

	for _, value := range []string{alphaValue, betaValue, gammaValue, alphaNext, betaNext} {
		x.shownNowhere(id, value)
	}
}

// checkReach checks what the two hooks had in their environment.
func (x *extended) checkReach(name, value string) {
	x.t.Helper()
	if got := x.trace("alpha"); got != value {
		x.t.Errorf("the hook that names %s had %q, want %q", name, got, value)
	}
	if env := x.trace("named.env"); strings.Contains(env, "BETA_KEY") || strings.Contains(env, "GAMMA_KEY") {
		x.t.Errorf("a hook has secrets that it does not name: %s", env)
	}
	if env := x.trace("other.env"); env == "" || strings.Contains(env, "_KEY=") {
		x.t.Errorf("a hook that names no secret has %s", env)
	}
}

// shownNowhere looks for a secret in all that anybody reads.
func (x *extended) shownNowhere(id, value string) {
	x.t.Helper()
	places := map[string]string{"the log of the server": x.Log()}
	for i, e := range x.Events(id) {
		places[fmt.Sprintf("event %d", i)] = e.Text()
	}
	for i, r := range x.model.Requests() {
		places[fmt.Sprintf("request %d", i)] = string(r.Raw)
	}
	for place, text := range places {
		for _, spelling := range spellings(value) {
			if at := strings.Index(text, spelling); at >= 0 {
				x.t.Errorf("%s shows %q: %.300s", place, spelling, text[max(0, at-100):])
			}
		}
	}
}
