-- Instants are microseconds. Keys compare byte by byte.
-- Each statement commits at once: a migration that was cut short has to find what it made the last time. MySQL
-- has no word for a column that may be there already, so the statement is made only if it is not.
SET @estimand_alter = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 't_binding' AND column_name = 'field') = 0,
    'ALTER TABLE t_binding ADD COLUMN field VARCHAR(512) NULL',
    'DO 0');
PREPARE estimand_alter FROM @estimand_alter;
EXECUTE estimand_alter;
DEALLOCATE PREPARE estimand_alter;

CREATE TABLE IF NOT EXISTS t_binding_history (
    data_name VARCHAR(128) NOT NULL,
    revision BIGINT NOT NULL,
    action VARCHAR(16) NOT NULL,
    at BIGINT NOT NULL,
    actor VARCHAR(255) NOT NULL,
    target VARCHAR(128) NOT NULL,
    field VARCHAR(512) NULL,
    before_target VARCHAR(128) NULL,
    before_field VARCHAR(512) NULL,
    PRIMARY KEY (data_name, revision)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
