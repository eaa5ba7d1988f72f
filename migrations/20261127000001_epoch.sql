-- Where an epoch began: revisions before it belong to another history, however far this one is compacted by now. A release that
-- does not know the columns leaves them to the epoch before; then `compacted` is what is known.
ALTER TABLE compaction ADD COLUMN epoch uuid, ADD COLUMN epoch_start bigint NOT NULL DEFAULT 0;
