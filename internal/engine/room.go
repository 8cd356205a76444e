package engine

import (
	"fmt"

	"parley/internal/conversation"
	"parley/internal/fault"
)

// CodeFull is the fault code of commands that a conversation takes no more, and the
// code of the error that ends its last run.
const CodeFull = "ConversationFull"

// room returns why the log must not grow, nil if it may. The bound is looked at before
// each step of a run and each command, so what is under way can still end: calls are
// answered, confirmations are given or refused.
func (l *live) room() error {
	most, bytes := l.e.opt.MaxLogEvents, l.e.opt.MaxLogBytes
	full := ""
	switch {
	case most > 0 && l.state.Head+1 >= most:
		full = fmt.Sprintf("%d events", l.state.Head+1)
	case bytes > 0 && l.bytes >= bytes:
		full = fmt.Sprintf("%d MiB of events", l.bytes>>20)
	default:
		return nil
	}
	return fault.New(fault.Conflict, CodeFull, "The conversation has %s, as many as this server keeps of one.", full).
		WithHint("Start a new conversation, or fork this one from an earlier event; everything in it can still be read.")
}

// fullError ends a run in a conversation that is full.
func fullError(err error) conversation.Payload {
	return conversationError(CodeFull, fault.PublicText(err), "quota", "none")
}
