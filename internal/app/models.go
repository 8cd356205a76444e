package app

import (
	"crypto/sha256"
	"net/http"
	"sync"

	"parley/internal/account"
	"parley/internal/config"
	"parley/internal/engine"
	"parley/internal/llm"
	"parley/internal/llm/factory"
	"parley/internal/llm/retry"
)

// maxModels bounds the models that are kept; beyond it all are forgotten.
const maxModels = 256

// models makes models and keeps them: an adapter learns what its endpoint
// refuses, and connections are worth keeping.
type models struct {
	cfg    config.Config
	client *http.Client
	mu     sync.Mutex
	made   map[[sha256.Size]byte]llm.Model
}

func newModels(cfg config.Config) *models {
	return &models{cfg: cfg, client: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()},
		made: map[[sha256.Size]byte]llm.Model{}}
}

// get returns the model of a choice, with retries around it.
func (m *models) get(choice account.LLM, opt engine.ModelOptions) (llm.Model, error) {
	model, err := m.plain(choice)
	if err != nil {
		return nil, err
	}
	policy := retry.Policy{MaxAttempts: m.cfg.LLMMaxAttempts, Min: m.cfg.LLMRetryMin, Max: m.cfg.LLMRetryMax}
	if opt.Guard != nil {
		model = opt.Guard(model)
	}
	return retry.New(model, policy, opt.OnRetry), nil
}

func (m *models) plain(choice account.LLM) (llm.Model, error) {
	whole, err := account.EncodePrivate(&choice)
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256(whole)
	m.mu.Lock()
	defer m.mu.Unlock()
	if model, ok := m.made[key]; ok {
		return model, nil
	}
	model, err := factory.New(choice, factory.Options{HTTPClient: m.client, Timeout: m.cfg.LLMTimeout, Retry: factory.Retry{MaxAttempts: 1}})
	if err != nil {
		return nil, err
	}
	if len(m.made) >= maxModels {
		clear(m.made)
	}
	m.made[key] = model
	return model, nil
}
