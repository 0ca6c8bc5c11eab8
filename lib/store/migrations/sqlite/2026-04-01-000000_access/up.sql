-- Instants are microseconds. Text compares byte by byte, which is SQLite's default.
-- What a token says is never here, only its digest.
CREATE TABLE t_token (
    id VARCHAR(16) NOT NULL PRIMARY KEY,
    name VARCHAR(128) NOT NULL,
    hash VARCHAR(64) NOT NULL,
    role VARCHAR(16) NOT NULL,
    node_name VARCHAR(253) NULL,
    created_at BIGINT NOT NULL,
    created_by VARCHAR(255) NOT NULL,
    expires_at BIGINT NULL,
    revoked_at BIGINT NULL
) WITHOUT ROWID;

-- What is not in a history of its own: changes of tokens and nodes. Nothing is ever changed or taken out.
CREATE TABLE t_audit (
    at BIGINT NOT NULL,
    id VARCHAR(16) NOT NULL,
    kind VARCHAR(16) NOT NULL,
    subject VARCHAR(253) NOT NULL,
    action VARCHAR(32) NOT NULL,
    actor VARCHAR(255) NOT NULL,
    detail TEXT NULL,
    PRIMARY KEY (at, id)
) WITHOUT ROWID;
