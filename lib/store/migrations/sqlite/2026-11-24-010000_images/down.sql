DROP TABLE t_task_image;
DROP TABLE t_image;
