package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/internal/content"
	"parley/internal/tool"
	"parley/internal/tool/client"
)

// Names of the tools for what servers have beside tools.
const (
	nameListResources = "mcp_list_resources"
	nameReadResource  = "mcp_read_resource"
	nameListPrompts   = "mcp_list_prompts"
	nameGetPrompt     = "mcp_get_prompt"
)

// Bounds of a list.
const (
	maxListed    = 200
	maxListPages = 10
)

func ownNames() []string {
	return []string{nameListResources, nameReadResource, nameListPrompts, nameGetPrompt}
}

// Schemas of these tools.
const (
	listSchema = `{"type":"object","properties":{"server":{"type":"string","description":"Only of this MCP server."}},"additionalProperties":false}`
	readSchema = `{"type":"object","properties":{"server":{"type":"string","description":"Name of the MCP server."},` +
		`"uri":{"type":"string","description":"URI of the resource, as the list has it or made from a template."}},"required":["server","uri"],"additionalProperties":false}`
	promptSchema = `{"type":"object","properties":{"server":{"type":"string","description":"Name of the MCP server."},` +
		`"name":{"type":"string","description":"Name of the prompt."},"arguments":{"type":"object","additionalProperties":{"type":"string"},` +
		`"description":"Arguments of the prompt, as the list names them."}},"required":["server","name"],"additionalProperties":false}`
)

// ownTools are the tools for what the connected servers have beside tools. It is called
// with the lock held.
func (s *session) ownTools(servers []*server) []tool.Tool {
	var resources, prompts bool
	for _, v := range servers {
		if v.link != nil {
			resources = resources || v.catalog.resources
			prompts = prompts || v.catalog.prompts
		}
	}
	var tools []tool.Tool
	if resources {
		tools = append(tools,
			s.ownTool(nameListResources, "Lists the resources that the connected MCP servers have: documents and data that mcp_read_resource reads.", listSchema, s.listResources),
			s.ownTool(nameReadResource, "Reads a resource of an MCP server.", readSchema, s.readResource))
	}
	if prompts {
		tools = append(tools,
			s.ownTool(nameListPrompts, "Lists the prompts that the connected MCP servers have: prepared instructions that mcp_get_prompt returns.", listSchema, s.listPrompts),
			s.ownTool(nameGetPrompt, "Returns a prompt of an MCP server, filled with arguments.", promptSchema, s.getPrompt))
	}
	return tools
}

func (s *session) ownTool(name, description, schema string, run func(context.Context, *tool.Env, map[string]any) (reply, error)) tool.Tool {
	compiled, err := client.CompileSchema([]byte(schema))
	if err != nil {
		panic("mcp: a schema of its own: " + err.Error())
	}
	more, err := content.Marshal(map[string]any{"mcp_tool": map[string]any{"name": name, "description": description, "inputSchema": json.RawMessage(schema)}})
	if err != nil {
		panic("mcp: a schema of its own: " + err.Error())
	}
	return &mcpTool{
		schema: compiled, run: run,
		spec: tool.Spec{Name: name, Title: name, Description: description, Kind: DefinitionKind, ActionKind: ActionKind,
			ObservationKind: ObservationKind, Parameters: json.RawMessage(schema), OpenWorld: true, NoHands: true, More: more},
		claims: func(args map[string]any) []tool.Claim {
			if name := text(args, "server"); name != "" {
				return []tool.Claim{claimOf(name)}
			}
			return []tool.Claim{{Name: "mcp", Write: true}}
		},
	}
}

func text(args map[string]any, name string) string {
	value, _ := args[name].(string)
	return value
}

// having are the connected servers that have something, all or the one of that name.
// problem says why there is none.
func (s *session) having(name, what string, has func(*catalog) bool) (found []*server, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var known []string
	for _, v := range s.servers {
		if v.link != nil && has(v.catalog) {
			known = append(known, v.config.Name)
			if name == "" || name == v.config.Name {
				found = append(found, v)
			}
		}
	}
	if len(found) == 0 {
		slices.Sort(known)
		problem = fmt.Sprintf("No connected MCP server %q has %s. Those that have: %s.", name, what, orElse(strings.Join(known, ", "), "none"))
	}
	return found, problem
}

func hasResources(c *catalog) bool { return c.resources }
func hasPrompts(c *catalog) bool   { return c.prompts }

// each asks several servers and puts their answers together.
func (s *session) each(ctx context.Context, env *tool.Env, servers []*server, do func(context.Context, *link, *writer) error) (reply, error) {
	w := newWriter(env.Mask)
	for _, v := range servers {
		r, err := v.ask(ctx, env, func(ctx context.Context, l *link) (reply, error) {
			w.text("MCP server " + v.config.Name + ":")
			return reply{}, do(ctx, l, w)
		})
		if err != nil {
			return reply{}, err
		}
		if r.isError {
			w.text(content.JoinText(r.parts))
		}
	}
	return reply{parts: []content.Part{content.Text(content.JoinText(w.finish()))}}, nil
}

func (s *session) listResources(ctx context.Context, env *tool.Env, args map[string]any) (reply, error) {
	servers, problem := s.having(text(args, "server"), "resources", hasResources)
	if problem != "" {
		return wrong("%s", problem), nil
	}
	return s.each(ctx, env, servers, func(ctx context.Context, l *link, w *writer) error {
		err := pages(w, func(cursor string) ([]string, string, error) {
			page, err := l.session.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			var lines []string
			for _, r := range page.Resources {
				if r != nil {
					lines = append(lines, entry(r.URI, r.Name, r.MIMEType, r.Description))
				}
			}
			return lines, page.NextCursor, nil
		})
		if err != nil {
			return err
		}
		// Not every server with resources knows templates.
		page, err := l.session.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{})
		if err != nil {
			return ctx.Err()
		}
		for _, t := range page.ResourceTemplates[:min(len(page.ResourceTemplates), maxListed)] {
			if t != nil {
				w.text(entry(t.URITemplate, t.Name, t.MIMEType, t.Description) + " (template)")
			}
		}
		return nil
	})
}

func (s *session) listPrompts(ctx context.Context, env *tool.Env, args map[string]any) (reply, error) {
	servers, problem := s.having(text(args, "server"), "prompts", hasPrompts)
	if problem != "" {
		return wrong("%s", problem), nil
	}
	return s.each(ctx, env, servers, func(ctx context.Context, l *link, w *writer) error {
		return pages(w, func(cursor string) ([]string, string, error) {
			page, err := l.session.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			var lines []string
			for _, p := range page.Prompts {
				if p != nil {
					lines = append(lines, entry(p.Name, p.Title, p.Description)+promptArguments(p))
				}
			}
			return lines, page.NextCursor, nil
		})
	})
}

// pages lists entries within bounds.
func pages(w *writer, read func(cursor string) (lines []string, next string, err error)) error {
	cursor, listed := "", 0
	for range maxListPages {
		lines, next, err := read(cursor)
		if err != nil {
			return err
		}
		for i, line := range lines {
			if listed++; listed > maxListed {
				w.text(fmt.Sprintf("[At least %d more are left out.]", len(lines)-i))
				return nil
			}
			w.text(line)
		}
		if next == "" || next == cursor {
			if listed == 0 {
				w.text("(none)")
			}
			return nil
		}
		cursor = next
	}
	w.text("[There may be more.]")
	return nil
}

// entry is a line of a list: what is called, and what is said of it.
func entry(id string, about ...string) string {
	line := "- " + oneLine(id, 1000)
	for _, more := range about {
		if more = oneLine(more, 500); more != "" {
			line += " | " + more
		}
	}
	return line
}

func promptArguments(p *sdk.Prompt) string {
	var names []string
	for _, a := range p.Arguments {
		if a == nil || len(names) == 20 {
			continue
		}
		name := oneLine(a.Name, 100)
		if a.Required {
			name += " (required)"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return " | arguments: " + strings.Join(names, ", ")
}

func (s *session) readResource(ctx context.Context, env *tool.Env, args map[string]any) (reply, error) {
	servers, problem := s.having(text(args, "server"), "resources", hasResources)
	if problem != "" {
		return wrong("%s", problem), nil
	}
	return servers[0].ask(ctx, env, func(ctx context.Context, l *link) (reply, error) {
		result, err := l.session.ReadResource(ctx, &sdk.ReadResourceParams{URI: text(args, "uri")})
		if err != nil {
			return reply{}, err
		}
		w := newWriter(env.Mask)
		for _, c := range result.Contents {
			w.resource(c)
		}
		return reply{parts: w.finish()}, nil
	})
}

func (s *session) getPrompt(ctx context.Context, env *tool.Env, args map[string]any) (reply, error) {
	servers, problem := s.having(text(args, "server"), "prompts", hasPrompts)
	if problem != "" {
		return wrong("%s", problem), nil
	}
	params := &sdk.GetPromptParams{Name: text(args, "name"), Arguments: map[string]string{}}
	given, _ := args["arguments"].(map[string]any)
	for name := range given {
		params.Arguments[name] = text(given, name)
	}
	return servers[0].ask(ctx, env, func(ctx context.Context, l *link) (reply, error) {
		result, err := l.session.GetPrompt(ctx, params)
		if err != nil {
			return reply{}, err
		}
		w := newWriter(env.Mask)
		if result.Description != "" {
			w.text(result.Description)
		}
		for _, m := range result.Messages {
			if m != nil {
				w.text("[" + oneLine(string(m.Role), 20) + "]")
				w.content(m.Content)
			}
		}
		return reply{parts: w.finish()}, nil
	})
}
