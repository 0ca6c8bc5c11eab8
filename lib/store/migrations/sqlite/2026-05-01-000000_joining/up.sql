-- By which key a join token was used up: its answer may be lost, and that key may ask again.
ALTER TABLE t_token ADD COLUMN used_by VARCHAR(64) NULL;
