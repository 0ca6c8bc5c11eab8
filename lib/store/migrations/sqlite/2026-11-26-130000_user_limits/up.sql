-- The limits that operators have set for users. JSON.
CREATE TABLE t_user_limit (
    user_name VARCHAR(64) NOT NULL PRIMARY KEY,
    limits TEXT NOT NULL
);
