package engine

import (
	"context"

	"parley/internal/conversation"
)

// MaskOf returns what hides the secrets that a conversation knows now in a text: its
// own, its owner's, and the key of its sandbox. NotFound for another owner's
// conversation.
func (e *Engine) MaskOf(ctx context.Context, owner string, id conversation.ID) (func(string) string, error) {
	conv, err := e.opt.Store.Conversations().Get(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	m, err := e.maskerFor(ctx, conv)
	if err != nil {
		return nil, err
	}
	box, err := e.opt.Fleet.Batch(ctx, conv.Owner, []string{conv.SandboxID})
	if err != nil {
		return nil, err
	}
	if box[0] == nil || !box[0].SessionKey.IsSet() {
		return m.Mask, nil
	}
	key := e.opt.NewMasker([]string{box[0].SessionKey.Reveal()})
	return func(text string) string { return key.Mask(m.Mask(text)) }, nil
}
