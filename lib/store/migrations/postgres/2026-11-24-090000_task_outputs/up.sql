-- The outputs of the last attempt of a task that had any to keep. `outputs` is JSON.
CREATE TABLE t_task_output (
    task BIGINT NOT NULL PRIMARY KEY,
    outputs TEXT NOT NULL
);
