package app

import (
	"context"
	"net/http"
	"sync"

	"parley/internal/account"
	"parley/internal/config"
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
	made   map[account.LLM]llm.Model
}

func newModels(cfg config.Config) *models {
	return &models{cfg: cfg, client: &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()},
		made: map[account.LLM]llm.Model{}}
}

// get returns the model of a choice, with retries that tell onRetry.
func (m *models) get(choice account.LLM, onRetry func(context.Context, llm.Retry)) (llm.Model, error) {
	model, err := m.plain(choice)
	if err != nil {
		return nil, err
	}
	policy := retry.Policy{MaxAttempts: m.cfg.LLMMaxAttempts, Min: m.cfg.LLMRetryMin, Max: m.cfg.LLMRetryMax}
	return retry.New(model, policy, onRetry), nil
}

func (m *models) plain(choice account.LLM) (llm.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if model, ok := m.made[choice]; ok {
		return model, nil
	}
	model, err := factory.New(choice, factory.Options{HTTPClient: m.client, Timeout: m.cfg.LLMTimeout, Retry: factory.Retry{MaxAttempts: 1}})
	if err != nil {
		return nil, err
	}
	if len(m.made) >= maxModels {
		clear(m.made)
	}
	m.made[choice] = model
	return model, nil
}
