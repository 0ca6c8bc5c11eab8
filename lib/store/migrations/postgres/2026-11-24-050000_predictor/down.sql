DROP TABLE IF EXISTS t_predictor;
