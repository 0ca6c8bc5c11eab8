DROP TABLE t_holder;
