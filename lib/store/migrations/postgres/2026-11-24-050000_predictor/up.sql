-- The predictor of demand that prices count on, as it was chosen last: one row, `number` 1. `choice` is JSON.
CREATE TABLE t_predictor (
    number BIGINT NOT NULL PRIMARY KEY,
    choice TEXT NOT NULL
);
