-- The user whose tasks and files a token is for.
-- A migration that was cut short is repeated, so the column may be there already.
SET @estimand_alter = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 't_token' AND column_name = 'user_name') = 0,
    'ALTER TABLE t_token ADD COLUMN user_name VARCHAR(64) NULL',
    'DO 0');
PREPARE estimand_alter FROM @estimand_alter;
EXECUTE estimand_alter;
DEALLOCATE PREPARE estimand_alter;
