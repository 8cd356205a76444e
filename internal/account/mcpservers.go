package account

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"parley/internal/fault"
)

// mcpRest are the members of a server that are kept and given back without an
// effect, with the kind of their values.
var mcpRest = map[string]string{"cwd": "string", "description": "string", "icon": "string", "keep_alive": "bool",
	"sse_read_timeout": "number"}

// mcpServer is a server of any kind: one of http and stdio is set.
type mcpServer struct {
	http  *MCPHTTPServer
	sse   bool // of http
	stdio *MCPStdioServer
}

// named returns the servers by their names; those without one get one from their
// place.
func (c *MCPConfig) named() map[string]mcpServer {
	out := map[string]mcpServer{}
	if c == nil {
		return out
	}
	for i := range c.Stdio {
		out[freeName(out, c.Stdio[i].Name, "stdio", i)] = mcpServer{stdio: &c.Stdio[i]}
	}
	for i := range c.SSE {
		out[freeName(out, c.SSE[i].Name, "sse", i)] = mcpServer{http: &c.SSE[i], sse: true}
	}
	for i := range c.SHTTP {
		out[freeName(out, c.SHTTP[i].Name, "shttp", i)] = mcpServer{http: &c.SHTTP[i]}
	}
	return out
}

func freeName(taken map[string]mcpServer, name, kind string, i int) string {
	if name == "" {
		name = fmt.Sprintf("%s-%d", kind, i+1)
	}
	for {
		if _, ok := taken[name]; !ok {
			return name
		}
		name += "-"
	}
}

// Enabled returns the servers that conversations get.
func (c *MCPConfig) Enabled() *MCPConfig {
	if c == nil {
		return nil
	}
	return &MCPConfig{
		SSE:   slices.DeleteFunc(slices.Clone(c.SSE), func(s MCPHTTPServer) bool { return s.Disabled }),
		Stdio: slices.DeleteFunc(slices.Clone(c.Stdio), func(s MCPStdioServer) bool { return s.Disabled }),
		SHTTP: slices.DeleteFunc(slices.Clone(c.SHTTP), func(s MCPHTTPServer) bool { return s.Disabled }),
	}
}

// RenderServers returns the servers by name, as the agent protocol has them (2.1,
// MCPServer), with masks for secrets. ParseMCPServers reads it.
func (c *MCPConfig) RenderServers() map[string]any {
	out := map[string]any{}
	for name, s := range c.named() {
		if s.stdio != nil {
			out[name] = s.stdio.render()
		} else {
			out[name] = s.http.render(s.sse)
		}
	}
	return out
}

func (s *MCPStdioServer) render() map[string]any {
	env := map[string]string{}
	for name := range s.Env {
		env[name] = Mask
	}
	return s.MCPCommon.render(map[string]any{"transport": "stdio", "command": s.Command,
		"args": append([]string{}, s.Args...), "env": env})
}

func (s *MCPHTTPServer) render(sse bool) map[string]any {
	out := map[string]any{"transport": "http", "url": s.URL, "timeout": s.Timeout}
	if sse {
		out["transport"] = "sse"
	}
	if s.APIKey.IsSet() {
		out["auth"] = map[string]string{"strategy": "bearer", "value": Mask}
	}
	return s.MCPCommon.render(out)
}

func (c MCPCommon) render(out map[string]any) map[string]any {
	out["enabled"] = !c.Disabled
	for name, value := range c.Rest {
		out[name] = value
	}
	return out
}

// ParseMCPServers validates MCP servers by name, or in the lists of ParseMCP. A
// secret that is null or the mask is that of the stored server of the same name,
// which must be at the same place. Nothing and null yield nil. loc is
// where the servers stand in the request.
func ParseMCPServers(raw json.RawMessage, stored *MCPConfig, loc ...any) (*MCPConfig, []fault.Field) {
	v, err := decodeAny(raw)
	m, ok := v.(map[string]any)
	switch {
	case err != nil || v != nil && !ok:
		return nil, []fault.Field{notAnObject(loc)}
	case v == nil:
		return nil, nil
	case inLists(m):
		return ParseMCP(raw, loc...)
	}
	c := &MCPConfig{SSE: []MCPHTTPServer{}, Stdio: []MCPStdioServer{}, SHTTP: []MCPHTTPServer{}}
	var fields []fault.Field
	old := stored.named()
	for _, name := range sortedKeys(m) {
		fields = append(fields, c.add(name, m[name], old[name], at(loc, name))...)
	}
	if len(fields) > 0 {
		return nil, fields
	}
	return c, nil
}

// inLists tells the form of the legacy API by its lists.
func inLists(m map[string]any) bool {
	for _, name := range []string{"sse_servers", "stdio_servers", "shttp_servers"} {
		if _, isList := m[name].([]any); isList {
			return true
		}
	}
	return false
}

func (c *MCPConfig) add(name string, v any, old mcpServer, loc []any) []fault.Field {
	m, ok := v.(map[string]any)
	if !ok {
		return []fault.Field{notAnObject(loc)}
	}
	p := &serverParser{reader: reader{m: m, loc: loc}, name: name, old: old}
	if !serverName.MatchString(name) {
		p.fields = append(p.fields, fault.Field{Loc: loc, Type: "value_error", Ctx: map[string]any{"error": map[string]any{}},
			Msg: "Value error, Server name can only contain letters, numbers, hyphens, and underscores"})
	}
	transport := or(p.text("transport"), "")
	switch {
	case m["command"] != nil && m["url"] != nil:
		p.rule("url", "A server has a url or a command, not both", nil)
	case m["command"] != nil && (transport == "" || transport == "stdio"):
		c.Stdio = append(c.Stdio, p.stdio())
	case m["command"] != nil || transport == "stdio":
		p.rule("transport", "A server with a command has the transport stdio, no other", nil)
	case transport == "sse":
		c.SSE = append(c.SSE, p.http(true))
	case transport == "" || transport == "http" || transport == "streamable-http":
		c.SHTTP = append(c.SHTTP, p.http(false))
	default:
		p.fail("transport", "literal_error", "Input should be one of: stdio, http, sse, streamable-http", transport)
	}
	return p.fields
}

type serverParser struct {
	reader
	name string
	old  mcpServer
}

func (p *serverParser) stdio() MCPStdioServer {
	p.common("transport", "command", "args", "env", "enabled", "timeout")
	s := MCPStdioServer{Name: p.name}
	command, ok := p.required("command")
	if s.Command = command; ok {
		p.checkCommand(command)
	}
	s.Args = p.args()
	kept := p.keptVariables()
	s.Env = p.env()
	for name, value := range kept {
		if p.old.stdio.Command != s.Command {
			p.fields = append(p.fields, elsewhere(at(p.loc, "env", name)))
		}
		s.Env[name] = value
	}
	s.MCPCommon = p.rest("timeout")
	return s
}

// keptVariables takes the variables that are to stay out of the request, and
// returns those that are stored.
func (p *serverParser) keptVariables() map[string]Secret {
	env, ok := p.m["env"].(map[string]any)
	if !ok {
		return nil
	}
	kept, given := map[string]Secret{}, map[string]any{}
	for name, v := range env {
		if v != nil && v != Mask {
			given[name] = v
			continue
		}
		if p.old.stdio == nil {
			continue
		}
		if value, ok := p.old.stdio.Env[name]; ok {
			kept[name] = value
		}
	}
	p.m = maps.Clone(p.m)
	p.m["env"] = given
	return kept
}

func elsewhere(loc []any) fault.Field {
	return fault.Field{Loc: loc, Type: "value_error", Ctx: map[string]any{"error": map[string]any{}},
		Msg: "Value error, The stored value belongs to another server: send it again"}
}

func (p *serverParser) http(sse bool) MCPHTTPServer {
	p.common("transport", "url", "timeout", "headers", "auth", "enabled")
	s := MCPHTTPServer{Name: p.name, URL: p.url()}
	if _, there := p.m["timeout"]; there || !sse {
		s.Timeout = p.timeout()
	}
	value, where, sent := p.bearer()
	switch key, ok := value.(string); {
	case !sent:
	case value == nil || key == Mask:
		if s.APIKey = p.storedKey(); s.APIKey.IsSet() && canonicalBase(p.old.http.URL) != canonicalBase(s.URL) {
			p.fields = append(p.fields, elsewhere(where))
		}
	case !ok:
		p.fields = append(p.fields, fault.Field{Loc: where, Type: "string_type", Msg: "Input should be a valid string"})
	default:
		s.APIKey = NewSecret(strings.TrimSpace(key))
	}
	s.MCPCommon = p.rest()
	return s
}

func (p *serverParser) storedKey() Secret {
	if p.old.http == nil {
		return Secret{}
	}
	return p.old.http.APIKey
}

// bearer finds the key that calls of the server carry: in auth, or in a header.
func (p *serverParser) bearer() (value any, where []any, sent bool) {
	const only = "Only a bearer token is supported"
	switch headers := p.m["headers"].(type) {
	case nil:
	case map[string]any:
		for name, v := range headers {
			if text, ok := v.(string); ok && text != Mask {
				if v, ok = strings.CutPrefix(text, "Bearer "); !ok {
					name = ""
				}
			}
			if !strings.EqualFold(name, "authorization") {
				p.rule("headers", only, nil)
				return nil, nil, false
			}
			value, where, sent = v, at(p.loc, "headers", name), true
		}
	default:
		p.fail("headers", "dict_type", "Input should be a valid dictionary", nil)
	}
	switch auth := p.m["auth"].(type) {
	case nil:
	case map[string]any:
		switch auth["strategy"] {
		case "none":
		case "bearer":
			value, where, sent = auth["value"], at(p.loc, "auth", "value"), true
		default:
			p.rule("auth", only, nil)
		}
	default:
		p.fail("auth", "dict_type", "Input should be a valid dictionary", nil)
	}
	return value, where, sent
}

// common refuses members that nobody knows, or that have no meaning for the kind
// of server.
func (p *serverParser) common(known ...string) {
	for _, name := range sortedKeys(p.m) {
		kind, kept := mcpRest[name]
		switch {
		case p.m[name] == nil || slices.Contains(known, name):
		case kept && !isKind(p.m[name], kind):
			p.fail(name, kind+"_type", "Input should be a valid "+kind, nil)
		case !kept:
			p.fail(name, "extra_forbidden", "Extra inputs are not permitted", nil)
		}
	}
}

// rest reads what servers of all kinds have; more names further members that are
// kept.
func (p *serverParser) rest(more ...string) MCPCommon {
	var c MCPCommon
	switch enabled := p.m["enabled"].(type) {
	case nil:
	case bool:
		c.Disabled = !enabled
	default:
		p.fail("enabled", "bool_type", "Input should be a valid boolean", nil)
	}
	for _, name := range append(more, sortedKeys(mcpRest)...) {
		raw, err := json.Marshal(p.m[name])
		if p.m[name] == nil || err != nil {
			continue
		}
		if c.Rest == nil {
			c.Rest = map[string]json.RawMessage{}
		}
		c.Rest[name] = raw
	}
	return c
}
