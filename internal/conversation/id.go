// Package conversation is the domain: ids, the conversation record, start
// tasks, the kinds of events, the table of execution states and the fold of a
// log into state. Pure, no I/O, no protocol version.
package conversation

import (
	"strings"

	"github.com/google/uuid"

	"parley/internal/fault"
)

// MaxIDLength bounds a conversation id chosen by a client, in bytes.
const MaxIDLength = 100

// ID names a conversation. Ids that are UUIDs in any spelling are canonical as
// 32 lower-case hex digits; legacy clients may choose other strings.
type ID string

// NewID makes a random id.
func NewID() ID { return ID(strings.ReplaceAll(uuid.NewString(), "-", "")) }

// ParseID canonicalises an id from outside. The rules for ids that are no UUID
// are the legacy API's path rules: at most 100 bytes, no control characters,
// no "..", "/" or "\".
func ParseID(s string) (ID, error) {
	if u, err := uuid.Parse(s); err == nil && (len(s) == 32 || len(s) == 36) {
		return ID(strings.ReplaceAll(u.String(), "-", "")), nil
	}
	switch {
	case s == "":
		return "", idFault("is empty")
	case len(s) > MaxIDLength:
		return "", idFault("is too long")
	case strings.ContainsRune(s, 0):
		return "", idFault("contains invalid characters")
	case strings.Contains(s, "..") || strings.ContainsAny(s, `/\`):
		return "", idFault("contains invalid path characters")
	case strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\uFFFD' }) >= 0:
		return "", idFault("contains control characters")
	}
	return ID(s), nil
}

func idFault(what string) error {
	return fault.New(fault.Invalid, "invalid_conversation_id", "Conversation ID %s", what)
}

// IsUUID reports whether the id is a UUID.
func (id ID) IsUUID() bool {
	if len(id) != 32 {
		return false
	}
	_, err := uuid.Parse(string(id))
	return err == nil
}

// Dashed returns the dashed spelling of a UUID, and other ids as they are.
func (id ID) Dashed() string {
	if !id.IsUUID() {
		return string(id)
	}
	s := string(id)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// NewEventID makes an event id: a dashed random UUID.
func NewEventID() string { return uuid.NewString() }

// InitialMessageID is the id of the event with a conversation's first message. It
// follows from the conversation's id, so that a start that is carried out again
// after a crash finds out whether the message was said.
func InitialMessageID(id ID) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("parley:initial-message:"+string(id))).String()
}
