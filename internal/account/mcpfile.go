package account

import (
	"encoding/json"
	"math"

	"parley/internal/fault"
)

// Bounds of a file of MCP servers.
const (
	maxMCPFile        = 1 << 20 // bytes
	maxMCPFileServers = 100
)

// fileMembers are the members of a server that a file of other programs is read for;
// others are theirs.
var fileMembers = []string{"type", "transport", "command", "args", "env", "cwd", "url", "headers", "auth", "timeout", "description"}

// ParseMCPFile reads the servers of a file such as .mcp.json: {"mcpServers": {name:
// server}}, or the servers alone, with "type" stdio, http or sse. Members that are not
// known belong to other programs; a server that is disabled is left out, and a timeout
// above an hour counts in milliseconds, as theirs do. The servers that are in order
// are returned also where others are wrong.
func ParseMCPFile(raw []byte) (*MCPConfig, []fault.Field) {
	if len(raw) > maxMCPFile {
		return nil, []fault.Field{{Type: "too_long", Msg: "A file of MCP servers has at most 1 MiB"}}
	}
	v, err := decodeAny(raw)
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, []fault.Field{notAnObject(nil)}
	}
	var loc []any
	if inner, ok := wrapped(m); ok {
		m, loc = inner, []any{"mcpServers"}
	}
	if len(m) > maxMCPFileServers {
		return nil, []fault.Field{{Loc: loc, Type: "too_long", Msg: "A file has at most 100 MCP servers"}}
	}
	c := &MCPConfig{SSE: []MCPHTTPServer{}, Stdio: []MCPStdioServer{}, SHTTP: []MCPHTTPServer{}}
	var fields []fault.Field
	for _, name := range sortedKeys(m) {
		server, isObject := m[name].(map[string]any)
		if isObject && (server["disabled"] == true || server["enabled"] == false) {
			continue
		}
		one := &MCPConfig{}
		if more := one.add(name, fileServer(m[name]), mcpServer{}, at(loc, name)); len(more) > 0 {
			fields = append(fields, more...)
			continue
		}
		c.SSE, c.Stdio, c.SHTTP = append(c.SSE, one.SSE...), append(c.Stdio, one.Stdio...), append(c.SHTTP, one.SHTTP...)
	}
	return c, fields
}

// fileServer takes the members of a server that are known.
func fileServer(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for _, name := range fileMembers {
		if value, there := m[name]; there {
			out[name] = value
		}
	}
	if n, ok := out["timeout"].(json.Number); ok {
		if f, err := n.Float64(); err == nil && f > MaxMCPTimeout {
			out["timeout"] = json.Number(trimFloat(min(MaxMCPTimeout, math.Ceil(f/1000))))
		}
	}
	if out["command"] == nil { // an empty list of what only the other kind has says nothing
		for _, name := range []string{"args", "env", "cwd"} {
			delete(out, name)
		}
	} else {
		for _, name := range []string{"headers", "auth"} {
			delete(out, name)
		}
	}
	return out
}
