-- What model calls cost. Amounts are billionths of a US dollar. cost is settled
-- for sure, uncertain may have been charged on top, held is reserved by calls
-- that are under way; tokens and tokens_held are those of calls without a known
-- price, which count against ceilings in tokens.

-- +goose Up

-- One row per conversation that called a model, or that has one below it. The
-- sums are of the whole subtree. The row outlives its conversation as long as
-- there are conversations below it or reservations.
CREATE TABLE spend_accounts (
    conversation       TEXT PRIMARY KEY,
    parent             TEXT NOT NULL, -- '' = a root
    gone               BOOLEAN NOT NULL, -- the conversation was deleted
    own_limit          BIGINT,
    held               BIGINT NOT NULL,
    tokens             BIGINT NOT NULL,
    tokens_held        BIGINT NOT NULL,
    calls              BIGINT NOT NULL,
    cost               BIGINT NOT NULL,
    uncertain          BIGINT NOT NULL,
    prompt_tokens      BIGINT NOT NULL,
    completion_tokens  BIGINT NOT NULL,
    cache_read_tokens  BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    reasoning_tokens   BIGINT NOT NULL
);
CREATE INDEX spend_accounts_by_parent ON spend_accounts (parent) WHERE parent <> '';

-- The sums of an owner's day (UTC).
CREATE TABLE spend_days (
    owner              TEXT NOT NULL,
    day                TEXT NOT NULL,
    held               BIGINT NOT NULL,
    tokens             BIGINT NOT NULL,
    tokens_held        BIGINT NOT NULL,
    calls              BIGINT NOT NULL,
    cost               BIGINT NOT NULL,
    uncertain          BIGINT NOT NULL,
    prompt_tokens      BIGINT NOT NULL,
    completion_tokens  BIGINT NOT NULL,
    cache_read_tokens  BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    reasoning_tokens   BIGINT NOT NULL,
    PRIMARY KEY (owner, day)
);

-- The same by use and model.
CREATE TABLE spend_day_uses (
    owner              TEXT NOT NULL,
    day                TEXT NOT NULL,
    use                TEXT NOT NULL,
    model              TEXT NOT NULL,
    calls              BIGINT NOT NULL,
    cost               BIGINT NOT NULL,
    uncertain          BIGINT NOT NULL,
    prompt_tokens      BIGINT NOT NULL,
    completion_tokens  BIGINT NOT NULL,
    cache_read_tokens  BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    reasoning_tokens   BIGINT NOT NULL,
    PRIMARY KEY (owner, day, use, model)
);

-- The spending of a conversation alone.
CREATE TABLE spend_uses (
    conversation       TEXT NOT NULL,
    use                TEXT NOT NULL,
    calls              BIGINT NOT NULL,
    cost               BIGINT NOT NULL,
    uncertain          BIGINT NOT NULL,
    prompt_tokens      BIGINT NOT NULL,
    completion_tokens  BIGINT NOT NULL,
    cache_read_tokens  BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    reasoning_tokens   BIGINT NOT NULL,
    PRIMARY KEY (conversation, use)
);

-- Calls that are under way. A row goes when its call is settled.
CREATE TABLE spend_reservations (
    id           TEXT PRIMARY KEY,
    conversation TEXT NOT NULL, -- '' = none
    owner        TEXT NOT NULL,
    day          TEXT NOT NULL,
    use          TEXT NOT NULL,
    model        TEXT NOT NULL,
    amount       BIGINT NOT NULL,
    tokens       BIGINT NOT NULL,
    holder       TEXT NOT NULL
);
CREATE INDEX spend_reservations_by_holder ON spend_reservations (holder);
CREATE INDEX spend_reservations_by_conversation ON spend_reservations (conversation) WHERE conversation <> '';

-- What conversations have cost before there was a ledger counts against their
-- ceilings.
INSERT INTO spend_uses
SELECT id, 'agent', 0, CAST(round(min(json_extract(metrics, '$.accumulated_cost'), 9e6) * 1e9) AS INTEGER), 0,
       coalesce(json_extract(metrics, '$.accumulated_token_usage.prompt_tokens'), 0),
       coalesce(json_extract(metrics, '$.accumulated_token_usage.completion_tokens'), 0),
       coalesce(json_extract(metrics, '$.accumulated_token_usage.cache_read_tokens'), 0),
       coalesce(json_extract(metrics, '$.accumulated_token_usage.cache_write_tokens'), 0),
       coalesce(json_extract(metrics, '$.accumulated_token_usage.reasoning_tokens'), 0)
FROM conversations
WHERE CASE WHEN json_valid(metrics) THEN json_extract(metrics, '$.accumulated_cost') >= 1e-9 END;

INSERT INTO spend_accounts
WITH RECURSIVE above (conversation, ancestor) AS (
    SELECT conversation, conversation FROM spend_uses
    UNION
    SELECT above.conversation, c.parent_id
    FROM above JOIN conversations c ON c.id = above.ancestor
    WHERE c.parent_id <> ''
)
SELECT above.ancestor, coalesce(c.parent_id, ''), c.id IS NULL, NULL, 0, 0, 0, 0, sum(u.cost), 0, sum(u.prompt_tokens),
       sum(u.completion_tokens), sum(u.cache_read_tokens), sum(u.cache_write_tokens), sum(u.reasoning_tokens)
FROM above
JOIN spend_uses u ON u.conversation = above.conversation
LEFT JOIN conversations c ON c.id = above.ancestor
GROUP BY above.ancestor;
