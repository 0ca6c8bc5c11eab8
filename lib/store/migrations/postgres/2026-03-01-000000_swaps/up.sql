-- Instants are microseconds. Keys compare byte by byte, whatever the language of the database.
ALTER TABLE t_binding ADD COLUMN field VARCHAR(512) COLLATE "C" NULL;

CREATE TABLE t_binding_history (
    data_name VARCHAR(128) COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    action VARCHAR(16) COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    actor VARCHAR(255) COLLATE "C" NOT NULL,
    target VARCHAR(128) COLLATE "C" NOT NULL,
    field VARCHAR(512) COLLATE "C" NULL,
    before_target VARCHAR(128) COLLATE "C" NULL,
    before_field VARCHAR(512) COLLATE "C" NULL,
    PRIMARY KEY (data_name, revision)
);
