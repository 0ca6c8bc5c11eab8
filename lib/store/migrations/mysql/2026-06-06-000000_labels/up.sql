-- The labels of a node that are not its agent's own, and those that a token binds to a node. JSON.
-- A migration that was cut short is repeated, so the columns may be there already.
SET @estimand_alter = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 't_node' AND column_name = 'given_labels') = 0,
    'ALTER TABLE t_node ADD COLUMN given_labels MEDIUMTEXT NULL',
    'DO 0');
PREPARE estimand_alter FROM @estimand_alter;
EXECUTE estimand_alter;
DEALLOCATE PREPARE estimand_alter;
SET @estimand_alter = IF(
    (SELECT COUNT(*) FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 't_token' AND column_name = 'labels') = 0,
    'ALTER TABLE t_token ADD COLUMN labels TEXT NULL',
    'DO 0');
PREPARE estimand_alter FROM @estimand_alter;
EXECUTE estimand_alter;
DEALLOCATE PREPARE estimand_alter;
