-- To give pages at the end of a table back to the disk, vacuum locks the table for everybody. On a standby that lock waits for
-- the first read of a replica, which lasts as long as it takes to read everything, and what was committed since waits behind it.
ALTER TABLE objects SET (vacuum_truncate = off, toast.vacuum_truncate = off);
ALTER TABLE events SET (vacuum_truncate = off, toast.vacuum_truncate = off);
