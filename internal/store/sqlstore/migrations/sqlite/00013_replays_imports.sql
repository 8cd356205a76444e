-- What conversations bring along: recordings that happen again, and what was imported
-- from other servers.

-- +goose Up

-- The items of a recording, one JSON list. It never changes; the log says how far the
-- conversation is.
CREATE TABLE replays (
    conversation TEXT PRIMARY KEY,
    items        TEXT NOT NULL
);

-- Which conversations were imported, and what their source was like then.
CREATE TABLE imports (
    conversation TEXT PRIMARY KEY,
    digest       BLOB NOT NULL,
    created_at   BIGINT NOT NULL
);

-- The legacy events of imported conversations as they were in their source, by the
-- numbers that projection_entries has for them.
CREATE TABLE imported_events (
    conversation TEXT NOT NULL,
    id           BIGINT NOT NULL,
    raw          BLOB NOT NULL,
    PRIMARY KEY (conversation, id)
);
