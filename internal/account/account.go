// Package account is the part of the domain that belongs to a user: the user,
// API keys, settings, MCP configuration and secrets; their validation and merge
// rules. Pure: no I/O, no wire format of a protocol version.
package account

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"sort"
	"strconv"
	"time"
)

// FirstUserID is the id of the user made at the first start.
const FirstUserID = "user-1"

// User owns settings, conversations and sandboxes.
type User struct {
	ID        string
	Name      string
	CreatedAt time.Time
}

// KeyHash is the SHA-256 of an API key: keys are random and long, so a plain
// hash is enough, and it can be looked up.
type KeyHash [sha256.Size]byte

// HashKey hashes a key for storage and look-up.
func HashKey(key string) KeyHash { return sha256.Sum256([]byte(key)) }

// NewKey makes a key of 256 random bits, with a prefix that names what it opens.
func NewKey(prefix string) string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// ProviderToken opens a git hosting provider.
type ProviderToken struct {
	Token  Secret  `json:"token"`
	Host   *string `json:"host"`
	UserID *string `json:"user_id"`
}

// CustomSecret is a named value that the user hands to the sandbox.
type CustomSecret struct {
	Value       Secret `json:"secret"`
	Description string `json:"description"`
}

// Secrets are a user's tokens and custom secrets.
type Secrets struct {
	ProviderTokens map[string]ProviderToken `json:"provider_tokens"`
	Custom         map[string]CustomSecret  `json:"custom_secrets"`
}

// EachSecret implements Sealable. What f changes is written back into the maps.
func (s *Secrets) EachSecret(f func(string, *Secret)) {
	for _, name := range sortedKeys(s.ProviderTokens) {
		t := s.ProviderTokens[name]
		if changed(f, "provider_tokens."+name, &t.Token) {
			s.ProviderTokens[name] = t
		}
	}
	for _, name := range sortedKeys(s.Custom) {
		c := s.Custom[name]
		if changed(f, "custom_secrets."+name, &c.Value) {
			s.Custom[name] = c
		}
	}
}

// changed calls f and reports whether it changed the secret: several readers may
// look at one map at a time, and a map that is written to stands none.
func changed(f func(string, *Secret), path string, s *Secret) bool {
	before := *s
	f(path, s)
	return *s != before
}

// Settings are a user's persisted settings for agent sessions
// (interface specification 2.1). Pointers are the nullable fields.
type Settings struct {
	Language                           *string    `json:"language"`
	Agent                              *string    `json:"agent"`
	MaxIterations                      *int       `json:"max_iterations"`
	SecurityAnalyzer                   *string    `json:"security_analyzer"`
	ConfirmationMode                   *bool      `json:"confirmation_mode"`
	LLMModel                           *string    `json:"llm_model"`
	LLMAPIKey                          Secret     `json:"llm_api_key"`
	LLMBaseURL                         *string    `json:"llm_base_url"`
	RemoteRuntimeResourceFactor        *int       `json:"remote_runtime_resource_factor"`
	EnableDefaultCondenser             bool       `json:"enable_default_condenser"`
	EnableSoundNotifications           bool       `json:"enable_sound_notifications"`
	EnableProactiveConversationStarter bool       `json:"enable_proactive_conversation_starters"`
	EnableSolvabilityAnalysis          bool       `json:"enable_solvability_analysis"`
	UserConsentsToAnalytics            *bool      `json:"user_consents_to_analytics"`
	SandboxBaseContainerImage          *string    `json:"sandbox_base_container_image"`
	SandboxRuntimeContainerImage       *string    `json:"sandbox_runtime_container_image"`
	MCP                                *MCPConfig `json:"mcp_config"`
	SearchAPIKey                       Secret     `json:"search_api_key"`
	SandboxAPIKey                      Secret     `json:"sandbox_api_key"`
	MaxBudgetPerTask                   *float64   `json:"max_budget_per_task"`
	CondenserMaxSize                   *int       `json:"condenser_max_size"`
	Email                              *string    `json:"email"`
	EmailVerified                      *bool      `json:"email_verified"`
	GitUserName                        *string    `json:"git_user_name"`
	GitUserEmail                       *string    `json:"git_user_email"`
	V1Enabled                          *bool      `json:"v1_enabled"`
	Secrets                            Secrets    `json:"secrets_store"`
	// SecretsOnly says that nobody stored settings yet: they are there for the secrets.
	SecretsOnly bool `json:"secrets_only,omitempty"`
	// Tuning is what a profile says beyond the three fields above; see LLM.
	Tuning        *LLM           `json:"llm,omitempty"`
	Profiles      map[string]LLM `json:"llm_profiles,omitempty"` // by name
	ActiveProfile string         `json:"active_profile,omitempty"`
	// TitleProfile names the profile that titles are made with; "" = the
	// conversation's own model.
	TitleProfile string `json:"title_llm_profile,omitempty"`
	// DisabledSkills are names of skills that no conversation gets.
	DisabledSkills []string `json:"disabled_skills,omitempty"`
	// SubAgents lets agents give tasks to sub-agents; nil = only where definitions of
	// such agents were brought along.
	SubAgents *bool `json:"enable_sub_agents,omitempty"`
	// DefaultSandboxSpec is the id of the sandbox template for conversations that
	// name none; "" and one that is gone mean the server's first.
	DefaultSandboxSpec string `json:"default_sandbox_spec_id,omitempty"`
	// AgentProfiles are agents by name, and ActiveAgentProfile the id of the one that
	// clients offer first; "" = none.
	AgentProfiles      map[string]AgentProfile `json:"agent_profiles,omitempty"`
	ActiveAgentProfile string                  `json:"active_agent_profile,omitempty"`
	// GitFullClone gets the whole history of repositories; nil and false are the newest
	// commit only.
	GitFullClone *bool `json:"git_full_clone,omitempty"`
	// Kept is an object of members that Parley keeps for its clients and does not
	// act on. It holds no secrets. What it means is up to the API that writes it.
	Kept json.RawMessage `json:"kept,omitempty"`
}

// Stored reports whether anything but secrets was ever stored.
func (s *Settings) Stored() bool {
	if !s.SecretsOnly {
		return true
	}
	rest := *s
	rest.SecretsOnly, rest.Secrets = false, Secrets{}
	return !reflect.DeepEqual(&rest, DefaultSettings())
}

// EachSecret implements Sealable.
func (s *Settings) EachSecret(f func(string, *Secret)) {
	f("llm_api_key", &s.LLMAPIKey)
	f("search_api_key", &s.SearchAPIKey)
	f("sandbox_api_key", &s.SandboxAPIKey)
	s.Secrets.EachSecret(f)
	if s.Tuning != nil {
		s.Tuning.EachSecret(func(p string, x *Secret) { f("llm."+p, x) })
	}
	for _, name := range sortedKeys(s.Profiles) {
		l := s.Profiles[name]
		l.EachSecret(func(p string, x *Secret) { f("llm_profiles."+name+"."+p, x) })
		s.Profiles[name] = l
	}
	if s.MCP != nil {
		s.MCP.EachSecret(func(p string, x *Secret) { f("mcp_config."+p, x) })
	}
}

// MCPConfig lists the MCP servers of a user or a conversation
// (interface specification 2.2).
type MCPConfig struct {
	SSE   []MCPHTTPServer  `json:"sse_servers"`
	Stdio []MCPStdioServer `json:"stdio_servers"`
	SHTTP []MCPHTTPServer  `json:"shttp_servers"`
}

// MCPHTTPServer is reached over SSE or streamable HTTP.
type MCPHTTPServer struct {
	Name    string `json:"name,omitempty"` // "" = only its place in the list tells it apart
	URL     string `json:"url"`
	APIKey  Secret `json:"api_key"`           // a bearer token
	Timeout *int   `json:"timeout,omitempty"` // seconds, 1..3600
	// Headers are sent with every request. Values may name secrets: ${NAME}.
	Headers map[string]Secret `json:"headers,omitempty"`
	Auth    *MCPAuth          `json:"auth,omitempty"` // beyond APIKey; nil = none
	MCPCommon
}

// Strategies of an MCPAuth.
const (
	MCPAuthAPIKey = "api_key" // Value in Header, X-API-Key if that is ""
	MCPAuthBasic  = "basic"   // Username and Value
	MCPAuthHeader = "header"  // Headers
	MCPAuthOAuth  = "oauth2"  // what the OAuth flow stored
)

// MCPAuth is how a remote MCP server knows its user. A plain bearer token is the
// server's APIKey.
type MCPAuth struct {
	Strategy string            `json:"strategy"`
	Header   string            `json:"header_name,omitempty"`
	Username string            `json:"username,omitempty"`
	Value    Secret            `json:"value"`
	Headers  map[string]Secret `json:"headers,omitempty"`
	OAuth    *MCPOAuth         `json:"oauth,omitempty"` // set with MCPAuthOAuth
}

// MCPOAuth is what a user configures for OAuth; what the flow brings is stored apart
// (store.Extensions, credentials).
type MCPOAuth struct {
	ClientID     string   `json:"client_id,omitempty"` // "" = registered dynamically
	ClientSecret Secret   `json:"client_secret"`
	ClientAuth   string   `json:"client_auth_method,omitempty"` // none, client_secret_post, client_secret_basic; "" = as the server says
	ClientName   string   `json:"client_name,omitempty"`
	MetadataURL  string   `json:"client_metadata_url,omitempty"`
	Scopes       []string `json:"scopes,omitempty"` // nil = as the server says
	// Registration are further members of a dynamic registration, a JSON object.
	Registration json.RawMessage `json:"additional_client_metadata,omitempty"`
	// State is the result of a login that a client brought along, a JSON object: what
	// it has of access_token, refresh_token, token_expires_at (seconds since the
	// epoch), client_id and client_secret. Of use until a login here replaces it.
	State Secret `json:"state"`
}

// MCPStdioServer is started inside the sandbox.
type MCPStdioServer struct {
	Name    string            `json:"name"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]Secret `json:"env"`               // values often are keys: treated as secrets. They may name secrets: ${NAME}
	Cwd     string            `json:"cwd,omitempty"`     // "" = the conversation's working directory
	Timeout *int              `json:"timeout,omitempty"` // of one call, seconds, 1..3600
	MCPCommon
}

// MCPCommon is what servers of all kinds have.
type MCPCommon struct {
	Disabled bool `json:"disabled,omitempty"` // kept, but no conversation gets it
	// Rest are members that are kept for clients and have no effect.
	Rest map[string]json.RawMessage `json:"rest,omitempty"`
}

// EachSecret implements Sealable. Map values are written back.
func (c *MCPConfig) EachSecret(f func(string, *Secret)) {
	for i := range c.SSE {
		c.SSE[i].eachSecret("sse_servers."+strconv.Itoa(i), f)
	}
	for i := range c.SHTTP {
		c.SHTTP[i].eachSecret("shttp_servers."+strconv.Itoa(i), f)
	}
	for i := range c.Stdio {
		for _, k := range sortedKeys(c.Stdio[i].Env) {
			v := c.Stdio[i].Env[k]
			if changed(f, "stdio_servers."+strconv.Itoa(i)+"."+k, &v) {
				c.Stdio[i].Env[k] = v
			}
		}
	}
}

func (s *MCPHTTPServer) eachSecret(path string, f func(string, *Secret)) {
	f(path, &s.APIKey)
	eachHeader(s.Headers, path+".headers.", f)
	if s.Auth == nil {
		return
	}
	f(path+".auth", &s.Auth.Value)
	eachHeader(s.Auth.Headers, path+".auth.headers.", f)
	if s.Auth.OAuth != nil {
		f(path+".auth.client_secret", &s.Auth.OAuth.ClientSecret)
		f(path+".auth.state", &s.Auth.OAuth.State)
	}
}

func eachHeader(headers map[string]Secret, path string, f func(string, *Secret)) {
	for _, name := range sortedKeys(headers) {
		v := headers[name]
		if changed(f, path+name, &v) {
			headers[name] = v
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
