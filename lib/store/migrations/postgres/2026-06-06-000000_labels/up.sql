-- The labels of a node that are not its agent's own, and those that a token binds to a node. JSON.
ALTER TABLE t_node ADD COLUMN given_labels TEXT NULL;
ALTER TABLE t_token ADD COLUMN labels TEXT NULL;
