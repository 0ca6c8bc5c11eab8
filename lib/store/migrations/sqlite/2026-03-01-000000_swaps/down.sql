DROP TABLE t_binding_history;
ALTER TABLE t_binding DROP COLUMN field;
