-- The process that holds the store as an owner, in its own words. The beat grows as long as it can write.
CREATE TABLE IF NOT EXISTS t_holder (
    name VARCHAR(32) NOT NULL PRIMARY KEY,
    holder VARCHAR(255) NOT NULL,
    beat BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
