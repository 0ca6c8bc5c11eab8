DROP TABLE IF EXISTS t_task_progress;
