-- The predictor of demand that prices count on, as it was chosen last: one row, `number` 1. `choice` is JSON.
CREATE TABLE IF NOT EXISTS t_predictor (
    number BIGINT NOT NULL PRIMARY KEY,
    choice TEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
