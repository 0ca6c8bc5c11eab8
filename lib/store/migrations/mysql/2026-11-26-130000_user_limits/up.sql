-- The limits that operators have set for users. JSON.
-- A migration that was cut short is repeated, so the table may be there already.
CREATE TABLE IF NOT EXISTS t_user_limit (
    user_name VARCHAR(64) NOT NULL PRIMARY KEY,
    limits TEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
