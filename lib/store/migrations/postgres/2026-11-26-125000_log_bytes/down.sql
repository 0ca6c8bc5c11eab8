DROP TABLE t_task_log_removal;
ALTER TABLE t_task_log DROP COLUMN written;
