package outbox

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// Types of messages.
const (
	typeEvents = "conversation.events"
	typeTest   = "test"
)

// Bounds of a message. An event that is larger alone is sent alone.
const (
	maxEvents = 50
	maxBytes  = 1 << 20 // of the events' JSON
)

// message is the body of a delivery.
type message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // when it was made
	Data      any       `json:"data"`
}

// eventData is the data of typeEvents.
type eventData struct {
	EndpointID     string          `json:"endpoint_id"`
	ConversationID conversation.ID `json:"conversation_id"`
	Events         []numbered      `json:"events"`
}

// numbered is an event with its number in the log, which is no member of it.
type numbered struct {
	Seq   int64           `json:"seq"`
	Event json.RawMessage `json:"event"` // as stored
}

type testData struct {
	EndpointID string `json:"endpoint_id"`
	Note       string `json:"note"`
}

// secretPrefix marks a secret in the Standard Webhooks specification; what follows is
// the key in base64.
const secretPrefix = "whsec_"

// newSecret makes a key of 32 random bytes.
func newSecret() account.Secret {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return account.NewSecret(secretPrefix + base64.StdEncoding.EncodeToString(key))
}

// keyOf decodes a secret. The specification asks for 24 to 64 bytes.
func keyOf(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, fault.New(fault.Invalid, "bad_webhook_secret", "The secret is not usable: it must be %q and 24 to 64 random bytes in base64.", secretPrefix).
			WithHint("Leave it out, and one is made.")
	}
	return key, nil
}

// sign returns the value of the webhook-signature header: HMAC-SHA256 of id,
// timestamp and body, joined by dots (Standard Webhooks, symmetric signatures).
func sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	_, _ = mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// messageID names a message. Attempts at the same events of the same round have the
// same, so that receivers can tell repetitions.
func messageID(e *store.WebhookEndpoint, id conversation.ID, first, last int64) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{e.ID, strconv.FormatInt(e.Epoch, 10), string(id),
		strconv.FormatInt(first, 10), strconv.FormatInt(last, 10)}, "\n")))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// matches reports whether a conversation's events are for an endpoint.
func matches(f *store.WebhookFilter, l store.WebhookLog) bool {
	if len(f.Conversations) > 0 && !slices.Contains(f.Conversations, l.ID) {
		return false
	}
	for name, value := range f.Tags {
		if have, ok := l.Tags[name]; !ok || have != value {
			return false
		}
	}
	return true
}

// wants reports whether an event is for an endpoint.
func wants(f *store.WebhookFilter, e *conversation.Event) bool {
	if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.Kind) {
		return false
	}
	if !f.StatusOnly {
		return true
	}
	if e.Kind != conversation.KindStateUpdate {
		return false
	}
	var update struct {
		Key string `json:"key"`
	}
	return json.Unmarshal(e.Raw, &update) == nil && update.Key == conversation.KeyStatus
}
