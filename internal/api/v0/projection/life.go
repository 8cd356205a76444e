package projection

import (
	"time"

	"parley/internal/conversation"
)

// A conversation's life over the legacy API has states that the log does not know:
// its session stops and starts again while the agent rests. Their events stand behind
// the last event of the log that was numbered, and carry their own time.

const lifeStateBits = 4

// lifeEpoch is what the times of such events are counted from, so that a part holds
// them for a long time to come.
var lifeEpoch = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)

func lifeArg(s AgentState, at time.Time) int64 {
	return max(at.Sub(lifeEpoch).Microseconds(), 0)<<lifeStateBits | int64(codeOf(s))
}

// isLife reports whether the recipe stands for no event of the log.
func (d Derived) isLife() bool { return d.Recipe == LifeChanged || d.Recipe == LifeChange }

// lifeTime is when it happened.
func (d Derived) lifeTime() string {
	return conversation.FormatTime(lifeEpoch.Add(time.Duration(d.Arg>>lifeStateBits) * time.Microsecond))
}

// Halt derives that the session was stopped.
func (s *State) Halt(at time.Time) []Derived {
	if s.agent == Stopped || s.agent == "" {
		return nil
	}
	return s.take(nil, -1, []Derived{{LifeChanged, lifeArg(Stopped, at)}})
}

// Revive derives that a session which was stopped goes on, and waits for the user. One
// that was never there opens by itself.
func (s *State) Revive(at time.Time) []Derived {
	if s.agent == Loading || s.agent == "" {
		return nil
	}
	return s.take(nil, -1, []Derived{{LifeChanged, lifeArg(Loading, at)}, {LifeChange, lifeArg(AwaitingInput, at)},
		{LifeChanged, lifeArg(AwaitingInput, at)}})
}

// logged splits what was derived from an event of the log from what came behind it.
func logged(derived []Derived) (own, life []Derived) {
	for i, d := range derived {
		if d.isLife() {
			return derived[:i], derived[i:]
		}
	}
	return derived, nil
}
