-- How far tasks said they are, in one order over all of them; the oldest go when there are many. `place` counts the reports of
-- one task, `report` is JSON. t_task_cursor has the newest revision (`progress`) and the one up to which reports are gone
-- (`progress-base`).
CREATE TABLE t_task_progress (
    revision BIGINT NOT NULL PRIMARY KEY,
    task BIGINT NOT NULL,
    place BIGINT NOT NULL,
    report TEXT NOT NULL
);

CREATE INDEX i_task_progress ON t_task_progress (task, place);
