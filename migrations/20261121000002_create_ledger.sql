-- What each scope has given to its children. Three sorts of rows:
--   (scope, '', '')             children: all direct children and holds
--   (scope, cluster, '')        listed: the scope names the cluster; children: those that use it;
--                               limits: how many resources of it have a hard limit
--   (scope, cluster, resource)  hard (NULL: unlimited), allocated; children: those whose spec carries the resource
-- Amounts count units of 10^-9. `ceiling` is set by import and repair alone, where more was found than is allowed.
CREATE TABLE ledger (
    scope     text COLLATE "C" NOT NULL CHECK (scope <> ''),
    cluster   text COLLATE "C" NOT NULL,
    resource  text COLLATE "C" NOT NULL CHECK (resource = '' OR cluster <> ''),
    listed    boolean NOT NULL DEFAULT false,
    limits    bigint NOT NULL DEFAULT 0 CHECK (limits >= 0),
    children  bigint NOT NULL DEFAULT 0 CHECK (children >= 0),
    hard      numeric CHECK (hard >= 0),
    allocated numeric NOT NULL DEFAULT 0 CHECK (allocated >= 0),
    ceiling   numeric,
    PRIMARY KEY (scope, cluster, resource),
    CONSTRAINT ledger_never_over_committed CHECK (hard IS NULL OR allocated <= greatest(hard, ceiling))
) WITH (fillfactor = 40, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.02);

-- Who has a namespace of a member cluster. Two objects never share one.
CREATE TABLE claims (
    cluster     text COLLATE "C" NOT NULL CHECK (cluster <> ''),
    namespace   text COLLATE "C" NOT NULL CHECK (namespace <> ''),
    uid         uuid NOT NULL,
    kind        smallint NOT NULL,
    object_ns   text COLLATE "C" NOT NULL,
    object_name text COLLATE "C" NOT NULL,
    PRIMARY KEY (cluster, namespace)
);

-- Amounts that no object stands for any more and that count until they are written off: `abandoned` when an
-- operator gave up on a member cluster, `orphaned` when the audit found a cluster namespace without an object.
-- The rows of one uid mirror the ledger rows that they count in.
CREATE TABLE holds (
    uid       uuid NOT NULL,
    scope     text COLLATE "C" NOT NULL,
    cluster   text COLLATE "C" NOT NULL,
    resource  text COLLATE "C" NOT NULL,
    amount    numeric NOT NULL CHECK (amount >= 0),
    carried   boolean NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    state     text NOT NULL CHECK (state IN ('abandoned', 'orphaned')),
    reason    text NOT NULL,
    created   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (uid, cluster, resource)
);
CREATE INDEX holds_by_scope ON holds (scope);
