-- The user whose tasks and files a token is for.
ALTER TABLE t_token ADD COLUMN user_name VARCHAR(64) COLLATE "C" NULL;
