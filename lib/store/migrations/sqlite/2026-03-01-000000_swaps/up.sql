-- Instants are microseconds. Text compares byte by byte, which is SQLite's default.
ALTER TABLE t_binding ADD COLUMN field VARCHAR(512) NULL;

CREATE TABLE t_binding_history (
    data_name VARCHAR(128) NOT NULL,
    revision BIGINT NOT NULL,
    action VARCHAR(16) NOT NULL,
    at BIGINT NOT NULL,
    actor VARCHAR(255) NOT NULL,
    target VARCHAR(128) NOT NULL,
    field VARCHAR(512) NULL,
    before_target VARCHAR(128) NULL,
    before_field VARCHAR(512) NULL,
    PRIMARY KEY (data_name, revision)
) WITHOUT ROWID;
