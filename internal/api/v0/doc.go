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
	"time"

	"parley/internal/account"
	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/engine"
	"parley/internal/llm"
	"parley/internal/store"
	"parley/internal/stream"
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
	Follow(ctx context.Context, owner string, id conversation.ID, after int64) (*stream.Follower, error)
	Remember(ctx context.Context, owner string, id conversation.ID, excerpt string) (string, error)
	RunForUser(ctx context.Context, owner string, id conversation.ID, command string, hidden bool) error
	LeaveLoop(ctx context.Context, owner string, id conversation.ID, again bool) error
	Sight(ctx context.Context, owner string, id conversation.ID) (engine.Sight, error)
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

// Config wires the API. All members are required, but for Models, Git, Log and Rooms.
type Config struct {
	Engine      Engine
	Fleet       Fleet
	Settings    Settings
	Events      EventLog
	Projections store.Projections
	Imports     Imports // nil = nothing was imported
	URLs        *httpkit.URLs
	Models      func() []llm.Offer // that users can choose
	Git         Git                // nil = nobody is asked
	Log         *slog.Logger       // nil = none

	Rooms       *Rooms // of the same Config; nil = nobody can follow conversations
	Sandboxes   Sandboxes
	Exposed     Exposed           // nil = sandboxes offer nothing
	Previews    *httpkit.Previews // nil = no links to editors
	Experiments Experiments
	Feedback    Feedback
	MaxBody     int64 // bytes of a request, 0 = httpkit.DefaultMaxBody
	MaxUpload   int64 // bytes of one file, 0 = 1 GiB
	// MaxLive is how many legacy conversations of one user run at a time; one more
	// closes the one that was not updated for longest. 0 = any number.
	MaxLive int
	// ListAge is how old conversations are that lists still show; 0 = any age.
	ListAge time.Duration
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

	sandboxes   Sandboxes
	exposed     Exposed
	previews    *httpkit.Previews
	experiments Experiments
	feedback    Feedback
	maxUpload   int64
	maxLive     int
	listAge     time.Duration
	rooms       *Rooms
	launches    turns
	resumes     turns
}

func newHandlers(cfg Config) *handlers {
	h := &handlers{engine: cfg.Engine, fleet: cfg.Fleet, settings: cfg.Settings, urls: cfg.URLs,
		ledger: newLedger(cfg.Events, cfg.Projections, cfg.Imports), models: cfg.Models, git: cfg.Git, log: cfg.Log,
		sandboxes: cfg.Sandboxes, exposed: cfg.Exposed, previews: cfg.Previews, experiments: cfg.Experiments,
		feedback: cfg.Feedback, maxUpload: cfg.MaxUpload, maxLive: cfg.MaxLive, listAge: cfg.ListAge}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	return h
}

// New returns the API.
func New(cfg Config) (*httpkit.API, error) {
	if cfg.Rooms == nil {
		cfg.Rooms = NewRooms(cfg, RoomsConfig{})
	}
	h := cfg.Rooms.h
	return httpkit.NewAPI(httpkit.APIConfig{
		Name:     "v0",
		Document: document,
		Respell:  joinName,
		MaxBody:  cfg.MaxBody,
		Encode:   detailErrors,
		Encoders: joinEncoders(secretEncoders(), providerEncoders(), workspaceEncoders(), sessionEncoders(), userEncoders(), map[string]httpkit.ErrorEncoder{
			"load_settings":       settingsErrors,
			"store_settings":      settingsErrors,
			"new_conversation":    creationErrors,
			"update_conversation": statusErrors("CONVERSATION$UPDATE_ERROR"),
			"start_conversation":  statusErrors(""),
			"stop_conversation":   statusErrors(""),
			"add_message":         successErrors,
			"get_microagents":     microagentErrors,
		}),
		Handlers: httpkit.JoinHandlers(h.secretHandlers(), h.providerHandlers(), h.workspaceHandlers(), h.sessionHandlers(), h.userHandlers(), httpkit.Handlers{
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
