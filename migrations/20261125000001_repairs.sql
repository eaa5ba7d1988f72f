-- How often the ledger was repaired. What a repair adds was found in a snapshot: it holds as long as no other repair has come since.
ALTER TABLE rev ADD COLUMN repairs bigint NOT NULL DEFAULT 0;
