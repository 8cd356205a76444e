-- What surrounds conversations: messages that wait for their start, requests that
-- must not start one twice, links that show one, and the index of their texts.

-- +goose Up

-- Messages for a conversation that is starting, in the order of seq.
CREATE TABLE pending_messages (
    conversation TEXT NOT NULL,
    seq          BIGINT NOT NULL,
    id           TEXT NOT NULL, -- of the event that it becomes
    content      TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (conversation, seq)
);

-- By which names a start can be asked for again: the conversation's id, an
-- idempotency key. The digest of the request is sealed: requests carry secrets.
CREATE TABLE start_keys (
    owner        TEXT NOT NULL,
    name         TEXT NOT NULL,
    conversation TEXT NOT NULL,
    task         TEXT NOT NULL,
    sealed       BLOB NOT NULL,
    PRIMARY KEY (owner, name)
);
CREATE INDEX start_keys_by_conversation ON start_keys (conversation);

-- Links that open a conversation for reading. The token is stored as its hash.
CREATE TABLE shares (
    id           TEXT PRIMARY KEY,
    owner        TEXT NOT NULL,
    conversation TEXT NOT NULL,
    hash         BLOB NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL
);
CREATE UNIQUE INDEX shares_by_hash ON shares (hash);
CREATE INDEX shares_by_conversation ON shares (conversation, created_at, id);

-- The full-text index. A document is an event, or with the seq -1 a title. Its id is
-- a time in microseconds, made unique, so that the newest comes first. The texts
-- themselves are in the log.
CREATE TABLE search_docs (
    id           INTEGER PRIMARY KEY,
    conversation TEXT NOT NULL,
    seq          BIGINT NOT NULL
);
CREATE UNIQUE INDEX search_docs_by_event ON search_docs (conversation, seq);

-- scope has two words: whose the document is and which conversation it belongs to.
CREATE VIRTUAL TABLE search_text USING fts5(scope, text, content='', contentless_delete=1,
    tokenize="unicode61 remove_diacritics 0");

-- How many events of a log are in the index; -1 is not even the title. What an
-- older version wrote is indexed in the background.
ALTER TABLE conversations ADD COLUMN indexed BIGINT NOT NULL DEFAULT -1;
CREATE INDEX conversations_to_index ON conversations (id) WHERE indexed < head;
