DROP TABLE t_leader;
DROP TABLE t_placement;
DROP TABLE t_node;
