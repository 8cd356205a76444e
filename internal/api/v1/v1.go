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
	"parley/internal/collection"
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
	ShareLink(ctx context.Context, owner string, id conversation.ID, lasts time.Duration) (string, store.Share, error)
	ShareLinks(ctx context.Context, owner string, id conversation.ID) ([]store.Share, error)
	RevokeLink(ctx context.Context, owner string, id conversation.ID, share string) error
	Find(ctx context.Context, q store.TextQuery) (store.Page[engine.Found], error)
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
	BySessionKey(ctx context.Context, key string) (*store.Sandbox, error)
	Ensure(ctx context.Context, owner, id string, wake bool) (tool.Hands, error)
}

// Config makes the API.
type Config struct {
	Engine   Engine
	Fleet    Fleet
	Settings profiles.Store
	Keys     Keys
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
	Exposed  func(ctx context.Context, boxes []*store.Sandbox) []fleet.Exposed
	Previews *httpkit.Previews // nil = 501
	Network  NetworkLog        // nil = 501
	Git      Git               // nil = 501
	Webhooks Webhooks          // nil = 501
	// Terminals gives users terminals in their sandboxes, Auth knows the keys that their
	// sockets carry, and AuthWait is how long one waits for it (0 = 10 s); nil = 501.
	Terminals Terminals
	Auth      *httpkit.Authenticator
	AuthWait  time.Duration
	// Collection finds what is loaded of one of the server's collections; nil = there are none.
	Collection func(collection.Reference) ([]extension.Bundle, error)
	Heartbeat  time.Duration // of event streams, 0 = 10 s
	MaxBody    int64         // bytes, 0 = httpkit.DefaultMaxBody
}

type handlers struct {
	Config
	started time.Time
}

// New makes the API.
func New(cfg Config) (*httpkit.API, error) {
	h := &handlers{Config: cfg, started: time.Now().UTC()}
	return httpkit.NewAPI(httpkit.APIConfig{Name: "v1", Document: document, MaxBody: cfg.MaxBody,
		Encode: httpkit.DetailErrors, Encoders: map[string]httpkit.ErrorEncoder{
			"load_settings": settingsErrors, "store_settings": settingsErrors,
			"create_secret": secretErrors, "update_secret": secretErrors, "delete_secret": secretErrors,

			"search_git_installations": gitErrors, "search_git_repositories": gitErrors, "search_git_branches": gitErrors,
			"search_suggested_tasks": gitErrors, "get_git_info": gitErrors, "get_git_organizations": gitErrors,
			"store_git_providers": providerErrors, "delete_git_providers": providerErrors,
			"queue_pending_message": badRequestErrors,
		}, Authorizers: reporters(), Handlers: h.operations()})
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
