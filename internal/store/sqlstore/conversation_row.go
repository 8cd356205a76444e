package sqlstore

import (
	"context"
	"strings"

	"parley/internal/account"
	"parley/internal/conversation"
	"parley/internal/fault"
	"parley/internal/store"
)

// The columns that Update changes come first, the id in front of them.
const (
	insertConversation = `INSERT INTO conversations (id, origin, title, title_key, title_by_user, sandbox_id,
		parent_id, repository, branch, git_provider, started_by, pr_numbers, agent_kind, agent_type, is_public, tags,
		updated_at, owner, status, head, metrics, lease_holder, lease_until, generation, created_at, last_event_at,
		last_timestamp, in_order, progress, indexed)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
		$23, $24, $25, $26, $27, $28, $29, 0)`

	insertDetails = `INSERT INTO conversation_details (conversation, options, initial_message, forked_from, forked_at)
		VALUES ($1, $2, $3, $4, $5)`

	updateConversation = `UPDATE conversations SET origin = $1, title = $2, title_key = $3, title_by_user = $4,
		sandbox_id = $5, parent_id = $6, repository = $7, branch = $8, git_provider = $9, started_by = $10,
		pr_numbers = $11, agent_kind = $12, agent_type = $13, is_public = $14, tags = $15, updated_at = $16
		WHERE id = $17`

	selectConversation = `SELECT id, owner, origin, title, title_by_user, sandbox_id, parent_id, repository, branch,
		git_provider, started_by, pr_numbers, agent_kind, agent_type, is_public, tags, options, initial_message, status,
		head, metrics, lease_holder, lease_until, generation, created_at, updated_at, last_event_at, forked_from,
		forked_at, progress
		FROM conversations JOIN conversation_details ON conversation = id`
)

// conversationRow is a record with its documents encoded.
type conversationRow struct {
	*conversation.Conversation
	prNumbers, tags, metrics, initial, progress string
	options                                     []byte
}

func (s *Store) encodeConversation(c *conversation.Conversation) (*conversationRow, error) {
	r := &conversationRow{Conversation: c}
	for _, d := range []struct {
		to *string
		v  any
	}{{&r.prNumbers, c.PRNumbers}, {&r.tags, c.Tags}, {&r.metrics, c.Summary.Metrics}, {&r.initial, c.InitialMessage},
		{&r.progress, c.Summary.Progress}} {
		text, err := document(d.v)
		if err != nil {
			return nil, err
		}
		*d.to = text
	}
	var err error
	r.options, err = s.sealed(optionsPlace(c.ID), &c.Options)
	return r, err
}

func optionsPlace(id conversation.ID) string { return "conversation_details.options/" + string(id) }

// columns returns the arguments that insert and update share, in their order.
func (r *conversationRow) columns() []any {
	return []any{string(r.ID), string(r.Origin), r.Title, titleKey(r.Title), r.TitleByUser, r.SandboxID,
		string(r.ParentID), r.Repository, r.Branch, r.GitProvider, r.Trigger, r.prNumbers, r.AgentKind, r.AgentType,
		r.Public, r.tags, micros(r.UpdatedAt)}
}

// insert stores a new record whose log is as h says, CodeExists if its id is taken.
func (r *conversationRow) insert(t *tx, h logHead) error {
	args := append(r.columns(), r.Owner, string(r.Summary.Status), h.head, r.metrics, r.LeaseHolder, micros(r.LeaseUntil),
		r.Generation, micros(r.CreatedAt), micros(r.LastEventAt), h.lastTimestamp, h.inOrder, r.progress)
	err := t.exec(insertConversation, args...)
	if isDuplicate(err) {
		return fault.New(fault.Conflict, store.CodeExists, "A conversation with this id exists already.")
	}
	if err != nil {
		return err
	}
	err = t.exec(insertDetails, string(r.ID), r.options, r.initial, string(r.ForkedFrom), r.ForkedAt)
	if err != nil {
		return err
	}
	if err := insertReplay(t, r.Conversation); err != nil {
		return err
	}
	return (indexer{t, r.Owner, r.ID}).add(context.Background(), r.CreatedAt, doc{titleSeq, r.Title})
}

func (s *Store) scanConversation(rows row) (*conversation.Conversation, error) {
	c := &conversation.Conversation{}
	var options []byte
	err := rows.Scan(&c.ID, &c.Owner, &c.Origin, &c.Title, &c.TitleByUser, &c.SandboxID, &c.ParentID, &c.Repository,
		&c.Branch, &c.GitProvider, &c.Trigger, jsonInto{&c.PRNumbers}, &c.AgentKind, &c.AgentType, &c.Public,
		jsonInto{&c.Tags}, &options, jsonInto{&c.InitialMessage}, &c.Summary.Status, &c.Summary.Head,
		jsonInto{&c.Summary.Metrics}, &c.LeaseHolder, timeInto{&c.LeaseUntil}, &c.Generation, timeInto{&c.CreatedAt},
		timeInto{&c.UpdatedAt}, timeInto{&c.LastEventAt}, &c.ForkedFrom, &c.ForkedAt,
		jsonInto{&c.Summary.Progress})
	if err != nil {
		return nil, err
	}
	return c, s.unsealed(optionsPlace(c.ID), options, &c.Options)
}

// titleKey is the form of a title that search and order use.
func titleKey(title string) string { return strings.ToLower(title) }

// sealed encodes v with its secrets for the given place.
func (s *Store) sealed(place string, v account.Sealable) ([]byte, error) {
	plain, err := account.EncodePrivate(v)
	if err != nil {
		return nil, err
	}
	return s.seal.Seal(place, plain)
}

// unsealed reads what sealed wrote.
func (s *Store) unsealed(place string, blob []byte, v account.Sealable) error {
	plain, err := s.seal.Unseal(place, blob)
	if err != nil {
		return err
	}
	return account.DecodePrivate(plain, v)
}
