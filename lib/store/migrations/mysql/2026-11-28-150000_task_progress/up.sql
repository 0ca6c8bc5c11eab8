-- How far tasks said they are, in one order over all of them; the oldest go when there are many. `place` counts the reports of
-- one task, `report` is JSON. t_task_cursor has the newest revision (`progress`) and the one up to which reports are gone
-- (`progress-base`).
-- A migration that was cut short is repeated, so the table may be there already.
CREATE TABLE IF NOT EXISTS t_task_progress (
    revision BIGINT NOT NULL PRIMARY KEY,
    task BIGINT NOT NULL,
    place BIGINT NOT NULL,
    report MEDIUMTEXT NOT NULL,
    INDEX i_task_progress (task, place)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
