package account_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/internal/account"
	"parley/internal/fault"
)

// wrong renders a field as "loc type msg".
func wrong(f fault.Field) string {
	loc, _ := json.Marshal(f.Loc)
	return fmt.Sprintf("%s %s %s", loc, f.Type, f.Msg)
}

func wrongs(fields []fault.Field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, wrong(f))
	}
	return out
}

func TestParseMCPAccepts(t *testing.T) {
	for name, c := range map[string]struct {
		in    string
		check func(*account.MCPConfig) string // "" = right
	}{
		"nothing at all": {`null`, func(c *account.MCPConfig) string { return is(c == nil) }},
		"empty":          {`{}`, func(c *account.MCPConfig) string { return is(c.SSE != nil && c.Stdio != nil && c.SHTTP != nil) }},
		"legacy string in sse": {`{"sse_servers":[" https://a.example/sse "]}`, func(c *account.MCPConfig) string {
			return is(c.SSE[0].URL == "https://a.example/sse" && c.SSE[0].Timeout == nil)
		}},
		"legacy string in shttp has the default timeout": {`{"shttp_servers":["ws://a"]}`, func(c *account.MCPConfig) string {
			return is(c.SHTTP[0].URL == "ws://a" && *c.SHTTP[0].Timeout == 60)
		}},
		"null timeout":       {`{"shttp_servers":[{"url":"http://a","timeout":null}]}`, timeoutIs(nil)},
		"timeout as text":    {`{"shttp_servers":[{"url":"http://a","timeout":"30"}]}`, timeoutIs(ref(30))},
		"timeout as float":   {`{"shttp_servers":[{"url":"http://a","timeout":30.0}]}`, timeoutIs(ref(30))},
		"greatest timeout":   {`{"shttp_servers":[{"url":"http://a","timeout":3600}]}`, timeoutIs(ref(3600))},
		"api_key":            {`{"sse_servers":[{"url":"wss://a","api_key":"k"}]}`, func(c *account.MCPConfig) string { return is(c.SSE[0].APIKey.Reveal() == "k") }},
		"unknown members":    {`{"sse_servers":[{"url":"http://a","x":1}]}`, func(c *account.MCPConfig) string { return is(len(c.SSE) == 1) }},
		"duplicates allowed": {`{"sse_servers":["http://a","http://a"]}`, func(c *account.MCPConfig) string { return is(len(c.SSE) == 2) }},
		"trimmed name and command": {`{"stdio_servers":[{"name":" n-1_x ","command":" uvx "}]}`, func(c *account.MCPConfig) string {
			return is(c.Stdio[0].Name == "n-1_x" && c.Stdio[0].Command == "uvx" && c.Stdio[0].Args != nil && c.Stdio[0].Env != nil)
		}},
		"args list":          {stdio(`"args":["a b","c"]`), argsAre("a b", "c")},
		"args split":         {stdio(`"args":"-y 'a b' c"`), argsAre("-y", "a b", "c")},
		"args null":          {stdio(`"args":null`), argsAre()},
		"args empty text":    {stdio(`"args":""`), argsAre()},
		"env map as it is":   {stdio(`"env":{"1 odd":"v","":"w"}`), envIs(map[string]string{"1 odd": "v", "": "w"})},
		"env text":           {stdio(`"env":"A=1, B=2=3"`), envIs(map[string]string{"A": "1", "B": "2=3"})},
		"env empty value":    {stdio(`"env":"A="`), envIs(map[string]string{"A": ""})},
		"env null":           {stdio(`"env":null`), envIs(map[string]string{})},
		"env empty text":     {stdio(`"env":""`), envIs(map[string]string{})},
		"numbers of a bool":  {`{"shttp_servers":[{"url":"http://a","timeout":true}]}`, timeoutIs(ref(1))},
		"scheme in capitals": {`{"sse_servers":["HTTP://A"]}`, func(c *account.MCPConfig) string { return is(c.SSE[0].URL == "HTTP://A") }},
	} {
		t.Run(name, func(t *testing.T) {
			got, fields := account.ParseMCP(json.RawMessage(c.in))
			if fields != nil {
				t.Fatalf("refused: %v", wrongs(fields))
			}
			if problem := c.check(got); problem != "" {
				t.Errorf("%s: %#v", problem, got)
			}
		})
	}
}

func is(right bool) string {
	if right {
		return ""
	}
	return "not as expected"
}

func ref[T any](v T) *T { return &v }

func stdio(member string) string {
	return `{"stdio_servers":[{"name":"n","command":"c",` + member + `}]}`
}

func timeoutIs(want *int) func(*account.MCPConfig) string {
	return func(c *account.MCPConfig) string { return cmp.Diff(want, c.SHTTP[0].Timeout) }
}

func argsAre(want ...string) func(*account.MCPConfig) string {
	return func(c *account.MCPConfig) string { return is(slices.Equal(c.Stdio[0].Args, want)) }
}

func envIs(want map[string]string) func(*account.MCPConfig) string {
	return func(c *account.MCPConfig) string {
		got := map[string]string{}
		for k, v := range c.Stdio[0].Env {
			got[k] = v.Reveal()
		}
		return cmp.Diff(want, got)
	}
}

func TestParseMCPRefuses(t *testing.T) {
	for in, want := range map[string][]string{
		`[]`:                                                    {`["body","mcp_config"] model_attributes_type Input should be a valid dictionary or object to extract fields from`},
		`{"servers":[]}`:                                        {`["body","mcp_config","servers"] extra_forbidden Extra inputs are not permitted`},
		`{"sse_servers":null}`:                                  {`["body","mcp_config","sse_servers"] list_type Input should be a valid list`},
		`{"sse_servers":"http"}`:                                {`["body","mcp_config","sse_servers"] list_type Input should be a valid list`},
		`{"sse_servers":[7]}`:                                   {`["body","mcp_config","sse_servers",0] model_attributes_type Input should be a valid dictionary or object to extract fields from`},
		`{"sse_servers":[{}]}`:                                  {`["body","mcp_config","sse_servers",0,"url"] missing Field required`},
		`{"shttp_servers":[{"url":7}]}`:                         {`["body","mcp_config","shttp_servers",0,"url"] string_type Input should be a valid string`},
		`{"shttp_servers":[{"url":null}]}`:                      {`["body","mcp_config","shttp_servers",0,"url"] string_type Input should be a valid string`},
		`{"sse_servers":["  "]}`:                                {`["body","mcp_config","sse_servers",0,"url"] value_error Value error, URL cannot be empty`},
		`{"sse_servers":["a.example/x"]}`:                       {`["body","mcp_config","sse_servers",0,"url"] value_error Value error, URL must include a scheme (http:// or https://)`},
		`{"sse_servers":["http:///x"]}`:                         {`["body","mcp_config","sse_servers",0,"url"] value_error Value error, URL must include a valid domain/host`},
		`{"sse_servers":["localhost:80"]}`:                      {`["body","mcp_config","sse_servers",0,"url"] value_error Value error, URL must include a valid domain/host`},
		`{"sse_servers":["ftp://a"]}`:                           {`["body","mcp_config","sse_servers",0,"url"] value_error Value error, URL scheme must be http, https, ws, or wss`},
		`{"sse_servers":[{"url":"http://a","api_key":5}]}`:      {`["body","mcp_config","sse_servers",0,"api_key"] string_type Input should be a valid string`},
		`{"shttp_servers":[{"url":"http://a","timeout":0}]}`:    {`["body","mcp_config","shttp_servers",0,"timeout"] value_error Value error, Timeout must be positive`},
		`{"shttp_servers":[{"url":"http://a","timeout":3601}]}`: {`["body","mcp_config","shttp_servers",0,"timeout"] value_error Value error, Timeout cannot exceed 3600 seconds`},
		`{"shttp_servers":[{"url":"http://a","timeout":1e99}]}`: {`["body","mcp_config","shttp_servers",0,"timeout"] value_error Value error, Timeout cannot exceed 3600 seconds`},
		`{"shttp_servers":[{"url":"http://a","timeout":1.5}]}`:  {`["body","mcp_config","shttp_servers",0,"timeout"] int_from_float Input should be a valid integer, got a number with a fractional part`},
		`{"shttp_servers":[{"url":"http://a","timeout":"x"}]}`:  {`["body","mcp_config","shttp_servers",0,"timeout"] int_parsing Input should be a valid integer, unable to parse string as an integer`},
		`{"shttp_servers":[{"url":"http://a","timeout":[]}]}`:   {`["body","mcp_config","shttp_servers",0,"timeout"] int_type Input should be a valid integer`},
		`{"stdio_servers":["uvx"]}`:                             {`["body","mcp_config","stdio_servers",0] model_attributes_type Input should be a valid dictionary or object to extract fields from`},
		`{"stdio_servers":[{}]}`: {`["body","mcp_config","stdio_servers",0,"name"] missing Field required`,
			`["body","mcp_config","stdio_servers",0,"command"] missing Field required`},
		`{"stdio_servers":[{"name":5,"command":null}]}`: {`["body","mcp_config","stdio_servers",0,"name"] string_type Input should be a valid string`,
			`["body","mcp_config","stdio_servers",0,"command"] string_type Input should be a valid string`},
		`{"stdio_servers":[{"name":" ","command":" "}]}`: {`["body","mcp_config","stdio_servers",0,"name"] value_error Value error, Server name cannot be empty`,
			`["body","mcp_config","stdio_servers",0,"command"] value_error Value error, Command cannot be empty`},
		`{"stdio_servers":[{"name":"a b","command":"a b"}]}`: {
			`["body","mcp_config","stdio_servers",0,"name"] value_error Value error, Server name can only contain letters, numbers, hyphens, and underscores`,
			`["body","mcp_config","stdio_servers",0,"command"] value_error Value error, Command should be a single executable without spaces (use arguments field for parameters)`},
		stdio(`"args":"a 'b"`):  {`["body","mcp_config","stdio_servers",0,"args"] value_error Value error, Invalid argument format: No closing quotation. Use shell-like format, for example: -y "two words"`},
		stdio(`"args":7`):       {`["body","mcp_config","stdio_servers",0,"args"] list_type Input should be a valid list`},
		stdio(`"args":["a",7]`): {`["body","mcp_config","stdio_servers",0,"args",1] string_type Input should be a valid string`},
		stdio(`"env":[]`):       {`["body","mcp_config","stdio_servers",0,"env"] dict_type Input should be a valid dictionary`},
		stdio(`"env":{"A":1}`):  {`["body","mcp_config","stdio_servers",0,"env","A"] string_type Input should be a valid string`},
		stdio(`"env":"A"`):      {`["body","mcp_config","stdio_servers",0,"env"] value_error Value error, Environment variable 'A' must be in KEY=VALUE format`},
		stdio(`"env":"=1"`):     {`["body","mcp_config","stdio_servers",0,"env"] value_error Value error, Environment variable key cannot be empty`},
		stdio(`"env":"1A=1"`):   {`["body","mcp_config","stdio_servers",0,"env"] value_error Value error, Invalid environment variable name '1A'. Must start with letter or underscore, contain only letters, digits and underscores`},
		`{"sse_servers":["x"],"shttp_servers":["y"]}`: {
			`["body","mcp_config","sse_servers",0,"url"] value_error Value error, URL must include a scheme (http:// or https://)`,
			`["body","mcp_config","shttp_servers",0,"url"] value_error Value error, URL must include a scheme (http:// or https://)`},
	} {
		t.Run(in, func(t *testing.T) {
			got, fields := account.ParseMCP(json.RawMessage(in), "body", "mcp_config")
			if got != nil {
				t.Errorf("accepted as %#v", got)
			}
			if diff := cmp.Diff(want, wrongs(fields)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseMCPEchoesNoSecret(t *testing.T) {
	_, fields := account.ParseMCP(json.RawMessage(`{"sse_servers":[{"url":"http://a","api_key":["hush"]}],
		"stdio_servers":[{"name":"n","command":"c","args":"--key 'hush","env":{"K":["hush"]}}]}`))
	if len(fields) != 3 {
		t.Fatalf("got %v", wrongs(fields))
	}
	for _, f := range fields {
		if f.Input != nil {
			t.Errorf("%v echoes its input", f.Loc)
		}
	}
}

func FuzzParseMCP(f *testing.F) {
	for _, s := range []string{`{}`, `null`, `{"sse_servers":["http://a"]}`, stdio(`"args":"a 'b","env":"A=1,B"`), `{"shttp_servers":[{"timeout":1e400}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, fields := account.ParseMCP(raw)
		if c != nil && len(fields) > 0 {
			t.Error("both a configuration and errors")
		}
		if c == nil {
			return
		}
		// What was accepted is accepted again in its regular form.
		shown := map[string]any{"sse_servers": list(c.SSE, httpForm), "shttp_servers": list(c.SHTTP, httpForm),
			"stdio_servers": list(c.Stdio, stdioForm)}
		again, err := json.Marshal(shown)
		if err != nil {
			t.Fatal(err)
		}
		c2, fields := account.ParseMCP(again)
		if len(fields) > 0 || len(c2.SSE) != len(c.SSE) || len(c2.Stdio) != len(c.Stdio) || len(c2.SHTTP) != len(c.SHTTP) {
			t.Errorf("%s is not stable: %v", again, wrongs(fields))
		}
	})
}

func list[T any](in []T, form func(T) map[string]any) []any {
	out := []any{}
	for _, v := range in {
		out = append(out, form(v))
	}
	return out
}

func httpForm(s account.MCPHTTPServer) map[string]any {
	return map[string]any{"url": s.URL, "api_key": s.APIKey.Reveal(), "timeout": s.Timeout}
}

func stdioForm(s account.MCPStdioServer) map[string]any {
	env := map[string]string{}
	for k, v := range s.Env {
		env[k] = v.Reveal()
	}
	return map[string]any{"name": s.Name, "command": s.Command, "args": s.Args, "env": env}
}

func TestSplitArgs(t *testing.T) {
	for in, want := range map[string][]string{
		``:                    {},
		`  `:                  {},
		`a b`:                 {"a", "b"},
		`-y 'a b' c`:          {"-y", "a b", "c"},
		`"a 'b'" '"c"'`:       {"a 'b'", `"c"`},
		`a\ b`:                {"a b"},
		`"a\"b\\c\d"`:         {`a"b\c\d`},
		`'a\b'`:               {`a\b`},
		`a''b ""`:             {"ab", ""},
		"a\n\tb":              {"a", "b"},
		`--x="y z"`:           {"--x=y z"},
		`$HOME *`:             {"$HOME", "*"},
		`# no comment`:        {"#", "no", "comment"},
		"gr\u00fc\u00df dich": {"gr\u00fc\u00df", "dich"},
	} {
		if got, err := account.SplitArgs(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	for in, want := range map[string]error{`'a`: account.ErrNoClosingQuotation, `a"b`: account.ErrNoClosingQuotation,
		`a\`: account.ErrNoEscapedCharacter} {
		if _, err := account.SplitArgs(in); !errors.Is(err, want) {
			t.Errorf("%q: got %v", in, err)
		}
	}
}
