-- Kinds by number, so that a row of every other table carries two bytes and no name. The program gives the
-- numbers and finds here whether other versions of it mean the same by them.
CREATE TABLE kinds (
    id       smallint PRIMARY KEY,
    grp      text NOT NULL,
    resource text NOT NULL,
    UNIQUE (grp, resource)
);

-- The revision counter, one row. Whoever writes holds its lock until commit: commit order is revision order.
-- `epoch` moves when history has diverged; while `held`, nothing may grow. The index is on the value: while somebody keeps
-- a snapshot, a row with a fixed key would be found through all the versions it has had since.
CREATE TABLE rev (
    id          int NOT NULL,
    v           bigint PRIMARY KEY,
    epoch       uuid NOT NULL,
    held        boolean NOT NULL DEFAULT false,
    held_reason text NOT NULL DEFAULT ''
) WITH (vacuum_truncate = off, autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0.02);
INSERT INTO rev (id, v, epoch) VALUES (1, 1, gen_random_uuid());

-- Events up to `compacted` may be gone.
CREATE TABLE compaction (
    id        int PRIMARY KEY CHECK (id = 1),
    compacted bigint NOT NULL
);
INSERT INTO compaction (id, compacted) VALUES (1, 0);

-- The current state, one row an object. `body` is JSON without resourceVersion. `scope_kind` and `scope` name the
-- scope that the object pays; NULL for one that costs nobody anything.
CREATE TABLE objects (
    kind       smallint NOT NULL,
    namespace  text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    uid        uuid NOT NULL,
    rv         bigint NOT NULL,
    create_rv  bigint NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    scope_kind smallint,
    scope      text COLLATE "C",
    deleting   boolean NOT NULL,
    locked     boolean NOT NULL,
    body       text NOT NULL,
    PRIMARY KEY (kind, namespace, name)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1);

-- The history that watches read. `op` is c(reated), u(pdated) or d(eleted); a deletion carries the last state.
-- `before` holds the attributes before the change, so that a selector can tell a leaving object.
CREATE TABLE events (
    rv        bigint PRIMARY KEY,
    kind      smallint NOT NULL,
    op        "char" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    uid       uuid NOT NULL,
    before    text,
    body      text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.2);

-- One row a batch: the proof that it was committed, or (`cancelled`) that it never will be. A batch is refused
-- when its writer has a row of the same or a later number, so only the newest row of a writer is kept.
CREATE TABLE batches (
    writer    uuid NOT NULL,
    seq       bigint NOT NULL,
    cancelled boolean NOT NULL DEFAULT false,
    base      bigint NOT NULL DEFAULT 0,
    outcome   smallint[] NOT NULL DEFAULT '{}',
    detail    text[] NOT NULL DEFAULT '{}',
    created   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (writer, seq)
) WITH (fillfactor = 50, vacuum_truncate = off, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0.02);

-- lz4 compresses a body four times as fast as the default, where the server was built with it.
DO $$
BEGIN
    ALTER TABLE objects ALTER COLUMN body SET COMPRESSION lz4;
    ALTER TABLE events ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN OTHERS THEN
    RAISE NOTICE 'this server has no lz4; bodies keep the default compression';
END
$$;
