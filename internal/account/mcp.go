package account

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"parley/internal/fault"
	"parley/internal/lazyre"
)

// Bounds of an MCP server's timeout, in seconds.
const (
	DefaultMCPTimeout = 60
	MaxMCPTimeout     = 3600
)

var (
	serverName = lazyre.MustCompile(`^[a-zA-Z0-9_-]+$`)
	variable   = lazyre.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	urlScheme  = lazyre.MustCompile(`^([a-zA-Z][a-zA-Z0-9+.-]*):`)
)

// ParseMCP validates and normalises an MCP configuration: URLs and names are
// trimmed, the forms that older clients send (a bare URL, arguments and
// variables as one text) become the regular ones, defaults are filled in,
// unknown members of entries are dropped. Nothing and null yield nil. loc is
// where the configuration stands in the request.
func ParseMCP(raw json.RawMessage, loc ...any) (*MCPConfig, []fault.Field) {
	v, err := decodeAny(raw)
	if err != nil {
		return nil, []fault.Field{{Loc: loc, Type: "json_invalid", Msg: "JSON decode error"}}
	}
	if v == nil {
		return nil, nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, []fault.Field{notAnObject(loc)}
	}
	p := mcpParser{m: m, loc: loc}
	c := &MCPConfig{SSE: []MCPHTTPServer{}, Stdio: []MCPStdioServer{}, SHTTP: []MCPHTTPServer{}}
	p.each("sse_servers", func(r *reader) { c.SSE = append(c.SSE, r.httpServer(false)) })
	p.each("stdio_servers", func(r *reader) { c.Stdio = append(c.Stdio, r.stdioServer()) })
	p.each("shttp_servers", func(r *reader) { c.SHTTP = append(c.SHTTP, r.httpServer(true)) })
	p.forbidOthers()
	if len(p.fields) > 0 {
		return nil, p.fields
	}
	return c, nil
}

func notAnObject(loc []any) fault.Field {
	return fault.Field{Loc: loc, Type: "model_attributes_type",
		Msg: "Input should be a valid dictionary or object to extract fields from"}
}

type mcpParser struct {
	m      map[string]any
	loc    []any
	fields []fault.Field
}

func (p *mcpParser) forbidOthers() {
	for _, name := range sortedKeys(p.m) {
		switch name {
		case "sse_servers", "stdio_servers", "shttp_servers":
		default:
			p.fields = append(p.fields, fault.Field{Loc: at(p.loc, name), Type: "extra_forbidden",
				Msg: "Extra inputs are not permitted"})
		}
	}
}

// each reads the entries of one list. An entry that is a text is its URL, where
// entries have one.
func (p *mcpParser) each(list string, read func(*reader)) {
	v, there := p.m[list]
	if !there {
		return
	}
	items, ok := v.([]any)
	if !ok {
		p.fields = append(p.fields, fault.Field{Loc: at(p.loc, list), Type: "list_type", Msg: "Input should be a valid list"})
		return
	}
	for i, item := range items {
		if s, ok := item.(string); ok && list != "stdio_servers" {
			item = map[string]any{"url": s}
		}
		loc := at(p.loc, list, i)
		m, ok := item.(map[string]any)
		if !ok {
			p.fields = append(p.fields, notAnObject(loc))
			continue
		}
		r := &reader{m: m, loc: loc}
		read(r)
		p.fields = append(p.fields, r.fields...)
	}
}

func (r *reader) httpServer(withTimeout bool) MCPHTTPServer {
	s := MCPHTTPServer{URL: r.url(), APIKey: r.secret("api_key").value}
	if withTimeout {
		s.Timeout = r.timeout()
	}
	return s
}

func (r *reader) url() string {
	text, ok := r.required("url")
	if !ok {
		return ""
	}
	if problem := urlProblem(text); problem != "" {
		r.rule("url", problem, text)
	}
	return text
}

func urlProblem(text string) string {
	if text == "" {
		return "URL cannot be empty"
	}
	m := urlScheme.FindStringSubmatch(text)
	if m == nil {
		return "URL must include a scheme (http:// or https://)"
	}
	rest, ok := strings.CutPrefix(text[len(m[0]):], "//")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if !ok || rest == "" {
		return "URL must include a valid domain/host"
	}
	switch strings.ToLower(m[1]) {
	case "http", "https", "ws", "wss":
		return ""
	}
	return "URL scheme must be http, https, ws, or wss"
}

// timeout reads seconds; absent is the default, null is none.
func (r *reader) timeout() *int {
	v, there := r.m["timeout"]
	n := DefaultMCPTimeout
	switch {
	case !there:
		return &n
	case v == nil:
		return nil
	}
	n, problem := wholeNumber(v)
	switch {
	case problem != nil:
		r.fail("timeout", problem.Type, problem.Msg, v)
	case n <= 0:
		r.rule("timeout", "Timeout must be positive", v)
	case n > MaxMCPTimeout:
		r.rule("timeout", "Timeout cannot exceed 3600 seconds", v)
	}
	return &n
}

// wholeNumber coerces as the legacy API does: 30, 30.0, "30" and true are numbers.
func wholeNumber(v any) (int, *fault.Field) {
	var text string
	switch x := v.(type) {
	case bool:
		if x {
			return 1, nil
		}
		return 0, nil
	case json.Number:
		text = x.String()
	case string:
		n, err := strconv.Atoi(strings.TrimSpace(x))
		if err != nil {
			return 0, &fault.Field{Type: "int_parsing",
				Msg: "Input should be a valid integer, unable to parse string as an integer"}
		}
		return n, nil
	default:
		return 0, &fault.Field{Type: "int_type", Msg: "Input should be a valid integer"}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) {
		return 0, &fault.Field{Type: "int_from_float",
			Msg: "Input should be a valid integer, got a number with a fractional part"}
	}
	return int(max(math.MinInt32, min(math.MaxInt32, f))), nil
}

func (r *reader) stdioServer() MCPStdioServer {
	s := MCPStdioServer{Args: []string{}, Env: map[string]Secret{}}
	name, ok := r.required("name")
	if s.Name = name; ok {
		r.checkName(name)
	}
	command, ok := r.required("command")
	if s.Command = command; ok {
		r.checkCommand(command)
	}
	s.Args = r.args()
	s.Env = r.env()
	return s
}

func (r *reader) checkName(name string) {
	switch {
	case name == "":
		r.rule("name", "Server name cannot be empty", name)
	case !serverName.MatchString(name):
		r.rule("name", "Server name can only contain letters, numbers, hyphens, and underscores", name)
	}
}

func (r *reader) checkCommand(command string) {
	switch {
	case command == "":
		r.rule("command", "Command cannot be empty", command)
	case strings.Contains(command, " "):
		r.rule("command", "Command should be a single executable without spaces (use arguments field for parameters)", command)
	}
}

// args reads a list of strings or one text that is split like a shell does.
func (r *reader) args() []string {
	switch v := r.m["args"].(type) {
	case nil:
	case string:
		args, err := SplitArgs(v)
		if err != nil {
			r.rule("args", argsProblem(err), nil)
		}
		return args
	case []any:
		args := make([]string, len(v))
		for i, item := range v {
			s, ok := item.(string)
			if !ok {
				r.fields = append(r.fields, fault.Field{Loc: at(r.loc, "args", i), Type: "string_type",
					Msg: "Input should be a valid string", Input: item})
			}
			args[i] = s
		}
		return args
	default:
		r.fail("args", "list_type", "Input should be a valid list", v)
	}
	return []string{}
}

// argsProblem starts with a capital, as the texts that clients know do.
func argsProblem(err error) string {
	text := err.Error()
	return "Invalid argument format: " + strings.ToUpper(text[:1]) + text[1:] +
		`. Use shell-like format, for example: -y "two words"`
}

// env reads a map or one text "A=1,B=2". Values often are keys, so none is echoed.
func (r *reader) env() map[string]Secret {
	env := map[string]Secret{}
	switch v := r.m["env"].(type) {
	case nil:
	case string:
		r.envText(v, env)
	case map[string]any:
		for _, name := range sortedKeys(v) {
			s, ok := v[name].(string)
			if !ok {
				r.fields = append(r.fields, fault.Field{Loc: at(r.loc, "env", name), Type: "string_type",
					Msg: "Input should be a valid string"})
			}
			env[name] = NewSecret(s)
		}
	default:
		r.fail("env", "dict_type", "Input should be a valid dictionary", nil)
	}
	return env
}

func (r *reader) envText(text string, env map[string]Secret) {
	if strings.TrimSpace(text) == "" {
		return
	}
	for _, pair := range strings.Split(text, ",") {
		pair = strings.TrimSpace(pair)
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		switch {
		case !ok:
			// The pair may be the tail of a value with a comma in it: not echoed.
			r.rule("env", fmt.Sprintf("Environment variable '%s' must be in KEY=VALUE format", shown(pair)), nil)
		case name == "":
			r.rule("env", "Environment variable key cannot be empty", nil)
		case !variable.MatchString(name):
			r.rule("env", fmt.Sprintf("Invalid environment variable name '%s'. Must start with letter or underscore, "+
				"contain only letters, digits and underscores", shown(name)), nil)
		default:
			env[name] = NewSecret(strings.TrimSpace(value))
		}
	}
}

// shown returns a text that may be part of a secret as far as it can be echoed:
// whole if it looks like a name, else its beginning.
func shown(s string) string {
	const limit = 40
	if r := []rune(s); len(r) > limit {
		return string(r[:8]) + "..."
	}
	return s
}
