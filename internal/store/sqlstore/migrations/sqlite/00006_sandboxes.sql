-- What a sandbox was asked to be, and what it connected to.

-- +goose Up

-- The fleet's document; NULL is its spec as it is.
ALTER TABLE sandboxes ADD COLUMN wanted TEXT;

CREATE TABLE network_log (
    sandbox_id TEXT NOT NULL,
    id         TEXT NOT NULL,
    began      BIGINT NOT NULL,
    lasted     BIGINT NOT NULL, -- microseconds
    open       BOOLEAN NOT NULL,
    protocol   TEXT NOT NULL,
    host       TEXT NOT NULL,
    address    TEXT NOT NULL,
    port       INTEGER NOT NULL,
    sent       BIGINT NOT NULL,
    received   BIGINT NOT NULL,
    verdict    TEXT NOT NULL,
    reason     TEXT NOT NULL,
    PRIMARY KEY (sandbox_id, id)
);
CREATE INDEX network_log_by_time ON network_log (sandbox_id, began, id);
CREATE INDEX network_log_open ON network_log (sandbox_id) WHERE open;
