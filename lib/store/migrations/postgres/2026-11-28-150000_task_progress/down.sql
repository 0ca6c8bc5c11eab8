DROP TABLE t_task_progress;
