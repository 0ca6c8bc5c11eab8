DROP TABLE t_user_limit;
