DROP TABLE IF EXISTS t_user_limit;
