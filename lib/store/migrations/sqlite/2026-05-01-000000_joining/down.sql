ALTER TABLE t_token DROP COLUMN used_by;
