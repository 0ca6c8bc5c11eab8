DROP TABLE t_trial_report;
DROP TABLE t_trial;
DROP TABLE t_study;
