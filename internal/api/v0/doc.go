// Package v0 serves the legacy API: settings, conversations and their events
// under /api. It is a thin adaptor over the engine: requests become commands,
// and events are a projection of the one log (package projection) whose integer
// ids are given once and stored.
//
// What it promises: the documented shapes, byte-exact where clients key on them,
// and ids from 0 without gaps that never change. What it does not do: it keeps no
// state of its own besides those numbers, and it never appends to a log.
package v0

import (
	"context"
	_ "embed" // the OpenAPI document
	"log/slog"
	"maps"
	"net/http"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/llm"
	"parley/internal/store"
)

//go:embed openapi.yaml
var document []byte

// Engine is what the legacy API asks of the engine.
type Engine interface {
	Start(ctx context.Context, req engine.StartRequest) (*conversation.StartTask, error)
	Resume(ctx context.Context, owner string, id conversation.ID) error
	Send(ctx context.Context, owner string, id conversation.ID, m engine.Message) error
	Run(ctx context.Context, owner string, id conversation.ID) error
	Pause(ctx context.Context, owner string, id conversation.ID) error
	Interrupt(ctx context.Context, owner string, id conversation.ID) error
	Confirm(ctx context.Context, owner string, id conversation.ID, accept bool, reason string) error
	Delete(ctx context.Context, owner string, id conversation.ID) error
	Patch(ctx context.Context, owner string, id conversation.ID, change func(*conversation.Conversation) error) (*engine.View, error)
	View(ctx context.Context, owner string, id conversation.ID) (*engine.View, error)
	Search(ctx context.Context, q store.ConversationQuery) (store.Page[*engine.View], error)
	LatestTask(ctx context.Context, id conversation.ID) (*conversation.StartTask, error)
	Extensions(ctx context.Context, owner string, id conversation.ID) (engine.Extensions, error)
}

// Fleet pauses sandboxes.
type Fleet interface {
	Pause(ctx context.Context, owner, id string) error
}

// Settings keeps a user's settings.
type Settings interface {
	Settings(ctx context.Context, userID string) (*account.Settings, error)
	UpdateSettings(ctx context.Context, userID string,
		change func(old *account.Settings) (*account.Settings, error)) error
}

// Config wires the API. All members are required, but for Models, Git and Log.
type Config struct {
	Engine      Engine
	Fleet       Fleet
	Settings    Settings
	Events      EventLog
	Projections store.Projections
	URLs        *httpkit.URLs
	Models      func() []llm.Offer // that users can choose
	Git         Git                // nil = nobody is asked
	Log         *slog.Logger       // nil = none

	Sandboxes Sandboxes
	MaxUpload int64 // bytes of one file, 0 = 1 GiB
}

type handlers struct {
	engine   Engine
	fleet    Fleet
	settings Settings
	ledger   *ledger
	urls     *httpkit.URLs
	models   func() []llm.Offer
	git      Git
	log      *slog.Logger

	sandboxes Sandboxes
	maxUpload int64
	launches  turns
}

// New returns the API.
func New(cfg Config) (*httpkit.API, error) {
	h := &handlers{engine: cfg.Engine, fleet: cfg.Fleet, settings: cfg.Settings, urls: cfg.URLs,
		ledger: newLedger(cfg.Events, cfg.Projections), models: cfg.Models, git: cfg.Git, log: cfg.Log,
		sandboxes: cfg.Sandboxes, maxUpload: cfg.MaxUpload}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	return httpkit.NewAPI(httpkit.APIConfig{
		Name:     "v0",
		Document: document,
		Respell:  joinName,
		Encode:   detailErrors,
		Encoders: joinEncoders(secretEncoders(), providerEncoders(), userEncoders(), workspaceEncoders(), map[string]httpkit.ErrorEncoder{
			"load_settings":       settingsErrors,
			"store_settings":      settingsErrors,
			"new_conversation":    creationErrors,
			"update_conversation": statusErrors("CONVERSATION$UPDATE_ERROR"),
			"start_conversation":  statusErrors(""),
			"stop_conversation":   statusErrors(""),
			"add_message":         successErrors,
			"get_microagents":     microagentErrors,
		}),
		Handlers: httpkit.JoinHandlers(h.secretHandlers(), h.providerHandlers(), h.userHandlers(), h.workspaceHandlers(), httpkit.Handlers{
			"load_settings":             h.loadSettings,
			"store_settings":            h.storeSettings,
			"new_conversation":          h.create,
			"search_conversations":      h.list,
			"get_conversation":          h.get,
			"update_conversation":       h.rename,
			"delete_conversation":       h.remove,
			"start_conversation":        h.start,
			"stop_conversation":         h.stop,
			"search_events":             h.searchEvents,
			"add_event":                 h.addEvent,
			"add_message":               h.addMessage,
			"get_trajectory":            h.trajectory,
			"get_microagents":           h.microagents,
			"option_models":             h.optionModels,
			"option_agents":             h.optionAgents,
			"option_security_analyzers": h.optionAnalyzers,
			"option_config":             h.optionConfig,
		}),
	})
}

func joinEncoders(groups ...map[string]httpkit.ErrorEncoder) map[string]httpkit.ErrorEncoder {
	all := map[string]httpkit.ErrorEncoder{}
	for _, g := range groups {
		maps.Copy(all, g)
	}
	return all
}

// idOf returns the request's conversation id, or the fault of the legacy path rules.
func idOf(r *httpkit.Request) (conversation.ID, error) {
	return conversation.ParseID(r.PathValue("conversation_id"))
}

func ok(w http.ResponseWriter, v any) error { return httpkit.JSON(w, http.StatusOK, v) }
