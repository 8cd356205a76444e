package subagent

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/internal/account"
	"parley/internal/content"
	"parley/internal/fault"
	"parley/internal/hook"
	"parley/internal/lazyre"
)

// Bounds of a definition.
const (
	maxItems      = 200     // of a list
	maxItem       = 4 << 10 // bytes of an item: examples are the long ones
	maxIterations = 100_000
	maxModel      = 200
)

// agentName is what an agent may be called: models write it, and it stands in prompts.
var agentName = lazyre.MustCompile(`^[\pL\pN](?:[\pL\pN ._:/@-]{0,98}[\pL\pN])?$`)

// reader reads a definition out of JSON values and collects what is wrong. What is
// wrong reads as absent.
type reader struct {
	m      map[string]any
	key    func(string) string // how m spells the names of the contract
	fields []fault.Field
}

// fail says what is wrong with a member. It quotes no values: they may be secret.
func (r *reader) fail(name, typ, format string, args ...any) {
	r.fields = append(r.fields, fault.Field{Loc: []any{name}, Type: typ, Msg: fmt.Sprintf(format, args...)})
}

// text is the i-th thing that is wrong, for people.
func (r *reader) text(i int) string {
	parts := make([]string, len(r.fields[i].Loc))
	for j, step := range r.fields[i].Loc {
		parts[j] = content.Short(oneLine(fmt.Sprint(step)), 100)
	}
	return strings.Join(parts, ".") + ": " + r.fields[i].Msg
}

func (r *reader) get(name string) any { return r.m[r.key(name)] }

func (r *reader) definition() Definition {
	d := Definition{Name: r.name(), Model: r.model(), Skills: r.list("skills"), Examples: r.list("when_to_use_examples"),
		PermissionMode: r.permission(), MaxIterations: r.iterations(), MaxBudget: r.budget(), Hooks: r.hooks(), MCP: r.servers()}
	var examples []string
	if d.Description, examples = splitExamples(r.str("description")); len(d.Examples) == 0 {
		d.Examples = examples
	}
	d.Tools = r.tools()
	return d
}

func (r *reader) name() string {
	name := strings.TrimSpace(r.str("name"))
	switch {
	case name == "":
		r.fail("name", "missing", "Field required")
	case !agentName.MatchString(name):
		r.fail("name", "string_pattern_mismatch", "A name has at most 100 letters, digits, spaces and ._:/@- and begins and ends with a letter or digit")
	}
	return name
}

func (r *reader) model() string {
	model := strings.TrimSpace(r.str("model"))
	switch {
	case model == "" || strings.EqualFold(model, ModelInherit):
		return ModelInherit
	case len(model) > maxModel || oneLine(model) != model:
		r.fail("model", "value_error", "This is no name of a model")
	}
	return model
}

func (r *reader) str(name string) string {
	switch v := r.get(name).(type) {
	case nil:
	case string:
		if !utf8.ValidString(v) || strings.ContainsRune(v, 0) {
			r.fail(name, "string_unicode", "It must be text without NUL characters")
			return ""
		}
		return v
	default:
		r.fail(name, "string_type", "Input should be a valid string")
	}
	return ""
}

// list reads texts; nil where there is no list.
func (r *reader) list(name string) []string {
	v := r.get(name)
	items, ok := v.([]any)
	switch {
	case v == nil:
		return nil
	case !ok:
		r.fail(name, "list_type", "Input should be a valid list")
		return nil
	case len(items) > maxItems:
		r.fail(name, "too_long", "There are %d items, more than the %d allowed", len(items), maxItems)
		return nil
	}
	out := []string{}
	for _, item := range items {
		text, ok := item.(string)
		switch {
		case !ok:
			r.fail(name, "string_type", "Every item should be a valid string")
			return nil
		case len(text) > maxItem || !utf8.ValidString(text) || strings.ContainsRune(text, 0):
			r.fail(name, "value_error", "An item is longer than %d bytes or no text", maxItem)
			return nil
		case strings.TrimSpace(text) != "":
			out = append(out, strings.TrimSpace(text))
		}
	}
	return out
}

// tools reads the tools without those that the definition forbids. To forbid some of
// the parent's cannot be expressed, and must not be lost.
func (r *reader) tools() []string {
	tools, not := toolNames(r.list("tools")), r.list("disallowed_tools")
	switch {
	case len(not) == 0:
		return tools
	case slices.Contains(not, "*"):
		return []string{}
	case tools == nil:
		r.fail("disallowed_tools", "value_error", "Tools can only be forbidden where tools lists those that are allowed: list them there")
	}
	return withoutTools(tools, toolNames(not))
}

func (r *reader) permission() string {
	mode := r.str("permission_mode")
	known := []string{PermitAlwaysConfirm, PermitNeverConfirm, PermitConfirmRisky}
	if mode != "" && !slices.Contains(known, mode) {
		r.fail("permission_mode", "literal_error", "Input should be one of: %s", strings.Join(known, ", "))
		return ""
	}
	return mode
}

// positive reads a number above 0; 0 where there is none.
func (r *reader) positive(name string) float64 {
	switch v := r.get(name).(type) {
	case nil:
	case float64:
		if v > 0 && !math.IsInf(v, 0) {
			return v
		}
		r.fail(name, "greater_than", "Input should be greater than 0")
	default:
		r.fail(name, "number_type", "Input should be a valid number")
	}
	return 0
}

func (r *reader) budget() float64 { return r.positive("max_budget_per_run") }

func (r *reader) iterations() int {
	const name = "max_iteration_per_run"
	n := r.positive(name)
	switch {
	case n != math.Trunc(n):
		r.fail(name, "int_from_float", "Input should be a valid integer, got a number with a fractional part")
	case n > maxIterations:
		r.fail(name, "less_than_equal", "Input should be at most %d", maxIterations)
	default:
		return int(n)
	}
	return 0
}

func (r *reader) hooks() *hook.Config {
	raw, ok := r.raw("hooks")
	if !ok {
		return nil
	}
	config, err := hook.Parse(raw, "hooks")
	switch {
	case err != nil:
		r.fail("hooks", "value_error", "%s", fault.PublicText(err))
	case config.Empty():
		return nil
	}
	return config
}

// servers reads mcp_config, or mcp_servers, its older name.
func (r *reader) servers() *account.MCPConfig {
	name := "mcp_config"
	if r.get(name) == nil {
		name = "mcp_servers"
	}
	raw, ok := r.raw(name)
	if !ok {
		return nil
	}
	config, wrong := account.ParseMCPFile(raw)
	for _, f := range wrong {
		f.Loc = append([]any{name}, f.Loc...)
		f.Input = nil
		r.fields = append(r.fields, f)
	}
	if len(wrong) > 0 || config == nil || len(config.SSE)+len(config.Stdio)+len(config.SHTTP) == 0 {
		return nil
	}
	return config
}

// raw returns a member as JSON, if there is one.
func (r *reader) raw(name string) (json.RawMessage, bool) {
	v := r.get(name)
	if v == nil {
		return nil, false
	}
	raw, err := content.Marshal(v)
	if err != nil {
		r.fail(name, "value_error", "It cannot be written as JSON")
	}
	return raw, err == nil
}
