// Package stuck notices an agent that repeats itself (agent protocol 4.5). It is
// pure: it looks at the events of the branch and says what to do; the engine does
// it. It compares what the agent thought, called and got, never ids or times, so
// that a call that gives something new each time is no repetition, however often
// it is made. It does not notice an agent that goes in circles with new words each
// time; the limits of a run's steps and costs are for that.
package stuck

import (
	"cmp"
	"fmt"

	"parley/internal/conversation"
)

// CodeStuck is the code of the ConversationErrorEvent that says that a run was
// stopped. From it on the agent has another chance.
const CodeStuck = "AgentStuck"

// The patterns, named like the thresholds in the protocol's JSON.
const (
	PatternActionObservation = "action_observation"
	PatternActionError       = "action_error"
	PatternMonologue         = "monologue"
	PatternAlternating       = "alternating_pattern"
	PatternContextWindow     = "context_window_loop"
)

// The protocol's thresholds, and ours of the last pattern, for which it has none.
const (
	defaultActionObservation = 4
	defaultActionError       = 3
	defaultMonologue         = 3
	defaultAlternating       = 6
	contextWindow            = 4 // condensations in a row
)

// Below these, a pattern would be there without any repetition.
const (
	leastRepeats     = 2
	leastAlternating = 3
)

// window is how many events count, from the newest: calls, results and messages of
// the agent. The calls of one answer count like one call, with one result.
const window = 20

// patience is how many times as often the agent may look for more output of a
// command that is silent: builds and tests often are, for minutes, and all that it
// can do is wait.
const patience = 5

// Verdict says what to do before the next step. The zero value: go on.
type Verdict struct {
	Pattern string // "" = none
	Stuck   bool   // stop the run
	Nudge   bool   // tell the agent to do something else (NudgeText), once
	Detail  string // for the user: what was repeated how often; "" = nothing
}

// Detect looks at the events of a branch, from the start to the leaf. What the
// agent did before the user last spoke, or before it was last found to be stuck,
// does not count. While calls have no result yet, there is nothing to say.
func Detect(path []conversation.Payload, t conversation.StuckDetection) Verdict {
	if t.Off {
		return Verdict{}
	}
	t = effective(t)
	s := read(recent(path, enough(t)))
	if s.waits() {
		s = read(recent(path, 2*patience*t.ActionObservation))
	}
	if s.open() {
		return Verdict{}
	}
	for _, pattern := range []func(*story, conversation.StuckDetection) Verdict{
		sameResult, monologue, alternating, onlyCondensing, sameError, // a nudge comes last: stopping goes first
	} {
		if v := pattern(s, t); v != (Verdict{}) {
			return v
		}
	}
	return Verdict{}
}

func effective(t conversation.StuckDetection) conversation.StuckDetection {
	t.ActionObservation = max(threshold(t.ActionObservation, defaultActionObservation), leastRepeats)
	t.ActionError = threshold(t.ActionError, defaultActionError)
	t.Monologue = max(threshold(t.Monologue, defaultMonologue), leastRepeats)
	t.Alternating = max(threshold(t.Alternating, defaultAlternating), leastAlternating)
	return t
}

func threshold(set, standard int) int { return cmp.Or(max(set, 0), standard) }

// sameResult: the same call gave the same result again and again.
func sameResult(s *story, t conversation.StuckDetection) Verdict {
	n := s.repeats(func(t *turn) bool { return !t.failed() }, sameTurn)
	least := t.ActionObservation
	if s.waits() {
		least *= patience
	}
	if n < least {
		return Verdict{}
	}
	return Verdict{Pattern: PatternActionObservation, Stuck: true,
		Detail: fmt.Sprintf("The agent did the same thing %d times and got the same result each time: %s.", n, s.last())}
}

// sameError: the same call could not be run, again and again. The agent is told
// once; if it does not listen, it is stuck.
func sameError(s *story, t conversation.StuckDetection) Verdict {
	n := s.repeats((*turn).failed, sameCalls)
	if n < t.ActionError || n == t.ActionError && s.nudged {
		return Verdict{}
	}
	return Verdict{Pattern: PatternActionError, Stuck: n > t.ActionError, Nudge: n == t.ActionError,
		Detail: fmt.Sprintf("The agent made the same call %s and it failed each time: %s.", times(n), s.last())}
}

// monologue: the agent talks and does nothing.
func monologue(s *story, t conversation.StuckDetection) Verdict {
	if s.messages < t.Monologue {
		return Verdict{}
	}
	return Verdict{Pattern: PatternMonologue, Stuck: true,
		Detail: fmt.Sprintf("The agent sent %d messages in a row and did nothing in between.", s.messages)}
}

// alternating: two things take turns, each with the same result as before.
func alternating(s *story, t conversation.StuckDetection) Verdict {
	n := s.alternations()
	if n < t.Alternating {
		return Verdict{}
	}
	before := s.turns[len(s.turns)-2]
	return Verdict{Pattern: PatternAlternating, Stuck: true,
		Detail: fmt.Sprintf("The agent went back and forth between the same two things, %d steps in all, and got the same results each time: %s, and %s.",
			n, before.describe(), s.last())}
}

// onlyCondensing: the conversation is made shorter again and again, and the model
// still cannot answer.
func onlyCondensing(s *story, _ conversation.StuckDetection) Verdict {
	if s.condensations < contextWindow {
		return Verdict{}
	}
	return Verdict{Pattern: PatternContextWindow, Stuck: true, Detail: fmt.Sprintf(
		"The conversation was condensed %d times in a row, and the agent gave no answer in between: its context seems to be too small.",
		s.condensations)}
}

// times is a number of times in words.
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
