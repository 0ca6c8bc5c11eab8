ALTER TABLE t_token DROP COLUMN labels;
ALTER TABLE t_node DROP COLUMN given_labels;
