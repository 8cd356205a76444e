package v1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"parley/internal/api/httpkit"
	"parley/internal/conversation"
	"parley/internal/store"
)

// startKeys are the names under which a start can be asked for again: the id that the
// client chose, and its idempotency key. The digest is of the body as it was
// understood, so that spaces, the order of members and the spelling of ids do not
// matter.
func startKeys(r *httpkit.Request, id conversation.ID) ([]store.StartKey, error) {
	var q struct {
		Key *string `json:"Idempotency-Key"`
	}
	if err := r.Params(&q); err != nil {
		return nil, err
	}
	body, err := json.Marshal(canonical(r.BodyValue()))
	if err != nil {
		return nil, fmt.Errorf("digest of a request: %w", err)
	}
	digest := sha256.Sum256(body)
	var keys []store.StartKey
	if id != "" {
		keys = append(keys, store.StartKey{Name: "id/" + string(id), Digest: digest[:]})
	}
	if q.Key != nil {
		name := sha256.Sum256([]byte(*q.Key))
		keys = append(keys, store.StartKey{Name: "key/" + hex.EncodeToString(name[:]), Digest: digest[:]})
	}
	return keys, nil
}

func canonical(body any) any {
	members, ok := body.(map[string]any)
	if !ok {
		return body
	}
	members = maps.Clone(members)
	for _, name := range []string{"conversation_id", "parent_conversation_id"} {
		if id, ok := members[name].(string); ok {
			members[name] = hexID(id)
		}
	}
	return members
}
