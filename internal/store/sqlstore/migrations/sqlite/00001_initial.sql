-- Times are microseconds since 1970 in UTC, documents are JSON as TEXT, sealed
-- values and whatever must come back byte for byte are BLOB.

-- +goose Up
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
);

CREATE TABLE users (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE api_keys (
    hash    BLOB PRIMARY KEY,
    user_id TEXT NOT NULL,
    label   TEXT NOT NULL
);
CREATE INDEX api_keys_by_user ON api_keys (user_id, label);

CREATE TABLE settings (
    user_id TEXT PRIMARY KEY,
    sealed  BLOB NOT NULL
);

-- The row is rewritten by every append, so what is large lives in
-- conversation_details.
CREATE TABLE conversations (
    id             TEXT PRIMARY KEY,
    owner          TEXT NOT NULL,
    origin         TEXT NOT NULL,
    title          TEXT NOT NULL,
    title_key      TEXT NOT NULL, -- lower case, for search and order
    title_by_user  BOOLEAN NOT NULL,
    sandbox_id     TEXT NOT NULL,
    parent_id      TEXT NOT NULL,
    repository     TEXT NOT NULL,
    branch         TEXT NOT NULL,
    git_provider   TEXT NOT NULL,
    started_by     TEXT NOT NULL, -- the trigger, which is a reserved word
    pr_numbers     TEXT NOT NULL,
    agent_kind     TEXT NOT NULL,
    agent_type     TEXT NOT NULL,
    is_public      BOOLEAN,
    tags           TEXT NOT NULL,
    status         TEXT NOT NULL,
    head           BIGINT NOT NULL,
    metrics        TEXT NOT NULL,
    lease_holder   TEXT NOT NULL,
    lease_until    BIGINT NOT NULL,
    generation     BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    last_event_at  BIGINT NOT NULL,
    last_timestamp TEXT NOT NULL,   -- of the last event
    in_order       BOOLEAN NOT NULL -- no event's timestamp is before its predecessor's
);
CREATE INDEX conversations_by_creation ON conversations (owner, created_at, id);
CREATE INDEX conversations_by_update ON conversations (owner, updated_at, id);
CREATE INDEX conversations_by_sandbox ON conversations (sandbox_id);
CREATE INDEX conversations_by_parent ON conversations (parent_id, created_at, id) WHERE parent_id <> '';
CREATE INDEX conversations_running ON conversations (id) WHERE status = 'running';

CREATE TABLE conversation_details (
    conversation    TEXT PRIMARY KEY,
    options         BLOB NOT NULL, -- sealed
    initial_message TEXT NOT NULL
);

CREATE TABLE events (
    conversation TEXT NOT NULL,
    seq          BIGINT NOT NULL,
    id           TEXT NOT NULL,
    kind         TEXT NOT NULL,
    source       TEXT NOT NULL,
    timestamp    TEXT NOT NULL,
    body         TEXT, -- lower-case text of a message, for search
    raw          BLOB NOT NULL,
    PRIMARY KEY (conversation, seq)
);
CREATE UNIQUE INDEX events_by_id ON events (conversation, id);
CREATE INDEX events_by_kind ON events (conversation, kind, seq);

-- +goose StatementBegin
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;
-- +goose StatementEnd

-- A whole log may go, after its conversation.
-- +goose StatementBegin
CREATE TRIGGER events_never_go BEFORE DELETE ON events
WHEN EXISTS (SELECT 1 FROM conversations WHERE id = OLD.conversation)
BEGIN
    SELECT RAISE(ABORT, 'events are append-only');
END;
-- +goose StatementEnd

CREATE TABLE start_tasks (
    id              TEXT PRIMARY KEY,
    owner           TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    sandbox_id      TEXT NOT NULL,
    status          TEXT NOT NULL,
    unfinished      BOOLEAN NOT NULL,
    detail          TEXT NOT NULL,
    request         BLOB,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL
);
CREATE INDEX start_tasks_by_owner ON start_tasks (owner, created_at, id);
CREATE INDEX start_tasks_by_conversation ON start_tasks (conversation_id, created_at, id);
CREATE INDEX start_tasks_unfinished ON start_tasks (created_at, id) WHERE unfinished;

CREATE TABLE sandboxes (
    id          TEXT PRIMARY KEY,
    owner       TEXT NOT NULL,
    spec_id     TEXT NOT NULL,
    backend     TEXT NOT NULL,
    handle      BLOB,
    status      TEXT NOT NULL,
    detail      TEXT NOT NULL,
    key_hash    BLOB, -- of the session key, for look-up
    key_sealed  BLOB,
    working_dir TEXT NOT NULL,
    host_dir    TEXT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL
);
CREATE UNIQUE INDEX sandboxes_by_key ON sandboxes (key_hash);
CREATE INDEX sandboxes_by_owner ON sandboxes (owner, created_at, id);

CREATE TABLE projections (
    conversation TEXT NOT NULL,
    name         TEXT NOT NULL,
    next_id      BIGINT NOT NULL,
    next_seq     BIGINT NOT NULL,
    PRIMARY KEY (conversation, name)
);

CREATE TABLE projection_entries (
    conversation TEXT NOT NULL,
    name         TEXT NOT NULL,
    id           BIGINT NOT NULL,
    seq          BIGINT NOT NULL,
    part         BIGINT NOT NULL,
    PRIMARY KEY (conversation, name, id)
);
