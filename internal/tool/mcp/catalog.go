package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/internal/content"
	"parley/internal/tool/client"
)

// Bounds of what a server may offer.
const (
	maxTools       = 128       // that are used
	maxSession     = 512       // of all servers of a conversation
	maxSchema      = 64 << 10  // bytes
	maxDescription = 4 << 10   // bytes
	maxOffered     = 512 << 10 // bytes of all schemas and descriptions
	maxDefinition  = 2 * maxSchema
	maxPages       = 32
	maxNamed       = 5 // tools that a status names
)

// offer is a tool that a server has.
type offer struct {
	name        string // the server's
	title       string
	description string
	parameters  json.RawMessage
	schema      *client.Schema
	definition  json.RawMessage // as the server gave it
}

// catalog is what a server offers.
type catalog struct {
	tools              []*offer
	notes              []string // what is not used, and why
	resources, prompts bool
}

// list asks a server what it offers.
func (l *link) list(ctx context.Context) (*catalog, error) {
	c := &catalog{}
	var tools bool
	tools, c.resources, c.prompts = l.offers()
	if !tools {
		return c, nil
	}
	b := &builder{catalog: c, seen: map[string]bool{}, left: maxOffered}
	params := &sdk.ListToolsParams{}
	cursors := map[string]bool{}
	for range maxPages {
		page, err := l.session.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tools {
			b.add(t)
		}
		if page.NextCursor == "" {
			b.finish()
			return c, nil
		}
		if cursors[page.NextCursor] {
			b.note("its list of tools goes in circles")
			break
		}
		cursors[page.NextCursor] = true
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	if len(cursors) >= maxPages {
		b.note("its list of tools has more than %d pages", maxPages)
	}
	b.finish()
	return c, nil
}

// builder takes tools into a catalog.
type builder struct {
	*catalog
	seen    map[string]bool
	left    int      // bytes
	more    int      // tools beyond the bounds
	refused []string // with reasons
	bad     int
}

func (b *builder) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

func (b *builder) add(t *sdk.Tool) {
	if len(b.tools) >= maxTools {
		b.more++
		return
	}
	o, problem := newOffer(t)
	switch {
	case problem != "":
	case b.seen[o.name]:
		problem = "it is there twice"
	case len(o.parameters)+len(o.description) > b.left:
		b.more++
		return
	}
	if problem != "" {
		if b.bad++; b.bad <= maxNamed {
			b.refused = append(b.refused, fmt.Sprintf("%q (%s)", oneLine(t.Name, 80), problem))
		}
		return
	}
	b.seen[o.name] = true
	b.left -= len(o.parameters) + len(o.description)
	b.tools = append(b.tools, o)
}

func (b *builder) finish() {
	if b.more > 0 {
		b.note("it offers %s more than the %d that are used", count(b.more, "tool"), len(b.tools))
	}
	if b.bad > 0 {
		text := "left out: " + strings.Join(b.refused, ", ")
		if n := b.bad - len(b.refused); n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		b.note("%s", text)
	}
}

// newOffer reads the definition of a tool. problem says why it cannot be used.
func newOffer(t *sdk.Tool) (o *offer, problem string) {
	if t.Name == "" || len(t.Name) > 1000 {
		return nil, "its name is empty or too long"
	}
	o = &offer{name: t.Name, title: oneLine(titleOf(t), 200)}
	var cut bool
	o.description, cut = clip(strings.TrimSpace(clean(t.Description)), maxDescription)
	if cut {
		o.description += "\n[The description is longer.]"
	}
	parameters, problem := schemaOf(t.InputSchema)
	if problem != "" {
		return nil, problem
	}
	var err error
	if o.schema, err = client.CompileSchema(parameters); err != nil {
		return nil, "its schema cannot be used: " + oneLine(err.Error(), 150)
	}
	o.parameters = parameters
	o.definition, err = content.Marshal(t)
	if err != nil || len(o.definition) > maxDefinition {
		o.definition, err = content.Marshal(map[string]any{"name": t.Name, "description": o.description, "inputSchema": parameters})
	}
	if err != nil {
		return nil, "its definition is not JSON"
	}
	return o, ""
}

func titleOf(t *sdk.Tool) string {
	if t.Title == "" && t.Annotations != nil {
		return t.Annotations.Title
	}
	return t.Title
}

// schemaOf returns the schema of a tool's arguments. A missing one, and one without a
// type, are those of an object.
func schemaOf(input any) (raw json.RawMessage, problem string) {
	members, isObject := input.(map[string]any)
	switch {
	case input == nil:
		members = map[string]any{"properties": map[string]any{}}
	case !isObject:
		return nil, "its schema is no object"
	}
	if members["type"] == nil {
		members["type"] = "object"
	}
	raw, err := content.Marshal(members)
	if err != nil {
		return nil, "its schema is not JSON"
	}
	if len(raw) > maxSchema {
		return nil, fmt.Sprintf("its schema has more than %d KiB", maxSchema>>10)
	}
	return raw, ""
}
