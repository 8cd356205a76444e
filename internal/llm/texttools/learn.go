package texttools

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"parley/internal/llm"
)

// Learner is a model of which nobody knows whether it has native tool calling:
// it is asked natively until its endpoint refuses tools, and in text ever after.
type Learner struct {
	native  llm.Model
	text    *Model
	refused atomic.Bool
}

var _ llm.Model = (*Learner)(nil)

// Learn decorates a model.
func Learn(next llm.Model) *Learner { return &Learner{native: next, text: New(next)} }

// Info implements llm.Model.
func (l *Learner) Info() llm.Info {
	if l.refused.Load() {
		return l.text.Info()
	}
	return l.native.Info()
}

// Do implements llm.Model. The refusal costs one call more, once.
func (l *Learner) Do(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	if !l.refused.Load() {
		resp, err := l.native.Do(ctx, req)
		if len(req.Tools) == 0 || !refusesTools(err) {
			return resp, err
		}
		l.refused.Store(true)
	}
	return l.text.Do(ctx, req)
}

// refusesTools reports whether an error says that the model takes no tools.
func refusesTools(err error) bool {
	var e *llm.Error
	if !errors.As(err, &e) || e.Streamed || e.Status < 400 || e.Class.Retryable() && e.Status != 500 {
		return false
	}
	text := strings.ToLower(e.Message)
	for _, words := range []string{
		"does not support tools", "does not support tool", "support tool use", "tool use is not supported", "tools are not supported",
		"tool calling is not supported", "does not support function", "function calling is not supported", "function calling is not enabled",
		"enable-auto-tool-choice", "parameter: 'tools'", "argument supplied: tools", "tools is not supported", "tools: extra inputs are not permitted",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
