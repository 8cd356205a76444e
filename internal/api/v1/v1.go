// Package v1 is the V1 application API (/api/v1/...): an encoder and decoder
// over the engine and the fleet. openapi.yaml is its definition; what it cannot
// say (which page a page id opens, what is null when) is in the handlers. It
// keeps no state.
package v1

import (
	"context"
	_ "embed" // the document
	"fmt"
	"net/http"
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/api/profiles"
	"parley/internal/content"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/extension"
	"parley/internal/fault"
	"parley/internal/fleet"
	"parley/internal/llm"
	"parley/internal/sandbox"
	"parley/internal/skill"
	"parley/internal/store"
	"parley/internal/stream"
	"parley/internal/tool"
)

//go:embed openapi.yaml
var document []byte

// maxBatch bounds how many things one request asks for by id.
const maxBatch = 100

// Engine is what the API needs of the application service.
type Engine interface {
	Start(ctx context.Context, req engine.StartRequest) (*conversation.StartTask, error)
	Fork(ctx context.Context, owner string, id conversation.ID, req engine.ForkRequest) (*engine.View, error)
	NetworkLogOf(ctx context.Context, owner string, id conversation.ID) (sandboxID string, err error)
	Send(ctx context.Context, owner string, id conversation.ID, m engine.Message) error
	Delete(ctx context.Context, owner string, id conversation.ID) error
	Patch(ctx context.Context, owner string, id conversation.ID,
		change func(*conversation.Conversation) error) (*engine.View, error)
	View(ctx context.Context, owner string, id conversation.ID) (*engine.View, error)
	Views(ctx context.Context, owner string, ids []conversation.ID) ([]*engine.View, error)
	Children(ctx context.Context, owner string, parents []conversation.ID) (map[conversation.ID][]conversation.ID, error)
	Search(ctx context.Context, q store.ConversationQuery) (store.Page[*engine.View], error)
	Count(ctx context.Context, q store.ConversationQuery) (int, error)
	Task(ctx context.Context, owner string, ids []string) ([]*conversation.StartTask, error)
	SearchTasks(ctx context.Context, q store.TaskQuery) (store.Page[*conversation.StartTask], error)
	CountTasks(ctx context.Context, q store.TaskQuery) (int, error)
	LatestTask(ctx context.Context, id conversation.ID) (*conversation.StartTask, error)
	SwitchProfile(ctx context.Context, owner string, id conversation.ID, name string) error
	Probe(ctx context.Context, owner string, l account.LLM) engine.ProbeResult
	Usage(ctx context.Context, owner, from, to string) ([]store.SpendingRow, error)
	ConversationUsage(ctx context.Context, owner string, id conversation.ID) (engine.ConversationUsage, error)
	Extensions(ctx context.Context, owner string, id conversation.ID) (engine.Extensions, error)
	Shared(ctx context.Context, owner string) ([]extension.Bundle, error)
	Skills(ctx context.Context, owner string) ([]store.UserSkill, error)
	PutSkill(ctx context.Context, owner, name, text string) (skill.Skill, error)
	DeleteSkill(ctx context.Context, owner, name string) error
	Trust(ctx context.Context, owner string, id conversation.ID, subject, hash string, trusted bool) error
	Decisions(ctx context.Context, owner string) ([]extension.Decision, error)
	Forget(ctx context.Context, owner, subject string) error
	TestServer(ctx context.Context, owner, sandboxID string, server tool.Server, call *tool.ServerCall) (tool.ServerReport, error)
	Queue(ctx context.Context, owner, ref string, parts []content.Part) (engine.Queued, error)
	// MaskOf hides the secrets that a conversation knows now.
	MaskOf(ctx context.Context, owner string, id conversation.ID) (func(string) string, error)
	ReportAgent(ctx context.Context, owner, name string) (*engine.AgentReport, error)
	Log() store.Events
	Follow(ctx context.Context, owner string, id conversation.ID, after int64) (*stream.Follower, error)
}

// Fleet is what the API needs of the sandboxes.
type Fleet interface {
	Start(ctx context.Context, req fleet.StartRequest) (*store.Sandbox, error)
	Pause(ctx context.Context, owner, id string) error
	Resume(ctx context.Context, owner, id string) error
	Delete(ctx context.Context, owner, id string) error
	Batch(ctx context.Context, owner string, ids []string) ([]*store.Sandbox, error)
	Search(ctx context.Context, q store.SandboxQuery) (store.Page[*store.Sandbox], error)
	Specs() []fleet.Spec
	Usage(ctx context.Context, owner, id string) (sandbox.Usage, error)
	LimitsOf(s *store.Sandbox) (sandbox.Limits, error)
	Ensure(ctx context.Context, owner, id string, wake bool) (tool.Hands, error)
}

// Config makes the API.
type Config struct {
	Engine   Engine
	Fleet    Fleet
	Settings profiles.Store
	URLs     *httpkit.URLs
	Streams  *httpkit.Streams
	// FullState renders the whole state of a conversation for live streams, in the
	// agent-server protocol's form.
	FullState   func(*engine.View) any
	Models      func() []llm.Offer   // that users can choose, sorted by id; nil = none
	Details     func() []llm.Details // the same with what is known of them
	DailyBudget *conversation.Money  // the ceiling of one user's day; nil = none
	OAuth       httpkit.Logins       // at MCP servers; nil = 501
	// Exposed says what programs in sandboxes offer, in their order; nil = nothing.
	Exposed   func(ctx context.Context, boxes []*store.Sandbox) []fleet.Exposed
	Previews  *httpkit.Previews // nil = 501
	Network   NetworkLog        // nil = 501
	Git       Git               // nil = 501
	Webhooks  Webhooks          // nil = 501
	Heartbeat time.Duration     // of event streams, 0 = 10 s
	MaxBody   int64             // bytes, 0 = httpkit.DefaultMaxBody
}

type handlers struct{ Config }

// New makes the API.
func New(cfg Config) (*httpkit.API, error) {
	h := &handlers{cfg}
	return httpkit.NewAPI(httpkit.APIConfig{Name: "v1", Document: document, MaxBody: cfg.MaxBody,
		Encode: httpkit.DetailErrors, Encoders: withGitEncoders(map[string]httpkit.ErrorEncoder{
			"load_settings": settingsErrors, "store_settings": settingsErrors,
			"queue_pending_message": badRequestErrors,
		}), Handlers: h.withGitRoutes(httpkit.Handlers{
			"list_app_conversations":        h.listConversations,
			"search_app_conversations":      h.searchConversations,
			"count_app_conversations":       h.countConversations,
			"get_app_conversation":          h.getConversation,
			"update_app_conversation":       h.updateConversation,
			"delete_app_conversation":       h.deleteConversation,
			"send_message":                  h.sendMessage,
			"start_app_conversation":        h.start,
			"stream_app_conversation_start": h.streamStart,
			"get_start_tasks":               h.getTasks,
			"search_start_tasks":            h.searchTasks,
			"count_start_tasks":             h.countTasks,
			"get_sandboxes":                 h.getSandboxes,
			"start_sandbox":                 h.startSandbox,
			"search_sandboxes":              h.searchSandboxes,
			"delete_sandbox":                h.deleteSandbox,
			"pause_sandbox":                 h.pauseSandbox,
			"resume_sandbox":                h.resumeSandbox,
			"get_sandbox_network":           h.sandboxNetwork,
			"get_sandbox_usage":             h.sandboxUsage,
			"make_preview_ticket":           h.previewTicket,
			"get_conversation_network":      h.conversationNetwork,
			"read_conversation_file":        h.readFile,
			"list_conversation_files":       h.listFiles,
			"get_conversation_git_changes":  h.gitChanges,
			"get_conversation_git_diff":     h.gitDiff,
			"fork_conversation":             h.fork,
			"get_sandbox_specs":             h.getSpecs,
			"search_sandbox_specs":          h.searchSpecs,
			"get_events":                    h.getEvents,
			"search_events":                 h.searchEvents,
			"count_events":                  h.countEvents,
			"stream_events":                 h.streamEvents,
			"get_events_legacy":             h.getEvents,
			"search_events_legacy":          h.searchEvents,
			"count_events_legacy":           h.countEvents,
			"search_models":                 h.searchModels,
			"search_providers":              h.searchProviders,
			"search_model_details":          h.searchDetails,
			"load_settings":                 h.loadSettings,
			"store_settings":                h.storeSettings,
			"list_profiles":                 h.listProfiles,
			"get_profile":                   h.getProfile,
			"save_profile":                  h.saveProfile,
			"delete_profile":                h.deleteProfile,
			"activate_profile":              h.activateProfile,
			"rename_profile":                h.renameProfile,
			"test_profile":                  h.testProfile,
			"test_llm":                      h.testLLM,
			"switch_conversation_profile":   h.switchProfile,
			"get_conversation_usage":        h.conversationUsage,
			"get_usage":                     h.usage,
			"get_conversation_skills":       h.conversationSkills,
			"get_conversation_hooks":        h.conversationHooks,
			"get_trust_questions":           h.trustQuestions,
			"decide_trust":                  h.decideTrust,
			"list_trust":                    h.listTrust,
			"forget_trust":                  h.forgetTrust,
			"search_skills":                 h.searchSkills,
			"get_skill":                     h.getSkill,
			"put_skill":                     h.putSkill,
			"delete_skill":                  h.deleteSkill,
			"test_mcp_server":               h.testServer,
			"start_mcp_login":               h.startLogin,
			"get_mcp_login":                 h.loginStatus,
			"finish_mcp_login":              h.finishLogin,

			"download_conversation":     h.download,
			"list_agent_profiles":       h.agents().List,
			"get_agent_profile":         h.agents().Get,
			"save_agent_profile":        h.agents().Save,
			"delete_agent_profile":      h.agents().Delete,
			"rename_agent_profile":      h.agents().Rename,
			"activate_agent_profile":    h.agents().Activate,
			"materialize_agent_profile": h.agents().Materialize,

			"create_webhook":            h.createWebhook,
			"search_webhooks":           h.searchWebhooks,
			"get_webhook":               h.getWebhook,
			"update_webhook":            h.updateWebhook,
			"delete_webhook":            h.deleteWebhook,
			"search_webhook_deliveries": h.searchDeliveries,
			"replay_webhook":            h.replayWebhook,
			"test_webhook":              h.testWebhook,
			"queue_pending_message":     h.queueMessage,

			"switch_conversation_acp_model": h.switchACPModel,
		})})
}

// page is one page of any list.
type page[T any] struct {
	Items      []T     `json:"items"`
	NextPageID *string `json:"next_page_id"`
}

func writePage[T any](w http.ResponseWriter, items []T, next string) error {
	if items == nil {
		items = []T{}
	}
	return httpkit.JSON(w, http.StatusOK, page[T]{items, orNull(next)})
}

type success struct {
	Success bool `json:"success"`
}

func writeSuccess(w http.ResponseWriter) error {
	return httpkit.JSON(w, http.StatusOK, success{true})
}

// orNull renders "" as null.
func orNull[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	text := string(s)
	return &text
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// checkBatch refuses a request for more than maxBatch things.
func checkBatch(ids []string) error {
	if len(ids) > maxBatch {
		return fault.New(fault.Invalid, "too_many_ids", "At most %d ids can be asked for at once, not %d.", maxBatch, len(ids))
	}
	return nil
}

// parseTime reads a filter that the document has checked already.
func parseTime(text *string) (time.Time, error) {
	if text == nil {
		return time.Time{}, nil
	}
	t, _, err := httpkit.ParseTime(*text)
	if err != nil {
		return time.Time{}, fmt.Errorf("checked time: %w", err)
	}
	return t, nil
}
