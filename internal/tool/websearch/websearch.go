// Package websearch is the tool that searches the web, with Tavily. It asks from the
// server, so that the user's key never enters a sandbox and the sandbox needs no way
// out; the key is sent to the configured address only, and is in no text, error or
// observation.
//
// On the wire it looks like a tool of Tavily's MCP server, which clients know: a kind
// of its own would be refused by those that check kinds. What pages say is cleaned,
// bounded and marked as data; it stays text by strangers.
package websearch

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/tool"
)

// Name of the tool.
const Name = "tavily_search"

// CodeNoKey is the code of the Invalid fault of a search without a key.
const CodeNoKey = "no_search_key"

//go:embed description.md
var description string

// Bounds of a request, as Tavily has them.
const (
	maxQuery   = 400 // characters
	maxDomains = 100 // of each list
	maxDomain  = 253 // characters
)

// Config says where to search.
type Config struct {
	BaseURL string // "" = https://api.tavily.com
	// Client makes the requests; nil = one that honours the proxies of the
	// environment. Redirects are never followed.
	Client *http.Client
}

// Action is the input of the tool.
type Action struct {
	Query          string   `json:"query" desc:"What to search for: a few words, at most 400 characters."`
	MaxResults     int      `json:"max_results" min:"1" max:"20" default:"5" desc:"How many results to get at most."`
	Topic          string   `json:"topic" enum:"general,news,finance" default:"general" desc:"What kind of pages to search."`
	TimeRange      string   `json:"time_range,omitempty" enum:"day,week,month,year" desc:"Only pages of the last day, week, month or year."`
	IncludeDomains []string `json:"include_domains,omitempty" desc:"Only pages of these domains."`
	ExcludeDomains []string `json:"exclude_domains,omitempty" desc:"No pages of these domains."`
}

// wrapped is an action as clients see it.
type wrapped struct {
	Data Action `json:"data"`
	Kind string `json:"kind"`
}

// Tool is the web search. One value serves all conversations.
type Tool struct {
	spec   tool.Spec
	inner  *tool.Typed[Action]
	tavily *tavily
}

var _ tool.Tool = (*Tool)(nil)

// New makes the tool.
func New(cfg Config) *Tool {
	t := &Tool{tavily: newTavily(cfg)}
	t.inner = tool.New(tool.Spec{
		Name: Name, Description: description, Kind: "MCPToolDefinition",
		ActionKind: "MCPToolAction", ObservationKind: "MCPToolObservation",
		ReadOnly: true, Idempotent: true, OpenWorld: true, NoHands: true,
	}, t.search, tool.WithCheck(check), tool.WithClaims(func(Action) []tool.Claim { return nil }))
	t.spec = *t.inner.Spec()
	t.spec.More = mcpTool(&t.spec)
	return t
}

// mcpTool is the tool as an MCP server would list it.
func mcpTool(s *tool.Spec) json.RawMessage {
	type listed struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	raw, err := content.Marshal(map[string]any{"mcp_tool": listed{s.Name, s.Description, s.Parameters}})
	if err != nil {
		panic("websearch: the schema is not JSON") // it was made by tool.New
	}
	return raw
}

// Spec describes the tool. Callers must not change it.
func (t *Tool) Spec() *tool.Spec { return &t.spec }

// Parse checks arguments and returns the action.
func (t *Tool) Parse(args json.RawMessage) (json.RawMessage, error) {
	var again struct {
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(args, &again) == nil && again.Data != nil {
		args = again.Data
	}
	plain, err := t.inner.Parse(args)
	if err != nil {
		return nil, err
	}
	w := wrapped{Kind: t.spec.ActionKind}
	if err := json.Unmarshal(plain, &w.Data); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, tool.CodeArguments, "The arguments of %s cannot be read.", Name)
	}
	return content.Marshal(w)
}

// Run runs an action that Parse returned.
func (t *Tool) Run(ctx context.Context, env *tool.Env, action json.RawMessage) (tool.Result, error) {
	var w struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(action, &w); err != nil || w.Data == nil {
		return tool.Result{}, fault.Wrap(err, fault.Invalid, tool.CodeArguments, "The action of %s cannot be read.", Name)
	}
	return t.inner.Run(ctx, env, w.Data)
}

// Claims is nothing: a search touches nothing of the conversation's.
func (t *Tool) Claims(json.RawMessage) []tool.Claim { return nil }

func check(a *Action) error {
	a.Query = strings.TrimSpace(a.Query)
	switch n := utf8.RuneCountInString(a.Query); {
	case n == 0:
		return errors.New("query is empty")
	case n > maxQuery:
		return errors.New("query is longer than 400 characters; search for fewer words")
	case len(a.IncludeDomains) > maxDomains || len(a.ExcludeDomains) > maxDomains:
		return errors.New("there are more than 100 domains")
	}
	for _, domains := range [][]string{a.IncludeDomains, a.ExcludeDomains} {
		for _, d := range domains {
			if strings.TrimSpace(d) == "" || len(d) > maxDomain {
				return errors.New("a domain is empty or longer than 253 characters")
			}
		}
	}
	return nil
}

func (t *Tool) search(ctx context.Context, env *tool.Env, a Action) (tool.Result, error) {
	key := strings.TrimSpace(env.SearchKey.Reveal())
	if key == "" {
		return tool.Result{}, fault.New(fault.Invalid, CodeNoKey, "The web search needs a key of Tavily, and there is none.").
			WithHint("The user can store one in the settings (search_api_key).")
	}
	found, err := t.tavily.search(ctx, key, a)
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	var p *problem
	switch {
	case errors.As(err, &p):
		return t.observe(p.text, true)
	case err != nil:
		return tool.Result{}, err
	}
	return t.observe(render(a.Query, found), false)
}

// observe encodes what clients of MCP tools expect: a block that names the tool,
// then what it said.
func (t *Tool) observe(text string, isError bool) (tool.Result, error) {
	head := "[The tool '" + Name + "' ran.]"
	if isError {
		head = "[The tool '" + Name + "' failed.]"
	}
	return tool.Observation{
		Kind: t.spec.ObservationKind, IsError: isError,
		Content: []content.Part{content.Text(head), content.Text(text)},
		Members: struct {
			ToolName string `json:"tool_name"`
		}{Name},
	}.Result()
}
