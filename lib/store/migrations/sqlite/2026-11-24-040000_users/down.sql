ALTER TABLE t_token DROP COLUMN user_name;
