package account_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"parley/internal/account"
	"parley/internal/fault"
)

// server parses one server named "s", and fails the test where it is refused.
func server(t *testing.T, text string, stored *account.MCPConfig) *account.MCPConfig {
	t.Helper()
	c, fields := account.ParseMCPServers(json.RawMessage(`{"s":`+text+`}`), stored)
	if len(fields) > 0 {
		t.Fatalf("%s: %v", text, wrongs(fields))
	}
	return c
}

func shownJSON(t testing.TB, c *account.MCPConfig) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(c.RenderServers())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestServersReadTheirCredentials(t *testing.T) {
	for in, want := range map[string]map[string]string{
		`"auth":null`:                {},
		`"auth":""`:                  {},
		`"auth":{"strategy":"none"}`: {},
		`"auth":"hush"`:              {"Authorization": "Bearer hush"},
		`"auth":{"strategy":"bearer","value":" hush "}`:                                       {"Authorization": "Bearer hush"},
		`"headers":{"authorization":"bearer hush"}`:                                           {"Authorization": "Bearer hush"},
		`"headers":{"Authorization":"Digest hush"}`:                                           {"Authorization": "Digest hush"},
		`"headers":{"X-A":"hush","X-B":"","X-C":null}`:                                        {"X-A": "hush"},
		`"auth":{"strategy":"api_key","value":"hush"}`:                                        {"?": "api_key  hush"},
		`"auth":{"strategy":"api_key","value":"hush","header_name":"K"}`:                      {"K?": "api_key  hush"},
		`"auth":{"strategy":"api_key"}`:                                                       {},
		`"auth":{"strategy":"basic","username":"u","password":"p"}`:                           {"?": "basic u p"},
		`"auth":{"strategy":"header","headers":{"A":"1","B":"2"}},"headers":{"C":"3"}`:        {"A": "1", "B": "2", "C": "3"},
		`"auth":{"strategy":"api_key","value":"k"},"headers":{"Authorization":"Bearer hush"}`: {"?": "api_key  k", "Authorization": "Bearer hush"},
		`"auth":"oauth"`:               {},
		`"auth":{"strategy":"oauth2"}`: {},
		`"auth":{"strategy":"oauth2","authentication":{"type":"oauth","client_id":"c"}},"headers":{"X-A":"${NAME}"}`: {"X-A": "${NAME}"},
	} {
		c := server(t, `{"url":"https://a.example",`+in+`}`, nil)
		if diff := cmp.Diff(want, carried(&c.SHTTP[0])); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
}

// carried are the credentials of a server, by header.
func carried(s *account.MCPHTTPServer) map[string]string {
	out := map[string]string{}
	put := func(name, prefix string, value account.Secret) {
		if value.IsSet() {
			out[name] = prefix + value.Reveal()
		}
	}
	put("Authorization", "Bearer ", s.APIKey)
	for name, value := range s.Headers {
		put(name, "", value)
	}
	if a := s.Auth; a != nil {
		put(a.Header+"?", a.Strategy+" "+a.Username+" ", a.Value)
		for name, value := range a.Headers {
			put(name, "", value)
		}
	}
	return out
}

func TestServersReadOAuth(t *testing.T) {
	c := server(t, `{"url":"https://a.example","auth":{"strategy":"oauth2","authentication":{"type":"oauth","client_id":"id","client_secret":"hush",
		"client_auth_method":"client_secret_basic","client_name":"n","client_metadata_url":"https://c.example/m","scopes":"a b",
		"additional_client_metadata":{"logo_uri":"https://l.example"}},
		"state":{"tokens":{"access_token":"at","refresh_token":"rt","id_token":"dropped"},"client_info":{"client_id":"cid","client_secret":"cs"},"token_expires_at":12.5}}}`, nil)
	o := c.SHTTP[0].Auth.OAuth
	if o.ClientID != "id" || o.ClientSecret.Reveal() != "hush" || o.ClientAuth != "client_secret_basic" || o.ClientName != "n" ||
		o.MetadataURL != "https://c.example/m" || !slices.Equal(o.Scopes, []string{"a", "b"}) || string(o.Registration) != `{"logo_uri":"https://l.example"}` {
		t.Errorf("%+v", o)
	}
	b := o.Brought()
	if b.AccessToken.Reveal() != "at" || b.RefreshToken.Reveal() != "rt" || b.ExpiresAt != 12.5 || b.ClientID != "cid" || b.ClientSecret.Reveal() != "cs" ||
		strings.Contains(o.State.Reveal(), "dropped") {
		t.Errorf("%+v", b)
	}
	if raw := string(shownJSON(t, c)); strings.Contains(raw, "hush") || strings.Contains(raw, `"at"`) || strings.Contains(raw, `"rt"`) || strings.Contains(raw, `"cs"`) {
		t.Error(raw)
	}
}

func TestServersReadWhatStdioHas(t *testing.T) {
	c := server(t, `{"type":"stdio","command":"uvx","cwd":"sub dir","timeout":0.2,"env":{"A":"${B}"}}`, nil)
	if s := c.Stdio[0]; s.Cwd != "sub dir" || *s.Timeout != 1 || s.Rest != nil {
		t.Errorf("%+v", s)
	}
	if c = server(t, `{"command":"uvx"}`, nil); c.Stdio[0].Timeout != nil {
		t.Errorf("%+v", c.Stdio[0])
	}
}

func TestTimeoutsAreRoundedUp(t *testing.T) {
	for in, want := range map[string]*int{`"x":null`: ref(60), `"timeout":null`: nil, `"timeout":30`: ref(30), `"timeout":30.0001`: ref(31),
		`"timeout":1e-9`: ref(1), `"timeout":3599.5`: ref(3600), `"timeout":"7"`: ref(7)} {
		if diff := cmp.Diff(want, server(t, `{"url":"https://a.example",`+in+`}`, nil).SHTTP[0].Timeout); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
	if c := server(t, `{"url":"https://a.example","transport":"sse"}`, nil); c.SSE[0].Timeout != nil {
		t.Errorf("%+v", c.SSE[0])
	}
}

// What has no secret in it can be read; what may have one cannot.
func TestPlaceholdersAreShown(t *testing.T) {
	shown := func(value string) bool {
		raw := shownJSON(t, server(t, `{"command":"c","env":{"A":"`+value+`"}}`, nil))
		return strings.Contains(string(raw), `"`+value+`"`)
	}
	for value, want := range map[string]bool{"${A}": true, "Bearer ${A}": true, "${A}:${B_2}/": true, "": false, "hush": false, "x${A}": false,
		"${A}hush": false, "${A:-hush}": false, "Bearer hush": false, "----": false} {
		if got := shown(value); got != want {
			t.Errorf("%q: shown is %v", value, got)
		}
	}
}

const storedServer = `{"url":"https://a.example/mcp","headers":{"X-A":"h-1"},"auth":{"strategy":"oauth2","authentication":{"type":"oauth",
	"client_id":"id","client_secret":"h-2"},"state":{"tokens":{"access_token":"h-3","refresh_token":"h-4"}}}}`

func TestStoredSecretsStayAtTheirPlace(t *testing.T) {
	stored := server(t, storedServer, nil)
	basic := server(t, `{"url":"https://a.example/mcp","auth":{"strategy":"basic","username":"u","password":"h"}}`, nil)
	for _, x := range []struct {
		name, in string
		stored   *account.MCPConfig
		want     []string // locations that are refused
	}{
		{"the mask elsewhere", `{"url":"https://b.example/mcp","headers":{"X-A":"**********"}}`, stored, []string{`["s","headers","X-A"]`}},
		{"null elsewhere", `{"url":"https://b.example/mcp","headers":{"x-a":null}}`, stored, []string{`["s","headers","x-a"]`}},
		{"a client's secret elsewhere", `{"url":"http://a.example/mcp","auth":{"strategy":"oauth2","authentication":{"type":"oauth","client_id":"id","client_secret":"**********"}}}`,
			stored, []string{`["s","auth","authentication","client_secret"]`}},
		{"the secret of another client", `{"url":"https://a.example/mcp","auth":{"strategy":"oauth2","authentication":{"type":"oauth","client_id":"id2","client_secret":"**********"}}}`,
			stored, []string{`["s","auth","authentication","client_secret"]`}},
		{"tokens elsewhere", `{"url":"https://b.example/mcp","auth":{"strategy":"oauth2","state":{"tokens":{"access_token":"**********","refresh_token":"x"}}}}`,
			stored, []string{`["s","auth","state","tokens","access_token"]`}},
		{"a password elsewhere", `{"url":"https://b.example/mcp","auth":{"strategy":"basic","username":"u","password":"**********"}}`, basic,
			[]string{`["s","auth","password"]`}},
		{"a password that becomes a key", `{"url":"https://b.example/mcp","auth":{"strategy":"api_key","value":"**********"}}`, basic, nil},
		{"another spelling of the place", `{"url":"HTTPS://A.example/mcp/","headers":{"x-a":"**********"}}`, stored, nil},
		{"no login elsewhere", `{"url":"https://b.example/mcp","auth":{"strategy":"oauth2"}}`, stored, nil},
	} {
		c, fields := account.ParseMCPServers(json.RawMessage(`{"s":`+x.in+`}`), x.stored)
		var got []string
		for _, f := range fields {
			loc, _ := json.Marshal(f.Loc)
			got = append(got, string(loc))
		}
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s: %s", x.name, diff)
		}
		if c == nil {
			continue
		}
		if a := c.SHTTP[0].Auth; a != nil && (a.Value.IsSet() || a.OAuth != nil && a.OAuth.State.IsSet()) {
			t.Errorf("%s: a secret went along: %v", x.name, a.Strategy)
		}
	}
	c := server(t, `{"url":"https://a.example/mcp","auth":{"strategy":"oauth2","state":{"tokens":{"access_token":"new","refresh_token":"**********"}}}}`, stored)
	if b := c.SHTTP[0].Auth.OAuth.Brought(); b.AccessToken.Reveal() != "new" || b.RefreshToken.Reveal() != "h-4" {
		t.Error("the login was not merged")
	}
}

func TestServersAreRefused(t *testing.T) {
	for in, want := range map[string]string{
		`{"url":"https://a","headers":{"A b":"x"}}`:                                                                                 `["s","headers","A b"] value_error`,
		`{"url":"https://a","headers":{"A":"hush\r\nB: c"}}`:                                                                        `["s","headers","A"] value_error`,
		`{"url":"https://a","headers":{"A":"x","a":"y"}}`:                                                                           `["s","headers","a"] value_error`,
		`{"url":"https://a","headers":{"A":["hush"]}}`:                                                                              `["s","headers","A"] string_type`,
		`{"url":"https://a","headers":[]}`:                                                                                          `["s","headers"] dict_type`,
		`{"url":"https://a","auth":"hush\nx"}`:                                                                                      `["s","auth"] value_error`,
		`{"url":"https://a","auth":7}`:                                                                                              `["s","auth"] dict_type`,
		`{"url":"https://a","auth":{}}`:                                                                                             `["s","auth"] value_error`,
		`{"url":"https://a","auth":{"strategy":"basic","password":"hush"}}`:                                                         `["s","auth"] value_error`,
		`{"url":"https://a","auth":{"strategy":"basic","username":"a:b"}}`:                                                          `["s","auth"] value_error`,
		`{"url":"https://a","auth":{"strategy":"api_key","header_name":"a b","value":"hush"}}`:                                      `["s","auth","header_name"] value_error`,
		`{"url":"https://a","auth":{"strategy":"bearer","value":"x"},"headers":{"Authorization":"Basic hush"}}`:                     `["s","auth"] value_error`,
		`{"url":"https://a","auth":"oauth","headers":{"authorization":"Bearer hush"}}`:                                              `["s","auth"] value_error`,
		`{"url":"https://a","auth":{"strategy":"header","headers":{"X":"hush"}},"headers":{"x":"hush"}}`:                            `["s","auth"] value_error`,
		`{"url":"https://a","auth":{"strategy":"oauth2","authentication":{"type":"oauth","client_auth_method":"private_key_jwt"}}}`: `["s","auth","authentication","client_auth_method"] literal_error`,
		`{"url":"https://a","auth":{"strategy":"oauth2","authentication":{"type":"x"}}}`:                                            `["s","auth","authentication","type"] literal_error`,
		`{"url":"https://a","auth":{"strategy":"oauth2","authentication":{"no":1}}}`:                                                `["s","auth","authentication","no"] extra_forbidden`,
		`{"url":"https://a","auth":{"strategy":"oauth2","authentication":{"scopes":["a b"]}}}`:                                      `["s","auth","authentication","scopes",0] string_type`,
		`{"url":"https://a","auth":{"strategy":"oauth2","authentication":{"client_metadata_url":"http://x"}}}`:                      `["s","auth","authentication","client_metadata_url"] value_error`,
		`{"url":"https://a","auth":{"strategy":"oauth2","state":7}}`:                                                                `["s","auth","state"] model_attributes_type`,
		`{"url":"https://a","cwd":"/x"}`:                                                                                            `["s","cwd"] extra_forbidden`,
		`{"command":"c","headers":{"A":"b"}}`:                                                                                       `["s","headers"] extra_forbidden`,
		`{"command":"c","cwd":7}`:                                                                                                   `["s","cwd"] string_type`,
		`{"command":"c","cwd":"a\u0000"}`:                                                                                           `["s","cwd"] value_error`,
		`{"command":"c","timeout":3600.5}`:                                                                                          `["s","timeout"] value_error`,
		`{"command":"c","timeout":-0.5}`:                                                                                            `["s","timeout"] value_error`,
		`{"command":"c","timeout":1e400}`:                                                                                           `["s","timeout"] int_from_float`,
		`{"command":"c","type":"pigeon"}`:                                                                                           `["s","type"] literal_error`,
		`{"command":"c","type":"sse"}`:                                                                                              `["s","transport"] value_error`,
	} {
		c, fields := account.ParseMCPServers(json.RawMessage(`{"s":`+in+`}`), nil)
		var got []string
		for _, f := range fields {
			loc, _ := json.Marshal(f.Loc)
			got = append(got, string(loc)+" "+f.Type)
			if strings.Contains(fmt.Sprint(f.Msg, f.Input), "hush") {
				t.Errorf("%s: a secret is echoed", in)
			}
		}
		if c != nil || strings.Join(got, ",") != want {
			t.Errorf("%s:\n%v, want\n%s", in, got, want)
		}
	}
}

func TestEachGoesInAStableOrder(t *testing.T) {
	c := &account.MCPConfig{Stdio: []account.MCPStdioServer{{Name: "b"}, {Name: "a"}}, SSE: []account.MCPHTTPServer{{URL: "x"}, {Name: "b"}},
		SHTTP: []account.MCPHTTPServer{{URL: "y"}, {Name: "shttp-1"}}}
	for range 5 {
		var got []string
		c.Each(func(name string, http *account.MCPHTTPServer, sse bool, stdio *account.MCPStdioServer) {
			if (http == nil) == (stdio == nil) || sse && http == nil {
				t.Errorf("%s is no server", name)
			}
			got = append(got, name)
		})
		if diff := cmp.Diff([]string{"b", "a", "sse-1", "b-", "shttp-1", "shttp-1-"}, got); diff != "" {
			t.Fatal(diff)
		}
	}
	(*account.MCPConfig)(nil).Each(func(string, *account.MCPHTTPServer, bool, *account.MCPStdioServer) { t.Error("a server of none") })
}

func TestFilesOfServers(t *testing.T) {
	c, fields := account.ParseMCPFile([]byte(`{"mcpServers":{
		"files":{"type":"stdio","command":"npx","args":["-y","x"],"env":{"K":"${K}"},"timeout":600000,"alwaysAllow":["a"],"headers":{}},
		"web":{"type":"http","url":"${BASE:-https://a.example}/mcp","headers":{"Authorization":"Bearer ${T}"},"args":[]},
		"old":{"type":"sse","url":"https://b.example/sse","timeout":30},
		"off":{"command":"x","disabled":true},"off2":{"command":"x","enabled":false},
		"bad name":{"command":"x"},"bad":7,"worse":{"url":"ftp://x"}}}`))
	if diff := cmp.Diff([]string{`["mcpServers","bad"] model_attributes_type`, `["mcpServers","bad name"] value_error`, `["mcpServers","worse","url"] value_error`},
		kinds(fields)); diff != "" {
		t.Error(diff)
	}
	if len(c.Stdio) != 1 || len(c.SHTTP) != 1 || len(c.SSE) != 1 {
		t.Fatalf("%+v", c)
	}
	if *c.Stdio[0].Timeout != 600 || *c.SSE[0].Timeout != 30 || c.SHTTP[0].APIKey.Reveal() != "${T}" || c.SHTTP[0].URL != "${BASE:-https://a.example}/mcp" {
		t.Errorf("%+v", c)
	}
	if c, fields = account.ParseMCPFile([]byte(`{"a":{"command":"x"}}`)); len(fields) > 0 || c.Stdio[0].Name != "a" {
		t.Errorf("without a wrapper: %+v %v", c, wrongs(fields))
	}
	for _, in := range []string{``, `null`, `[]`, `{`, `{} {}`, strings.Repeat(" ", 1<<20+1), many(101)} {
		if c, fields := account.ParseMCPFile([]byte(in)); c != nil || len(fields) != 1 {
			t.Errorf("%.40q: %+v %v", in, c, wrongs(fields))
		}
	}
	if c, fields := account.ParseMCPFile([]byte(many(100))); len(fields) > 0 || len(c.Stdio) != 100 {
		t.Errorf("100 servers: %v", wrongs(fields))
	}
}

func TestOlderClientsWrapServers(t *testing.T) {
	for in, want := range map[string]string{`{"mcpServers":{"a":{"command":"x"}}}`: "a", `{"mcpServers":{"command":"x"}}`: "mcpServers"} {
		if c, fields := account.ParseMCPServers(json.RawMessage(in), nil); len(fields) > 0 || c.Stdio[0].Name != want {
			t.Errorf("%s: %+v %v", in, c, wrongs(fields))
		}
	}
	_, fields := account.ParseMCPServers(json.RawMessage(`{"mcpServers":{"a":{"command":7}}}`), nil, "body")
	if diff := cmp.Diff([]string{`["body","mcpServers","a","command"] string_type`}, kinds(fields)); diff != "" {
		t.Error(diff)
	}
}

func kinds(fields []fault.Field) []string {
	var out []string
	for _, f := range fields {
		loc, _ := json.Marshal(f.Loc)
		out = append(out, string(loc)+" "+f.Type)
	}
	return out
}

func many(n int) string {
	var servers []string
	for i := range n {
		servers = append(servers, fmt.Sprintf(`"s%d":{"command":"x"}`, i))
	}
	return "{" + strings.Join(servers, ",") + "}"
}

// What is shown can be sent back, and changes nothing; nothing secret is shown; what
// is sealed comes back.
func checkRoundTrip(t rapid.TB, c *account.MCPConfig) {
	raw, err := json.Marshal(c.RenderServers())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "hush") {
		t.Fatalf("a secret is shown: %s", raw)
	}
	again, fields := account.ParseMCPServers(raw, c)
	if len(fields) > 0 {
		t.Fatalf("%s: %v", raw, wrongs(fields))
	}
	if diff := cmp.Diff(c, again, sameSecret); diff != "" {
		t.Fatalf("%s: %s", raw, diff)
	}
	sealed, err := account.EncodePrivate(c)
	if err != nil {
		t.Fatal(err)
	}
	opened := &account.MCPConfig{}
	if err := account.DecodePrivate(sealed, opened); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, opened, sameSecret); diff != "" {
		t.Fatalf("sealed and opened: %s", diff)
	}
}

func TestShownServersCanBeSentBack(t *testing.T) {
	secret := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"hush", "hush-1", "Bearer hush", "Basic hush", "${NAME}", "Bearer ${A}", "hush ${B}"}).Draw(t, "secret")
	})
	names := rapid.SampledFrom([]string{"X-A", "x-b", "Authorization", "X-API-Key"})
	auth := rapid.Custom(func(t *rapid.T) any {
		value := secret.Draw(t, "value")
		return rapid.SampledFrom([]any{nil, "oauth", value, map[string]any{"strategy": "none"}, map[string]any{"strategy": "bearer", "value": value},
			map[string]any{"strategy": "api_key", "value": value}, map[string]any{"strategy": "api_key", "header_name": "X-K", "value": value},
			map[string]any{"strategy": "basic", "username": "u", "password": value},
			map[string]any{"strategy": "header", "headers": map[string]any{"X-H": value, "X-I": value}},
			map[string]any{"strategy": "oauth2", "authentication": map[string]any{"type": "oauth", "client_id": "c", "client_secret": value, "scopes": []string{"a"}},
				"state": map[string]any{"tokens": map[string]any{"access_token": value, "refresh_token": "hush"}, "token_expires_at": 12.25}},
		}).Draw(t, "auth")
	})
	one := rapid.Custom(func(t *rapid.T) map[string]any {
		if rapid.Bool().Draw(t, "stdio") {
			return map[string]any{"command": "c", "args": []string{"a"}, "cwd": rapid.SampledFrom([]string{"", "/w"}).Draw(t, "cwd"),
				"env": rapid.MapOfN(rapid.SampledFrom([]string{"A", "B", ""}), secret, 0, 3).Draw(t, "env"), "timeout": rapid.SampledFrom([]any{nil, 1.5}).Draw(t, "timeout"),
				"enabled": rapid.Bool().Draw(t, "enabled"), "icon": "i"}
		}
		return map[string]any{"url": "https://a.example/x", "transport": rapid.SampledFrom([]string{"http", "sse"}).Draw(t, "transport"),
			"headers": rapid.MapOfN(names, secret, 0, 3).Draw(t, "headers"), "auth": auth.Draw(t, "auth"), "keep_alive": true}
	})
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c-1"}), one, 0, 3).Draw(t, "servers")
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if c, fields := account.ParseMCPServers(raw, nil); len(fields) == 0 { // else a header was given twice
			checkRoundTrip(t, c)
		}
	})
}

// What is accepted can be shown and sent back, and is the same then.
func FuzzParseMCPServers(f *testing.F) {
	for _, s := range []string{`{}`, `null`, `{"s":` + storedServer + `}`, `{"s":{"command":"c","env":{"A":"${B}"},"timeout":0.5}}`,
		`{"a":{"command":"c","args":"x y","env":{"K":"v"},"cwd":"/"}}`, `{"a":{"url":"http://x","auth":{"strategy":"bearer","value":"k"}}}`,
		`{"a":{"url":"http://x","transport":"sse","headers":{"authorization":"Bearer k"},"enabled":false}}`,
		`{"sse_servers":["http://x"],"shttp_servers":[{"url":"http://x","api_key":"a\nb"}]}`, `{"a":{}}`, `{"a":{"url":"http://x","timeout":null}}`,
		`{"a":{"command":"c","env":"A=1","timeout":"5"}}`,
		`{"s":{"url":"https://a","auth":{"strategy":"basic","username":"u","password":"p"},"headers":{"A":"b"}}}`,
		`{"s":{"url":"${U}","auth":{"strategy":"header","headers":{"A":"b"}}}}`, `{"s":{"url":"https://a","auth":"oauth"}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		c, fields := account.ParseMCPServers(json.RawMessage(raw), nil)
		if c != nil && len(fields) > 0 {
			t.Error("both a configuration and errors")
		}
		if c == nil {
			return
		}
		shown := shownJSON(t, c)
		again, fields := account.ParseMCPServers(shown, c)
		if len(fields) > 0 {
			t.Fatalf("%s is shown as %s, which is refused: %v", raw, shown, wrongs(fields))
		}
		if reshown := shownJSON(t, again); string(reshown) != string(shown) {
			t.Errorf("%s became %s", shown, reshown)
		}
		sealed, err := account.EncodePrivate(c)
		opened := &account.MCPConfig{}
		if err != nil || account.DecodePrivate(sealed, opened) != nil {
			t.Fatal("cannot be sealed")
		}
		if diff := cmp.Diff(c, opened, sameSecret); diff != "" {
			t.Error(diff)
		}
	})
}

func FuzzParseMCPFile(f *testing.F) {
	for _, s := range []string{`{}`, `{"mcpServers":{"a":{"command":"x","timeout":1e400}}}`, `{"a":{"url":"https://x","type":"sse"}}`, `{"mcpServers":{"a":[]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, fields := account.ParseMCPFile(raw)
		if c == nil && len(fields) == 0 {
			t.Error("neither servers nor errors")
		}
		c.Each(func(name string, http *account.MCPHTTPServer, _ bool, stdio *account.MCPStdioServer) {
			if http != nil && http.URL == "" || stdio != nil && stdio.Command == "" {
				t.Errorf("%q is nowhere", name)
			}
		})
	})
}
