-- Where a conversation was forked. It never changes, so it is not in the row that
-- every append rewrites.

-- +goose Up
ALTER TABLE conversation_details ADD COLUMN forked_from TEXT NOT NULL DEFAULT '';
ALTER TABLE conversation_details ADD COLUMN forked_at TEXT NOT NULL DEFAULT '';
