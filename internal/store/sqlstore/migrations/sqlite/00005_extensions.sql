-- What is added to agents, and what users decided about it.

-- +goose Up

-- The bundles of a conversation, sealed as one document: servers hold keys.
CREATE TABLE bundles (
    conversation TEXT PRIMARY KEY,
    sealed       BLOB NOT NULL
);

-- Whether a subject may run as long as its content has the hash.
CREATE TABLE decisions (
    owner      TEXT NOT NULL,
    subject    TEXT NOT NULL,
    hash       TEXT NOT NULL,
    trusted    BOOLEAN NOT NULL,
    decided_at BIGINT NOT NULL,
    PRIMARY KEY (owner, subject, hash)
);

CREATE TABLE user_skills (
    owner      TEXT NOT NULL,
    name       TEXT NOT NULL,
    content    BLOB NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (owner, name)
);

CREATE TABLE credentials (
    owner  TEXT NOT NULL,
    name   TEXT NOT NULL,
    sealed BLOB NOT NULL,
    PRIMARY KEY (owner, name)
);
