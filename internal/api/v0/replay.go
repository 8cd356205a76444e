package v0

import (
	"strings"

	"parley/internal/fault"
	"parley/internal/legacy"
)

// replay reads the recording that a creation asks to repeat, nil if it asks for none.
// All that can be known to be wrong with it is refused at once (legacy API 16, 20.10).
func (in *creation) replay() (*legacy.Replay, error) {
	raw := strings.TrimSpace(text(in.Replay))
	if raw == "" {
		return nil, nil
	}
	if len(firstMessage(text(in.Message), in.ImageURLs)) > 0 || in.SuggestedTask != nil {
		return nil, fault.New(fault.Invalid, codeBadReplay, "replay_json cannot be combined with a message or a suggested task: the conversation begins with its own first message.").
			WithHint("Leave initial_user_msg, image_urls and suggested_task out, or replay_json.")
	}
	replay, err := legacy.ParseReplay([]byte(raw))
	if err != nil {
		return nil, fault.New(fault.Invalid, codeBadReplay, "replay_json cannot be replayed: %v.", err)
	}
	return replay, nil
}
