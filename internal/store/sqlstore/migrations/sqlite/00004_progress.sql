-- Where a conversation stands: a document that every append rewrites with the rest of
-- the summary.

-- +goose Up
ALTER TABLE conversations ADD COLUMN progress TEXT NOT NULL DEFAULT '{}';
