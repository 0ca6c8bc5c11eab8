-- Tasks, how far each is, what happened to it, and its log. `progress`, `log` and `why` are JSON. The number of a task is
-- never given again; its id may be once it is deleted, and its attempts then go on counting from t_task_gone.
-- A migration that was cut short is repeated, so the tables may be there already.
CREATE TABLE IF NOT EXISTS t_task (
    number BIGINT NOT NULL PRIMARY KEY,
    id VARCHAR(64) NOT NULL UNIQUE,
    idempotency_key VARCHAR(255) NULL UNIQUE,
    document MEDIUMTEXT NOT NULL,
    progress MEDIUMTEXT NOT NULL,
    why MEDIUMTEXT NULL,
    log MEDIUMTEXT NOT NULL,
    submitted_at BIGINT NOT NULL,
    submitted_by VARCHAR(255) NOT NULL,
    ended_at BIGINT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_task_gone (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    attempt BIGINT NOT NULL,
    at BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_task_event (
    task BIGINT NOT NULL,
    place BIGINT NOT NULL,
    at BIGINT NOT NULL,
    transition MEDIUMTEXT NOT NULL,
    PRIMARY KEY (task, place)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS t_task_log (
    task BIGINT NOT NULL,
    line_number BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    at BIGINT NOT NULL,
    stream VARCHAR(16) NOT NULL,
    content MEDIUMTEXT NOT NULL,
    continues BOOLEAN NOT NULL,
    dropped BIGINT NOT NULL,
    PRIMARY KEY (task, line_number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
