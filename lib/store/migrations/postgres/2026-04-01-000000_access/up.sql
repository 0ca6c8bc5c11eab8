-- Instants are microseconds. Keys compare byte by byte, whatever the language of the database.
-- What a token says is never here, only its digest.
CREATE TABLE t_token (
    id VARCHAR(16) COLLATE "C" NOT NULL PRIMARY KEY,
    name VARCHAR(128) COLLATE "C" NOT NULL,
    hash VARCHAR(64) COLLATE "C" NOT NULL,
    role VARCHAR(16) COLLATE "C" NOT NULL,
    node_name VARCHAR(253) COLLATE "C" NULL,
    created_at BIGINT NOT NULL,
    created_by VARCHAR(255) COLLATE "C" NOT NULL,
    expires_at BIGINT NULL,
    revoked_at BIGINT NULL
);

-- What is not in a history of its own: changes of tokens and nodes. Nothing is ever changed or taken out.
CREATE TABLE t_audit (
    at BIGINT NOT NULL,
    id VARCHAR(16) COLLATE "C" NOT NULL,
    kind VARCHAR(16) COLLATE "C" NOT NULL,
    subject VARCHAR(253) COLLATE "C" NOT NULL,
    action VARCHAR(32) COLLATE "C" NOT NULL,
    actor VARCHAR(255) COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C" NULL,
    PRIMARY KEY (at, id)
);
