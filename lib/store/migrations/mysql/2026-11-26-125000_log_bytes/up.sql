-- `written`: the bytes of a line where they are other than its text and an end of line. And the deleted tasks of whose logs
-- lines are left.
-- A migration that was cut short is repeated, so the column and the table may be there already.
SET @estimand_alter = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 't_task_log' AND column_name = 'written') = 0,
    'ALTER TABLE t_task_log ADD COLUMN written MEDIUMBLOB NULL',
    'DO 0');
PREPARE estimand_alter FROM @estimand_alter;
EXECUTE estimand_alter;
DEALLOCATE PREPARE estimand_alter;
CREATE TABLE IF NOT EXISTS t_task_log_removal (
    task BIGINT NOT NULL PRIMARY KEY
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
