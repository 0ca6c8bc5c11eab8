-- Promises of capacity: as each was asked for, how far it is, and the revision of the ledger with which it changed last.
-- `asked` and `progress` are JSON. t_promise_revision has the revision of the ledger, and that up to which promises that
-- are over were removed.
-- A migration that was cut short is repeated, so the tables may be there already.
CREATE TABLE IF NOT EXISTS t_promise (
    number BIGINT NOT NULL PRIMARY KEY,
    id VARCHAR(64) NOT NULL UNIQUE,
    idempotency_key VARCHAR(255) NULL,
    asked MEDIUMTEXT NOT NULL,
    progress MEDIUMTEXT NOT NULL,
    revision BIGINT NOT NULL,
    made_at BIGINT NOT NULL,
    made_by MEDIUMTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_promise_revision (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    revision BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
