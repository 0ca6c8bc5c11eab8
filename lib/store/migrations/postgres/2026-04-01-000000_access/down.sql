DROP TABLE t_audit;
DROP TABLE t_token;
