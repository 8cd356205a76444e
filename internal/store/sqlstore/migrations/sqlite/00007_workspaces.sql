-- Commands that clients run in sandboxes, and the directories that users keep in a list.

-- +goose Up

CREATE TABLE command_events (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    sandbox_id TEXT NOT NULL,
    id         TEXT NOT NULL,
    kind       TEXT NOT NULL,
    command_id TEXT NOT NULL, -- of outputs; '' for a command
    piece      INTEGER NOT NULL, -- order of outputs; -1 for a command
    open       BOOLEAN NOT NULL, -- a command that has not ended
    time       BIGINT NOT NULL,
    size       INTEGER NOT NULL, -- bytes of raw
    raw        TEXT NOT NULL,
    UNIQUE (sandbox_id, id)
);
CREATE INDEX command_events_by_seq ON command_events (sandbox_id, seq, size);
CREATE INDEX command_events_outputs ON command_events (sandbox_id, command_id, piece);
CREATE INDEX command_events_open ON command_events (sandbox_id) WHERE open;

CREATE TABLE saved_places (
    owner TEXT NOT NULL,
    kind  TEXT NOT NULL, -- 'workspace', 'parent'
    path  TEXT NOT NULL,
    place INTEGER NOT NULL, -- in the list
    doc   TEXT NOT NULL, -- as the client sent it
    PRIMARY KEY (owner, kind, path)
);
