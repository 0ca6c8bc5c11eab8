-- `written`: the bytes of a line where they are other than its text and an end of line. And the deleted tasks of whose logs
-- lines are left.
ALTER TABLE t_task_log ADD COLUMN written BYTEA NULL;
CREATE TABLE t_task_log_removal (task BIGINT NOT NULL PRIMARY KEY);
