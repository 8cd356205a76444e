package engine

import (
	"context"

	"parley/internal/agent/stuck"
	"parley/internal/conversation"
	"parley/internal/fault"
)

// CodeNoLoop is the code of a Conflict that says that the conversation was not stopped
// for repeating itself.
const CodeNoLoop = "no_loop"

// LeaveLoop lets a conversation that was stopped because its agent repeated itself go
// on from before the loop: the log keeps it on a branch of its own. again runs it from
// there with what the user said last; else it waits for the user.
func (e *Engine) LeaveLoop(ctx context.Context, owner string, id conversation.ID, again bool) error {
	target := ""
	err := e.do(ctx, owner, id, func(l *live) error {
		if l.state.Status != conversation.Stuck {
			return fault.New(fault.Conflict, CodeNoLoop, "The conversation was not stopped for repeating itself.")
		}
		var thresholds conversation.StuckDetection
		if own := l.conv.Options.Stuck; own != nil {
			thresholds = *own
		}
		path := l.state.Branch.Path()
		start, ok := stuck.Start(path, thresholds)
		if !ok {
			return fault.New(fault.Conflict, CodeNoLoop, "Nothing shows any more where the loop began.")
		}
		if start > 0 {
			target = conversation.HeaderOf(path[start-1]).ID
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := e.Navigate(ctx, owner, id, target); err != nil || !again {
		return err
	}
	return e.Run(ctx, owner, id)
}

// Sight is whether a conversation's model takes images.
type Sight string

// The kinds of sight.
const (
	Sees   Sight = "sees" // the model, or another one that looks for it
	Blind  Sight = "blind"
	Closed Sight = "closed" // the user turned images off
)

// Sight tells whether a message with images makes sense. Of a model that nobody knows
// yet it is Sees.
func (e *Engine) Sight(ctx context.Context, owner string, id conversation.ID) (Sight, error) {
	sight := Sees
	err := e.do(ctx, owner, id, func(l *live) error {
		err := l.refresh(ctx)
		if err == nil {
			sight = l.sight()
		}
		return err
	})
	return sight, err
}

// sight is Sees also where there is no model: the run tells what is wrong with it.
func (l *live) sight() Sight {
	model, err := l.e.opt.Models(l.choice, ModelOptions{})
	switch {
	case err != nil, model.Info().Vision, l.tools().has(l.e.opt.VisionTool):
		return Sees
	case l.choice.DisableVision != nil && *l.choice.DisableVision:
		return Closed
	}
	return Blind
}
