DROP TABLE t_task_cursor;
DROP TABLE t_task_feed;
