-- Where events are sent to. The log is the truth: all that is kept is how far each
-- endpoint has come in each conversation, and what became of the last deliveries.

-- +goose Up
CREATE TABLE webhook_endpoints (
    id            TEXT PRIMARY KEY,
    owner         TEXT NOT NULL,
    url           TEXT NOT NULL,
    description   TEXT NOT NULL,
    filter        TEXT NOT NULL,
    secret        BLOB NOT NULL, -- sealed
    active        BOOLEAN NOT NULL,
    reason        TEXT NOT NULL, -- why the server switched it off
    since         BIGINT NOT NULL,
    epoch         BIGINT NOT NULL,
    failing_since BIGINT NOT NULL,
    last_error    TEXT NOT NULL,
    delivered_at  BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL
);
CREATE INDEX webhook_endpoints_by_owner ON webhook_endpoints (owner, created_at, id);

-- No row: nothing of the conversation was delivered yet; the endpoint's since says
-- where to begin.
CREATE TABLE webhook_cursors (
    endpoint      TEXT NOT NULL,
    conversation  TEXT NOT NULL,
    next_seq      BIGINT NOT NULL,
    upto          BIGINT NOT NULL, -- the last seq of a delivery that failed; -1 = none
    attempts      BIGINT NOT NULL, -- of that delivery
    failing_since BIGINT NOT NULL,
    retry_at      BIGINT NOT NULL,
    PRIMARY KEY (endpoint, conversation)
);
CREATE INDEX webhook_cursors_by_conversation ON webhook_cursors (conversation);

CREATE TABLE webhook_deliveries (
    endpoint     TEXT NOT NULL,
    id           TEXT NOT NULL,
    conversation TEXT NOT NULL, -- '' = a test
    first_seq    BIGINT NOT NULL,
    last_seq     BIGINT NOT NULL,
    events       BIGINT NOT NULL,
    attempts     BIGINT NOT NULL,
    delivered    BOOLEAN NOT NULL,
    status       BIGINT NOT NULL, -- of HTTP; 0 = there was no answer
    error        TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    retry_at     BIGINT NOT NULL,
    PRIMARY KEY (endpoint, id)
);
CREATE INDEX webhook_deliveries_by_time ON webhook_deliveries (endpoint, created_at, id);
