-- Promises of capacity: as each was asked for, how far it is, and the revision of the ledger with which it changed last.
-- `asked` and `progress` are JSON. t_promise_revision has the revision of the ledger, and that up to which promises that
-- are over were removed.
CREATE TABLE t_promise (
    number BIGINT NOT NULL PRIMARY KEY,
    id VARCHAR(64) COLLATE "C" NOT NULL UNIQUE,
    idempotency_key VARCHAR(255) COLLATE "C" NULL,
    asked TEXT NOT NULL,
    progress TEXT NOT NULL,
    revision BIGINT NOT NULL,
    made_at BIGINT NOT NULL,
    made_by TEXT NOT NULL
);

CREATE TABLE t_promise_revision (
    name VARCHAR(64) COLLATE "C" NOT NULL PRIMARY KEY,
    revision BIGINT NOT NULL
);
