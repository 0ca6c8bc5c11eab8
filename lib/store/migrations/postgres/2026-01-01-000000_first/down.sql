DROP TABLE t_owner;
DROP TABLE t_binding;
DROP TABLE t_retention;
DROP TABLE t_history;
DROP TABLE t_data;
DROP TABLE t_dp_history;
DROP TABLE t_dp;
