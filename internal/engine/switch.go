package engine

import (
	"context"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
)

// SwitchProfile lets a conversation go on with the model of one of its owner's
// profiles. It takes effect at the next call of the model, also while a run is
// under way, and is durable when it returns. NotFound if there is no such
// conversation or profile (account.CodeProfileNotFound).
func (e *Engine) SwitchProfile(ctx context.Context, owner string, id conversation.ID, name string) error {
	if _, err := e.opt.Store.Conversations().Get(ctx, owner, id); err != nil {
		return err
	}
	s, err := e.settings(ctx, owner)
	if err != nil {
		return err
	}
	p, err := s.Profile(name)
	if err != nil {
		return err
	}
	return e.switchTo(ctx, owner, id, modelChoice{llm: p, profile: name, ownKey: p.APIKey.IsSet()}, s)
}

// SwitchLLM lets a conversation go on with another model; see SwitchProfile. A
// configuration without a key takes that of the settings, if its calls go where
// that one was stored for.
func (e *Engine) SwitchLLM(ctx context.Context, owner string, id conversation.ID, l account.LLM) error {
	if _, err := e.opt.Store.Conversations().Get(ctx, owner, id); err != nil {
		return err
	}
	s, err := e.opt.Store.Accounts().Settings(ctx, owner)
	if fault.Is(err, fault.NotFound) {
		s, err = &account.Settings{}, nil
	}
	if err != nil {
		return err
	}
	return e.switchTo(ctx, owner, id, modelChoice{llm: l, ownKey: l.APIKey.IsSet()}, s)
}

// modelChoice is what a conversation keeps of its model.
type modelChoice struct {
	llm     account.LLM
	profile string // that llm is a copy of; "" = none
	ownKey  bool
}

func (c modelChoice) put(o *conversation.Options, demoModel string) {
	o.LLM, o.LLMProfile, o.OwnKey, o.Demo = c.llm, c.profile, c.ownKey, c.llm.Model == demoModel
}

func (e *Engine) switchTo(ctx context.Context, owner string, id conversation.ID, c modelChoice, s *account.Settings) error {
	if err := e.checkLLM(s.WithKeys(c.llm)); err != nil {
		return err
	}
	return e.do(ctx, owner, id, func(l *live) error {
		if err := l.writable(); err != nil {
			return err
		}
		conv, err := e.opt.Store.Conversations().Update(ctx, id, time.Now().UTC(), func(stored *conversation.Conversation) error {
			c.put(&stored.Options, e.opt.DemoModel)
			return nil
		})
		if err != nil {
			return err
		}
		l.adopt(conv)
		if err := l.refresh(ctx); err != nil { // its key is masked from now on
			return err
		}
		return l.append(stateUpdate(conversation.KeyModel, c.llm.Model))
	})
}
