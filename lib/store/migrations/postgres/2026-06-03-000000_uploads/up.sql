-- Files that registrations run, each once under the digest of its content. `at` is when it was last sent or named.
CREATE TABLE t_upload (
    sha256 VARCHAR(64) COLLATE "C" NOT NULL PRIMARY KEY,
    content BYTEA NOT NULL,
    at BIGINT NOT NULL
);
