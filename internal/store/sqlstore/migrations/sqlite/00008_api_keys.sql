-- Keys that users make for their programs, beside those of the configuration. Keys get
-- an id, which is never used again.

-- +goose Up

CREATE TABLE new_api_keys (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    hash       BLOB NOT NULL UNIQUE,
    user_id    TEXT NOT NULL,
    label      TEXT NOT NULL,
    name       TEXT NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL DEFAULT 0,
    used_at    BIGINT, -- about; NULL: never
    not_before BIGINT,
    expires_at BIGINT
);
INSERT INTO new_api_keys (hash, user_id, label) SELECT hash, user_id, label FROM api_keys;
DROP TABLE api_keys;
ALTER TABLE new_api_keys RENAME TO api_keys;
CREATE INDEX api_keys_by_user ON api_keys (user_id, label);
