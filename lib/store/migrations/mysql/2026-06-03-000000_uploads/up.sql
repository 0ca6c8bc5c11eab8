-- Files that registrations run, each once under the digest of its content. `at` is when it was last sent or named.
-- A migration that was cut short is repeated, so the table may be there already.
CREATE TABLE IF NOT EXISTS t_upload (
    sha256 VARCHAR(64) NOT NULL PRIMARY KEY,
    content MEDIUMBLOB NOT NULL,
    at BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
