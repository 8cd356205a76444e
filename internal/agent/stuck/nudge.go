package stuck

import (
	"strings"

	"parley/internal/content"
	"parley/internal/conversation"
)

// nudgeMark begins every nudge: by it they are known in a log.
const nudgeMark = "[The same call failed again]"

// nudgeText is about what to do, not about the error: the agent has read that.
const nudgeText = nudgeMark + " You made the same call several times in a row, and it failed in the same way " +
	"each time. Making it once more will not help. Read the last error again and do something different: " +
	"check the tool's name and its parameters against its description, write the arguments anew as one valid JSON object, " +
	"split the work into smaller calls, or use another tool. If you cannot go on without the user, " +
	"say precisely what is missing and end with `finish`."

// NudgeText is what the agent is told when a Verdict says Nudge: the text of a
// message of the environment with the role of a user.
func NudgeText() string { return nudgeText }

// isNudge reports whether a message is such a nudge.
func isNudge(m *conversation.MessageEvent) bool {
	return m.Source == conversation.SourceEnvironment && strings.HasPrefix(content.JoinText(m.LLMMessage.Content), nudgeMark)
}
