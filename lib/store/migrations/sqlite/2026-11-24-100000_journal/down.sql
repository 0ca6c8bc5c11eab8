DROP TABLE t_journal;
