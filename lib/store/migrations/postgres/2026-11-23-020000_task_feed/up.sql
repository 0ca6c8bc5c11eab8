-- What happened to tasks, in one order: each event has a revision, one more than the event before. Deleted tasks are in it;
-- the oldest events go when there are many. `event` is JSON. t_task_cursor says how far each reader of it that counts is.
CREATE TABLE t_task_feed (
    revision BIGINT NOT NULL PRIMARY KEY,
    task BIGINT NOT NULL,
    id VARCHAR(64) COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    event TEXT NOT NULL
);

CREATE TABLE t_task_cursor (
    name VARCHAR(64) COLLATE "C" NOT NULL PRIMARY KEY,
    revision BIGINT NOT NULL
);

-- What is there already, in the order of time; of one moment in the order of submission.
INSERT INTO t_task_feed (revision, task, id, at, event)
SELECT ROW_NUMBER() OVER (ORDER BY past.at, past.task, past.place), past.task, past.id, past.at, past.event
FROM (
    SELECT submitted_at AS at, number AS task, -1 AS place, id, '{"to":"QUEUED","cause":{"event":"submit"}}' AS event
    FROM t_task
    UNION ALL
    SELECT t_task_event.at, t_task_event.task, t_task_event.place, t_task.id, t_task_event.transition
    FROM t_task_event JOIN t_task ON t_task.number = t_task_event.task
) past;
