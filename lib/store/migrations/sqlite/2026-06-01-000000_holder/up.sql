-- The process that holds the store as an owner, in its own words. The beat grows as long as it can write.
CREATE TABLE t_holder (
    name VARCHAR(32) NOT NULL PRIMARY KEY,
    holder VARCHAR(255) NOT NULL,
    beat BIGINT NOT NULL
) WITHOUT ROWID;
