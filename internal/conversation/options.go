package conversation

import (
	"encoding/json"
	"strconv"

	"parley/internal/account"
	"parley/internal/extension"
)

// Options say how the agent runs. They are fixed when the conversation starts,
// but for the model, the confirmation policy and the analyzer, which can be
// switched. They hold secrets and are stored sealed.
type Options struct {
	LLM account.LLM `json:"llm"`
	// LLMProfile names the profile that LLM is a copy of; "" = none. As long as
	// the owner has it, the profile counts, not the copy.
	LLMProfile string `json:"llm_profile,omitempty"`
	// OwnKey says that the key came with LLM: one in the settings does not replace it.
	OwnKey        bool     `json:"llm_own_key,omitempty"`
	MaxIterations int      `json:"max_iterations"` // steps per run, >= 1
	MaxBudget     *float64 `json:"max_budget"`     // USD, nil = no ceiling; of the settings at the start
	// ConfirmationMode and SecurityAnalyzer are what the settings said at the start;
	// Confirmation and Analyzer, where set, count in their place.
	ConfirmationMode bool                            `json:"confirmation_mode"`
	SecurityAnalyzer string                          `json:"security_analyzer"`
	Confirmation     *ConfirmationPolicy             `json:"confirmation_policy,omitempty"`
	Analyzer         *Analyzer                       `json:"analyzer,omitempty"`
	Tools            []string                        `json:"tools,omitempty"` // names; empty = the default set
	ClientTools      []ClientTool                    `json:"client_tools,omitempty"`
	ToolConcurrency  int                             `json:"tool_concurrency,omitempty"` // calls of one answer at a time; 0 = the engine's default
	Stuck            *StuckDetection                 `json:"stuck,omitempty"`            // nil = on, with the default thresholds
	Condenser        *Condenser                      `json:"condenser,omitempty"`        // nil = the default one
	Critic           *Critic                         `json:"critic,omitempty"`           // nil = none
	SystemSuffix     string                          `json:"system_suffix"`              // appended to the system prompt
	WorkingDir       string                          `json:"working_dir"`                // inside the sandbox; "" until the start got there
	AskedDir         string                          `json:"asked_dir,omitempty"`        // that the start asked for; "" = none
	Worktree         bool                            `json:"worktree,omitempty"`         // it works in a git worktree of its own
	OwnDir           bool                            `json:"own_dir,omitempty"`          // below the sandbox's, which others may share
	MCP              *account.MCPConfig              `json:"mcp"`
	SettingsMCP      bool                            `json:"settings_mcp,omitempty"` // MCP is what the settings say
	StartBranch      *string                         `json:"start_branch,omitempty"` // before the conversation's followed the agent; nil = it did not yet
	Secrets          map[string]account.CustomSecret `json:"secrets"`
	SecretNotes      map[string]string               `json:"secret_notes,omitempty"` // what was said at the start about the user's secrets, by name
	OldSecrets       []account.Secret                `json:"old_secrets,omitempty"`  // replaced ones, which programs may still know: masked, and nothing else
	GitUserName      string                          `json:"git_user_name"`
	FullClone        bool                            `json:"full_clone,omitempty"` // the repository's whole history
	GitUserEmail     string                          `json:"git_user_email"`
	Demo             bool                            `json:"demo"`    // driven by the scripted model
	SpecID           string                          `json:"spec_id"` // sandbox template asked for
	Sandbox          SandboxWish                     `json:"sandbox"`
	HostDir          string                          `json:"host_dir"` // directory of the server's machine to work in
	NoTitle          bool                            `json:"no_title,omitempty"`
	TitleProfile     string                          `json:"title_profile,omitempty"` // of the owner; "" = the settings'
	// Brought is what the request brings: skills, hooks, agents. The start moves it to
	// the conversation's bundles.
	Brought        *extension.Bundle `json:"brought,omitempty"`
	NoProject      bool              `json:"no_project,omitempty"` // skills of the working directory are not loaded
	Plugins        []Plugin          `json:"plugins,omitempty"`
	ToolFilter     string            `json:"tool_filter,omitempty"`     // expression that names of tools must begin with; "" = any
	DisabledSkills []string          `json:"disabled_skills,omitempty"` // names
	UserSuffix     string            `json:"user_suffix,omitempty"`     // added to each message of the user's, for the model
	Task           *Task             `json:"task,omitempty"`            // of a sub-agent; nil = it is none
	// LaunchedProfile is the agent profile that it was started with; nil = none.
	LaunchedProfile *LaunchedProfile `json:"launched_agent_profile,omitempty"`
	// Imported says that the log began on another server; nil = it did not.
	Imported *Imported `json:"imported,omitempty"`
}

// Imported is what a conversation was like when it was imported.
type Imported struct {
	UserMessage string `json:"last_user_message"` // id of the user's last message; "" = there was none
}

// LaunchedProfile names an agent profile as it was at a start.
type LaunchedProfile struct {
	ID       string `json:"agent_profile_id"` // a dashed UUID
	Revision int    `json:"revision"`
}

// SandboxWish is what a conversation's sandbox has different from its template.
type SandboxWish struct {
	Image   string         `json:"image,omitempty"`   // container image; "" = the template's
	Factor  float64        `json:"factor,omitempty"`  // of the template's limits; 0 = 1
	Network *NetworkPolicy `json:"network,omitempty"` // within the template's; nil = the template's
}

// NetworkPolicy says what a sandbox may reach.
type NetworkPolicy struct {
	Mode  string   `json:"mode"`            // "open", "allow", "none"
	Allow []string `json:"allow,omitempty"` // hosts, addresses, networks
}

// Plugin names a plugin to load.
type Plugin struct {
	// Source is "github:owner/repo", an https address of a git repository, or a
	// directory inside the sandbox.
	Source     string         `json:"source"`
	Ref        string         `json:"ref,omitempty"`       // branch, tag or commit
	Path       string         `json:"repo_path,omitempty"` // of the plugin in its repository
	Parameters map[string]any `json:"parameters,omitempty"`
}

// Task makes a conversation that of a sub-agent.
type Task struct {
	ID          string  `json:"id"`    // "task_00000001", unique below its parent
	Agent       string  `json:"agent"` // name of its definition
	Description string  `json:"description,omitempty"`
	Depth       int     `json:"depth"`                // 1 below a conversation of the user's
	Prompt      string  `json:"prompt,omitempty"`     // of the definition
	Untrusted   bool    `json:"untrusted,omitempty"`  // the definition is a repository's
	MaxBudget   float64 `json:"max_budget,omitempty"` // USD per run; 0 = only the tree's
}

// EachSecret implements account.Sealable.
func (o *Options) EachSecret(f func(string, *account.Secret)) {
	o.LLM.EachSecret(func(p string, s *account.Secret) { f("llm."+p, s) })
	o.Condenser.eachSecret("condenser", f)
	if o.MCP != nil {
		o.MCP.EachSecret(func(p string, s *account.Secret) { f("mcp."+p, s) })
	}
	if o.Brought != nil {
		o.Brought.EachSecret(func(p string, s *account.Secret) { f("brought."+p, s) })
	}
	for i := range o.OldSecrets {
		f("old_secrets."+strconv.Itoa(i), &o.OldSecrets[i])
	}
	custom := account.Secrets{Custom: o.Secrets}
	custom.EachSecret(func(p string, s *account.Secret) { f("secrets."+p, s) })
}

// Risks of an action, from the least.
const (
	RiskUnknown = "UNKNOWN" // nobody judged it
	RiskLow     = "LOW"
	RiskMedium  = "MEDIUM"
	RiskHigh    = "HIGH"
)

// Kinds of a ConfirmationPolicy.
const (
	NeverConfirm  = "NeverConfirm"
	AlwaysConfirm = "AlwaysConfirm"
	ConfirmRisky  = "ConfirmRisky"
)

// ConfirmationPolicy says which actions wait for the user (agent protocol 4.4).
type ConfirmationPolicy struct {
	Kind string `json:"kind"`
	// Threshold is the least risk that ConfirmRisky asks for, LOW, MEDIUM or HIGH;
	// "" = HIGH.
	Threshold string `json:"threshold,omitempty"`
	// ConfirmUnknown makes ConfirmRisky ask for what nobody judged; nil = true.
	ConfirmUnknown *bool `json:"confirm_unknown,omitempty"`
}

// Kinds of an Analyzer.
const (
	AnalyzerLLM      = "LLMSecurityAnalyzer"        // the model's own label
	AnalyzerPattern  = "PatternSecurityAnalyzer"    // patterns of dangerous commands and injections
	AnalyzerRails    = "PolicyRailSecurityAnalyzer" // a few things that are always dangerous
	AnalyzerEnsemble = "EnsembleSecurityAnalyzer"   // the highest risk that one of several sees
)

// Analyzer says who judges the risk of actions (agent protocol 4.4).
type Analyzer struct {
	Kind      string     `json:"kind"`
	Analyzers []Analyzer `json:"analyzers,omitempty"` // of an ensemble
	// PropagateUnknown makes an ensemble say UNKNOWN as soon as one of its analyzers
	// does, unless another one says more.
	PropagateUnknown bool `json:"propagate_unknown,omitempty"`
}

// ClientTool is a tool that the client carries out: the model's call is answered
// at once, and the client reads it from the log (agent protocol 5).
type ClientTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema of an object
	Annotations json.RawMessage `json:"annotations,omitempty"`
}

// StuckDetection says when an agent that repeats itself is stopped. Thresholds of
// 0 are the protocol's (4.5).
type StuckDetection struct {
	Off               bool `json:"off,omitempty"`
	ActionObservation int  `json:"action_observation,omitempty"`  // equal actions with equal results, 4
	ActionError       int  `json:"action_error,omitempty"`        // equal actions with errors, 3
	Monologue         int  `json:"monologue,omitempty"`           // messages of the agent in a row, 3
	Alternating       int  `json:"alternating_pattern,omitempty"` // two pairs taking turns, 6
}

// Kinds of a Condenser.
const (
	CondenserSummarizing = "LLMSummarizingCondenser"
	CondenserNone        = "NoOpCondenser"
	CondenserPipeline    = "PipelineCondenser"
)

// Condenser says when old events are replaced by a summary for the model (agent
// protocol 4.6). Zero members are the defaults; see agent/condense.
type Condenser struct {
	Kind            string       `json:"kind"`
	LLM             *account.LLM `json:"llm,omitempty"`              // that summarises; nil = the agent's
	MaxSize         int          `json:"max_size,omitempty"`         // events the model reads at most
	MaxTokens       int64        `json:"max_tokens,omitempty"`       // tokens the model reads at most; 0 = its window
	KeepFirst       *int         `json:"keep_first,omitempty"`       // events at the start that stay
	MinimumProgress *float64     `json:"minimum_progress,omitempty"` // part of the events that must go, 0..1
	ResetRetries    *int         `json:"hard_context_reset_max_retries,omitempty"`
	ResetScaling    *float64     `json:"hard_context_reset_context_scaling,omitempty"` // 0..1
	Condensers      []Condenser  `json:"condensers,omitempty"`                         // of a pipeline
}

func (c *Condenser) eachSecret(path string, f func(string, *account.Secret)) {
	if c == nil {
		return
	}
	if c.LLM != nil {
		c.LLM.EachSecret(func(p string, s *account.Secret) { f(path+".llm."+p, s) })
	}
	for i := range c.Condensers {
		c.Condensers[i].eachSecret(path+".condensers", f)
	}
}

// Kinds of a Critic.
const (
	CriticPass       = "PassCritic"          // content with everything
	CriticFinished   = "AgentFinishedCritic" // wants a call of finish
	CriticEmptyPatch = "EmptyPatchCritic"    // wants a change of the repository
	CriticModel      = "LLMCritic"           // asks the model whether the task is done; Parley's own
)

// Critic judges what the agent did, and sends it back to work where that is not
// good enough (agent protocol 4.7).
type Critic struct {
	Kind string `json:"kind"`
	// Mode is "finish_and_message" (the default) or "all_actions".
	Mode       string      `json:"mode,omitempty"`
	Refinement *Refinement `json:"iterative_refinement,omitempty"` // nil = the result is only shown
}

// Refinement sends the agent back to work. Zero members are the defaults.
type Refinement struct {
	SuccessThreshold float64 `json:"success_threshold,omitempty"` // score from which on it is good enough, 0..1; 0.6
	MaxIterations    int     `json:"max_iterations,omitempty"`    // 3
}
