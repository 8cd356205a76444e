package settingswire

import (
	"parley/internal/account"
	"parley/internal/agent/condense"
)

// Form describes settings for the forms that clients build from it (agent protocol
// 1.8). Only what Parley acts on has a field.
type Form struct {
	Model    string    `json:"model_name"`
	Sections []Section `json:"sections"`
}

// Section is a group of fields.
type Section struct {
	Key     string  `json:"key"`
	Label   string  `json:"label"`
	Variant *string `json:"variant"` // null = for agents of all kinds
	Fields  []Field `json:"fields"`
}

// Field is one setting.
type Field struct {
	Key          string   `json:"key"` // path of the member, with dots
	Label        string   `json:"label"`
	Description  *string  `json:"description"`
	Section      string   `json:"section"`
	SectionLabel string   `json:"section_label"`
	Type         string   `json:"value_type"` // string, integer, number, boolean, array or object
	Default      any      `json:"default"`
	Prominence   string   `json:"prominence"` // critical, major or minor
	DependsOn    []string `json:"depends_on"` // paths of booleans that must be true
	Secret       bool     `json:"secret"`
	Choices      []Choice `json:"choices"`
	Variant      *string  `json:"variant"`
}

// Choice is a value that a field can have.
type Choice struct {
	Value any    `json:"value"`
	Label string `json:"label"`
}

// How much room a form gives a field.
const (
	critical = "critical"
	major    = "major"
	minor    = "minor"
)

func section(key, label string, fields ...Field) Section {
	for i := range fields {
		f := &fields[i]
		f.Section, f.SectionLabel = key, label
		f.DependsOn, f.Choices = append([]string{}, f.DependsOn...), append([]Choice{}, f.Choices...)
	}
	return Section{Key: key, Label: label, Fields: fields}
}

func text(s string) *string { return &s }

func choices(values ...string) []Choice {
	var out []Choice
	for _, v := range values {
		out = append(out, Choice{v, v})
	}
	return out
}

// AgentForm describes agent_settings.
func AgentForm() Form {
	return Form{Model: "AgentSettings", Sections: []Section{
		section("general", "General",
			Field{Key: "agent", Label: "Agent", Description: text("Name of the agent. Parley has one."), Type: "string", Default: defaultAgent, Prominence: minor},
			Field{Key: "enable_sub_agents", Label: "Enable sub-agents", Description: text("Agents may give tasks to sub-agents."),
				Type: "boolean", Default: false, Prominence: minor},
			Field{Key: "mcp_config", Label: "MCP servers", Description: text("Servers by name whose tools agents get."),
				Type: "object", Default: map[string]any{}, Prominence: minor}),
		llmSection(),
		section("condenser", "Condenser",
			Field{Key: "condenser.enabled", Label: "Enable memory condensation", Description: text("Long histories are summarized for the model."),
				Type: "boolean", Default: account.DefaultSettings().EnableDefaultCondenser, Prominence: critical},
			Field{Key: "condenser.max_size", Label: "Max size", Description: text("Events from which on a history is summarized, at least 20."),
				Type: "integer", Default: condense.DefaultMaxSize, Prominence: minor, DependsOn: []string{"condenser.enabled"}}),
	}}
}

func llmSection() Section {
	return section("llm", "LLM",
		Field{Key: "llm.model", Label: "Model", Description: text("As provider/model."), Type: "string", Prominence: critical},
		Field{Key: "llm.api_key", Label: "API key", Type: "string", Prominence: critical, Secret: true},
		Field{Key: "llm.base_url", Label: "Base URL", Description: text("Empty is the provider's own."), Type: "string", Prominence: critical},
		Field{Key: "llm.temperature", Label: "Temperature", Type: "number", Prominence: minor},
		Field{Key: "llm.top_p", Label: "Top p", Type: "number", Prominence: minor},
		Field{Key: "llm.max_input_tokens", Label: "Max input tokens", Description: text("Empty is what is known of the model."), Type: "integer", Prominence: minor},
		Field{Key: "llm.max_output_tokens", Label: "Max output tokens", Description: text("Empty is what is known of the model."), Type: "integer", Prominence: minor},
		Field{Key: "llm.reasoning_effort", Label: "Reasoning effort", Type: "string", Prominence: major,
			Choices: choices("none", "minimal", "low", "medium", "high", "xhigh")},
		Field{Key: "llm.api_mode", Label: "API", Type: "string", Prominence: minor, Choices: choices("auto", "chat", "responses")},
		Field{Key: "llm.native_tool_calling", Label: "Native tool calling", Type: "boolean", Prominence: minor},
		Field{Key: "llm.caching_prompt", Label: "Prompt caching", Type: "boolean", Default: true, Prominence: minor},
		Field{Key: "llm.disable_vision", Label: "Disable vision", Type: "boolean", Prominence: minor},
		Field{Key: "llm.num_retries", Label: "Attempts", Type: "integer", Prominence: minor},
		Field{Key: "llm.timeout", Label: "Timeout", Description: text("Seconds."), Type: "number", Prominence: minor},
		Field{Key: "llm.input_cost_per_token", Label: "Price of an input token", Description: text("US dollars; with the output's or not at all."), Type: "number", Prominence: minor},
		Field{Key: "llm.output_cost_per_token", Label: "Price of an output token", Type: "number", Prominence: minor})
}

// ConversationForm describes conversation_settings.
func ConversationForm() Form {
	return Form{Model: "ConversationSettings", Sections: []Section{
		section("general", "General",
			Field{Key: "max_iterations", Label: "Max iterations", Description: text("Steps of one run."), Type: "integer", Default: defaultIterations, Prominence: major}),
		section("verification", "Verification",
			Field{Key: "confirmation_mode", Label: "Confirmation mode", Description: text("Risky actions wait for the user."), Type: "boolean", Default: false, Prominence: critical},
			Field{Key: "security_analyzer", Label: "Security analyzer", Description: text("Who judges the risk of an action."), Type: "string",
				Prominence: major, DependsOn: []string{"confirmation_mode"}, Choices: choices("llm", "none")}),
	}}
}
