package conversation

import (
	"strconv"

	"github.com/google/uuid"

	"parley/internal/content"
)

// ReplayItem is one thing of a recorded conversation that happens again (legacy API
// 16): something said, or a call of a tool.
type ReplayItem struct {
	Source string            `json:"source"` // SourceUser or SourceAgent
	Parts  []content.Part    `json:"parts"`  // what is said; of a call, the thought before it
	Call   *content.ToolCall `json:"call,omitempty"`
	Hidden bool              `json:"hidden,omitempty"` // of a command of the user's
	// Waits says that the agent waits for the user after it. It counts for the last
	// item alone.
	Waits bool `json:"waits,omitempty"`
}

// ReplayEventID is the id of the event that shows the item with an index. It follows
// from the conversation's id, so that the log says how far a replay is.
func ReplayEventID(id ID, index int) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("parley:replay:"+string(id)+":"+strconv.Itoa(index))).String()
}
