-- Tasks that were submitted together as an array: one document for all of them. Their numbers follow that of the array.
-- A migration that was cut short is repeated, so the table may be there already.
CREATE TABLE IF NOT EXISTS t_task_array (
    number BIGINT NOT NULL PRIMARY KEY,
    id VARCHAR(64) NOT NULL UNIQUE,
    idempotency_key VARCHAR(255) NULL UNIQUE,
    document MEDIUMTEXT NOT NULL,
    size BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
