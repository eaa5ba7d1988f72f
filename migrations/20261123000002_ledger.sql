-- What each scope has given to its children. A scope is a kind and a name; the program gives the kinds their numbers.
-- Three sorts of rows:
--   (scope, '', '')       children: all direct children and holds
--   (scope, domain, '')   listed: the scope names the domain; mandatory: children carry each of its limited keys;
--                         children: those that use it; limits: how many of its keys have a limit
--   (scope, domain, key)  hard (NULL: unlimited), allocated; children: those that carry the key
-- Amounts count units of 10^-9. `ceiling` is set by holds and repair alone, where more was found than is allowed; only with
-- one may a row be above its limit. `excess` is by how much it is: so much of it counts in the scope that is paid, too.
CREATE TABLE ledger (
    scope_kind smallint NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    domain     text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL CHECK (key = '' OR domain <> ''),
    listed     boolean NOT NULL DEFAULT false,
    mandatory  boolean NOT NULL DEFAULT false,
    limits     bigint NOT NULL DEFAULT 0 CHECK (limits >= 0),
    children   bigint NOT NULL DEFAULT 0 CHECK (children >= 0),
    hard       numeric CHECK (hard >= 0),
    allocated  numeric NOT NULL DEFAULT 0 CHECK (allocated >= 0),
    ceiling    numeric,
    excess     numeric NOT NULL DEFAULT 0,
    PRIMARY KEY (scope_kind, scope, domain, key),
    CONSTRAINT ledger_never_over_committed
        CHECK (hard IS NULL OR allocated <= hard OR (ceiling IS NOT NULL AND allocated <= ceiling))
) WITH (fillfactor = 40, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.02);

-- Who has a place of a domain. Two objects never share one.
CREATE TABLE claims (
    domain text COLLATE "C" NOT NULL CHECK (domain <> ''),
    place  text COLLATE "C" NOT NULL CHECK (place <> ''),
    uid    uuid NOT NULL,
    PRIMARY KEY (domain, place)
);

-- Amounts that no object stands for and that count until they are written off. The rows of one uid mirror the ledger
-- rows that they count in.
CREATE TABLE holds (
    uid        uuid NOT NULL,
    scope_kind smallint NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    domain     text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    amount     numeric NOT NULL CHECK (amount >= 0),
    carried    boolean NOT NULL,
    place      text COLLATE "C" NOT NULL,
    state      text NOT NULL,
    reason     text NOT NULL,
    created    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (uid, domain, key)
);
CREATE INDEX holds_by_scope ON holds (scope_kind, scope);
