DROP TABLE IF EXISTS t_task_cursor;
DROP TABLE IF EXISTS t_task_feed;
