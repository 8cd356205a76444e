package wire

import (
	"parley/internal/content"
	"parley/internal/llm"
)

// Listener is who hears an answer while it comes, if anybody does.
type Listener struct {
	onDelta func(llm.Delta)
	heard   bool
}

// Listen returns the listener of a request.
func Listen(req *llm.Request) Listener { return Listener{onDelta: req.OnDelta} }

// Tell hands on a piece of the answer, unless it is empty.
func (l *Listener) Tell(d llm.Delta) {
	if l.onDelta != nil && d != (llm.Delta{}) {
		l.heard = true
		l.onDelta(d)
	}
}

// Streamed reports whether a piece was handed on.
func (l *Listener) Streamed() bool { return l.heard }

// Speech gathers what a model says and thinks, and tells it.
type Speech struct {
	Listener
	Text      []byte
	Reasoning []byte
}

// Say adds a piece of the text and one of the thoughts; either may be empty.
func (s *Speech) Say(said, thought string) {
	s.Text = append(s.Text, said...)
	s.Reasoning = append(s.Reasoning, thought...)
	s.Tell(llm.Delta{Text: said, Reasoning: thought})
}

// Message returns the assistant's message of what was said.
func (s *Speech) Message() content.Message {
	msg := content.Message{Role: content.RoleAssistant, Reasoning: string(s.Reasoning)}
	if len(s.Text) > 0 {
		msg.Parts = []content.Part{content.Text(string(s.Text))}
	}
	return msg
}
