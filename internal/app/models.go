package app

import (
	"context"
	"crypto/sha256"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/internal/account"
	"parley/internal/config"
	"parley/internal/engine"
	"parley/internal/fault"
	"parley/internal/llm"
	"parley/internal/llm/bedrock"
	"parley/internal/llm/catalog"
	"parley/internal/llm/factory"
	"parley/internal/llm/fallback"
	"parley/internal/llm/limiter"
	"parley/internal/llm/retry"
	"parley/internal/llm/scripted"
)

// maxModels bounds the models that are kept; beyond it all are forgotten.
const maxModels = 256

// models makes the models of configurations. What the engine gets is
//
//	fallback( retry( limiter( guard( adapter ))), ... )
//
// Every attempt of the retries takes its turn in the limiter of its endpoint and
// key, and only then sets its worst case aside in the guard: a call that waits
// for its turn, or for the next try, holds no budget that others could use. The
// guard may wait for room under a ceiling while it holds its turn; that ends,
// because those who hold the room are calls that had their turn. Fallbacks are
// outermost: each has the patience, the key and the guard of its own profile.
//
// Adapters are kept per configuration: they learn what their endpoint refuses,
// and connections are worth keeping. Limiters and outages are shared by all
// conversations.
type models struct {
	cfg      config.Config
	client   *http.Client
	catalog  func() *catalog.Catalog
	aws      *bedrock.Chain // credentials of the server's environment
	limiters *limiter.Set
	health   fallback.Health
	mu       sync.Mutex
	made     map[[sha256.Size]byte]llm.Model
}

// newModels reads the files that the configuration names. The shipped catalogue
// is not read before a model is needed.
func newModels(cfg config.Config) (*models, error) {
	client, err := ModelClient(cfg.LLMCAFile)
	if err != nil {
		return nil, err
	}
	m := &models{cfg: cfg, client: client, catalog: catalog.Default, aws: bedrock.NewChain(client),
		limiters: limiter.NewSet(cfg.LLMConcurrency), made: map[[sha256.Size]byte]llm.Model{}}
	if cfg.LLMCatalog != "" {
		table, err := catalog.Load(cfg.LLMCatalog)
		if err != nil {
			return nil, fault.New(fault.Invalid, "llm_catalog", "The file of llm_catalog cannot be used: %v.", err)
		}
		m.catalog = func() *catalog.Catalog { return table }
	}
	return m, nil
}

// get returns the model of a configuration, as the engine uses it.
func (m *models) get(l account.LLM, opt engine.ModelOptions) (llm.Model, error) {
	first, err := m.choice(l, opt)
	if err != nil {
		return nil, err
	}
	choices := []fallback.Choice{first}
	for _, other := range opt.Fallbacks {
		c, err := m.choice(other, opt)
		if err != nil {
			c = fallback.Choice{Key: sha256.Sum256([]byte(other.Model)), Model: unusable{other.Model, err}}
		}
		if !slices.ContainsFunc(choices, func(known fallback.Choice) bool { return known.Key == c.Key }) {
			choices = append(choices, c)
		}
	}
	if len(choices) == 1 {
		return first.Model, nil
	}
	return fallback.New(choices, &m.health, opt.OnRetry), nil
}

// choice makes a model with everything around it but fallbacks.
func (m *models) choice(l account.LLM, opt engine.ModelOptions) (fallback.Choice, error) {
	key, err := keyOf(l)
	if err != nil {
		return fallback.Choice{}, err
	}
	model, err := m.adapter(key, l)
	if err != nil {
		return fallback.Choice{}, err
	}
	demo := model.Info().Demo
	if opt.Guard != nil {
		model = opt.Guard(model)
	}
	if !demo {
		model = m.limiters.Get(limiterKey(l)).Model(model, opt.OnRetry)
	}
	return fallback.Choice{Key: key, Once: model, Model: retry.New(model, m.patience(l), opt.OnRetry)}, nil
}

// patience is the server's, with what the profile says about it.
func (m *models) patience(l account.LLM) retry.Policy {
	server := retry.Policy{MaxAttempts: m.cfg.LLMMaxAttempts, Min: max(m.cfg.LLMRetryMin, time.Millisecond),
		Max: max(m.cfg.LLMRetryMax, time.Millisecond)}
	return server.For(l)
}

// adapter returns the bare model of a configuration.
func (m *models) adapter(key [sha256.Size]byte, l account.LLM) (llm.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if model, ok := m.made[key]; ok {
		return model, nil
	}
	model, err := factory.New(l, factory.Options{HTTPClient: m.client, Timeout: m.cfg.LLMTimeout, Catalog: m.catalog(),
		AWS: m.serverAWS(), Retry: factory.Retry{MaxAttempts: 1}})
	if err != nil {
		return nil, err
	}
	if len(m.made) >= maxModels {
		clear(m.made)
	}
	m.made[key] = model
	return model, nil
}

// serverAWS is what the server lends to models without keys of their own.
func (m *models) serverAWS() factory.AWS {
	if !m.cfg.AWSCredentials {
		return factory.AWS{NoEnvironment: true, Chain: m.aws}
	}
	return factory.AWS{Chain: m.aws, BearerToken: m.cfg.AWSBearerToken}
}

// keyOf names a configuration, its secrets included. What only says how to wrap
// the adapter, or nothing to it, is left out.
func keyOf(l account.LLM) ([sha256.Size]byte, error) {
	l.Attempts, l.RetryMultiplier, l.RetryMin, l.RetryMax, l.Fallbacks, l.Rest = nil, nil, nil, nil, nil, nil
	whole, err := account.EncodePrivate(&l)
	return sha256.Sum256(whole), err
}

// limiterKey names an endpoint and a key: whoever has both shares the limits that
// the provider sets.
func limiterKey(l account.LLM) limiter.Key {
	endpoint := strings.TrimRight(strings.ToLower(strings.TrimSpace(l.BaseURL)), "/")
	if endpoint == "" {
		endpoint, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(l.Model)), "/")
	}
	parts := []string{endpoint, l.APIKey.Reveal(), l.AWSAccessKeyID.Reveal(), l.AWSProfile, l.AWSRegion}
	for _, name := range slices.Sorted(maps.Keys(l.ExtraHeaders)) { // they may hold the key
		parts = append(parts, name, l.ExtraHeaders[name].Reveal())
	}
	return limiter.KeyOf(parts...)
}

// offers are the models that users can choose, sorted by id.
func (m *models) offers() []llm.Offer {
	offers := m.catalog().Offers(time.Now())
	if m.cfg.Demo {
		provider, name, _ := strings.Cut(scripted.ID, "/")
		offers = append(offers, llm.Offer{Provider: provider, Name: name})
		slices.SortFunc(offers, func(a, b llm.Offer) int { return strings.Compare(a.ID(), b.ID()) })
	}
	return offers
}

// details are the offers with what the catalogue knows of them.
func (m *models) details() []llm.Details {
	offers, table := m.offers(), m.catalog()
	out := make([]llm.Details, len(offers))
	for i, o := range offers {
		e, _ := table.Lookup(o.ID())
		out[i] = llm.Details{Offer: o, ContextWindow: e.ContextWindow, MaxOutput: e.MaxOutput, Vision: answer(e.Vision),
			Tools: answer(e.Tools), Reasoning: answer(e.Reasoning), PromptCache: answer(e.CachePrompt), Price: e.Price}
	}
	return out
}

// answer is nil for what the catalogue does not know.
func answer(f catalog.Fact) *bool {
	if f == catalog.Unknown {
		return nil
	}
	yes := f == catalog.Yes
	return &yes
}

// unusable is a fallback that cannot be made: it says why when it is its turn.
type unusable struct {
	model string
	err   error
}

// Info implements llm.Model.
func (u unusable) Info() llm.Info { return llm.Info{Model: u.model, Vision: true} }

// Do implements llm.Model.
func (u unusable) Do(context.Context, *llm.Request) (*llm.Response, error) {
	return nil, &llm.Error{Class: llm.ClassBadRequest, NotSent: true, Message: fault.PublicText(u.err), Err: u.err}
}
