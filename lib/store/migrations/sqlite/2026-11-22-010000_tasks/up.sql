-- Tasks, how far each is, what happened to it, and its log. `progress`, `log` and `why` are JSON. The number of a task is
-- never given again; its id may be once it is deleted, and its attempts then go on counting from t_task_gone.
CREATE TABLE t_task (
    number BIGINT NOT NULL PRIMARY KEY,
    id VARCHAR(64) NOT NULL UNIQUE,
    idempotency_key VARCHAR(255) NULL UNIQUE,
    document TEXT NOT NULL,
    progress TEXT NOT NULL,
    why TEXT NULL,
    log TEXT NOT NULL,
    submitted_at BIGINT NOT NULL,
    submitted_by VARCHAR(255) NOT NULL,
    ended_at BIGINT NULL
);

CREATE TABLE t_task_gone (
    id VARCHAR(64) NOT NULL PRIMARY KEY,
    attempt BIGINT NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE t_task_event (
    task BIGINT NOT NULL,
    place BIGINT NOT NULL,
    at BIGINT NOT NULL,
    transition TEXT NOT NULL,
    PRIMARY KEY (task, place)
);

CREATE TABLE t_task_log (
    task BIGINT NOT NULL,
    line_number BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    at BIGINT NOT NULL,
    stream VARCHAR(16) NOT NULL,
    content TEXT NOT NULL,
    continues BOOLEAN NOT NULL,
    dropped BIGINT NOT NULL,
    PRIMARY KEY (task, line_number)
);
