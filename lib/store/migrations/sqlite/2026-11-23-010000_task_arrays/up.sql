-- Tasks that were submitted together as an array: one document for all of them. Their numbers follow that of the array.
CREATE TABLE t_task_array (
    number BIGINT NOT NULL PRIMARY KEY,
    id VARCHAR(64) NOT NULL UNIQUE,
    idempotency_key VARCHAR(255) NULL UNIQUE,
    document TEXT NOT NULL,
    size BIGINT NOT NULL
);
