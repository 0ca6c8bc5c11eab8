-- The outputs of the last attempt of a task that had any to keep. `outputs` is JSON.
-- A migration that was cut short is repeated, so the table may be there already.
CREATE TABLE IF NOT EXISTS t_task_output (
    task BIGINT NOT NULL PRIMARY KEY,
    outputs MEDIUMTEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
