DROP TABLE t_task_output;
