package account

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"parley/internal/fault"
)

// mcpRest are the members of a server that are kept and given back without an
// effect, with the kind of their values.
var mcpRest = map[string]string{"description": "string", "icon": "string", "keep_alive": "bool",
	"sse_read_timeout": "number"}

// mcpTransports are the names of transports, with what they mean.
var mcpTransports = map[string]string{"stdio": "stdio", "sse": "sse", "http": "http", "streamable-http": "http",
	"streamable_http": "http", "streamableHttp": "http", "shttp": "http"}

// mcpServer is a server of any kind: one of http and stdio is set.
type mcpServer struct {
	http  *MCPHTTPServer
	sse   bool // of http
	stdio *MCPStdioServer
}

// named returns the servers by their names.
func (c *MCPConfig) named() map[string]mcpServer {
	out := map[string]mcpServer{}
	c.Each(func(name string, http *MCPHTTPServer, sse bool, stdio *MCPStdioServer) {
		out[name] = mcpServer{http: http, sse: sse, stdio: stdio}
	})
	return out
}

// Each calls f for every server, disabled or not, in the order of the lists: stdio,
// SSE, HTTP. Names are unique; a server without one gets one from its place. One of
// http, which speaks SSE or streamable HTTP, and stdio is set. No configuration has
// no servers.
func (c *MCPConfig) Each(f func(name string, http *MCPHTTPServer, sse bool, stdio *MCPStdioServer)) {
	if c == nil {
		return
	}
	taken := map[string]bool{}
	for i := range c.Stdio {
		f(freeName(taken, c.Stdio[i].Name, "stdio", i), nil, false, &c.Stdio[i])
	}
	for i := range c.SSE {
		f(freeName(taken, c.SSE[i].Name, "sse", i), &c.SSE[i], true, nil)
	}
	for i := range c.SHTTP {
		f(freeName(taken, c.SHTTP[i].Name, "shttp", i), &c.SHTTP[i], false, nil)
	}
}

func freeName(taken map[string]bool, name, kind string, i int) string {
	if name == "" {
		name = fmt.Sprintf("%s-%d", kind, i+1)
	}
	for taken[name] {
		name += "-"
	}
	taken[name] = true
	return name
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
func (c *MCPConfig) RenderServers() map[string]any { return c.RenderServersAs(nil) }

// RenderServersAs is RenderServers with show for secrets that are set; nil shows the
// mask.
func (c *MCPConfig) RenderServersAs(show func(Secret) string) map[string]any {
	out := map[string]any{}
	for name, s := range c.named() {
		if s.stdio != nil {
			out[name] = s.stdio.render(show)
		} else {
			out[name] = s.http.render(s.sse, show)
		}
	}
	return out
}

func (s *MCPStdioServer) render(show shower) map[string]any {
	out := map[string]any{"transport": "stdio", "command": s.Command, "args": append([]string{}, s.Args...),
		"env": show.values(s.Env)}
	if s.Cwd != "" {
		out["cwd"] = s.Cwd
	}
	if s.Timeout != nil {
		out["timeout"] = *s.Timeout
	}
	return s.MCPCommon.render(out)
}

func (s *MCPHTTPServer) render(sse bool, show shower) map[string]any {
	out := map[string]any{"transport": "http", "url": s.URL, "timeout": s.Timeout}
	if sse {
		out["transport"] = "sse"
	}
	headers := show.values(s.Headers)
	switch {
	case s.Auth != nil:
		out["auth"] = s.Auth.render(show)
		if s.APIKey.IsSet() {
			headers["Authorization"] = show.value(NewSecret("Bearer " + s.APIKey.Reveal()))
		}
	case s.APIKey.IsSet():
		out["auth"] = map[string]any{"strategy": "bearer", "value": show.value(s.APIKey)}
	}
	if len(headers) > 0 {
		out["headers"] = headers
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

// ParseMCPServers validates MCP servers by name (agent protocol 2.1, MCPServer), or in
// the lists of ParseMCP. A secret that is null or the mask is that of the stored server
// of the same name, which must be at the same place. Values, and URLs from their
// beginning, may have placeholders: ${NAME}. The servers may stand in a member
// mcpServers. Nothing and null yield nil. loc is where the servers stand in the
// request.
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
	if inner, ok := wrapped(m); ok {
		m, loc = inner, at(loc, "mcpServers")
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

// wrapped takes the servers out of {"mcpServers": {...}}, as files and older clients
// have them. It may also be the name of a server.
func wrapped(m map[string]any) (map[string]any, bool) {
	inner, ok := m["mcpServers"].(map[string]any)
	if !ok {
		return nil, false
	}
	_, hasURL := inner["url"].(string)
	_, hasCommand := inner["command"].(string)
	return inner, !hasURL && !hasCommand
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
	switch transport, known := p.transport(); {
	case !known:
	case m["command"] != nil && m["url"] != nil:
		p.rule("url", "A server has a url or a command, not both", nil)
	case m["command"] != nil && (transport == "" || transport == "stdio"):
		c.Stdio = append(c.Stdio, p.stdio())
	case m["command"] != nil || transport == "stdio":
		p.rule("transport", "A server with a command has the transport stdio, no other", nil)
	case transport == "sse":
		c.SSE = append(c.SSE, p.http(true))
	default:
		c.SHTTP = append(c.SHTTP, p.http(false))
	}
	return p.fields
}

// transport reads the kind of a server, "" if it does not say: "type" is what files
// and older clients call it.
func (p *serverParser) transport() (kind string, known bool) {
	for _, member := range []string{"transport", "type"} {
		text := or(p.text(member), "")
		if text == "" {
			continue
		}
		kind, known := mcpTransports[text]
		if !known {
			p.fail(member, "literal_error", "Input should be one of: stdio, http, sse, streamable-http", text)
		}
		return kind, known
	}
	return "", true
}

type serverParser struct {
	reader
	name string
	old  mcpServer
	same bool // old is at the same place; of http
}

func (p *serverParser) stdio() MCPStdioServer {
	p.common("transport", "type", "command", "args", "env", "cwd", "enabled", "timeout")
	s := MCPStdioServer{Name: p.name, Cwd: p.cwd(), Timeout: p.seconds(nil)}
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
	s.MCPCommon = p.rest()
	return s
}

func (p *serverParser) cwd() string {
	const limit = 4096 // bytes, the longest path of the system
	text := or(p.text("cwd"), "")
	if len(text) > limit || strings.ContainsRune(text, 0) {
		p.rule("cwd", "A directory is a path of at most 4096 bytes", nil)
	}
	return text
}

// seconds reads a timeout that may be a fraction, which is rounded up. Absent is
// fallback, null is none.
func (p *serverParser) seconds(fallback *int) *int {
	v, there := p.m["timeout"]
	if !there {
		return fallback
	}
	number, ok := v.(json.Number)
	f, err := number.Float64()
	if !ok || err != nil {
		return p.timeout()
	}
	p.m = maps.Clone(p.m)
	p.m["timeout"] = json.Number(fmt.Sprintf("%.0f", math.Ceil(f)))
	return p.timeout()
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
	p.common("transport", "type", "url", "timeout", "headers", "auth", "enabled")
	s := MCPHTTPServer{Name: p.name, URL: p.place()}
	usual := DefaultMCPTimeout
	if s.Timeout = p.seconds(&usual); sse && p.m["timeout"] == nil {
		s.Timeout = nil
	}
	p.same = p.old.http != nil && canonicalBase(p.old.http.URL) == canonicalBase(s.URL)
	s.Headers = p.headers(p.m["headers"], at(p.loc, "headers"))
	p.takeBearer(&s)
	p.auth(&s)
	p.checkTwice(&s)
	s.MCPCommon = p.rest()
	return s
}

// place reads a URL, which may begin with a placeholder.
func (p *serverParser) place() string {
	if text, ok := p.m["url"].(string); ok && strings.HasPrefix(strings.TrimSpace(text), "${") {
		return strings.TrimSpace(text)
	}
	return p.url()
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

// rest reads what servers of all kinds have.
func (p *serverParser) rest() MCPCommon {
	var c MCPCommon
	switch enabled := p.m["enabled"].(type) {
	case nil:
	case bool:
		c.Disabled = !enabled
	default:
		p.fail("enabled", "bool_type", "Input should be a valid boolean", nil)
	}
	for _, name := range sortedKeys(mcpRest) {
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
