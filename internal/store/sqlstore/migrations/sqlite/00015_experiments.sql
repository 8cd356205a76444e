-- What legacy clients configure of experiments, also for conversations to come.

-- +goose Up
CREATE TABLE experiments (
    owner        TEXT NOT NULL,
    conversation TEXT NOT NULL,
    config       TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (owner, conversation)
);
CREATE INDEX experiments_by_conversation ON experiments (conversation);
